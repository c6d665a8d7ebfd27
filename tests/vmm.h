/* SPDX-License-Identifier: BSD-3-Clause */
/* vmm.h -- properties and access of the first GPU's VMM memory */
#ifndef PEERPIN_TESTS_VMM_H
#define PEERPIN_TESTS_VMM_H

#include "memory/cuda_abi.h"

#define VMM_PROPERTIES                                                                             \
	.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 }

static const CUmemAllocationProp vmm_plain = { VMM_PROPERTIES };
/* Accessible to adapters; vmm_shared to other processes too. */
static const CUmemAllocationProp vmm_rdma = { VMM_PROPERTIES,
					      .allocFlags = { .gpuDirectRDMACapable = 1 } };
static const CUmemAllocationProp vmm_shared = { VMM_PROPERTIES,
						.requestedHandleTypes =
							CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
						.allocFlags = { .gpuDirectRDMACapable = 1 } };
static const CUmemAccessDesc vmm_access = { .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
					    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };

#endif
