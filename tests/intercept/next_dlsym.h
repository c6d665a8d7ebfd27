/* SPDX-License-Identifier: BSD-3-Clause */
/* next_dlsym.h -- for preloads that override dlsym: the definition to forward to */
#include <dlfcn.h>
#include <stddef.h>

typedef void *dlsym_function(void *handle, const char *symbol);

static dlsym_function *libc_dlsym(void)
{
	static const char *const versions[] = { "GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5" };
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	void *found = NULL;

	for (size_t i = 0; !found && i < sizeof(versions) / sizeof(versions[0]); i++)
		found = dlvsym(libc, "dlsym", versions[i]);
	return (dlsym_function *)found;
}

/* CHAINING: the next definition of the caller's object, by RTLD_NEXT. Otherwise libc's own. */
static dlsym_function *next_dlsym(void)
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
