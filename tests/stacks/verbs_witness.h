/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_witness.h -- counts of verbs_witness.c, and their file */
#ifndef PEERPIN_TESTS_STACKS_VERBS_WITNESS_H
#define PEERPIN_TESTS_STACKS_VERBS_WITNESS_H

#include <stddef.h>
#include <stdint.h>

/* struct ibv_mr_init_attr of rdma-core 59 and later. */
struct extended {
	size_t length;
	int access;
	uint64_t mask, iova; /* IBV_REG_MR_MASK_* */
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah;
};

struct witness_counts {
	unsigned long alloc_pd, dealloc_pd, registered, deregistered, reregistered, failed;
	unsigned long gpu_by_program, gpu_by_worker, host; /* of those registered */
	unsigned long send_path, send_path_gpu;
	unsigned long send_path_ns;
	unsigned long asked, asked_gpu, asked_gpu_beside_libfabric, posted;
	unsigned long first_send_ns, first_send_gpu_ns;
};

extern struct witness_counts counts; /* changed atomically, in verbs_witness.c alone */

/* Write the counts, for a process that may be killed; only with VERBS_WITNESS_LIVE. */
void write_live(void);

#endif
