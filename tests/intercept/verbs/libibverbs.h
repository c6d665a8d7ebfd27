/* SPDX-License-Identifier: BSD-3-Clause */
/* libibverbs.h -- what the stand-in has beside the real one's names */
#ifndef PEERPIN_TESTS_LIBIBVERBS_H
#define PEERPIN_TESTS_LIBIBVERBS_H

#include <stdbool.h>

#include "registration/verbs_abi.h"

/* ---- public functions of libibverbs ---- */

struct ibv_mw;

struct ibv_device;

struct ibv_context *standin_open_device(void);
struct ibv_device **ibv_get_device_list(int *count); /* one, which is opened as above */
void ibv_free_device_list(struct ibv_device **list);
struct ibv_context *ibv_open_device(struct ibv_device *device);
int ibv_close_device(struct ibv_context *context);
struct ibv_pd *ibv_alloc_pd(struct ibv_context *context);
int ibv_dealloc_pd(struct ibv_pd *pd);
struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access);
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attributes);
int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		 int access);
struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle);
void ibv_unimport_mr(struct ibv_mr *mr);
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

/* Inline in verbs.h, by a table of the provider's. */
struct ibv_mr *standin_alloc_null_mr(struct ibv_pd *pd);
int standin_bind_mw(struct ibv_mr *mr);

/* libmlx5's, in a library of its own; the last one is DATA_DIRECT. */
struct ibv_mr *mlx5dv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
				    uint64_t iova, int fd, int access, int mlx5_access);

/* ---- the kernel ---- */

struct standin_region {
	uint32_t key; /* 0: none */
	struct ibv_context *context;
	uint32_t domain;
	uint64_t address, length, iova;
	int access;
};

struct standin_counts {
	unsigned int asked;	  /* registrations that came to the kernel */
	unsigned int changed;	  /* changes of one */
	unsigned int unknown;	  /* deregistrations of none */
	unsigned int left_behind; /* by the closing of their device */
	int dontfork;		  /* ranges kept from children at this moment */
};

extern struct standin_counts standin_counts;

unsigned int standin_kernel_regions(void);
uint32_t standin_last_key(void); /* keys only grow */
const struct standin_region *standin_find(uint32_t key);

extern unsigned int standin_capacity; /* regions that there is room for */
extern bool standin_takes_dma_bufs;   /* what it says to who tries without a descriptor */
extern int standin_fails_with;	      /* of all registrations; 0: none */

/* Called inside each registration in the kernel; NULL: nothing. */
extern void (*standin_in_register)(void);

/* The same for a deregistration. */
extern void (*standin_in_deregister)(void);

/* What the provider has in the place of a dma-buf registration's last parameter, and what came of
 * it. In a library of before rdma-core 54 it is rubbish. */
extern struct ibv_command_buffer *standin_attributes, *standin_attributes_seen;

/* How far a context of this library's reaches before its public part. */
#ifndef STANDIN_FRONT
#define STANDIN_FRONT VERBS_CONTEXT_OFFSET
#endif

#endif
