/* SPDX-License-Identifier: BSD-3-Clause */
/* past.c -- built as libucm_past.so: what is in a library of UCX's name is given the driver's own
 * functions */
#include <dlfcn.h>

extern void *driver_function(const char *symbol);
void *driver_function(const char *symbol)
{
	/* Not as the last thing: the call would become a jump, and dlsym see this function's
	 * caller. */
	void *volatile found = dlsym(dlopen("libcuda.so.1", RTLD_NOW), symbol);

	return found;
}
