/* SPDX-License-Identifier: BSD-3-Clause */
/* rows_pool.c -- the rows of pools and graphs */
#include <string.h>
#include <unistd.h>

#include "steps.h"

static CUmemoryPool make_pool(void)
{
	CUmemPoolProps properties = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				      .location = { CU_MEM_LOCATION_TYPE_DEVICE, device } };
	CUmemoryPool pool = NULL;

	driver.cuMemPoolCreate(&pool, &properties);
	return pool;
}

bool test_cuMemAllocAsync(void)
{
	CUdeviceptr address;

	NEED(RISES("allocations", f->cuMemAllocAsync(&address, SIZE, NULL)));
	return OK(driver.cuMemFreeAsync(address, NULL));
}

bool test_cuMemAllocAsync_ptsz(void)
{
	CUdeviceptr address;

	NEED(RISES("allocations", f->cuMemAllocAsync_ptsz(&address, SIZE, NULL)));
	return OK(driver.cuMemFreeAsync(address, NULL));
}

bool test_cuMemAllocFromPoolAsync(void)
{
	CUmemoryPool pool = make_pool();
	CUdeviceptr address;

	NEED(RISES("allocations", f->cuMemAllocFromPoolAsync(&address, SIZE, pool, NULL)));
	return OK(driver.cuMemFreeAsync(address, NULL)) && OK(driver.cuMemPoolDestroy(pool));
}

bool test_cuMemAllocFromPoolAsync_ptsz(void)
{
	CUmemoryPool pool = make_pool();
	CUdeviceptr address;

	NEED(RISES("allocations", f->cuMemAllocFromPoolAsync_ptsz(&address, SIZE, pool, NULL)));
	return OK(driver.cuMemFreeAsync(address, NULL)) && OK(driver.cuMemPoolDestroy(pool));
}

bool test_cuMemFreeAsync(void)
{
	CUdeviceptr address;

	NEED(OK(driver.cuMemAllocAsync(&address, SIZE, NULL)));
	return RISES("frees", f->cuMemFreeAsync(address, NULL));
}

bool test_cuMemFreeAsync_ptsz(void)
{
	CUdeviceptr address;

	NEED(OK(driver.cuMemAllocAsync(&address, SIZE, NULL)) &&
	     OK(driver.cuStreamSynchronize(NULL)));
	return RISES("frees", f->cuMemFreeAsync_ptsz(address, NULL));
}

bool test_cuMemPoolImportPointer(void)
{
	CUmemoryPool pool = make_pool(), imported;
	CUmemPoolPtrExportData data;
	CUdeviceptr address, again;
	int file;

	NEED(OK(driver.cuMemAllocFromPoolAsync(&address, 3000000, pool, NULL)) &&
	     OK(driver.cuStreamSynchronize(NULL)));
	NEED(OK(driver.cuMemPoolExportToShareableHandle(
		&file, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)));
	NEED(OK(driver.cuMemPoolImportFromShareableHandle(
		&imported, (void *)(intptr_t)file, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)));
	NEED(OK(driver.cuMemPoolExportPointer(&data, address)));
	NEED(RISES("allocations", f->cuMemPoolImportPointer(&again, imported, &data)));
	close(file);
	return OK(driver.cuMemFree_v2(again)) && OK(driver.cuMemFreeAsync(address, NULL)) &&
	       OK(driver.cuMemPoolDestroy(imported)) && OK(driver.cuMemPoolDestroy(pool));
}

static bool make_missed_free(CUdeviceptr *address)
{
	CUresult (*bypassing_free)(CUdeviceptr, CUstream) =
		(CUresult(*)(CUdeviceptr, CUstream))bypass("cuMemFreeAsync");

	return OK(driver.cuMemAllocAsync(address, SIZE, NULL)) &&
	       OK(bypassing_free(*address, NULL)) && OK(driver.cuStreamSynchronize(NULL));
}

bool test_cuMemPoolTrimTo(void)
{
	CUmemoryPool pool;
	CUdeviceptr address;

	NEED(OK(driver.cuDeviceGetDefaultMemPool(&pool, device)) && make_missed_free(&address));
	return RISES("missed_frees", f->cuMemPoolTrimTo(pool, 0));
}

/* PEERPIN_KEEP raises the threshold of the default pool. */
bool test_cuMemPoolGetAttribute(void)
{
	CUresult (*read)(CUmemoryPool, CUmemPool_attribute, void *) = (CUresult(*)(
		CUmemoryPool, CUmemPool_attribute, void *))bypass("cuMemPoolGetAttribute");
	uint64_t raised = 0, threshold = 7;
	CUdeviceptr address;
	CUmemoryPool pool;

	if (keeps_nothing())
		SKIP("nothing is kept at exit, nor without PEERPIN_KEEP");
	NEED(OK(driver.cuMemAllocAsync(&address, SIZE, NULL)) &&
	     OK(driver.cuMemFreeAsync(address, NULL)));
	NEED(OK(driver.cuDeviceGetDefaultMemPool(&pool, device)));
	NEED(OK(read(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &raised)) && raised);
	NEED(OK(f->cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold)));
	return threshold == 0;
}

bool test_cuMemPoolDestroy(void)
{
	CUmemoryPool pool = make_pool();
	CUdeviceptr address;

	NEED(make_missed_free(&address));
	return RISES("missed_frees", f->cuMemPoolDestroy(pool));
}

bool test_cuDeviceGraphMemTrim(void)
{
	CUdeviceptr address;

	NEED(make_missed_free(&address));
	return RISES("missed_frees", f->cuDeviceGraphMemTrim(device));
}

bool test_cuGraphAddMemAllocNode(void)
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
	NEED(RISES("graph_allocations",
		   f->cuGraphAddMemAllocNode(&node, graph, NULL, 0, &parameters)));
	return OK(driver.cuGraphDestroy(graph));
}

static bool adds_node(__typeof__(cuGraphAddNode) *first, __typeof__(cuGraphAddNode_v2) *second)
{
	CUgraphNodeParams parameters;
	CUgraphNode node;
	CUgraph graph;

	memset(&parameters, 0, sizeof(parameters));
	parameters.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
	parameters.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	parameters.alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	parameters.alloc.poolProps.location.id = device;
	parameters.alloc.bytesize = SIZE;
	NEED(OK(driver.cuGraphCreate(&graph, 0)));
	NEED(RISES("graph_allocations", first ? first(&node, graph, NULL, 0, &parameters)
					      : second(&node, graph, NULL, NULL, 0, &parameters)) &&
	     parameters.alloc.dptr);
	return OK(driver.cuGraphDestroy(graph));
}

bool test_cuGraphAddNode(void)
{
	return adds_node(f->cuGraphAddNode, NULL);
}

bool test_cuGraphAddNode_v2(void)
{
	return adds_node(NULL, f->cuGraphAddNode_v2);
}
