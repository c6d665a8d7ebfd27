/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_witness.h -- what verbs_witness.c and its client share */
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

#define PHASES 2048

/* Its level starts a phase. */
int MPI_Pcontrol(const int level, ...);

#endif
