/* SPDX-License-Identifier: BSD-3-Clause */
/* abi_adapter.h -- abi_verbs.h for the simulated adapter: further fields that clients read */
#ifndef PEERPIN_TESTS_ABI_ADAPTER_H
#define PEERPIN_TESTS_ABI_ADAPTER_H

#include "abi_verbs.h"

extern const struct abi_fact abi_adapter_ours[];

#define ABI_SIZE(type)                                                                             \
	{                                                                                          \
		"sizeof " #type, sizeof(type)                                                      \
	}

#define ABI_ADAPTER_FACTS                                                                          \
	ABI_OFFSET(struct ibv_device, name), ABI_OFFSET(struct ibv_device, dev_name),              \
		ABI_OFFSET(struct ibv_device, dev_path),                                           \
		ABI_OFFSET(struct ibv_device, ibdev_path), ABI_SIZE(struct ibv_device),            \
		ABI_OFFSET(struct ibv_context, device), ABI_OFFSET(struct ibv_context, cmd_fd),    \
		ABI_OFFSET(struct ibv_context, async_fd),                                          \
		ABI_OFFSET(struct ibv_context, num_comp_vectors),                                  \
		ABI_OFFSET(struct ibv_context, abi_compat), ABI_SIZE(struct ibv_context),          \
		ABI_OFFSET(struct ibv_device_attr, max_mr_size),                                   \
		ABI_OFFSET(struct ibv_device_attr, page_size_cap),                                 \
		ABI_OFFSET(struct ibv_device_attr, max_mr),                                        \
		ABI_OFFSET(struct ibv_device_attr, max_pd),                                        \
		ABI_OFFSET(struct ibv_device_attr, phys_port_cnt),                                 \
		ABI_SIZE(struct ibv_device_attr), ABI_VALUE(IBV_REREG_MR_CHANGE_TRANSLATION),      \
		ABI_VALUE(IBV_REREG_MR_CHANGE_PD), ABI_VALUE(IBV_REREG_MR_CHANGE_ACCESS),          \
		ABI_VALUE(IBV_REREG_MR_ERR_INPUT), ABI_VALUE(IBV_REREG_MR_ERR_CMD),                \
		ABI_VALUE(IBV_FORK_ENABLED), ABI_VERBS_FACTS

#endif
