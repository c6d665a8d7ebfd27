/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_memory.c -- shows UCX the file of a peer memory module (a preload)
 *
 * UCX registers GPU memory only if this file exists. Memory of the simulated driver is host memory:
 * each adapter can register it.
 */
#include <dlfcn.h>
#include <string.h>

int access(const char *path, int mode);

__attribute__((visibility("default"))) int access(const char *path, int mode)
{
	int (*next)(const char *, int) = (int (*)(const char *, int))dlsym(RTLD_NEXT, "access");

	if (!strcmp(path, "/sys/kernel/mm/memory_peers/nv_mem/version"))
		return 0;
	return next(path, mode);
}
