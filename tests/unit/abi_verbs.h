/* SPDX-License-Identifier: BSD-3-Clause */
/* abi_verbs.h -- facts of the headers as numbers with names
 *
 * verbs.h and our headers declare the same names: each is read in a file of its own.
 */
#ifndef PEERPIN_TESTS_ABI_VERBS_H
#define PEERPIN_TESTS_ABI_VERBS_H

#include <stddef.h>

struct abi_fact {
	const char *name;
	size_t value;
};

/* Each ends with a null name. All sides list the same facts: those of verbs_abi.h, and of the
 * simulated adapter's header, with further fields that clients read. */
extern const struct abi_fact abi_verbs_ours[], abi_adapter_ours[];

#define ABI_OFFSET(type, field)                                                                    \
	{ #type "." #field, offsetof(type, field) },                                               \
	{                                                                                          \
		"sizeof " #type "." #field, sizeof(((type *)0)->field)                             \
	}
#define ABI_VALUE(name)                                                                            \
	{                                                                                          \
#name, (size_t)(name)                                                              \
	}

#define ABI_SIZE(type)                                                                             \
	{                                                                                          \
		"sizeof " #type, sizeof(type)                                                      \
	}

#define ABI_VERBS_FACTS                                                                            \
	ABI_OFFSET(struct ibv_pd, context), ABI_OFFSET(struct ibv_pd, handle),                     \
		{ "sizeof struct ibv_pd", sizeof(struct ibv_pd) },                                 \
		ABI_OFFSET(struct ibv_mr, context), ABI_OFFSET(struct ibv_mr, pd),                 \
		ABI_OFFSET(struct ibv_mr, addr), ABI_OFFSET(struct ibv_mr, length),                \
		ABI_OFFSET(struct ibv_mr, handle), ABI_OFFSET(struct ibv_mr, lkey),                \
		ABI_OFFSET(struct ibv_mr, rkey),                                                   \
		{ "sizeof struct ibv_mr", sizeof(struct ibv_mr) },                                 \
		ABI_VALUE(IBV_ACCESS_LOCAL_WRITE), ABI_VALUE(IBV_ACCESS_REMOTE_WRITE),             \
		ABI_VALUE(IBV_ACCESS_REMOTE_READ), ABI_VALUE(IBV_ACCESS_REMOTE_ATOMIC),            \
		ABI_VALUE(IBV_ACCESS_MW_BIND), ABI_VALUE(IBV_ACCESS_ZERO_BASED),                   \
		ABI_VALUE(IBV_ACCESS_ON_DEMAND), ABI_VALUE(IBV_ACCESS_HUGETLB),                    \
		ABI_VALUE(IBV_ACCESS_RELAXED_ORDERING), ABI_OFFSET(struct ibv_context, device),    \
		ABI_OFFSET(struct ibv_device, transport_type), ABI_VALUE(IBV_TRANSPORT_IB),        \
		ABI_OFFSET(struct ibv_device_attr, max_mr),                                        \
		{ "sizeof struct ibv_device_attr", sizeof(struct ibv_device_attr) },               \
		{ "context in verbs_context", ABI_CONTEXT_OFFSET },                                \
		{ "sizeof struct ibv_context", ABI_CONTEXT_SIZE },                                 \
		ABI_VALUE(IBV_REREG_MR_CHANGE_TRANSLATION), ABI_VALUE(IBV_REREG_MR_CHANGE_PD),     \
		ABI_VALUE(IBV_REREG_MR_CHANGE_ACCESS), ABI_VALUE(IBV_REREG_MR_FLAGS_SUPPORTED),    \
		{ "sizeof kernel request", ABI_REQUEST_SIZE },                                     \
		{ "sizeof kernel answer", ABI_ANSWER_SIZE },                                       \
	{                                                                                          \
		NULL, 0                                                                            \
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
