/* SPDX-License-Identifier: BSD-3-Clause */
/* pool.c -- stream-ordered memory, from pools
 *
 * Pool memory belongs to no context and outlives all contexts. Stream-ordered calls run at once,
 * like all stream work here.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim.h"

/* Never freed: a stale handle is recognised. Allocations outlive their pool (measured). */
struct CUmemPoolHandle_st {
	struct CUmemPoolHandle_st *next;
	int device;
	int file; /* exported descriptor; -1: none yet */
	bool imported, alive;
};

static struct CUmemPoolHandle_st *pools;
static CUmemoryPool defaults[SIM_DEVICES_MAX];

static CUmemoryPool pool_make(int device)
{
	struct CUmemPoolHandle_st *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return NULL;
	*pool = (struct CUmemPoolHandle_st){
		.next = pools, .device = device, .file = -1, .alive = true
	};
	pools = pool;
	return pool;
}

static CUmemoryPool pool_default(int device)
{
	if (!defaults[device])
		defaults[device] = pool_make(device);
	return defaults[device];
}

static bool pool_is_live(CUmemoryPool pool)
{
	const struct CUmemPoolHandle_st *entry = pools;

	while (entry && entry != pool)
		entry = entry->next;
	return entry && entry->alive;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
	CUresult result = sim_enter();

	if (result != CUDA_SUCCESS)
		return result;
	if (device < 0 || device >= sim_device_count)
		return sim_leave(CUDA_ERROR_INVALID_DEVICE);
	if (!pool)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	*pool = pool_default(device);
	return sim_leave(*pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
	CUresult result = sim_enter();

	if (result != CUDA_SUCCESS)
		return result;
	if (!pool || !properties || properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    properties->location.id < 0 || properties->location.id >= sim_device_count)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	*pool = pool_make(properties->location.id);
	return sim_leave(*pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	CUresult result = sim_uncaptured(sim_enter());

	if (result != CUDA_SUCCESS)
		return result;
	if (!pool_is_live(pool) || pool == defaults[pool->device])
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	pool->alive = false;
	if (pool->file >= 0)
		close(pool->file);
	pool->file = -1;
	return sim_leave(CUDA_SUCCESS);
}

/* No freed memory is cached: nothing to trim. */
CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t bytes)
{
	CUresult result = sim_uncaptured(sim_enter());

	(void)bytes;
	if (result != CUDA_SUCCESS)
		return result;
	return sim_leave(pool_is_live(pool) && !pool->imported ? CUDA_SUCCESS
							       : CUDA_ERROR_INVALID_VALUE);
}

/* In an uncaptured stream, other captures forbid stream-ordered calls (measured). */
static CUresult pool_check_order(CUstream stream, bool *captured)
{
	CUresult result = sim_check_stream(stream, captured);

	return result == CUDA_SUCCESS && !*captured ? sim_check_uncaptured() : result;
}

static CUresult pool_allocate(CUdeviceptr *address, size_t size, CUmemoryPool pool, CUstream stream)
{
	struct sim_allocation *allocation;
	CUcontext context;
	CUresult result;
	bool captured;

	if (address)
		*address = 0;
	result = sim_enter_context(&context);
	if (result != CUDA_SUCCESS)
		return result;
	if (!address || !sim_stream_exists(stream))
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	result = pool_check_order(stream, &captured);
	if (result != CUDA_SUCCESS)
		return sim_leave(result);
	if (!size)
		return sim_leave(CUDA_SUCCESS);
	if (captured) {
		*address = sim_capture_allocation(size);
		return sim_leave(*address ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
	}
	if (!pool)
		pool = pool_default(context->device);
	if (!pool || !pool_is_live(pool) || pool->imported)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	allocation = sim_allocate(pool->device, NULL, SIM_POOL, size);
	if (!allocation)
		return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
	allocation->pool = pool;
	*address = allocation->base;
	return sim_leave(CUDA_SUCCESS);
}

CUresult cuMemAllocAsync(CUdeviceptr *address, size_t size, CUstream stream)
{
	return pool_allocate(address, size, NULL, stream);
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *address, size_t size, CUstream stream)
{
	return pool_allocate(address, size, NULL, stream ? stream : (CUstream)2);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t size, CUmemoryPool pool,
				 CUstream stream)
{
	return pool_allocate(address, size, pool, stream);
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *address, size_t size, CUmemoryPool pool,
				      CUstream stream)
{
	return pool_allocate(address, size, pool, stream ? stream : (CUstream)2);
}

/* A captured free accepts only graph allocations (measured). Managed memory is always refused. */
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
	struct sim_allocation *allocation;
	CUresult result = sim_enter();
	bool captured;

	if (result != CUDA_SUCCESS)
		return result;
	if (!sim_stream_exists(stream))
		return sim_leave(CUDA_ERROR_INVALID_HANDLE);
	result = pool_check_order(stream, &captured);
	if (result != CUDA_SUCCESS)
		return sim_leave(result);
	if (captured)
		return sim_leave(!address || sim_is_captured_allocation(address)
					 ? CUDA_SUCCESS
					 : CUDA_ERROR_INVALID_VALUE);
	if (!address)
		return sim_leave(CUDA_SUCCESS);
	allocation = sim_find(address);
	if (!allocation || allocation->base != address)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	switch (allocation->kind) {
	case SIM_DEVICE:
	case SIM_POOL:
	case SIM_IMPORTED:
	case SIM_GRAPH:
		sim_end(allocation);
		return sim_leave(CUDA_SUCCESS);
	case SIM_MANAGED:
		return sim_leave(CUDA_ERROR_NOT_SUPPORTED);
	default:
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	}
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream)
{
	return cuMemFreeAsync(address, stream ? stream : (CUstream)2);
}

/* ---- sharing: within this process only, enough for tests of the library ---- */

CUresult cuMemPoolExportToShareableHandle(void *handle, CUmemoryPool pool,
					  CUmemAllocationHandleType type, unsigned long long flags)
{
	CUresult result = sim_enter();

	if (result != CUDA_SUCCESS)
		return result;
	if (!handle || !pool_is_live(pool) || pool->imported ||
	    type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	if (pool->file < 0)
		pool->file = memfd_create("peerpin-sim-pool", MFD_CLOEXEC);
	*(int *)handle = dup(pool->file);
	return sim_leave(CUDA_SUCCESS);
}

static CUmemoryPool pool_find_exported(int file)
{
	struct stat wanted, found;
	struct CUmemPoolHandle_st *pool = pools;

	if (fstat(file, &wanted))
		return NULL;
	while (pool &&
	       (pool->file < 0 || fstat(pool->file, &found) || found.st_ino != wanted.st_ino))
		pool = pool->next;
	return pool;
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *handle,
					    CUmemAllocationHandleType type,
					    unsigned long long flags)
{
	CUmemoryPool origin;
	CUresult result = sim_enter();

	if (result != CUDA_SUCCESS)
		return result;
	origin = pool_find_exported((int)(intptr_t)handle);
	if (!pool || !origin || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	*pool = pool_make(origin->device);
	if (!*pool)
		return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
	(*pool)->imported = true;
	return sim_leave(CUDA_SUCCESS);
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr address)
{
	const struct sim_allocation *allocation;
	CUresult result = sim_enter();

	if (result != CUDA_SUCCESS)
		return result;
	allocation = sim_find(address);
	if (!data || !allocation || allocation->kind != SIM_POOL || allocation->base != address)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	memset(data, 0, sizeof(*data));
	memcpy(data, &allocation->base, sizeof(allocation->base));
	return sim_leave(CUDA_SUCCESS);
}

/* Map the exported bytes at another address. */
CUresult cuMemPoolImportPointer(CUdeviceptr *address, CUmemoryPool pool,
				CUmemPoolPtrExportData *data)
{
	const struct sim_allocation *origin;
	struct sim_allocation *allocation;
	const struct sim_device *device;
	CUresult result = sim_enter();
	uint64_t base, at;

	if (result != CUDA_SUCCESS)
		return result;
	if (!address || !data || !pool_is_live(pool) || !pool->imported)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	memcpy(&base, data, sizeof(base));
	origin = sim_find(base);
	if (!origin || origin->kind != SIM_POOL || origin->base != base)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	device = &sim_devices[origin->device];
	at = sim_reserve_addresses(base % 4096 + origin->size);
	allocation = at ? sim_attach(SIM_IMPORTED, NULL, origin->device, at, device->file,
				     base - device->base, origin->size)
			: NULL;
	if (!allocation)
		return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
	allocation->pool = pool;
	*address = allocation->base;
	return sim_leave(CUDA_SUCCESS);
}
