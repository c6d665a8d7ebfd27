/* SPDX-License-Identifier: BSD-3-Clause */
/* table.c -- the row of each entry point: what precedes its call, the counter that the call raises
 * by one, and what follows */
#include <string.h>
#include <unistd.h>

#include "../../vmm.h"
#include "peerpin.h"
#include "steps.h"

#include <dlfcn.h>

#define SIZE ((size_t)100000)

static CUdeviceptr address, other;
static CUdeviceptr_v1 old_address;
static unsigned int old_pitch, type;
static size_t size, total;
static void *host;
static CUcontext context;
static CUgreenCtx green;
static CUstream stream;
static CUgraph graph;
static CUgraphNode node;
static CUmemoryPool pool, imported;
static CUmemPoolPtrExportData pointer;
static CUexternalMemory memory;
static CUmemGenericAllocationHandle handle;
static CUipcMemHandle exported;
static unsigned long long id;
static int file;

/* Calls in a row are "one ?: other": the first error, or CUDA_SUCCESS. */
#define DONE		  CUDA_SUCCESS
#define EXPECT(condition) ((condition) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY)
#define BYPASS(symbol)	  ((__typeof__(symbol) *)bypass(#symbol))

#define ROW(symbol, before, counter, call, after)                                                  \
	bool test_##symbol(void)                                                                   \
	{                                                                                          \
		NEED(OK(before));                                                                  \
		NEED(RISES(#counter, f->symbol call));                                             \
		NEED(OK(after));                                                                   \
		return true;                                                                       \
	}

/* A row of kept memory. */
#define KEPT_ROW(symbol, before, counter, call, after)                                             \
	static bool kept_##symbol(void)                                                            \
	{                                                                                          \
		NEED(OK(before));                                                                  \
		NEED(RISES(counter, call));                                                        \
		NEED(OK(after));                                                                   \
		return true;                                                                       \
	}                                                                                          \
	bool test_##symbol(void)                                                                   \
	{                                                                                          \
		if (keeps_nothing())                                                               \
			SKIP("nothing is kept at exit, nor without PEERPIN_KEEP");                 \
		return kept_##symbol();                                                            \
	}

static CUresult allocate(void)
{
	return driver.cuMemAlloc_v2(&address, SIZE);
}

static CUresult give_back(void)
{
	return driver.cuMemFree_v2(address);
}

/* ---- memory of a context ---- */

ROW(cuMemAlloc_v2, DONE, allocations, (&address, SIZE), give_back())
ROW(cuMemAllocPitch_v2, DONE, allocations, (&address, &size, 1000, 10, 4), give_back())
ROW(cuMemAllocManaged, DONE, allocations, (&address, SIZE, CU_MEM_ATTACH_GLOBAL), give_back())
ROW(cuMemFree_v2, allocate(), frees, (address), DONE)

ROW(cuMemAllocHost_v2, DONE, host_allocations, (&host, SIZE), driver.cuMemFreeHost(host))
ROW(cuMemHostAlloc, DONE, host_allocations, (&host, SIZE, 1), driver.cuMemFreeHost(host))
ROW(cuMemFreeHost, driver.cuMemHostAlloc(&host, SIZE, 0), host_frees, (host), DONE)

/* ---- the old interface: calls are intercepted, memory is not recorded ---- */

/* By a bypassing call: after an intercepted one, queries are forwarded. */
static CUresult begin_old(void)
{
	return BYPASS(cuCtxCreate)(&context, 0, device);
}

static CUresult end_old(void)
{
	return driver.cuCtxDestroy_v2(context);
}

ROW(cuMemAlloc, begin_old(), untracked, (&old_address, 4096),
    driver.cuMemFree(old_address) ?: end_old())
ROW(cuMemAllocPitch, begin_old(), untracked, (&old_address, &old_pitch, 1000, 10, 4),
    driver.cuMemFree(old_address) ?: end_old())
ROW(cuMemFree, begin_old() ?: driver.cuMemAlloc(&old_address, 4096), untracked_frees, (old_address),
    end_old())

/* From here on the driver answers all queries. */
bool test_cuCtxCreate(void)
{
	uint64_t answered;

	if (!OK(begin_old()))
		SKIP("on this device a context of the old interface has to be the first");
	NEED(OK(end_old() ?: allocate()));
	NEED(RISES("queries_answered",
		   driver.cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address)));
	NEED(OK(f->cuCtxCreate(&context, 0, device) ?: end_old()));
	answered = count("queries_answered");
	NEED(OK(driver.cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address)));
	NEED(count("queries_answered") == answered);
	return OK(give_back());
}

/* ---- contexts ---- */

static CUresult use_context(void)
{
	return driver.cuCtxCreate_v2(&context, 0, device) ?: allocate();
}

static CUresult allocate_in(CUcontext of)
{
	return driver.cuCtxPushCurrent_v2(of) ?: allocate() ?: driver.cuCtxPopCurrent_v2(NULL);
}

static CUresult use_primary(void)
{
	return driver.cuDevicePrimaryCtxRetain(&context, device) ?: allocate_in(context);
}

static CUresult use_green(void)
{
	CUdevResourceDesc description;

	return describe_resource(&description)
		       ?: driver.cuGreenCtxCreate(&green, description, device,
						  CU_GREEN_CTX_DEFAULT_STREAM)
		       ?: driver.cuCtxFromGreenCtx(&context, green)
		       ?: allocate_in(context);
}

ROW(cuCtxDestroy_v2, use_context(), frees, (context), DONE)
ROW(cuCtxDestroy, use_context(), frees, (context), DONE)
ROW(cuCtxDetach, use_context(), frees, (context), DONE)
ROW(cuDevicePrimaryCtxRelease_v2, use_primary(), frees, (device), DONE)
ROW(cuDevicePrimaryCtxRelease, use_primary(), frees, (device), DONE)
ROW(cuDevicePrimaryCtxReset_v2, use_primary(), frees, (device),
    driver.cuDevicePrimaryCtxRelease_v2(device))
/* A real driver does not release the context after this variant of a reset (measured). */
ROW(cuDevicePrimaryCtxReset, use_primary(), frees, (device),
    (driver.cuDevicePrimaryCtxRelease_v2(device), DONE))
ROW(cuGreenCtxDestroy, use_green(), frees, (green), DONE)

static unsigned int reported_frees;

static void report_free(const struct peerpin_allocation *allocation, void *unused)
{
	(void)allocation;
	(void)unused;
	reported_frees++;
}

/* Memory ends before a release that seems to be the last, and goes on if another retain is left. */
bool test_cuDevicePrimaryCtxRetain(void)
{
	__typeof__(peerpin_subscribe) *subscribe =
		(__typeof__(subscribe))dlsym(RTLD_DEFAULT, "peerpin_subscribe");
	__typeof__(peerpin_unsubscribe) *unsubscribe =
		(__typeof__(unsubscribe))dlsym(RTLD_DEFAULT, "peerpin_unsubscribe");
	const struct peerpin_subscriber subscriber = { .struct_size = sizeof(subscriber),
						       .freeing = report_free };
	int subscription;

	NEED(OK(f->cuDevicePrimaryCtxRetain(&context, device)));
	NEED(OK(BYPASS(cuDevicePrimaryCtxRetain)(&context, device) ?: allocate_in(context)));
	NEED(!subscribe(&subscriber, &subscription));
	reported_frees = 0;
	NEED(OK(driver.cuDevicePrimaryCtxRelease_v2(device)));
	NEED(!unsubscribe(subscription) && reported_frees == 1);
	NEED(RISES("frees", driver.cuMemFree_v2(address)));
	return OK(driver.cuDevicePrimaryCtxRelease_v2(device));
}

/* ---- look-ups: returned functions are intercepted, too ---- */

static bool frees_seen(CUresult result, void *function)
{
	__typeof__(cuMemFree_v2) *found = (__typeof__(cuMemFree_v2) *)function;

	NEED(OK(result) && found && OK(allocate()));
	return RISES("frees", found(address));
}

bool test_cuGetProcAddress_v2(void)
{
	void *found = NULL;
	CUresult result = f->cuGetProcAddress_v2("cuMemFree", &found, 12000, 0, NULL);

	return frees_seen(result, found);
}

bool test_cuGetProcAddress(void)
{
	void *found = NULL;
	CUresult result = f->cuGetProcAddress("cuMemFree", &found, 12000, 0);

	return frees_seen(result, found);
}

/* ---- pools ---- */

static CUresult make_pool(void)
{
	CUmemPoolProps properties = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				      .location = { CU_MEM_LOCATION_TYPE_DEVICE, device } };

	return driver.cuMemPoolCreate(&pool, &properties);
}

static CUresult allocate_async(void)
{
	return driver.cuMemAllocAsync(&address, SIZE, NULL) ?: driver.cuStreamSynchronize(NULL);
}

static CUresult free_async(void)
{
	return driver.cuMemFreeAsync(address, NULL);
}

static CUresult import_pool(void)
{
	const CUmemAllocationHandleType type_of = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

	return make_pool()
		       ?: driver.cuMemAllocFromPoolAsync(&address, 3000000, pool, NULL)
		       ?: driver.cuStreamSynchronize(NULL)
		       ?: driver.cuMemPoolExportToShareableHandle(&file, pool, type_of, 0)
		       ?: driver.cuMemPoolImportFromShareableHandle(&imported,
								    (void *)(intptr_t)file, type_of,
								    0)
		       ?: driver.cuMemPoolExportPointer(&pointer, address);
}

static CUresult end_pools(void)
{
	close(file);
	return driver.cuMemFree_v2(other) ?: free_async() ?: driver.cuMemPoolDestroy(imported)
		       ?: driver.cuMemPoolDestroy(pool);
}

static CUresult miss_free(void)
{
	return allocate_async() ?: BYPASS(cuMemFreeAsync)(address, NULL)
		       ?: driver.cuStreamSynchronize(NULL);
}

ROW(cuMemAllocAsync, DONE, allocations, (&address, SIZE, NULL), free_async())
ROW(cuMemAllocAsync_ptsz, DONE, allocations, (&address, SIZE, NULL), free_async())
ROW(cuMemAllocFromPoolAsync, make_pool(), allocations, (&address, SIZE, pool, NULL),
    free_async() ?: driver.cuMemPoolDestroy(pool))
ROW(cuMemAllocFromPoolAsync_ptsz, make_pool(), allocations, (&address, SIZE, pool, NULL),
    free_async() ?: driver.cuMemPoolDestroy(pool))
ROW(cuMemFreeAsync, allocate_async(), frees, (address, NULL), DONE)
ROW(cuMemFreeAsync_ptsz, allocate_async(), frees, (address, NULL), DONE)
ROW(cuMemPoolImportPointer, import_pool(), allocations, (&other, imported, &pointer), end_pools())
ROW(cuMemPoolTrimTo, driver.cuDeviceGetDefaultMemPool(&pool, device) ?: miss_free(), missed_frees,
    (pool, 0), DONE)
ROW(cuMemPoolDestroy, make_pool() ?: miss_free(), missed_frees, (pool), DONE)
ROW(cuDeviceGraphMemTrim, miss_free(), missed_frees, (device), DONE)

/* PEERPIN_KEEP raises the threshold of the default pool. */
bool test_cuMemPoolGetAttribute(void)
{
	const CUmemPool_attribute attribute = CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
	uint64_t raised = 0, threshold = 7;

	if (keeps_nothing())
		SKIP("nothing is kept at exit, nor without PEERPIN_KEEP");
	NEED(OK(allocate_async() ?: free_async()));
	NEED(OK(driver.cuDeviceGetDefaultMemPool(&pool, device)));
	NEED(OK(BYPASS(cuMemPoolGetAttribute)(pool, attribute, &raised)) && raised);
	NEED(OK(f->cuMemPoolGetAttribute(pool, attribute, &threshold)));
	return threshold == 0;
}

/* ---- graphs ---- */

static CUDA_MEM_ALLOC_NODE_PARAMS of_node;
static CUgraphNodeParams of_any_node;

static CUresult begin_graph(void)
{
	of_node = (CUDA_MEM_ALLOC_NODE_PARAMS){
		.poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			       .location = { CU_MEM_LOCATION_TYPE_DEVICE, device } },
		.bytesize = SIZE
	};
	memset(&of_any_node, 0, sizeof(of_any_node));
	of_any_node.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
	of_any_node.alloc.poolProps = of_node.poolProps;
	of_any_node.alloc.bytesize = SIZE;
	return driver.cuGraphCreate(&graph, 0);
}

static CUresult end_graph(void)
{
	return driver.cuGraphDestroy(graph);
}

ROW(cuGraphAddMemAllocNode, begin_graph(), graph_allocations, (&node, graph, NULL, 0, &of_node),
    end_graph())
ROW(cuGraphAddNode, begin_graph(), graph_allocations, (&node, graph, NULL, 0, &of_any_node),
    EXPECT(of_any_node.alloc.dptr) ?: end_graph())
ROW(cuGraphAddNode_v2, begin_graph(), graph_allocations,
    (&node, graph, NULL, NULL, 0, &of_any_node), EXPECT(of_any_node.alloc.dptr) ?: end_graph())

/* ---- reserved addresses, physical memory, and mappings ---- */

static CUresult reserve(void)
{
	return driver.cuMemAddressReserve(&address, 2 * UNIT, 0, 0, 0)
		       ?: driver.cuMemCreate(&handle, UNIT, &vmm_shared, 0);
}

static const CUmemAccessDesc no_access = { .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };

static CUresult map(void)
{
	return reserve() ?: driver.cuMemMap(address, UNIT, 0, handle, 0)
		       ?: driver.cuMemSetAccess(address, UNIT, &vmm_access, 1);
}

static CUresult unreserve(void)
{
	return driver.cuMemRelease(handle) ?: driver.cuMemAddressFree(address, 2 * UNIT);
}

static CUresult unmap(void)
{
	return driver.cuMemUnmap(address, UNIT) ?: unreserve();
}

/* A record in the range is of memory whose free peerpin missed. */
ROW(cuMemAddressReserve,
    map() ?: BYPASS(cuMemUnmap)(address, UNIT) ?: BYPASS(cuMemAddressFree)(address, 2 * UNIT),
    missed_frees, (&other, 2 * UNIT, 0, address, 0), EXPECT(other == address) ?: unreserve())
ROW(cuMemMap, reserve(), allocations, (address, UNIT, 0, handle, 0), unmap())
ROW(cuMemUnmap, map(), frees, (address, UNIT), unreserve())
ROW(cuMemAddressFree, map() ?: BYPASS(cuMemUnmap)(address, UNIT), frees, (address, 2 * UNIT),
    driver.cuMemRelease(handle))
ROW(cuMemSetAccess, map(), access_removed, (address, UNIT, &no_access, 1),
    EXPECT(RISES("access_granted", f->cuMemSetAccess(address, UNIT, &vmm_access, 1))) ?: unmap())
ROW(cuMemGetHandleForAddressRange, driver.cuMemAlloc_v2(&address, 2 * UNIT), exports,
    (&file, address, 65536, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
    EXPECT(!close(file)) ?: give_back())

/* ---- memory of other processes and of other interfaces ---- */

static CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = { .size = UNIT };

static CUresult import_memory(void)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC description;
	CUresult result;

	memset(&description, 0, sizeof(description));
	result = driver.cuMemCreate(&handle, UNIT, &vmm_shared, 0)
			 ?: driver.cuMemExportToShareableHandle(
				    &file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	description.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
	description.handle.fd = file;
	description.size = UNIT;
	return result ?: driver.cuImportExternalMemory(&memory, &description);
}

static CUresult open_ipc(void)
{
	return EXPECT(get_handle(&exported)) ?: driver.cuIpcOpenMemHandle_v2(&address, exported, 1);
}

ROW(cuIpcOpenMemHandle_v2, EXPECT(get_handle(&exported)), allocations, (&address, exported, 1),
    driver.cuIpcCloseMemHandle(address))
ROW(cuIpcOpenMemHandle, EXPECT(get_handle(&exported)), allocations, (&address, exported, 1),
    driver.cuIpcCloseMemHandle(address))
ROW(cuIpcCloseMemHandle, open_ipc(), frees, (address), DONE)
ROW(cuExternalMemoryGetMappedBuffer, import_memory(), allocations, (&address, memory, &buffer),
    give_back() ?: driver.cuDestroyExternalMemory(memory) ?: driver.cuMemRelease(handle))

/* ---- queries ---- */

static CUpointer_attribute two[] = { CU_POINTER_ATTRIBUTE_BUFFER_ID,
				     CU_POINTER_ATTRIBUTE_MEMORY_TYPE };
static void *of_two[] = { &id, &type };
static const unsigned int off;

ROW(cuPointerGetAttribute, (id = 0, allocate()), queries_answered,
    (&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address), EXPECT(id) ?: give_back())
ROW(cuPointerGetAttributes, (id = 0, allocate()), queries_answered, (2, two, of_two, address),
    EXPECT(id &&type == CU_MEMORYTYPE_DEVICE) ?: give_back())
ROW(cuMemGetAddressRange_v2, allocate(), queries_forwarded, (&other, &size, address + 1),
    EXPECT(other == address && size == SIZE) ?: give_back())
ROW(cuPointerSetAttribute, allocate(), sync_off, (&off, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address),
    give_back())

bool test_cuMemRetainAllocationHandle(void)
{
	NEED(OK(allocate()));
	NEED(RISES("queries_answered",
		   EXPECT(f->cuMemRetainAllocationHandle(&handle, (void *)address) ==
			  CUDA_ERROR_INVALID_VALUE)));
	return OK(give_back());
}

static bool adds_kept_memory(void)
{
	size_t of_driver = 0;

	NEED(OK(f->cuMemGetInfo_v2(&size, &total) ?: BYPASS(cuMemGetInfo_v2)(&of_driver, &total)));
	return size >= of_driver + UNIT && size <= total;
}

KEPT_ROW(cuMemGetInfo_v2, driver.cuMemAlloc_v2(&address, UNIT), "kept", give_back(),
	 EXPECT(adds_kept_memory()))

/* ---- captures, which forbid some calls ---- */

static CUresult begin_stream(void)
{
	return driver.cuStreamCreate(&stream, 1);
}

static CUresult begin_capture(void)
{
	return begin_stream()
		       ?: driver.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
}

static CUresult end_capture(void)
{
	return driver.cuStreamEndCapture(stream, &graph) ?: end_graph()
		       ?: driver.cuStreamDestroy_v2(stream);
}

ROW(cuStreamBeginCapture, begin_stream(), captures, (stream), end_capture())
ROW(cuStreamBeginCapture_ptsz, begin_stream(), captures, (stream), end_capture())
ROW(cuStreamBeginCapture_v2, begin_stream(), captures, (stream, CU_STREAM_CAPTURE_MODE_RELAXED),
    end_capture())
ROW(cuStreamBeginCapture_v2_ptsz, begin_stream(), captures,
    (stream, CU_STREAM_CAPTURE_MODE_RELAXED), end_capture())
ROW(cuStreamBeginCaptureToGraph, begin_stream() ?: begin_graph(), captures,
    (stream, graph, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED), end_capture())
ROW(cuStreamBeginCaptureToGraph_ptsz, begin_stream() ?: begin_graph(), captures,
    (stream, graph, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED), end_capture())

/* After a missed end nothing would be kept. */
KEPT_ROW(cuStreamEndCapture,
	 driver.cuMemAlloc_v2(&address, UNIT) ?: begin_capture()
		 ?: f->cuStreamEndCapture(stream, &graph) ?: end_graph(),
	 "kept", give_back(), driver.cuStreamDestroy_v2(stream))
KEPT_ROW(cuStreamEndCapture_ptsz,
	 driver.cuMemAlloc_v2(&address, UNIT) ?: begin_capture()
		 ?: f->cuStreamEndCapture_ptsz(stream, &graph) ?: end_graph(),
	 "kept", give_back(), driver.cuStreamDestroy_v2(stream))
