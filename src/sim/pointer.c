/* SPDX-License-Identifier: BSD-3-Clause */
/* pointer.c -- pointer queries */
#include <string.h>

#include "sim.h"

/* Bytes of an attribute's value; 0: no such attribute. */
static size_t pointer_attribute_size(CUpointer_attribute attribute)
{
	static const unsigned char sizes[] = {
#define POINTER_ATTRIBUTE(name, value, bytes, ...) [value] = bytes,
#include "memory/cuda_abi.def"
#undef POINTER_ATTRIBUTE
	};

	return (unsigned int)attribute < sizeof(sizes) ? sizes[attribute] : 0;
}

/* Access to VMM memory is reported only in a thread with a live context (measured). */
static unsigned int pointer_access(const struct sim_allocation *allocation)
{
	if (allocation->kind == SIM_MAPPED && !sim_live_context())
		return CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return allocation->access;
}

static CUresult pointer_device_address(const struct sim_allocation *allocation, uint64_t address,
				       uint64_t *value)
{
	if (!sim_live_context())
		return CUDA_ERROR_INVALID_CONTEXT;
	if (allocation->access == CU_MEM_ACCESS_FLAGS_PROT_NONE)
		return CUDA_ERROR_INVALID_VALUE;
	*value = address;
	return CUDA_SUCCESS;
}

/* Attribute value as a number. An error also stores a value, 0. */
static CUresult pointer_value(const struct sim_allocation *allocation, uint64_t address,
			      CUpointer_attribute attribute, uint64_t *value)
{
	*value = 0;
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*value = (uintptr_t)allocation->context;
		break;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*value = sim_is_host(allocation) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		return pointer_device_address(allocation, address, value);
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		if (!sim_is_host(allocation) && allocation->kind != SIM_MANAGED)
			return CUDA_ERROR_INVALID_VALUE;
		*value = address;
		break;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		*value = allocation->sync_memops;
		break;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*value = allocation->buffer_id;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*value = (uint64_t)allocation->device;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*value = allocation->range_size ? allocation->range_base : allocation->base;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*value = allocation->range_size ? allocation->range_size : allocation->size;
		break;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		*value = allocation->kind == SIM_DEVICE;
		break;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		*value = allocation->kind == SIM_DEVICE ||
			 (allocation->kind == SIM_MAPPED &&
			  sim_physical_is_rdma_capable(allocation->physical));
		break;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*value = 1;
		break;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		*value = pointer_access(allocation);
		break;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*value = allocation->kind == SIM_MANAGED;
		break;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*value = (uintptr_t)allocation->pool;
		break;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		break;
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		*value = allocation->block_size;
		break;
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		*value = allocation->block_base;
		break;
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		*value = allocation->block_id;
		break;
	case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
		return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

static void pointer_store(void *to, uint64_t value, size_t size)
{
	uint32_t narrow = (uint32_t)value;

	if (size == 4)
		memcpy(to, &narrow, sizeof(narrow));
	else if (size)
		memcpy(to, &value, sizeof(value));
}

/* Measured: the peer token is 0 and the address space token is one constant. The query sets
 * SYNC_MEMOPS, also on VMM memory. */
static CUresult pointer_store_tokens(void *data, struct sim_allocation *allocation)
{
	uint32_t space = sim_is_host(allocation) ? 0 : 0xfe00;

	memset(data, 0, 8);
	memcpy((char *)data + 8, &space, sizeof(space));
	if (sim_is_host(allocation))
		return CUDA_ERROR_INVALID_VALUE;
	allocation->sync_memops = true;
	return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
	struct sim_allocation *allocation;
	CUresult result = sim_enter();
	uint64_t value;

	if (result != CUDA_SUCCESS)
		return result;
	allocation = sim_find(address);
	if (!data || !allocation || !pointer_attribute_size(attribute))
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	if (attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
		return sim_leave(pointer_store_tokens(data, allocation));
	result = pointer_value(allocation, address, attribute, &value);
	pointer_store(data, value, pointer_attribute_size(attribute));
	return sim_leave(result);
}

/* List-query value of an address without memory, reserved or not (measured). *has_value is false
 * for the range of an unreserved address. */
static uint64_t pointer_unallocated_value(uint64_t address, CUpointer_attribute attribute,
					  bool *has_value)
{
	uint64_t base, size;

	*has_value = true;
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		return (uint64_t)-2;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		return address;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*has_value = sim_find_reservation(address, &base, &size);
		return attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE ? size : base;
	default:
		return 0;
	}
}

static bool pointer_is_listable(CUpointer_attribute attribute)
{
	return pointer_attribute_size(attribute) && attribute != CU_POINTER_ATTRIBUTE_P2P_TOKENS;
}

/* Unlike the single query, a list query succeeds for an unallocated address, with null values. In a
 * context of the old interface the query fails and stores nothing (measured). */
SIM_CALL(cuPointerGetAttributes, (count, attributes, data, address), unsigned int count,
	 CUpointer_attribute *attributes, void **data, CUdeviceptr address)
{
	const struct sim_allocation *allocation;
	bool has_value = true;
	uint64_t value;

	if (!count || !attributes || !data)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < count; i++) {
		if (!data[i])
			return CUDA_ERROR_INVALID_VALUE;
	}
	allocation = sim_find(address);
	if (!allocation && sim_in_old_context())
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < count; i++) {
		/* Values of earlier attributes are already stored (measured). */
		if (!pointer_is_listable(attributes[i]))
			return CUDA_ERROR_INVALID_VALUE;
		if (allocation)
			pointer_value(allocation, address, attributes[i], &value);
		else
			value = pointer_unallocated_value(address, attributes[i], &has_value);
		if (has_value)
			pointer_store(data[i], value, pointer_attribute_size(attributes[i]));
	}
	return CUDA_SUCCESS;
}

/* Check order (measured): value pointer, destroyed context, capture, all for any address; then the
 * allocation. */
CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
			       CUdeviceptr address)
{
	struct sim_allocation *allocation;
	CUcontext context;
	CUresult result = sim_enter_any_context(&context);
	unsigned int on;

	if (result != CUDA_SUCCESS)
		return result == CUDA_ERROR_CONTEXT_IS_DESTROYED ? CUDA_ERROR_INVALID_VALUE
								 : result;
	if (!value)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	result = sim_check_uncaptured();
	if (result != CUDA_SUCCESS)
		return sim_leave(result);
	allocation = sim_find(address);
	if (!allocation)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	if (allocation->kind == SIM_MAPPED)
		return sim_leave(CUDA_ERROR_NOT_SUPPORTED);
	if (attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	memcpy(&on, value, sizeof(on));
	allocation->sync_memops = on != 0;
	return sim_leave(CUDA_SUCCESS);
}

/* Of managed memory that has had no advice and no prefetch: neither is simulated. */
SIM_CALL(cuMemRangeGetAttribute, (data, size, attribute, address, count), void *data, size_t size,
	 CUmem_range_attribute attribute, CUdeviceptr address, size_t count)
{
	const struct sim_allocation *allocation = sim_find(address);
	size_t numbers = size / sizeof(int);
	int value = CU_DEVICE_INVALID;

	if (!data || !size || size % sizeof(int) || !allocation ||
	    allocation->kind != SIM_MANAGED || !count ||
	    count > allocation->base + allocation->size - address)
		return CUDA_ERROR_INVALID_VALUE;
	switch (attribute) {
	case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
		break;
	case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
		value = 0;
		/* fall through */
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
		if (numbers != 1)
			return CUDA_ERROR_INVALID_VALUE;
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	for (size_t i = 0; i < numbers; i++)
		((int *)data)[i] = value;
	return CUDA_SUCCESS;
}
