/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_calls.h -- libibverbs' and libmlx5's functions, loaded in a child; calls are announced
 * (child.h)
 *
 * Exported functions only: no function of the context's tables is needed here.
 */
#ifndef PEERPIN_TOOLS_DOCTOR_VERBS_CALLS_H
#define PEERPIN_TOOLS_DOCTOR_VERBS_CALLS_H

#include <stdbool.h>

#include "registration/verbs_abi.h"
#include "tools/doctor/child.h"

/* First members of struct ibv_port_attr; the exported ibv_query_port always fills these. */
struct verbs_port {
	int state;
	int max_mtu, active_mtu;
	int gid_table_length;
	uint32_t capabilities, max_message, counters[2];
	uint16_t pkey_table_length, lid, sm_lid;
	uint8_t lmc, max_vl, sm_sl, timeout, init, active_width, active_speed, physical_state,
		link_layer;
	uint8_t more[64];
};

/* The last six are for transfers (rc_abi.h). */
#define IBVERBS_CALLS(CALL)                                                                        \
	CALL(struct ibv_device **, ibv_get_device_list, (int *count))                              \
	CALL(void, ibv_free_device_list, (struct ibv_device * *list))                              \
	CALL(const char *, ibv_get_device_name, (struct ibv_device * device))                      \
	CALL(struct ibv_context *, ibv_open_device, (struct ibv_device * device))                  \
	CALL(int, ibv_close_device, (struct ibv_context * context))                                \
	CALL(int, ibv_query_device,                                                                \
	     (struct ibv_context * context, struct ibv_device_attr * attributes))                  \
	CALL(int, ibv_query_port,                                                                  \
	     (struct ibv_context * context, uint8_t port, struct verbs_port * attributes))         \
	CALL(struct ibv_pd *, ibv_alloc_pd, (struct ibv_context * context))                        \
	CALL(int, ibv_dealloc_pd, (struct ibv_pd * pd))                                            \
	CALL(struct ibv_mr *, ibv_reg_mr,                                                          \
	     (struct ibv_pd * pd, void *address, size_t length, int access))                       \
	CALL(struct ibv_mr *, ibv_reg_mr_iova2,                                                    \
	     (struct ibv_pd * pd, void *address, size_t length, uint64_t iova,                     \
	      unsigned int access))                                                                \
	CALL(struct ibv_mr *, ibv_reg_dmabuf_mr,                                                   \
	     (struct ibv_pd * pd, uint64_t offset, size_t length, uint64_t iova, int fd,           \
	      int access))                                                                         \
	CALL(int, ibv_dereg_mr, (struct ibv_mr * mr))                                              \
	CALL(int, ibv_is_fork_initialized, (void))                                                 \
	CALL(int, ibv_query_gid,                                                                   \
	     (struct ibv_context * context, uint8_t port, int index, void *gid))                   \
	CALL(void *, ibv_create_cq,                                                                \
	     (struct ibv_context * context, int entries, void *user, void *channel, int vector))   \
	CALL(int, ibv_destroy_cq, (void *cq))                                                      \
	CALL(void *, ibv_create_qp, (struct ibv_pd * pd, void *init))                              \
	CALL(int, ibv_modify_qp, (void *pair, void *attributes, int mask))                         \
	CALL(int, ibv_destroy_qp, (void *pair))

/* All NULL without libmlx5. */
#define MLX5_CALLS(CALL)                                                                           \
	CALL(bool, mlx5dv_is_supported, (struct ibv_device * device))                              \
	CALL(int, mlx5dv_get_data_direct_sysfs_path,                                               \
	     (struct ibv_context * context, char *path, size_t size))                              \
	CALL(struct ibv_mr *, mlx5dv_reg_dmabuf_mr,                                                \
	     (struct ibv_pd * pd, uint64_t offset, size_t length, uint64_t iova, int fd,           \
	      int access, int mlx5_access))

struct verbs_calls {
#define CALL(type, name, parameters) type(*name) parameters;
	IBVERBS_CALLS(CALL)
	MLX5_CALLS(CALL)
#undef CALL
};

#define MLX5DV_ACCESS_DATA_DIRECT 1

/* Access flags of MPI and NCCL. */
#define PROBE_ACCESS                                                                               \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

extern struct verbs_calls verbs;

/* Announces the call and makes it. Requires verbs.CALL != NULL. */
#define VERBS(call, ...) (child_does("%s", #call), verbs.call(__VA_ARGS__))

/* Loads libibverbs.so.1, and libmlx5.so.1 if present. Returns NULL, or the error text. */
const char *verbs_load(void);

/* Path of libibverbs.so.1. */
const char *verbs_file(void);

/* Symbol version of a function: "IBVERBS_1.12". "?": unknown version; NULL: the library lacks
 * the function. */
const char *verbs_symbol_version(const char *symbol);

/* Adapter with this name, or NULL. The device list is never freed, so the pointer stays valid. */
struct ibv_device *verbs_find(const char *name);

#endif
