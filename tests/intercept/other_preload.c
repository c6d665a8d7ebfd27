/* SPDX-License-Identifier: BSD-3-Clause */
/* other_preload.c -- another library that overrides dlsym: counts and forwards
 *
 * CHAINING: to the next definition, by RTLD_NEXT. Otherwise to libc's own.
 */
#include <dlfcn.h>
#include <stddef.h>

extern unsigned int other_preload_calls;
unsigned int other_preload_calls;

typedef void *dlsym_function(void *handle, const char *symbol);

static dlsym_function *libc_dlsym(void)
{
	static const char *const versions[] = { "GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5" };
	void *found = NULL;

	for (size_t i = 0; !found && i < sizeof(versions) / sizeof(versions[0]); i++)
		found = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
	return (dlsym_function *)found;
}

/* A tail call: RTLD_NEXT stays relative to the caller. */
void *dlsym(void *handle, const char *symbol)
{
	static dlsym_function *next;

	if (!next) {
		next = libc_dlsym();
#ifdef CHAINING
		next = (dlsym_function *)next(RTLD_NEXT, "dlsym");
#endif
	}
	other_preload_calls++;
	return next(handle, symbol);
}
