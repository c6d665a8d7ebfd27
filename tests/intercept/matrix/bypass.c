/* SPDX-License-Identifier: BSD-3-Clause */
/* bypass.c -- built as libucm_bypass.so: callers in a library of UCX's name get the driver's own
 * functions; as libucm_linked.so it is linked to the driver, as UCX's is */
#include <dlfcn.h>

extern void *driver_function(const char *symbol);
void *driver_function(const char *symbol)
{
	/* No tail call: dlsym would see this function's caller. */
	void *volatile found = dlsym(dlopen("libcuda.so.1", RTLD_NOW), symbol);

	return found;
}

extern void *next_function(const char *symbol);
void *next_function(const char *symbol)
{
	void *volatile found = dlsym(RTLD_NEXT, symbol);

	return found;
}

#ifdef LINKED
extern int cuDriverGetVersion(int *version);
extern int linked_version(void);
int linked_version(void)
{
	int version = 0;

	return cuDriverGetVersion(&version) ? 0 : version;
}
#endif
