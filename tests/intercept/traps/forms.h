/* SPDX-License-Identifier: BSD-3-Clause */
/* forms.h -- shared by the parts of with_forms: one device, one protection domain, memory to
 * register */
#ifndef PEERPIN_TESTS_FORMS_H
#define PEERPIN_TESTS_FORMS_H

#include <errno.h>

#include "../verbs/libibverbs.h"
#include "memory/cuda_abi.h"
#include "traps.h"

#define SIZE   ((size_t)4 << 20)
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

extern struct ibv_context *device;
extern struct ibv_pd *pd;
extern CUcontext context;

static inline CUdeviceptr allocate(void)
{
	CUdeviceptr address = 0;

	cuMemAlloc_v2(&address, SIZE);
	return address;
}

static inline struct ibv_mr *request(CUdeviceptr address, int access)
{
	return ibv_reg_mr(pd, (void *)address, SIZE, access);
}

/* Descriptor of a dma-buf of [address, address + size). */
static inline int export_range(CUdeviceptr address, size_t size)
{
	int file = -1;

	cuMemGetHandleForAddressRange(&file, address, size, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
	return file;
}

/* The kernel's region of a forwarded request, with exactly the requested range; NULL: none. */
static inline const struct standin_region *own(const struct ibv_mr *mr, uint64_t address,
					       uint64_t length)
{
	const struct standin_region *region = mr ? standin_find(mr->lkey) : NULL;

	return region && region->address == address && region->length == length ? region : NULL;
}

/* forms_kept_apart.c: requests that must not be served, or not by the same region. */
void probes(void);
void other_access_flags(void);
void other_ranges(void);
void other_files(void);
void other_attributes(void);
void other_calls(void);

/* forms_in_time.c: events after a registration. */
void numbers_come_back(void);
void changes(void);
void recursion(void);
void export_and_end(void);
void room_made(void);

#endif
