/* SPDX-License-Identifier: BSD-3-Clause */
/* attributes.c -- what the driver says of an allocation, asked once at its allocation */
#include <stddef.h>

#include "base/near.h"
#include "memory/driver.h"
#include "memory/events.h"

/* What the guide names as the memory that can be registered (GPUDirect RDMA guide 5.1). */
static bool is_plain(enum allocation_kind kind)
{
	return kind == ALLOCATION_DEVICE || kind == ALLOCATION_PITCHED;
}

static CUresult query(unsigned int count, CUpointer_attribute *attributes, void **values, uint64_t address)
{
	const struct driver_calls *driver = driver_calls();

	return driver->cuPointerGetAttributes
		       ? driver->cuPointerGetAttributes(count, attributes, values, address)
		       : CUDA_ERROR_NOT_SUPPORTED;
}

/* What the driver answers as four bytes. */
struct words {
	unsigned int memory_type, managed, ipc_capable, mapped, rdma_capable, sync;
};

/* All that a client may ask for. Of mapped memory the range is the reservation's (measured); of other memory it is
 * the allocation itself, or something is not as we know it, and the driver goes on answering for it. So it does for pools
 * and mappings of the host's memory, and managed pools, which were not measured. */
static CUresult read_all(uint64_t address, struct allocation *to)
{
	struct words words = { 0 };
	CUpointer_attribute attributes[] = {
		CU_POINTER_ATTRIBUTE_CONTEXT,
		CU_POINTER_ATTRIBUTE_BUFFER_ID,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
		CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE,
		CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
		CU_POINTER_ATTRIBUTE_IS_MANAGED,
		CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
		CU_POINTER_ATTRIBUTE_MAPPED,
		CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
		CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
		CU_POINTER_ATTRIBUTE_RANGE_SIZE,
		CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
	};
	void *values[] = {
		&to->context,	    &to->buffer_id,  &to->device,	 &words.rdma_capable,
		&words.memory_type, &words.managed,  &words.ipc_capable, &words.mapped,
		&words.sync,	    &to->range_base, &to->range_size,	 &to->pool,
	};
	CUresult result = query(sizeof(attributes) / sizeof(attributes[0]), attributes, values, address);

	if (result != CUDA_SUCCESS)
		return result;
	to->rdma_capable = words.rdma_capable;
	to->memory_type = words.memory_type;
	to->managed = words.managed;
	to->ipc_capable = words.ipc_capable;
	to->mapped = words.mapped;
	to->sync = words.sync;
	if (!to->size && to->buffer_id && address - to->range_base < to->range_size)
		to->size = to->range_base + to->range_size - address;
	if (to->kind == ALLOCATION_MAPPED)
		to->described = !to->pool && address - to->range_base < to->range_size;
	else
		to->described = to->range_base == address && to->range_size == to->size &&
				(!to->pool || to->kind == ALLOCATION_POOL || to->kind == ALLOCATION_SHARED);
	if (to->kind == ALLOCATION_POOL || to->kind == ALLOCATION_MAPPED)
		to->described &= words.memory_type == CU_MEMORYTYPE_DEVICE && !to->managed;
	to->described &= words.memory_type == CU_MEMORYTYPE_DEVICE || words.memory_type == CU_MEMORYTYPE_HOST;
	to->sync_known = to->described;
	return result;
}

/* An older driver refuses a list with an attribute that it does not know: it knows the first three, and then the
 * guide's word holds: plain device memory can be registered. */
static CUresult read_few(uint64_t address, struct allocation *to)
{
	CUpointer_attribute attributes[] = { CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_BUFFER_ID,
					     CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL };
	void *values[] = { &to->context, &to->buffer_id, &to->device };

	to->rdma_capable = is_plain(to->kind);
	return query(sizeof(attributes) / sizeof(attributes[0]), attributes, values, address);
}

NEAR bool attributes_read(uint64_t address, struct allocation *allocation)
{
	allocation->context = NULL;
	allocation->pool = NULL;
	allocation->buffer_id = allocation->range_base = allocation->range_size = 0;
	allocation->device = -1;
	allocation->described = allocation->sync_known = false;
	if (read_all(address, allocation) != CUDA_SUCCESS && read_few(address, allocation) != CUDA_SUCCESS)
		return false;
	return allocation->buffer_id != 0;
}

/* Asked once for each of the first devices. */
bool attributes_integrated(int device)
{
	static _Atomic signed char answers[64]; /* 0: not asked; 1: it is; -1: it is not */
	const struct driver_calls *driver = driver_calls();
	int value = 0;

	if (device < 0 || !driver->cuDeviceGetAttribute)
		return false;
	if ((size_t)device < sizeof(answers) && answers[device])
		return answers[device] > 0;
	if (driver->cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_INTEGRATED, device) != CUDA_SUCCESS)
		return false;
	if ((size_t)device < sizeof(answers))
		answers[device] = value ? 1 : -1;
	return value;
}

/* A list, since for what is no memory it is no error, and far cheaper than a single question (measured). */
bool attributes_match(const struct allocation *allocation)
{
	CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_BUFFER_ID;
	uint64_t buffer_id = 0;
	void *value = &buffer_id;

	return query(1, &attribute, &value, allocation->base) == CUDA_SUCCESS &&
	       buffer_id == allocation->buffer_id;
}
