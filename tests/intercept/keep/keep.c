/* SPDX-License-Identifier: BSD-3-Clause */
/* keep.c -- the list of tests, and their helpers */
#include "keep.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "base/loaded.h"

const struct test *const test_files[] = { call_tests,	pressure_tests, context_tests, event_tests,
					  region_tests, pool_tests,	NULL };

struct functions raw;

/* Without dlsym, which peerpin intercepts. */
static int read_raw(struct dl_phdr_info *object, size_t size, void *driver)
{
	struct object_tables tables;

	(void)size;
	if (object->dlpi_addr != ((struct link_map *)driver)->l_addr ||
	    !object_read(object, &tables))
		return 0;
#define FUNCTION(symbol, ...) raw.symbol = (__typeof__(raw.symbol))object_find(&tables, #symbol);
#include "memory/cuda_abi.def"
#undef FUNCTION
	return 1;
}

static void find_raw(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);

	require(driver && dl_iterate_phdr(read_raw, driver) && raw.cuMemAlloc_v2);
	require(raw.cuMemAlloc_v2 != cuMemAlloc_v2);
}

void begin(void)
{
	CUdevice gpu;

	find_raw();
	require_cuda(cuInit(0));
	require_cuda(cuDeviceGet(&gpu, 0));
	require_cuda(cuCtxCreate_v2(&context, 0, gpu));
}

uint64_t tag(CUdeviceptr address)
{
	CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_BUFFER_ID;
	uint64_t id = 0;
	void *value = &id;

	require_cuda(raw.cuPointerGetAttributes(1, &attribute, &value, address));
	return id;
}

CUdeviceptr obtain(bool host, size_t size)
{
	void *address = NULL;

	if (!host)
		return allocate(size);
	require_cuda(cuMemHostAlloc(&address, size, 0));
	return address_of(address);
}

void give_up(bool host, CUdeviceptr address)
{
	require_cuda(host ? cuMemFreeHost(pointer_to(address)) : cuMemFree_v2(address));
}

static CUdeviceptr keep_of(bool host, size_t size)
{
	CUdeviceptr address = obtain(host, size);
	uint64_t id = tag(address);

	give_up(host, address);
	require(id && tag(address) == id);
	return address;
}

CUdeviceptr keep(size_t size)
{
	return keep_of(false, size);
}

CUdeviceptr keep_host(size_t size)
{
	return keep_of(true, size);
}

size_t free_bytes(void)
{
	size_t bytes, total;

	require_cuda(raw.cuMemGetInfo_v2(&bytes, &total));
	return bytes;
}

/* The driver refuses more than any machine has. For an allocation from a pool peerpin cannot say
 * which GPU has too little. */
void release_all(void)
{
	CUmemoryPool pool = NULL;
	CUdeviceptr address;
	void *host;

	cuDeviceGetDefaultMemPool(&pool, 0);
	cuMemAllocFromPoolAsync(&address, (size_t)1 << 46, pool, NULL);
	cuMemHostAlloc(&host, (size_t)1 << 60, 0);
}

void expect_no_kept(void)
{
	require(own("kept_bytes") == 0 && own("kept_host_bytes") == 0);
	expect_no_errors();
}

void expect_no_errors(void)
{
	require(own("internal_errors") == 0 && own("missed_frees") == 0);
	require(own("verify_disagreements") == 0 && own("untracked") == 0);
}

uint64_t query_tag(CUdeviceptr address)
{
	CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_BUFFER_ID;
	uint64_t id = 0;
	void *value = &id;

	require_cuda(cuPointerGetAttributes(1, &attribute, &value, address));
	return id;
}
