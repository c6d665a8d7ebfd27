/* SPDX-License-Identifier: BSD-3-Clause */
/* query_target.c -- answers of the driver that depend on more than the record */
#include "memory/query_target.h"

#include "base/atomics.h"
#include "memory/driver.h"

bool query_target_is_reached(const struct query_target *target)
{
	const struct driver_calls *driver = driver_calls();
	CUcontext context = (CUcontext)(uintptr_t)load_acquire(&target->record->context),
		  current = NULL;
	unsigned int version;
	CUdevice device = -1;

	if (context)
		return driver->cuCtxGetCurrent &&
		       driver->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == context;
	return driver->cuCtxGetApiVersion && driver->cuCtxGetDevice &&
	       driver->cuCtxGetApiVersion(NULL, &version) == CUDA_SUCCESS &&
	       driver->cuCtxGetDevice(&device) == CUDA_SUCCESS &&
	       device == traits_device(target->traits);
}

unsigned int query_target_device_pointer(const struct query_target *target, uint64_t *value)
{
	*value = target->address;
	/* A registered host page may have another address on the device. */
	return traits_kind(target->traits) != ALLOCATION_HOST &&
			       (target->traits & TRAIT_ACCESSIBLE) &&
			       query_target_is_reached(target)
		       ? LONG
		       : UNANSWERED;
}

/* For memory that the host does not reach, a list gets NULL. A single query stores NULL and returns
 * an error (measured): left to the driver. */
unsigned int query_target_host_pointer(const struct query_target *target, bool listed,
				       uint64_t *value)
{
	switch (traits_kind(target->traits)) {
	case ALLOCATION_HOST:
	case ALLOCATION_MANAGED:
		*value = target->address;
		return LONG;
	case ALLOCATION_DEVICE:
	case ALLOCATION_PITCHED:
	case ALLOCATION_POOL:
		*value = 0;
		return listed ? LONG : UNANSWERED;
	default:
		return UNANSWERED;
	}
}

/* Answers of a list for an address unknown to CUDA. The driver refuses a single query of each
 * attribute here. */
unsigned int query_target_nothing(const struct query_target *target, CUpointer_attribute attribute,
				  bool listed, uint64_t *value)
{
	*value = 0;
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		return LONG;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_MAPPED:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		return WORD;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*value = (uint32_t)-2;
		return WORD;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		return UNTOUCHED;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		*value = target->address;
		return listed ? LONG : UNANSWERED;
	default:
		return UNANSWERED;
	}
}
