/* SPDX-License-Identifier: BSD-3-Clause */
/* calls.h -- the functions of the CUDA driver, libibverbs and libmlx5, loaded in a child; each call
 * is announced (child.h)
 */
#ifndef PEERPIN_TOOLS_DOCTOR_CALLS_H
#define PEERPIN_TOOLS_DOCTOR_CALLS_H

#include <stdbool.h>

#include "memory/cuda_abi.h"
#include "registration/verbs_abi.h"
#include "tools/doctor/child.h"
#include "tools/doctor/host.h"

/* ---- the CUDA driver ---- */

/* clang-format off */
#define CUDA_CALLS(CALL) \
	CALL(cuInit) CALL(cuDriverGetVersion) CALL(cuGetErrorName) CALL(cuDeviceGetCount) \
	CALL(cuDeviceGetName) CALL(cuDeviceGetAttribute) CALL(cuDeviceTotalMem_v2) \
	CALL(cuDeviceGetDefaultMemPool) CALL(cuDevicePrimaryCtxRetain) \
	CALL(cuDevicePrimaryCtxRelease_v2) CALL(cuCtxSetCurrent) CALL(cuMemGetInfo_v2) \
	CALL(cuMemAlloc_v2) CALL(cuMemFree_v2) CALL(cuMemHostAlloc) CALL(cuMemFreeHost) \
	CALL(cuMemAllocFromPoolAsync) CALL(cuMemFreeAsync) CALL(cuMemPoolTrimTo) \
	CALL(cuStreamSynchronize) CALL(cuMemGetAllocationGranularity) CALL(cuMemAddressReserve) \
	CALL(cuMemAddressFree) CALL(cuMemCreate) CALL(cuMemRelease) CALL(cuMemMap) \
	CALL(cuMemUnmap) CALL(cuMemSetAccess) CALL(cuMemGetHandleForAddressRange) \
	CALL(cuMemcpyHtoD_v2) CALL(cuMemcpyDtoH_v2) CALL(cuMemcpyDtoD_v2) CALL(cuMemsetD8_v2) \
	CALL(cuCtxSynchronize) CALL(cuPointerGetAttribute) CALL(cuPointerSetAttribute)
/* clang-format on */

/* NULL: the loaded driver lacks the function. */
struct cuda_calls {
#define CALL(name) __typeof__(&name) name;
	CUDA_CALLS(CALL)
#undef CALL
};

extern struct cuda_calls cuda;

/* Result of a call to a function that the driver lacks. */
#define CUDA_NO_SUCH_CALL ((CUresult)-1)

/* CUDA(cuInit, 0): announces the call and makes it. */
#define CUDA(call, ...)                                                                            \
	(child_does("%s", cuda_name(#call)), cuda.call ? cuda.call(__VA_ARGS__) : CUDA_NO_SUCH_CALL)

/* True after success. Else *failure is "CALL RESULT". */
bool cuda_made(const char *call, CUresult result, const char **failure);

/* Loads libcuda.so.1. Returns NULL, or the error text. */
const char *cuda_load(void);

/* Path of the loaded libcuda.so.1. */
const char *cuda_file(void);

/* Name without version suffix: "cuMemAlloc" for cuMemAlloc_v2. Not thread-safe; valid until the
 * next call. */
const char *cuda_name(const char *symbol);

/* Name of a result: "CUDA_ERROR_NO_DEVICE". Not thread-safe; valid until the next call. */
const char *cuda_result(CUresult result);

/* ---- libibverbs, libmlx5: exported functions, none of the context's tables ---- */

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
