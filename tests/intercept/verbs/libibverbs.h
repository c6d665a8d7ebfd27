/* SPDX-License-Identifier: BSD-3-Clause */
/* libibverbs.h -- what the stand-in has beside the real one's names */
#ifndef PEERPIN_TESTS_LIBIBVERBS_H
#define PEERPIN_TESTS_LIBIBVERBS_H

#include "registration/verbs_abi.h"

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context);
unsigned int standin_kernel_regions(void);

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
				 int access);
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attributes);
struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle);

/* Called inside the next registration in the kernel; NULL: nothing. */
extern void (*standin_in_register)(void);

/* The same for a deregistration. */
extern void (*standin_in_deregister)(void);

#endif
