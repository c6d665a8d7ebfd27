/* SPDX-License-Identifier: BSD-3-Clause */
/* observed_verbs.h -- the verbs entry points while calls are only observed
 *
 * Each has the parameters and the result of the entry point of its name, which calls it first where
 * process_observes() is true. Any thread; no lock is held across the real call.
 */
#ifndef PEERPIN_INTERCEPT_OBSERVED_VERBS_H
#define PEERPIN_INTERCEPT_OBSERVED_VERBS_H

#include "registration/verbs_abi.h"

int observed_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t hca_va, int access,
		    struct verbs_mr *vmr, struct ibv_reg_mr *cmd, size_t cmd_size,
		    struct ib_uverbs_reg_mr_resp *resp, size_t resp_size);
int observed_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
			   int access, struct verbs_mr *vmr, struct ibv_command_buffer *driver);
int observed_reg_mr_ex(struct ibv_pd *pd, struct verbs_mr *vmr,
		       struct ibv_mr_init_attr *attributes);
int observed_rereg_mr(struct verbs_mr *vmr, uint32_t flags, void *addr, size_t length,
		      uint64_t hca_va, int access, struct ibv_pd *pd, struct ibv_rereg_mr *cmd,
		      size_t cmd_size, struct ib_uverbs_rereg_mr_resp *resp, size_t resp_size);
int observed_dereg_mr(struct verbs_mr *vmr);
int observed_alloc_pd(struct ibv_context *context, struct ibv_pd *pd, struct ibv_alloc_pd *cmd,
		      size_t cmd_size, struct ib_uverbs_alloc_pd_resp *resp, size_t resp_size);

/* Call before the device is closed. */
void observed_device_closing(const struct verbs_context *context);

#endif
