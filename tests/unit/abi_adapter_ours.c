/* SPDX-License-Identifier: BSD-3-Clause */
/* abi_adapter_ours.c -- the facts from the simulated adapter's header */
#include "sim/adapter_verbs.h"

#include "abi_verbs.h"

#define ABI_CONTEXT_OFFSET offsetof(struct verbs_context, context)
#define ABI_CONTEXT_SIZE   sizeof(struct ibv_context)
#define ABI_REQUEST_SIZE   sizeof(struct ibv_reg_mr)
#define ABI_ANSWER_SIZE	   sizeof(struct ib_uverbs_reg_mr_resp)

const struct abi_fact abi_adapter_ours[] = { ABI_ADAPTER_FACTS };
