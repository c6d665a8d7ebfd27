/* SPDX-License-Identifier: BSD-3-Clause */
/* told.h -- pointer attributes that a mock of the driver reports */
#ifndef PEERPIN_TESTS_TOLD_H
#define PEERPIN_TESTS_TOLD_H

#include "memory/cuda_abi.h"

/* Of the first device. */
struct told {
	CUcontext context;
	uint64_t buffer_id, base, size;
	unsigned int memory_type, managed, rdma_capable;
};

/* Other attributes keep the caller's value. */
static inline void tell(const struct told *told, CUpointer_attribute attribute, void *to)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*(CUcontext *)to = told->context;
		break;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*(uint64_t *)to = told->buffer_id;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)to = 0;
		break;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		*(unsigned int *)to = told->rdma_capable;
		break;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned int *)to = told->memory_type;
		break;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*(unsigned int *)to = told->managed;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(uint64_t *)to = told->base;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(uint64_t *)to = told->size;
		break;
	default:
		break;
	}
}

#endif
