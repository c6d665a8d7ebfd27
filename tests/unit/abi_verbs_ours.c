/* SPDX-License-Identifier: BSD-3-Clause */
/* abi_verbs_ours.c -- the facts from verbs_abi.h */
#include "registration/verbs_abi.h"

#include "abi_verbs.h"

#define ABI_CONTEXT_OFFSET VERBS_CONTEXT_OFFSET
#define ABI_CONTEXT_SIZE   IBV_CONTEXT_SIZE
#define ABI_REQUEST_SIZE   sizeof(struct ibv_reg_mr)
#define ABI_ANSWER_SIZE	   sizeof(struct ib_uverbs_reg_mr_resp)

const struct abi_fact abi_verbs_ours[] = { ABI_VERBS_FACTS };
