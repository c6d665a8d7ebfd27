/* SPDX-License-Identifier: BSD-3-Clause */
/* pointer.c -- what the driver says of an address */
#include <string.h>

#include "sim.h"

/* How many bytes an attribute's value has; 0 for one that does not exist or cannot be read. */
static size_t size_of(CUpointer_attribute attribute)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_MAPPED:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		return 4;
	case CU_POINTER_ATTRIBUTE_CONTEXT:
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		return 8;
	case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
		return 0;
	}
	return 0;
}

/* The value of an attribute, as the number that its bytes make. */
static bool value_of(const struct sim_allocation *allocation, uint64_t address, CUpointer_attribute attribute,
		     uint64_t *value)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*value = (uintptr_t)allocation->context;
		return true;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*value = allocation->kind == SIM_HOST ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		return true;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*value = address;
		return true;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		*value = allocation->sync_memops;
		return true;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*value = allocation->buffer_id;
		return true;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*value = (uint64_t)allocation->device;
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*value = allocation->range_size ? allocation->range_base : allocation->base;
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*value = allocation->range_size ? allocation->range_size : allocation->size;
		return true;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*value = allocation->kind == SIM_DEVICE;
		return true;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		*value = allocation->kind == SIM_DEVICE ||
			 (allocation->kind == SIM_MAPPED &&
			  sim_physical_is_rdma_capable(allocation->physical));
		return true;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*value = 1;
		return true;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		*value = allocation->access;
		return true;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*value = allocation->kind == SIM_MANAGED;
		return true;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*value = (uintptr_t)allocation->pool;
		return true;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*value = 0;
		return true;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		*value = address;
		return allocation->kind == SIM_HOST; /* device memory has none */
	case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
		return false;
	}
	return false;
}

static void store(void *to, uint64_t value, size_t size)
{
	uint32_t narrow = (uint32_t)value;

	if (size == 4)
		memcpy(to, &narrow, sizeof(narrow));
	else if (size)
		memcpy(to, &value, sizeof(value));
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
	const struct sim_allocation *allocation;
	CUresult result = sim_enter();
	uint64_t value;

	if (result != CUDA_SUCCESS)
		return result;
	allocation = sim_find(address);
	if (!data || !allocation || !size_of(attribute) || !value_of(allocation, address, attribute, &value))
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	store(data, value, size_of(attribute));
	return sim_leave(CUDA_SUCCESS);
}

/* Of reserved addresses with nothing behind them only the range is known. */
static uint64_t value_of_nothing(uint64_t address, CUpointer_attribute attribute)
{
	uint64_t base, size;

	sim_find_reservation(address, &base, &size);
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		return (uint64_t)-2;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		return base;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		return size;
	default:
		return 0;
	}
}

/* Unlike the single form, an address that is not CUDA's is no error here: its attributes are null. In a context of
 * the old interface it is one, and they stay as they were (measured). */
CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **data,
				CUdeviceptr address)
{
	const struct sim_allocation *allocation;
	CUresult result = sim_enter();
	uint64_t value;

	if (result != CUDA_SUCCESS)
		return result;
	if (!count || !attributes || !data)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	for (unsigned int i = 0; i < count; i++) {
		if (!data[i] || !size_of(attributes[i]))
			return sim_leave(CUDA_ERROR_INVALID_VALUE);
	}
	allocation = sim_find(address);
	if (!allocation && sim_in_old_context())
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	for (unsigned int i = 0; i < count; i++) {
		value = allocation ? 0 : value_of_nothing(address, attributes[i]);
		if (allocation && !value_of(allocation, address, attributes[i], &value))
			value = 0;
		store(data[i], value, size_of(attributes[i]));
	}
	return sim_leave(CUDA_SUCCESS);
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr address)
{
	struct sim_allocation *allocation;
	CUresult result = sim_enter();
	unsigned int on;

	if (result != CUDA_SUCCESS)
		return result;
	allocation = sim_find(address);
	if (!value || !allocation || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	if (allocation->kind == SIM_MAPPED)
		return sim_leave(CUDA_ERROR_NOT_SUPPORTED);
	result = sim_check_uncaptured();
	if (result != CUDA_SUCCESS)
		return sim_leave(result);
	memcpy(&on, value, sizeof(on));
	allocation->sync_memops = on != 0;
	return sim_leave(CUDA_SUCCESS);
}
