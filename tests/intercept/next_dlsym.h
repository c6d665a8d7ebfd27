/* SPDX-License-Identifier: BSD-3-Clause */
/* next_dlsym.h -- for preloads that override dlsym: the definition to forward to, and libc's */
#include <dlfcn.h>
#include <stddef.h>

typedef void *dlsym_function(void *handle, const char *symbol);

static void *in_any_version(void *handle, const char *symbol)
{
	static const char *const versions[] = { "GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5" };
	void *found = NULL;

	for (size_t i = 0; !found && i < sizeof(versions) / sizeof(versions[0]); i++)
		found = dlvsym(handle, symbol, versions[i]);
	return found;
}

static inline dlsym_function *libc_dlsym(void)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);

	return (dlsym_function *)in_any_version(libc, "dlsym");
}

/* CHAINING: the next definition of the caller's object, by RTLD_NEXT. Otherwise libc's own. */
static inline dlsym_function *next_dlsym(void)
{
	static dlsym_function *next;

	if (!next) {
		next = libc_dlsym();
#ifdef CHAINING
		next = (dlsym_function *)next(RTLD_NEXT, "dlsym");
#endif
	}
	return next;
}
