/* SPDX-License-Identifier: BSD-3-Clause */
/* loader.c -- looks a function that loads objects or looks them up up: loader FUNCTION WAY
 *
 * WAY: next, by RTLD_NEXT; handle, by libc's handle; version, by dlvsym on that handle. Then
 * allocates, so that peerpin is active.
 */
#include <stdio.h>
#include <string.h>

#include "memory/cuda_abi.h"
#include "next_dlsym.h"

int main(int count, char **arguments)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), *found;
	CUdeviceptr address = 0;
	CUcontext context;

	if (count != 3)
		return 2;
	found = !strcmp(arguments[2], "next")	   ? dlsym(RTLD_NEXT, arguments[1])
		: !strcmp(arguments[2], "version") ? in_any_version(libc, arguments[1])
						   : dlsym(libc, arguments[1]);
	if (!found || cuInit(0) || cuCtxCreate_v2(&context, 0, 0) ||
	    cuMemAlloc_v2(&address, 1 << 20) || cuMemFree_v2(address))
		return 1;
	puts("done");
	return 0;
}
