/* SPDX-License-Identifier: BSD-3-Clause */
/* capability.h -- capability probe: GPUDirect RDMA support of a GPU, an adapter and the kernel
 *
 * A negative dma-buf result is final. A peer memory result is only for reports: software adapters
 * work without the kernel module. Any thread, without any lock of the library held.
 */
#ifndef PEERPIN_REGISTRATION_CAPABILITY_H
#define PEERPIN_REGISTRATION_CAPABILITY_H

#include "registration/registration.h"

enum dma_buf_answer {
	DMA_BUF_THERE,
	DMA_BUF_NOT_IN_DRIVER,	/* the driver has no such function */
	DMA_BUF_NOT_OF_GPU,	/* DMA_BUF_SUPPORTED is 0 */
	DMA_BUF_NOT_IN_LIBRARY, /* libibverbs has no such function */
	DMA_BUF_NOT_OF_ADAPTER, /* the adapter rejects the call without checking the descriptor */
};

enum peer_answer {
	PEER_NO_MODULE,
	PEER_NOT_OF_GPU, /* GPU_DIRECT_RDMA_SUPPORTED is 0 */
	PEER_THERE,
	PEER_INVALIDATED, /* nvidia-peermem ends registrations when their memory is freed */
	PEER_PERSISTENT,  /* nvidia-peermem keeps registrations (its default) */
};

struct capability {
	enum dma_buf_answer dma_buf;
	enum peer_answer peer;
	bool peer_of_mapped; /* GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED */
};

/* Probes the pair of the request's GPU and adapter. Preserves errno. */
struct capability capability_probe(const struct pin_request *request);

/* True if peer memory should work; `mapped`: for VMM memory. */
bool capability_expects_peer(const struct capability *capability, bool mapped);

const char *capability_dma_buf_text(enum dma_buf_answer answer);
const char *capability_peer_text(enum peer_answer answer);

#endif
