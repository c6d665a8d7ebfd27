/* SPDX-License-Identifier: BSD-3-Clause */
/* other_preload.c -- another library that overrides dlsym: counts and forwards
 *
 * CHAINING: to the next definition, by RTLD_NEXT. Otherwise to libc's own. LOADING: overrides
 * dlopen, too.
 */
#include "next_dlsym.h"

extern unsigned int other_preload_calls;
unsigned int other_preload_calls;

/* A tail call: RTLD_NEXT stays relative to the caller. */
void *dlsym(void *handle, const char *symbol)
{
	other_preload_calls++;
	return next_dlsym()(handle, symbol);
}

#ifdef LOADING
/* Look-ups of dlsym begin with a dlopen: by its version. */
void *dlopen(const char *file, int mode)
{
	void *(*next)(const char *, int) = (__typeof__(next))in_any_version(RTLD_NEXT, "dlopen");

	return next(file, mode);
}
#endif
