/* SPDX-License-Identifier: BSD-3-Clause */
/* driver.c -- finds the driver under test */
#include "driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct driver driver;
CUdevice device;
CUcontext context;
struct before_init before_init;
struct old_interface old_interface;
struct leaves leaves;

/* The old interface gets a context only as the first of all (measured: OUT_OF_MEMORY later). */
static void try_old_interface(void)
{
	CUdeviceptr_v1 address = 0x1234;
	CUpointer_attribute name = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
	void *type = &old_interface.type;
	CUdeviceptr wide = 0, base;
	CUcontext old;
	size_t size;
	uint64_t id;

	if (driver.cuCtxCreate(&old, 0, device) != CUDA_SUCCESS)
		return;
	driver.cuCtxGetApiVersion(old, &old_interface.version);
	old_interface.type = 99;
	old_interface.query_list = driver.cuPointerGetAttributes(1, &name, &type, 0x1000);
	old_interface.range = driver.cuMemGetAddressRange_v2(&base, &size, 0x1000);
	old_interface.allocate = driver.cuMemAlloc(&address, 4096);
	old_interface.query =
		driver.cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address);
	old_interface.free = driver.cuMemFree(address);
	old_interface.free_nothing = driver.cuMemFree(0);
	old_interface.free_unknown = driver.cuMemFree(0x1000);
	old_interface.allocate_today = driver.cuMemAlloc_v2(&wide, 4096);
	driver.cuCtxDestroy_v2(old);
}

/* A context of the old interface ends peerpin's answers to queries in the process. With
 * PEERPIN_KEEP another process creates it: there peerpin answers about kept memory. Called before
 * cuInit. */
static void try_old_interface_elsewhere(void)
{
	int pipe_ends[2];
	ssize_t got;
	pid_t child;

	if (pipe(pipe_ends))
		return;
	child = fork();
	if (!child) {
		if (driver.cuInit(0) == CUDA_SUCCESS &&
		    driver.cuDeviceGet(&device, 0) == CUDA_SUCCESS)
			try_old_interface();
		_exit(write(pipe_ends[1], &old_interface, sizeof(old_interface)) < 0);
	}
	close(pipe_ends[1]);
	got = read(pipe_ends[0], &old_interface, sizeof(old_interface));
	close(pipe_ends[0]);
	if (child > 0)
		waitpid(child, NULL, 0);
	if (got != sizeof(old_interface))
		printf("no results of the old interface\n");
}

bool driver_keeps(void)
{
	return getenv("PEERPIN_KEEP") && dlsym(RTLD_DEFAULT, "peerpin_statistic");
}

/* In a child, which can do without the driver. */
static bool driver_leaves(bool initialized)
{
	pid_t child = fork();
	int status = 0;

	if (!child) {
		void *handle = dlopen("libcuda.so.1", RTLD_NOW);
		CUresult (*init)(unsigned int) =
			handle ? (__typeof__(init))dlsym(handle, "cuInit") : NULL;

		if (!init || (initialized && init(0) != CUDA_SUCCESS))
			_exit(2);
		dlclose(handle);
		_exit(!dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD));
	}
	return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
	       WEXITSTATUS(status) == 1;
}

bool driver_open(void)
{
	void *handle;
	int version = 0;
	char name[128] = "";
	Dl_info object;

	leaves.before_init = driver_leaves(false);
	leaves.after_init = driver_leaves(true);
	handle = dlopen("libcuda.so.1", RTLD_NOW);
	if (!handle) {
		printf("no driver: %s\n", dlerror());
		return false;
	}
#define FUNCTION(symbol, ...) driver.symbol = (__typeof__(driver.symbol))dlsym(handle, #symbol);
#include "memory/cuda_abi.def"
#undef FUNCTION
	if (driver_keeps() && driver.cuInit && driver.cuDeviceGet && driver.cuCtxCreate)
		try_old_interface_elsewhere();
	if (driver.cuDeviceGetCount && driver.cuMemAlloc_v2) {
		CUpointer_attribute names[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE };
		unsigned int type;
		void *values[] = { &type };
		CUdeviceptr address;
		int count;

		before_init.count = driver.cuDeviceGetCount(&count);
		before_init.allocate = driver.cuMemAlloc_v2(&address, 4096);
		before_init.range = driver.cuMemGetAddressRange_v2(&address, NULL, 1);
		before_init.no_range = driver.cuMemGetAddressRange_v2(NULL, NULL, 1);
		before_init.query = driver.cuPointerGetAttribute(&type, names[0], 1);
		before_init.list = driver.cuPointerGetAttributes(1, names, values, 1);
	}
	if (!driver.cuInit || driver.cuInit(0) != CUDA_SUCCESS ||
	    driver.cuDeviceGet(&device, 0) != CUDA_SUCCESS) {
		printf("no GPU\n");
		return false;
	}
	if (!driver_keeps())
		try_old_interface();
	driver.cuDriverGetVersion(&version);
	driver.cuDeviceGetName(name, sizeof(name), device);
	dladdr((void *)driver.cuInit, &object);
	printf("driver: %s, version %d, %s\n", object.dli_fname, version, name);
	return true;
}

static uint64_t repeated; /* allocations that reused memory outside of the tests */

static void driver_statistic(const char *name, uint64_t *value)
{
	int (*statistic)(const char *, uint64_t *) =
		(__typeof__(statistic))dlsym(RTLD_DEFAULT, "peerpin_statistic");

	statistic(name, value);
}

/* The tests free much that they never allocate again. A program that does so alone makes peerpin
 * keep nothing of new sizes: before each test its sizes repeat. Then nothing is kept: an allocation
 * from a pool that the driver refuses releases all. */
static void repeat_sizes(void)
{
	uint64_t before = 0, after = 0;
	CUdeviceptr address;
	CUmemoryPool pool;

	driver_statistic("reused", &before);
	for (int i = 0; i < 128; i++) {
		ck_cuda(driver.cuMemAlloc_v2(&address, i % 2 ? 4096 : 4 << 20));
		ck_cuda(driver.cuMemFree_v2(address));
	}
	ck_cuda(driver.cuDeviceGetDefaultMemPool(&pool, device));
	ck_assert(driver.cuMemAllocFromPoolAsync(&address, (size_t)1 << 46, pool, NULL));
	driver_statistic("reused", &after);
	repeated += after - before;
}

uint64_t driver_reused_in_tests(void)
{
	uint64_t reused = 0;

	driver_statistic("reused", &reused);
	return reused - repeated;
}

void context_set_up(void)
{
	ck_cuda(driver.cuCtxCreate_v2(&context, 0, device));
	if (driver_keeps())
		repeat_sizes();
}

void context_tear_down(void)
{
	driver.cuCtxDestroy_v2(context);
}

CUdeviceptr allocate(size_t size)
{
	CUdeviceptr address = 0;

	ck_cuda(driver.cuMemAlloc_v2(&address, size));
	ck_assert_uint_ne(address, 0);
	return address;
}

CUresult query_buffer_id(CUdeviceptr address)
{
	uint64_t id;

	return driver.cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address);
}

uint64_t buffer_id(CUdeviceptr address)
{
	uint64_t id = 0;

	ck_cuda(driver.cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address));
	ck_assert_uint_ne(id, 0);
	return id;
}

struct attributes attributes_of(CUdeviceptr address)
{
	struct attributes a;
	CUpointer_attribute names[] = {
		CU_POINTER_ATTRIBUTE_CONTEXT,
		CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
		CU_POINTER_ATTRIBUTE_IS_MANAGED,
		CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
		CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE,
		CU_POINTER_ATTRIBUTE_MAPPED,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
		CU_POINTER_ATTRIBUTE_BUFFER_ID,
		CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
		CU_POINTER_ATTRIBUTE_RANGE_SIZE,
		CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
	};
	void *values[] = { &a.context,	    &a.type,	   &a.managed, &a.ipc_capable,
			   &a.rdma_capable, &a.mapped,	   &a.device,  &a.id,
			   &a.range_base,   &a.range_size, &a.pool };

	memset(&a, 0x55, sizeof(a));
	ck_cuda(driver.cuPointerGetAttributes(sizeof(names) / sizeof(names[0]), names, values,
					      address));
	return a;
}
