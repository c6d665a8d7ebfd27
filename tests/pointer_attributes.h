/* SPDX-License-Identifier: BSD-3-Clause */
/* pointer_attributes.h -- pointer attributes that a mock of the driver reports */
#ifndef PEERPIN_TESTS_POINTER_ATTRIBUTES_H
#define PEERPIN_TESTS_POINTER_ATTRIBUTES_H

#include "memory/cuda_abi.h"

struct pointer_attributes {
	CUcontext context;
	uint64_t buffer_id, base, size;
	unsigned int memory_type, managed, rdma_capable;
	int device;
};

/* Other attributes keep the caller's value. */
static inline void pointer_attributes_read(const struct pointer_attributes *attributes,
					   CUpointer_attribute attribute, void *to)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*(CUcontext *)to = attributes->context;
		break;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*(uint64_t *)to = attributes->buffer_id;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)to = attributes->device;
		break;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		*(unsigned int *)to = attributes->rdma_capable;
		break;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned int *)to = attributes->memory_type;
		break;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*(unsigned int *)to = attributes->managed;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(uint64_t *)to = attributes->base;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(uint64_t *)to = attributes->size;
		break;
	default:
		break;
	}
}

#endif
