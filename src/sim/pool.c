/* SPDX-License-Identifier: BSD-3-Clause */
/* pool.c -- stream-ordered memory, from pools
 *
 * Pool memory belongs to no context and outlives all contexts. Stream-ordered calls run at once,
 * like all stream work here.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim.h"

/* Allocations outlive their pool (measured). */
struct CUmemPoolHandle_st {
	struct sim_object object;
	int device;
	int file; /* exported descriptor; -1: none yet */
	bool imported;
	uint64_t threshold;
	uint64_t used;
	uint64_t held; /* of freed memory: blocks that count as used, but have no address */
};

static struct sim_object *pools;
static CUmemoryPool defaults[SIM_DEVICES_MAX];

static CUmemoryPool pool_make(int device)
{
	struct CUmemPoolHandle_st *pool = sim_make_object(&pools, sizeof(*pool));

	if (!pool)
		return NULL;
	pool->device = device;
	pool->file = -1;
	return pool;
}

static CUmemoryPool pool_default(int device)
{
	if (!defaults[device])
		defaults[device] = pool_make(device);
	return defaults[device];
}

/* Bytes that the pool has from its device, besides what it holds. */
static uint64_t pool_in_use(CUmemoryPool pool)
{
	return sim_round_up(pool->used, SIM_BLOCK);
}

static void pool_hold(CUmemoryPool pool, uint64_t bytes)
{
	sim_devices[pool->device].used_blocks += bytes / SIM_BLOCK;
	sim_devices[pool->device].used_blocks -= pool->held / SIM_BLOCK;
	pool->held = bytes;
}

static void pool_trim(CUmemoryPool pool, uint64_t bytes)
{
	uint64_t used = pool_in_use(pool);

	if (used + pool->held > bytes)
		pool_hold(pool, bytes > used ? sim_round_down(bytes - used, SIM_BLOCK) : 0);
}

bool sim_trim_pools(int device)
{
	uint64_t used = sim_devices[device].used_blocks;

	for (struct sim_object *object = pools; object; object = object->next) {
		CUmemoryPool pool = (CUmemoryPool)object;

		if (pool->device == device)
			pool_trim(pool, 0);
	}
	return sim_devices[device].used_blocks < used;
}

static struct sim_allocation *pool_take(CUmemoryPool pool, uint64_t size)
{
	const struct sim_device *device = &sim_devices[pool->device];
	uint64_t held = pool->held, blocks;
	struct sim_allocation *allocation;

	pool_hold(pool, 0);
	blocks = device->used_blocks;
	allocation = sim_allocate(pool->device, NULL, SIM_POOL, size);
	blocks = device->used_blocks - blocks;
	pool_hold(pool, held > blocks * SIM_BLOCK ? held - blocks * SIM_BLOCK : 0);
	if (allocation) {
		allocation->pool = pool;
		pool->used += size;
	}
	return allocation;
}

void sim_free_pooled(struct sim_allocation *allocation)
{
	CUmemoryPool pool = allocation->pool;
	uint64_t blocks = sim_devices[pool->device].used_blocks;

	pool->used -= allocation->size;
	sim_free(allocation);
	blocks -= sim_devices[pool->device].used_blocks;
	if (pool->object.live) {
		pool_hold(pool, pool->held + blocks * SIM_BLOCK);
		pool_trim(pool, pool->threshold);
	}
}

SIM_DEVICE_CALL(cuDeviceGetDefaultMemPool, (pool, device), CUmemoryPool *pool, CUdevice device)
{
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	*pool = pool_default(device);
	return *pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_UNCAPTURED_CALL(cuMemPoolCreate, (pool, properties), CUmemoryPool *pool,
		    const CUmemPoolProps *properties)
{
	if (!pool || !properties || properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    properties->location.id < 0 || properties->location.id >= sim_device_count)
		return CUDA_ERROR_INVALID_VALUE;
	*pool = pool_make(properties->location.id);
	return *pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_UNCAPTURED_CALL(cuMemPoolDestroy, (pool), CUmemoryPool pool)
{
	if (!sim_is_live(pools, pool) || pool == defaults[pool->device])
		return CUDA_ERROR_INVALID_VALUE;
	pool->object.live = false;
	pool_hold(pool, 0);
	if (pool->file >= 0)
		close(pool->file);
	pool->file = -1;
	return CUDA_SUCCESS;
}

/* Access of the pool's own device cannot be withdrawn. Other devices' access is not simulated. */
SIM_CALL(cuMemPoolSetAccess, (pool, access, count), CUmemoryPool pool,
	 const CUmemAccessDesc *access, size_t count)
{
	if (!sim_is_live(pools, pool) || (count && !access))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
		    sim_check_device(access[i].location.id) != CUDA_SUCCESS ||
		    (access[i].location.id == pool->device &&
		     access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE))
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

SIM_UNCAPTURED_CALL(cuMemPoolTrimTo, (pool, bytes), CUmemoryPool pool, size_t bytes)
{
	if (!sim_is_live(pools, pool) || pool->imported)
		return CUDA_ERROR_INVALID_VALUE;
	pool_trim(pool, bytes);
	return CUDA_SUCCESS;
}

SIM_UNCAPTURED_CALL(cuMemPoolSetAttribute, (pool, attribute, value), CUmemoryPool pool,
		    CUmemPool_attribute attribute, void *value)
{
	if (!sim_is_live(pools, pool) || !value || attribute != CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
		return CUDA_ERROR_INVALID_VALUE;
	pool->threshold = *(const uint64_t *)value;
	pool_trim(pool, pool->threshold);
	return CUDA_SUCCESS;
}

SIM_UNCAPTURED_CALL(cuMemPoolGetAttribute, (pool, attribute, value), CUmemoryPool pool,
		    CUmemPool_attribute attribute, void *value)
{
	if (!sim_is_live(pools, pool) || !value)
		return CUDA_ERROR_INVALID_VALUE;
	switch (attribute) {
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		*(uint64_t *)value = pool->threshold;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
		*(uint64_t *)value = pool_in_use(pool) + pool->held;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		*(uint64_t *)value = pool->used;
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
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
	if (!pool || !sim_is_live(pools, pool) || pool->imported)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	allocation = pool_take(pool, size);
	if (!allocation)
		return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
	*address = allocation->base;
	return sim_leave(CUDA_SUCCESS);
}

SIM_FORWARD(cuMemAllocAsync, pool_allocate, (address, size, NULL, stream), CUdeviceptr *address,
	    size_t size, CUstream stream);
SIM_FORWARD(cuMemAllocAsync_ptsz, pool_allocate,
	    (address, size, NULL, stream ? stream : (CUstream)2), CUdeviceptr *address, size_t size,
	    CUstream stream);
SIM_FORWARD(cuMemAllocFromPoolAsync, pool_allocate, (address, size, pool, stream),
	    CUdeviceptr *address, size_t size, CUmemoryPool pool, CUstream stream);
SIM_FORWARD(cuMemAllocFromPoolAsync_ptsz, pool_allocate,
	    (address, size, pool, stream ? stream : (CUstream)2), CUdeviceptr *address, size_t size,
	    CUmemoryPool pool, CUstream stream);

/* A captured free accepts only graph allocations (measured). Managed memory is always refused. */
SIM_CALL(cuMemFreeAsync, (address, stream), CUdeviceptr address, CUstream stream)
{
	struct sim_allocation *allocation;
	bool captured;
	CUresult result;

	if (!sim_stream_exists(stream))
		return CUDA_ERROR_INVALID_HANDLE;
	result = pool_check_order(stream, &captured);
	if (result != CUDA_SUCCESS)
		return result;
	if (captured)
		return !address || sim_is_captured_allocation(address) ? CUDA_SUCCESS
								       : CUDA_ERROR_INVALID_VALUE;
	if (!address)
		return CUDA_SUCCESS;
	allocation = sim_find(address);
	if (!allocation || allocation->base != address)
		return CUDA_ERROR_INVALID_VALUE;
	switch (allocation->kind) {
	case SIM_DEVICE:
	case SIM_POOL:
	case SIM_IMPORTED:
	case SIM_GRAPH:
		sim_free_any(allocation);
		return CUDA_SUCCESS;
	case SIM_MANAGED:
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

SIM_FORWARD(cuMemFreeAsync_ptsz, cuMemFreeAsync, (address, stream ? stream : (CUstream)2),
	    CUdeviceptr address, CUstream stream);

/* ---- sharing: within this process only, enough for tests of the library ---- */

SIM_CALL(cuMemPoolExportToShareableHandle, (handle, pool, type, flags), void *handle,
	 CUmemoryPool pool, CUmemAllocationHandleType type, unsigned long long flags)
{
	if (!handle || !sim_is_live(pools, pool) || pool->imported ||
	    type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (pool->file < 0)
		pool->file = memfd_create("peerpin-sim-pool", MFD_CLOEXEC);
	*(int *)handle = dup(pool->file);
	return CUDA_SUCCESS;
}

static CUmemoryPool pool_find_exported(int file)
{
	struct sim_object *object = pools;

	while (object && !sim_is_same_file(((CUmemoryPool)object)->file, file))
		object = object->next;
	return (CUmemoryPool)object;
}

SIM_CALL(cuMemPoolImportFromShareableHandle, (pool, handle, type, flags), CUmemoryPool *pool,
	 void *handle, CUmemAllocationHandleType type, unsigned long long flags)
{
	CUmemoryPool origin;

	origin = pool_find_exported((int)(intptr_t)handle);
	if (!pool || !origin || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags)
		return CUDA_ERROR_INVALID_VALUE;
	*pool = pool_make(origin->device);
	if (!*pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	(*pool)->imported = true;
	return CUDA_SUCCESS;
}

SIM_CALL(cuMemPoolExportPointer, (data, address), CUmemPoolPtrExportData *data, CUdeviceptr address)
{
	const struct sim_allocation *allocation;

	allocation = sim_find(address);
	if (!data || !allocation || allocation->kind != SIM_POOL || allocation->base != address)
		return CUDA_ERROR_INVALID_VALUE;
	memset(data, 0, sizeof(*data));
	memcpy(data, &allocation->base, sizeof(allocation->base));
	return CUDA_SUCCESS;
}

/* Map the exported bytes at another address. */
SIM_CALL(cuMemPoolImportPointer, (address, pool, data), CUdeviceptr *address, CUmemoryPool pool,
	 CUmemPoolPtrExportData *data)
{
	const struct sim_allocation *origin;
	struct sim_allocation *allocation;
	const struct sim_device *device;
	uint64_t base;

	if (!address || !data || !sim_is_live(pools, pool) || !pool->imported)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&base, data, sizeof(base));
	origin = sim_find(base);
	if (!origin || origin->kind != SIM_POOL || origin->base != base)
		return CUDA_ERROR_INVALID_VALUE;
	device = &sim_devices[origin->device];
	allocation = sim_attach(SIM_IMPORTED, NULL, origin->device, 0, device->file,
				base - device->base, origin->size);
	if (!allocation)
		return CUDA_ERROR_OUT_OF_MEMORY;
	allocation->pool = pool;
	*address = allocation->base;
	return CUDA_SUCCESS;
}
