/* SPDX-License-Identifier: BSD-3-Clause */
/* transfer.h -- moves data into registered GPU memory and back, and compares it */
#ifndef PEERPIN_TOOLS_DOCTOR_TRANSFER_H
#define PEERPIN_TOOLS_DOCTOR_TRANSFER_H

#include "tools/doctor/cuda_calls.h"
#include "tools/doctor/verbs_calls.h"

/* In a child. Over a connection of the adapter with itself, RDMA writes and reads of `length` bytes at `address`, which `mr` is a
 * registration of, and which the driver copies to and from the host as well. NULL: every byte came as it was
 * sent; else words for what did not, or with *tried false, why it could not be tried. */
const char *transfer_check(struct ibv_pd *pd, const struct ibv_mr *mr, CUdeviceptr address, size_t length,
			   bool *tried);

#endif
