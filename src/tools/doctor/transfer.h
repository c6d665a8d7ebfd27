/* SPDX-License-Identifier: BSD-3-Clause */
/* transfer.h -- moves data into registered GPU memory and back, and compares it */
#ifndef PEERPIN_TOOLS_DOCTOR_TRANSFER_H
#define PEERPIN_TOOLS_DOCTOR_TRANSFER_H

#include "tools/doctor/cuda_calls.h"
#include "tools/doctor/verbs_calls.h"

/* Child only. Runs RDMA writes and reads of `length` bytes at `address`, registered as `mr`,
 * over a loopback connection of the adapter. The driver copies these bytes to and from the host
 * as well.
 *
 * Returns NULL if every byte matches, else the error. *tried == false: no transfer was possible,
 * and the error is the reason.
 */
const char *transfer_check(struct ibv_pd *pd, const struct ibv_mr *mr, CUdeviceptr address,
			   size_t length, bool *tried);

#endif
