/* SPDX-License-Identifier: BSD-3-Clause */
/* transfer.h -- moves data into registered GPU memory and back, and compares it */
#ifndef PEERPIN_TOOLS_DOCTOR_TRANSFER_H
#define PEERPIN_TOOLS_DOCTOR_TRANSFER_H

#include "tools/doctor/cuda_calls.h"
#include "tools/doctor/verbs_calls.h"

/* Memory of a GPU: `length` bytes at `address`, registered as `mr`. */
struct transfer {
	const struct ibv_mr *mr;
	CUdeviceptr address;
	size_t length;
	CUdeviceptr from;  /* source of copies, of the same length */
	unsigned int *old; /* counts the rounds of copies with old data; NULL: no copies */
};

#define TRANSFER_ROUNDS 4

/* Child only. Runs RDMA writes and reads of the memory over a loopback connection of the adapter.
 * The driver copies these bytes to and from the host as well. With `old` the driver instead copies
 * inside the GPU, and the adapter reads the end of the target as soon as the copy has returned.
 *
 * Returns NULL if every byte matches, with `old` if every call succeeds, else the error. *tried ==
 * false: no transfer was possible, and the error is the reason.
 */
const char *transfer_run(struct ibv_pd *pd, const struct transfer *transfer, bool *tried);

#endif
