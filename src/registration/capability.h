/* SPDX-License-Identifier: BSD-3-Clause */
/* capability.h -- what GPU, adapter and kernel say beforehand about registering GPU memory
 *
 * Of dma-buf it is certain where they say no, of peer memory nothing is: adapters that are software need no module for it.
 * So a no to dma-buf is final, and what is said of peer memory is only told. Any thread, no lock of ours held.
 */
#ifndef PEERPIN_REGISTRATION_SURVEY_H
#define PEERPIN_REGISTRATION_SURVEY_H

#include "registration/registration.h"

enum dma_buf_answer {
	DMA_BUF_THERE,
	DMA_BUF_NOT_IN_DRIVER,	/* it has no such function */
	DMA_BUF_NOT_OF_GPU,	/* DMA_BUF_SUPPORTED is 0 */
	DMA_BUF_NOT_IN_LIBRARY, /* libibverbs has no such function */
	DMA_BUF_NOT_OF_ADAPTER, /* it does not even look at the descriptor */
};

enum peer_answer {
	PEER_NO_MODULE,
	PEER_NOT_OF_GPU, /* GPU_DIRECT_RDMA_SUPPORTED is 0 */
	PEER_THERE,
	PEER_INVALIDATED, /* nvidia-peermem ends registrations itself when their memory goes */
	PEER_PERSISTENT,  /* it does not, which is its default */
};

struct capability {
	enum dma_buf_answer dma_buf;
	enum peer_answer peer;
	bool peer_of_mapped; /* GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED */
};

/* Asks for the pair of the request's GPU and adapter. errno stays as it is. */
struct capability capability_probe(const struct pin_request *request);

/* Whether peer memory was meant to work for memory of this kind. */
bool capability_expects_peer(const struct capability *capability, bool mapped);

const char *capability_dma_buf_text(enum dma_buf_answer answer);
const char *capability_peer_text(enum peer_answer answer);

#endif
