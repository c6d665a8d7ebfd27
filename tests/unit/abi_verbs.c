/* SPDX-License-Identifier: BSD-3-Clause */
/* abi_verbs.c -- the public halves of verbs_abi.h and of the simulated adapter's header against the
 * installed verbs.h */
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>

#include <stdio.h>

#include "abi_verbs.h"

/* Later releases have further members in front of query_port. */
#define ABI_CONTEXT_OFFSET                                                                         \
	(offsetof(struct verbs_context, context) - offsetof(struct verbs_context, query_port))
#define ABI_CONTEXT_SIZE sizeof(struct ibv_context)
/* A request has two words before the fields of the kernel's header. */
#define ABI_REQUEST_SIZE (2 * sizeof(__u32) + sizeof(struct ib_uverbs_reg_mr))
#define ABI_ANSWER_SIZE	 sizeof(struct ib_uverbs_reg_mr_resp)

static const struct abi_fact theirs[] = { ABI_VERBS_FACTS };
static const struct abi_fact theirs_of_adapter[] = { ABI_ADAPTER_FACTS };

#undef ibv_reg_mr
_Static_assert(__builtin_types_compatible_p(__typeof__(ibv_reg_mr),
					    struct ibv_mr *(struct ibv_pd *, void *, size_t, int)),
	       "ibv_reg_mr");
_Static_assert(__builtin_types_compatible_p(__typeof__(ibv_reg_mr_iova2),
					    struct ibv_mr *(struct ibv_pd *, void *, size_t,
							    uint64_t, unsigned int)),
	       "ibv_reg_mr_iova2");
_Static_assert(__builtin_types_compatible_p(__typeof__(ibv_dereg_mr), int(struct ibv_mr *)),
	       "ibv_dereg_mr");
_Static_assert(__builtin_types_compatible_p(__typeof__(ibv_reg_dmabuf_mr),
					    struct ibv_mr *(struct ibv_pd *, uint64_t, size_t,
							    uint64_t, int, int)),
	       "ibv_reg_dmabuf_mr");
_Static_assert(__builtin_types_compatible_p(__typeof__(ibv_get_device_name),
					    const char *(struct ibv_device *)),
	       "ibv_get_device_name");
_Static_assert(__builtin_types_compatible_p(__typeof__(ibv_query_device),
					    int(struct ibv_context *, struct ibv_device_attr *)),
	       "ibv_query_device");

static int passed, failed;

static void compare(const struct abi_fact *ours, const struct abi_fact *theirs, const char *header)
{
	for (; theirs->name; ours++, theirs++) {
		if (ours->value == theirs->value) {
			passed++;
			continue;
		}
		printf("%s: %zu in %s, %zu in verbs.h\n", theirs->name, ours->value, header,
		       theirs->value);
		failed++;
	}
}

int main(void)
{
	compare(abi_verbs_ours, theirs, "verbs_abi.h");
	compare(abi_adapter_ours, theirs_of_adapter, "adapter_verbs.h");
	printf("%d passed, %d failed, 0 skipped\n", passed, failed);
	return failed != 0;
}
