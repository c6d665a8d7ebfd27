/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_abi.h -- declarations of the part of libibverbs' ABI that the library uses
 *
 * The public part (struct ibv_pd, struct ibv_mr, ibv_reg_mr, ...) is fixed since IBVERBS_1.1; a
 * test compares it with verbs.h if installed. The private part (struct verbs_mr, ibv_cmd_*,
 * verbs_uninit_context) is for libibverbs' providers; no installed header declares it.
 *
 * The used fields are identical in rdma-core 35 to 65. intercept/verbs_check.c checks the loaded
 * library, and every registration checks the layout again.
 *
 * Do not include verbs.h beside this header: it makes ibv_reg_mr a macro.
 */
#ifndef PEERPIN_REGISTRATION_VERBS_ABI_H
#define PEERPIN_REGISTRATION_VERBS_ABI_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* Public, IBVERBS_1.1. */
struct ibv_device {
	void *ops[2];
	int node_type, transport_type; /* more fields follow: never create or copy one */
};

struct ibv_context {
	struct ibv_device *device; /* more fields follow: never create or copy one */
};

#define IBV_TRANSPORT_IB 0 /* RoCE included */

struct ibv_pd {
	struct ibv_context *context;
	uint32_t handle;
};

struct ibv_mr {
	struct ibv_context *context;
	struct ibv_pd *pd;
	void *addr;
	size_t length;
	uint32_t handle;
	uint32_t lkey;
	uint32_t rkey;
};

enum ibv_access_flags {
	IBV_ACCESS_LOCAL_WRITE = 1,
	IBV_ACCESS_REMOTE_WRITE = 1 << 1,
	IBV_ACCESS_REMOTE_READ = 1 << 2,
	IBV_ACCESS_REMOTE_ATOMIC = 1 << 3,
	IBV_ACCESS_MW_BIND = 1 << 4,
	IBV_ACCESS_ZERO_BASED = 1 << 5,
	IBV_ACCESS_ON_DEMAND = 1 << 6,
	IBV_ACCESS_HUGETLB = 1 << 7,
	IBV_ACCESS_RELAXED_ORDERING = 1 << 20,
};

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context);
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access);
struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access);
int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		 int access);
int ibv_dereg_mr(struct ibv_mr *mr);

struct ibv_device_attr {
	char fw_ver[64];
	uint64_t guids[2], sizes[2];
	uint32_t vendor[3];
	int queues[7];
	int max_mr;
	int others[22];
};

const char *ibv_get_device_name(struct ibv_device *device);
int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attributes);

/* Public, IBVERBS_1.12. */
struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access);

/* Bytes from struct verbs_context to its last member, struct ibv_context, in rdma-core 50 and 56.
 * The struct grows at its front (61: 344, 65: 368). */
#define VERBS_CONTEXT_OFFSET 320
#define IBV_CONTEXT_SIZE     (288 + sizeof(pthread_mutex_t))
/* The last member of the next struct verbs_context in memory begins behind these bytes. */
#define VERBS_CONTEXT_END (VERBS_CONTEXT_OFFSET + IBV_CONTEXT_SIZE)

/* Private. */
enum ibv_mr_type {
	IBV_MR_TYPE_MR,
	IBV_MR_TYPE_NULL_MR,
	IBV_MR_TYPE_IMPORTED_MR,
	IBV_MR_TYPE_DMABUF_MR,
};

enum ibv_rereg_mr_flags {
	IBV_REREG_MR_CHANGE_TRANSLATION = 1 << 0,
	IBV_REREG_MR_CHANGE_PD = 1 << 1,
	IBV_REREG_MR_CHANGE_ACCESS = 1 << 2,
	IBV_REREG_MR_FLAGS_SUPPORTED = (1 << 3) - 1,
};

struct verbs_mr {
	struct ibv_mr ibv_mr;
	enum ibv_mr_type mr_type;
	int access;
};

/* The kernel's request and response as the provider passes them, each possibly followed by the
 * provider's own part. The sizes show that (rdma/ib_user_verbs.h: 48 and 12 bytes). */
struct ibv_reg_mr {
	uint32_t header[2];
	uint64_t response;
	uint64_t start;
	uint64_t length;
	uint64_t hca_va;
	uint32_t pd_handle;
	uint32_t access_flags;
};

struct ib_uverbs_reg_mr_resp {
	uint32_t mr_handle;
	uint32_t lkey;
	uint32_t rkey;
};

struct ib_uverbs_rereg_mr_resp {
	uint32_t lkey;
	uint32_t rkey;
};

struct ibv_alloc_pd;		/* forwarded unchanged */
struct ib_uverbs_alloc_pd_resp; /* forwarded unchanged */
struct ibv_rereg_mr;		/* forwarded unchanged */
struct ibv_command_buffer;	/* forwarded unchanged */
struct mlx5dv_devx_umem;	/* forwarded unchanged */
struct verbs_context;		/* its struct ibv_context is within VERBS_CONTEXT_END bytes */

/* Arguments of ibv_reg_mr_ex, since rdma-core 59. Version 65 appends one mask bit and one field,
 * which libibverbs resolves before calling a provider. */
enum ibv_mr_init_attr_mask {
	IBV_REG_MR_MASK_IOVA = 1 << 0,
	IBV_REG_MR_MASK_ADDR = 1 << 1,
	IBV_REG_MR_MASK_FD = 1 << 2,
	IBV_REG_MR_MASK_FD_OFFSET = 1 << 3,
	IBV_REG_MR_MASK_DMAH = 1 << 4,
};

struct ibv_mr_init_attr {
	size_t length;
	int access;
	uint64_t comp_mask;
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah;
};

struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attributes);

/* Public, libmlx5 since MLX5_1.7 and MLX5_1.19. */
enum mlx5dv_devx_umem_in_mask { MLX5DV_UMEM_MASK_DMABUF = 1 << 0 };

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

int ibv_cmd_alloc_pd(struct ibv_context *context, struct ibv_pd *pd, struct ibv_alloc_pd *cmd,
		     size_t cmd_size, struct ib_uverbs_alloc_pd_resp *resp, size_t resp_size);
int ibv_cmd_dealloc_pd(struct ibv_pd *pd);
int ibv_cmd_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t hca_va, int access,
		   struct verbs_mr *vmr, struct ibv_reg_mr *cmd, size_t cmd_size,
		   struct ib_uverbs_reg_mr_resp *resp, size_t resp_size);
int ibv_cmd_rereg_mr(struct verbs_mr *vmr, uint32_t flags, void *addr, size_t length,
		     uint64_t hca_va, int access, struct ibv_pd *pd, struct ibv_rereg_mr *cmd,
		     size_t cmd_size, struct ib_uverbs_rereg_mr_resp *resp, size_t resp_size);
int ibv_cmd_dereg_mr(struct verbs_mr *vmr);
int ibv_cmd_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
			  int access, struct verbs_mr *vmr, struct ibv_command_buffer *driver);
int ibv_cmd_reg_mr_ex(struct ibv_pd *pd, struct verbs_mr *vmr, struct ibv_mr_init_attr *attributes);
int ibv_cmd_query_mr(struct ibv_pd *pd, struct verbs_mr *vmr, uint32_t handle);
void verbs_uninit_context(struct verbs_context *context);

#endif
