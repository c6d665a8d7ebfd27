/* SPDX-License-Identifier: BSD-3-Clause */
/* ways_plugin.c -- a plug-in that is linked to the driver; its functions in the order of struct
 * driver */
#include "memory/cuda_abi.h"

extern void *plugin_functions[];
void *plugin_functions[] = {
	(void *)cuMemAlloc_v2,
	(void *)cuMemFree_v2,
	(void *)cuCtxDestroy_v2,
	(void *)cuMemAllocPitch_v2,
	(void *)cuDevicePrimaryCtxRelease_v2,
	(void *)cuDevicePrimaryCtxReset_v2,
};
