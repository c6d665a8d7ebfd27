/* SPDX-License-Identifier: BSD-3-Clause */
/* libibverbs.h -- the simulated adapter's libibverbs on a kernel that only keeps lists (kernel.c)
 *
 * Built with several version nodes. STANDIN_FAULT names a difference from all real releases:
 * moved: a field of a region is not where it was in its struct
 * key: a key is not the kernel's
 * errors: error codes are negative
 * arguments: the arguments of a registration are in another order
 * deregistration: the provider deregisters by another function
 * context, mark: the size, or the mark, of a context is not where it was
 */
#ifndef PEERPIN_TESTS_LIBIBVERBS_H
#define PEERPIN_TESTS_LIBIBVERBS_H

#include <stdbool.h>
#include <stdlib.h>

#include "sim/adapter_verbs.h"
#include "sim/sim_adapter.h"

/* A new context of the first device. */
static inline struct ibv_context *standin_open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = ibv_open_device(list[0]);

	ibv_free_device_list(list);
	return context;
}

/* Inline in verbs.h, through the provider's table. */
struct ibv_mr *standin_alloc_null_mr(struct ibv_pd *pd);
int standin_bind_mw(struct ibv_mr *mr);

/* Of libmlx5. Both return address + 1. */
struct mlx5dv_devx_umem;
struct mlx5dv_devx_umem_in {
	void *addr;
	size_t size;
	uint32_t access;
	uint64_t pgsz_bitmap;
	uint64_t comp_mask;
	int dmabuf_fd;
};
struct mlx5dv_devx_umem *mlx5dv_devx_umem_reg(struct ibv_context *context, void *address,
					      size_t size, uint32_t access);
struct mlx5dv_devx_umem *mlx5dv_devx_umem_reg_ex(struct ibv_context *context,
						 struct mlx5dv_devx_umem_in *in);

/* In a library of its own (libmlx5.c). The last argument is DATA_DIRECT. */
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
	unsigned int requests;	  /* registrations that reached the kernel */
	unsigned int changed;	  /* changes of a registration */
	unsigned int unknown;	  /* deregistrations of unknown regions */
	unsigned int left_behind; /* regions on a closed device */
};

extern struct standin_counts standin_counts;

bool standin_has_fault(const char *name);

/* ibv_cmd_dereg_mr, without its name. */
int standin_dereg_mr(struct verbs_mr *vmr);

unsigned int standin_kernel_regions(void);
const struct standin_region *standin_find(uint32_t key);

extern unsigned int standin_capacity; /* regions at most */
extern bool standin_takes_dma_bufs;   /* error without a descriptor: EBADF, otherwise EOPNOTSUPP */
extern int standin_fails_with;	      /* error of all registrations; 0: none */

/* Called inside each registration and deregistration in the kernel; NULL: nothing. */
extern void (*standin_in_register)(void);
extern void (*standin_in_deregister)(void);

/* Last argument of a dma-buf registration: from the provider, and as received by the kernel. */
extern struct ibv_command_buffer *provider_attributes, *standin_attributes_seen;

#endif
