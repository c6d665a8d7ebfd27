/* SPDX-License-Identifier: BSD-3-Clause */
/* rows.c -- for each row of the table something that only its call can have done, seen by the library
 *
 * What is needed around a call (contexts, streams, physical memory) is taken from the driver by dlsym; the rows
 * themselves only from the way under test. The counters that must move are the library's own.
 */
#include "rows.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define UNIT ((size_t)2 << 20)
#define SIZE ((size_t)100000)

const struct row rows[] = {
#define ENTRY_CUDA(symbol, effect, since, ucx, why) { #symbol, since },
#include "intercept/entry_points.def"
#undef ENTRY_CUDA
};
const int row_count = sizeof(rows) / sizeof(rows[0]);

static struct {
#define FUNCTION(symbol, ...) CUresult (*symbol)(__VA_ARGS__);
#include "memory/cuda_abi.def"
#undef FUNCTION
} driver;
static int (*read_statistic)(const char *name, uint64_t *value);
static CUdevice device;
static const struct functions *f;

int rows_begin(void)
{
	void *handle = dlopen("libcuda.so.1", RTLD_NOW);

	if (!handle) {
		printf("no driver: %s\n", dlerror());
		return -1;
	}
#define FUNCTION(symbol, ...) driver.symbol = (__typeof__(driver.symbol))dlsym(handle, #symbol);
#include "memory/cuda_abi.def"
#undef FUNCTION
	read_statistic = (__typeof__(read_statistic))dlsym(RTLD_DEFAULT, "peerpin_statistic");
	if (!read_statistic) {
		printf("the library is not preloaded\n");
		return -1;
	}
	if (driver.cuInit(0) != CUDA_SUCCESS || driver.cuDeviceGet(&device, 0) != CUDA_SUCCESS) {
		printf("no GPU\n");
		return -1;
	}
	return 0;
}

static uint64_t count(const char *name)
{
	uint64_t value = 0;

	if (read_statistic(name, &value)) {
		printf("there is no counter %s\n", name);
		exit(99);
	}
	return value;
}

#define OK(call) ((call) == CUDA_SUCCESS)

/* A step that has to succeed before anything can be said of the row. */
#define NEED(condition)                                                                                      \
	do {                                                                                                 \
		if (!(condition)) {                                                                          \
			printf("line %d: %s\n", __LINE__, #condition);                                       \
			return false;                                                                        \
		}                                                                                            \
	} while (0)

/* Whether the counter rises by one when `call` is made, and the call succeeds. */
#define RISES(counter, call)                                                                                 \
	({                                                                                                   \
		uint64_t before_ = count(counter);                                                           \
		bool ok_ = OK(call);                                                                         \
		uint64_t after_ = count(counter);                                                            \
		if (!ok_ || after_ != before_ + 1)                                                           \
			printf("line %d: %s: %s, %s rose by %d\n", __LINE__, #call, ok_ ? "done" : "failed", \
			       counter, (int)(after_ - before_));                                            \
		ok_ &&after_ == before_ + 1;                                                                 \
	})

/* ---- memory of a context ---- */

static bool test_cuMemAlloc_v2(void)
{
	CUdeviceptr address;

	NEED(RISES("births", f->cuMemAlloc_v2(&address, SIZE)));
	return OK(driver.cuMemFree_v2(address));
}

static bool test_cuMemAllocPitch_v2(void)
{
	CUdeviceptr address;
	size_t pitch;

	NEED(RISES("births", f->cuMemAllocPitch_v2(&address, &pitch, 1000, 10, 4)));
	return OK(driver.cuMemFree_v2(address));
}

static bool test_cuMemAllocManaged(void)
{
	CUdeviceptr address;

	NEED(RISES("births", f->cuMemAllocManaged(&address, SIZE, CU_MEM_ATTACH_GLOBAL)));
	return OK(driver.cuMemFree_v2(address));
}

static bool test_cuMemFree_v2(void)
{
	CUdeviceptr address;

	NEED(OK(driver.cuMemAlloc_v2(&address, SIZE)));
	return RISES("deaths", f->cuMemFree_v2(address));
}

/* ---- the old interface: its memory is known to nobody, but its calls are seen ---- */

static bool in_old_context(bool (*run)(void))
{
	CUcontext old;
	bool good;

	NEED(OK(driver.cuCtxCreate(&old, 0, device)));
	good = run();
	return OK(driver.cuCtxDestroy_v2(old)) && good;
}

static bool old_allocate(void)
{
	CUdeviceptr_v1 address;

	NEED(RISES("untracked", f->cuMemAlloc(&address, 4096)));
	return OK(driver.cuMemFree(address));
}

static bool old_allocate_pitch(void)
{
	CUdeviceptr_v1 address;
	unsigned int pitch;

	NEED(RISES("untracked", f->cuMemAllocPitch(&address, &pitch, 1000, 10, 4)));
	return OK(driver.cuMemFree(address));
}

static bool old_free(void)
{
	CUdeviceptr_v1 address;

	NEED(OK(driver.cuMemAlloc(&address, 4096)));
	return RISES("untracked_frees", f->cuMemFree(address));
}

static bool test_cuMemAlloc(void)
{
	return in_old_context(old_allocate);
}

static bool test_cuMemAllocPitch(void)
{
	return in_old_context(old_allocate_pitch);
}

static bool test_cuMemFree(void)
{
	return in_old_context(old_free);
}

/* ---- pools and graphs ---- */

static CUmemoryPool make_pool(void)
{
	CUmemPoolProps properties = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				      .location = { CU_MEM_LOCATION_TYPE_DEVICE, device } };
	CUmemoryPool pool = NULL;

	driver.cuMemPoolCreate(&pool, &properties);
	return pool;
}

static bool test_cuMemAllocAsync(void)
{
	CUdeviceptr address;

	NEED(RISES("births", f->cuMemAllocAsync(&address, SIZE, NULL)));
	return OK(driver.cuMemFreeAsync(address, NULL));
}

static bool test_cuMemAllocAsync_ptsz(void)
{
	CUdeviceptr address;

	NEED(RISES("births", f->cuMemAllocAsync_ptsz(&address, SIZE, NULL)));
	return OK(driver.cuMemFreeAsync(address, NULL));
}

static bool test_cuMemAllocFromPoolAsync(void)
{
	CUmemoryPool pool = make_pool();
	CUdeviceptr address;

	NEED(RISES("births", f->cuMemAllocFromPoolAsync(&address, SIZE, pool, NULL)));
	return OK(driver.cuMemFreeAsync(address, NULL)) && OK(driver.cuMemPoolDestroy(pool));
}

static bool test_cuMemAllocFromPoolAsync_ptsz(void)
{
	CUmemoryPool pool = make_pool();
	CUdeviceptr address;

	NEED(RISES("births", f->cuMemAllocFromPoolAsync_ptsz(&address, SIZE, pool, NULL)));
	return OK(driver.cuMemFreeAsync(address, NULL)) && OK(driver.cuMemPoolDestroy(pool));
}

static bool test_cuMemFreeAsync(void)
{
	CUdeviceptr address;

	NEED(OK(driver.cuMemAllocAsync(&address, SIZE, NULL)));
	return RISES("deaths", f->cuMemFreeAsync(address, NULL));
}

static bool test_cuMemFreeAsync_ptsz(void)
{
	CUdeviceptr address;

	NEED(OK(driver.cuMemAllocAsync(&address, SIZE, NULL)) && OK(driver.cuStreamSynchronize(NULL)));
	return RISES("deaths", f->cuMemFreeAsync_ptsz(address, NULL));
}

static bool test_cuMemPoolImportPointer(void)
{
	CUmemoryPool pool = make_pool(), imported;
	CUmemPoolPtrExportData data;
	CUdeviceptr address, again;
	int file;

	NEED(OK(driver.cuMemAllocFromPoolAsync(&address, 3000000, pool, NULL)) &&
	     OK(driver.cuStreamSynchronize(NULL)));
	NEED(OK(driver.cuMemPoolExportToShareableHandle(&file, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
							0)));
	NEED(OK(driver.cuMemPoolImportFromShareableHandle(&imported, (void *)(intptr_t)file,
							  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)));
	NEED(OK(driver.cuMemPoolExportPointer(&data, address)));
	NEED(RISES("births", f->cuMemPoolImportPointer(&again, imported, &data)));
	close(file);
	return OK(driver.cuMemFree_v2(again)) && OK(driver.cuMemFreeAsync(address, NULL)) &&
	       OK(driver.cuMemPoolDestroy(imported)) && OK(driver.cuMemPoolDestroy(pool));
}

/* ---- the driver past the library, to free something unseen ---- */

static void *past(const char *symbol)
{
	const char *file = getenv("MATRIX_PAST");
	void *plugin = dlopen(file ? file : "tests/intercept/.libs/libucm_past.so", RTLD_NOW | RTLD_LOCAL);
	void *(*find)(const char *symbol) =
		plugin ? (void *(*)(const char *))dlsym(plugin, "driver_function") : NULL;

	if (!find) {
		printf("%s\n", dlerror());
		exit(99);
	}
	return find(symbol);
}

static bool make_unseen_free(CUdeviceptr *address)
{
	CUresult (*free_past)(CUdeviceptr, CUstream) =
		(CUresult(*)(CUdeviceptr, CUstream))past("cuMemFreeAsync");

	return OK(driver.cuMemAllocAsync(address, SIZE, NULL)) && OK(free_past(*address, NULL)) &&
	       OK(driver.cuStreamSynchronize(NULL));
}

static bool test_cuMemPoolTrimTo(void)
{
	CUmemoryPool pool;
	CUdeviceptr address;

	NEED(OK(driver.cuDeviceGetDefaultMemPool(&pool, device)) && make_unseen_free(&address));
	return RISES("unseen_frees", f->cuMemPoolTrimTo(pool, 0));
}

static bool test_cuMemPoolDestroy(void)
{
	CUmemoryPool pool = make_pool();
	CUdeviceptr address;

	NEED(make_unseen_free(&address));
	return RISES("unseen_frees", f->cuMemPoolDestroy(pool));
}

static bool test_cuDeviceGraphMemTrim(void)
{
	CUdeviceptr address;

	NEED(make_unseen_free(&address));
	return RISES("unseen_frees", f->cuDeviceGraphMemTrim(device));
}

static bool test_cuGraphAddMemAllocNode(void)
{
	CUDA_MEM_ALLOC_NODE_PARAMS parameters;
	CUgraphNode node;
	CUgraph graph;

	memset(&parameters, 0, sizeof(parameters));
	parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	parameters.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	parameters.poolProps.location.id = device;
	parameters.bytesize = SIZE;
	NEED(OK(driver.cuGraphCreate(&graph, 0)));
	NEED(RISES("graph_allocations", f->cuGraphAddMemAllocNode(&node, graph, NULL, 0, &parameters)));
	return OK(driver.cuGraphDestroy(graph));
}

/* ---- mappings ---- */

static const CUmemAllocationProp capable = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
					     .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					     .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
					     .allocFlags = { .gpuDirectRDMACapable = 1 } };

/* Reserves two units and maps the first, accessible. */
static bool map(CUdeviceptr *address, CUmemGenericAllocationHandle *handle)
{
	CUmemAccessDesc access = { .location = { CU_MEM_LOCATION_TYPE_DEVICE, device },
				   .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };

	return OK(driver.cuMemAddressReserve(address, 2 * UNIT, 0, 0, 0)) &&
	       OK(driver.cuMemCreate(handle, UNIT, &capable, 0)) &&
	       OK(driver.cuMemMap(*address, UNIT, 0, *handle, 0)) &&
	       OK(driver.cuMemSetAccess(*address, UNIT, &access, 1));
}

static bool unmap(CUdeviceptr address, CUmemGenericAllocationHandle handle)
{
	return OK(driver.cuMemUnmap(address, UNIT)) && OK(driver.cuMemRelease(handle)) &&
	       OK(driver.cuMemAddressFree(address, 2 * UNIT));
}

static bool test_cuMemAddressReserve(void)
{
	CUdeviceptr address;

	NEED(RISES("reservations", f->cuMemAddressReserve(&address, UNIT, 0, 0, 0)));
	return OK(driver.cuMemAddressFree(address, UNIT));
}

static bool test_cuMemMap(void)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;

	NEED(OK(driver.cuMemAddressReserve(&address, 2 * UNIT, 0, 0, 0)) &&
	     OK(driver.cuMemCreate(&handle, UNIT, &capable, 0)));
	NEED(RISES("births", f->cuMemMap(address, UNIT, 0, handle, 0)));
	return unmap(address, handle);
}

static bool test_cuMemUnmap(void)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;

	NEED(map(&address, &handle));
	NEED(RISES("deaths", f->cuMemUnmap(address, UNIT)));
	return OK(driver.cuMemRelease(handle)) && OK(driver.cuMemAddressFree(address, 2 * UNIT));
}

static bool test_cuMemAddressFree(void)
{
	CUresult (*unmap_past)(CUdeviceptr, size_t) = (CUresult(*)(CUdeviceptr, size_t))past("cuMemUnmap");
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;

	NEED(map(&address, &handle) && OK(unmap_past(address, UNIT)));
	NEED(RISES("deaths", f->cuMemAddressFree(address, 2 * UNIT)));
	return OK(driver.cuMemRelease(handle));
}

static bool test_cuMemSetAccess(void)
{
	CUmemAccessDesc access = { .location = { CU_MEM_LOCATION_TYPE_DEVICE, device },
				   .flags = CU_MEM_ACCESS_FLAGS_PROT_NONE };
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;

	NEED(map(&address, &handle));
	NEED(RISES("access_ended", f->cuMemSetAccess(address, UNIT, &access, 1)));
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	NEED(RISES("access_begun", f->cuMemSetAccess(address, UNIT, &access, 1)));
	return unmap(address, handle);
}

static bool test_cuMemCreate(void)
{
	CUmemGenericAllocationHandle handle;

	NEED(RISES("handles_made", f->cuMemCreate(&handle, UNIT, &capable, 0)));
	return OK(driver.cuMemRelease(handle));
}

static bool test_cuMemRelease(void)
{
	CUmemGenericAllocationHandle handle;

	NEED(OK(driver.cuMemCreate(&handle, UNIT, &capable, 0)));
	return RISES("handles_released", f->cuMemRelease(handle));
}

static bool test_cuMemRetainAllocationHandle(void)
{
	CUmemGenericAllocationHandle handle, again;
	CUdeviceptr address;

	NEED(map(&address, &handle));
	NEED(RISES("handles_made", f->cuMemRetainAllocationHandle(&again, (void *)address)));
	return OK(driver.cuMemRelease(again)) && unmap(address, handle);
}

static bool test_cuMemImportFromShareableHandle(void)
{
	CUmemGenericAllocationHandle handle, again;
	int file;

	NEED(OK(driver.cuMemCreate(&handle, UNIT, &capable, 0)));
	NEED(OK(driver.cuMemExportToShareableHandle(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
						    0)));
	NEED(RISES("handles_made",
		   f->cuMemImportFromShareableHandle(&again, (void *)(intptr_t)file,
						     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)));
	close(file);
	return OK(driver.cuMemRelease(again)) && OK(driver.cuMemRelease(handle));
}

static bool test_cuMemGetHandleForAddressRange(void)
{
	CUdeviceptr address;
	int file;

	NEED(OK(driver.cuMemAlloc_v2(&address, 4 << 20)));
	NEED(RISES("exports", f->cuMemGetHandleForAddressRange(&file, address, 65536,
							       CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0)));
	close(file);
	return OK(driver.cuMemFree_v2(address));
}

/* ---- other processes and interfaces ---- */

static FILE *exporter;

/* Another process exports once, and holds what it exported until this one closes the pipe. */
static bool get_handle(CUipcMemHandle *handle)
{
	static CUipcMemHandle exported;
	const char *program = getenv("MATRIX_EXPORTER");

	if (!exporter) {
		exporter = popen(program ? program : "tests/intercept/exporter", "r");
		if (!exporter || fread(&exported, sizeof(exported), 1, exporter) != 1)
			return false;
	}
	*handle = exported;
	return true;
}

static bool test_cuIpcOpenMemHandle_v2(void)
{
	CUipcMemHandle handle;
	CUdeviceptr address;

	NEED(get_handle(&handle));
	NEED(RISES("births", f->cuIpcOpenMemHandle_v2(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)));
	return OK(driver.cuIpcCloseMemHandle(address));
}

static bool test_cuIpcOpenMemHandle(void)
{
	CUipcMemHandle handle;
	CUdeviceptr address;

	NEED(get_handle(&handle));
	NEED(RISES("births", f->cuIpcOpenMemHandle(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)));
	return OK(driver.cuIpcCloseMemHandle(address));
}

static bool test_cuIpcCloseMemHandle(void)
{
	CUipcMemHandle handle;
	CUdeviceptr address;

	NEED(get_handle(&handle));
	NEED(OK(driver.cuIpcOpenMemHandle_v2(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)));
	return RISES("deaths", f->cuIpcCloseMemHandle(address));
}

static bool test_cuExternalMemoryGetMappedBuffer(void)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC description;
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer;
	CUmemGenericAllocationHandle handle;
	CUexternalMemory memory;
	CUmemAllocationProp plain = capable;
	CUdeviceptr address;
	int file;

	memset(&description, 0, sizeof(description));
	memset(&buffer, 0, sizeof(buffer));
	plain.allocFlags.gpuDirectRDMACapable = 0;
	NEED(OK(driver.cuMemCreate(&handle, UNIT, &plain, 0)));
	NEED(OK(driver.cuMemExportToShareableHandle(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
						    0)));
	description.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
	description.handle.fd = file;
	description.size = buffer.size = UNIT;
	NEED(OK(driver.cuImportExternalMemory(&memory, &description)));
	NEED(RISES("births", f->cuExternalMemoryGetMappedBuffer(&address, memory, &buffer)));
	return OK(driver.cuMemFree_v2(address)) && OK(driver.cuDestroyExternalMemory(memory)) &&
	       OK(driver.cuMemRelease(handle));
}

/* ---- contexts ---- */

static bool make_context(CUcontext *context)
{
	CUdeviceptr address;

	return OK(driver.cuCtxCreate_v2(context, 0, device)) && OK(driver.cuMemAlloc_v2(&address, SIZE));
}

static bool test_cuCtxDestroy_v2(void)
{
	CUcontext context;

	NEED(make_context(&context));
	return RISES("deaths", f->cuCtxDestroy_v2(context));
}

static bool test_cuCtxDestroy(void)
{
	CUcontext context;

	NEED(make_context(&context));
	return RISES("deaths", f->cuCtxDestroy(context));
}

static bool test_cuCtxDetach(void)
{
	CUcontext context;

	NEED(make_context(&context));
	return RISES("deaths", f->cuCtxDetach(context));
}

static bool use_primary(void)
{
	CUcontext primary;
	CUdeviceptr address;

	return OK(driver.cuDevicePrimaryCtxRetain(&primary, device)) &&
	       OK(driver.cuCtxPushCurrent_v2(primary)) && OK(driver.cuMemAlloc_v2(&address, SIZE)) &&
	       OK(driver.cuCtxPopCurrent_v2(NULL));
}

static bool test_cuDevicePrimaryCtxRelease_v2(void)
{
	NEED(use_primary());
	return RISES("deaths", f->cuDevicePrimaryCtxRelease_v2(device));
}

static bool test_cuDevicePrimaryCtxRelease(void)
{
	NEED(use_primary());
	return RISES("deaths", f->cuDevicePrimaryCtxRelease(device));
}

static bool test_cuDevicePrimaryCtxReset_v2(void)
{
	NEED(use_primary());
	NEED(RISES("deaths", f->cuDevicePrimaryCtxReset_v2(device)));
	return OK(driver.cuDevicePrimaryCtxRelease_v2(device));
}

static bool test_cuDevicePrimaryCtxReset(void)
{
	NEED(use_primary());
	NEED(RISES("deaths", f->cuDevicePrimaryCtxReset(device)));
	/* Of this form of a reset a real driver does not let itself be released afterwards (measured). */
	driver.cuDevicePrimaryCtxRelease_v2(device);
	return true;
}

static bool test_cuGreenCtxDestroy(void)
{
	_Alignas(64) static unsigned char resource[1024];
	CUdevResourceDesc description;
	CUdeviceptr address;
	CUcontext context;
	CUgreenCtx green;

	NEED(OK(driver.cuDeviceGetDevResource(device, (CUdevResource *)resource, CU_DEV_RESOURCE_TYPE_SM)) &&
	     OK(driver.cuDevResourceGenerateDesc(&description, (CUdevResource *)resource, 1)) &&
	     OK(driver.cuGreenCtxCreate(&green, description, device, CU_GREEN_CTX_DEFAULT_STREAM)) &&
	     OK(driver.cuCtxFromGreenCtx(&context, green)));
	NEED(OK(driver.cuCtxPushCurrent_v2(context)) && OK(driver.cuMemAlloc_v2(&address, SIZE)) &&
	     OK(driver.cuCtxPopCurrent_v2(NULL)));
	return RISES("deaths", f->cuGreenCtxDestroy(green));
}

/* ---- look-up: what it hands out is seen, too ---- */

static bool frees_seen(void *function)
{
	__typeof__(cuMemFree_v2) *found = (__typeof__(cuMemFree_v2) *)function;
	CUdeviceptr address;

	NEED(found && OK(driver.cuMemAlloc_v2(&address, SIZE)));
	return RISES("deaths", found(address));
}

static bool test_cuGetProcAddress_v2(void)
{
	void *found = NULL;

	NEED(OK(f->cuGetProcAddress_v2("cuMemFree", &found, 12000, 0, NULL)));
	return frees_seen(found);
}

static bool test_cuGetProcAddress(void)
{
	void *found = NULL;

	NEED(OK(f->cuGetProcAddress("cuMemFree", &found, 12000, 0)));
	return frees_seen(found);
}

/* ---- all of them ---- */

struct test {
	const char *symbol;
	bool (*run)(void);
};

/* A row without its test does not compile. */
static const struct test tests[] = {
#define ENTRY_CUDA(symbol, ...) { #symbol, test_##symbol },
#include "intercept/entry_points.def"
#undef ENTRY_CUDA
};

void rows_run(const char *way, const struct functions *functions, int *passed, int *failed)
{
	/* On a device the first context of the old interface has to be the first of all. */
	static const char *const first[] = { "cuMemAlloc", "cuMemAllocPitch", "cuMemFree" };
	uint64_t unseen;
	CUcontext context = NULL;
	bool good;

	f = functions;
	for (int old = 1; old >= 0; old--) {
		if (!old && driver.cuCtxCreate_v2(&context, 0, device) != CUDA_SUCCESS) {
			printf("no context\n");
			exit(99);
		}
		for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
			bool is_old = false;

			for (size_t j = 0; j < sizeof(first) / sizeof(first[0]); j++)
				is_old |= !strcmp(tests[i].symbol, first[j]);
			if (is_old != old)
				continue;
			unseen = count("unseen_frees");
			good = tests[i].run();
			if (good && strncmp(tests[i].symbol, "cuMemPool", 9) &&
			    strcmp(tests[i].symbol, "cuDeviceGraphMemTrim") &&
			    count("unseen_frees") != unseen) {
				printf("a free was not seen\n");
				good = false;
			}
			if (!good)
				printf("FAILED: %s, %s\n", way, tests[i].symbol);
			*(good ? passed : failed) += 1;
		}
	}
	driver.cuCtxDestroy_v2(context);
	if (exporter) {
		pclose(exporter);
		exporter = NULL;
	}
}
