/* SPDX-License-Identifier: BSD-3-Clause */
/* abi_adapter.c -- the public half of the simulated adapter's header against the installed verbs.h
 */
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>

#include <stdio.h>

#include "abi_adapter.h"

/* Later releases have further members in front of query_port. */
#define ABI_CONTEXT_OFFSET                                                                         \
	(offsetof(struct verbs_context, context) - offsetof(struct verbs_context, query_port))
#define ABI_CONTEXT_SIZE sizeof(struct ibv_context)
#define ABI_REQUEST_SIZE (2 * sizeof(__u32) + sizeof(struct ib_uverbs_reg_mr))
#define ABI_ANSWER_SIZE	 sizeof(struct ib_uverbs_reg_mr_resp)

static const struct abi_fact theirs[] = { ABI_ADAPTER_FACTS };

int main(void)
{
	int passed = 0, failed = 0;

	for (size_t i = 0; theirs[i].name; i++) {
		if (abi_adapter_ours[i].value == theirs[i].value) {
			passed++;
			continue;
		}
		printf("%s: %zu here, %zu in verbs.h\n", theirs[i].name, abi_adapter_ours[i].value,
		       theirs[i].value);
		failed++;
	}
	printf("%d passed, %d failed, 0 skipped\n", passed, failed);
	return failed != 0;
}
