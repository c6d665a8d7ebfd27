/* SPDX-License-Identifier: BSD-3-Clause */
/* pinning.h -- the two registration methods, and the choice for each pair of GPU and adapter */
#ifndef PEERPIN_REGISTRATION_PINNING_H
#define PEERPIN_REGISTRATION_PINNING_H

#include <errno.h>

#include "registration/registration.h"

/* Default backend: one of the two methods below, chosen per pair of GPU and adapter; the other is
 * the fallback. */
extern const struct registration_backend pinning_backend;

/* By a dma-buf of the range. The registration keeps the memory until deregistered. */
extern const struct registration_backend dma_buf_backend;

/* Error of dma_buf_backend without meaning for GPU and adapter: at this moment no context of the
 * device can export. */
#define DMA_BUF_NO_CONTEXT (-ENXIO)

/* True for an error without meaning for the memory either: a retry may succeed. */
static inline bool pinning_is_of_the_moment(int error)
{
	return error == DMA_BUF_NO_CONTEXT || error == -EAGAIN || error == -EINTR;
}

/* The device has been closed. Forgets its pairs: another device may reuse the address. */
void pinning_device_closed(const struct ibv_context *context);

/* Deregisters a registration of either method. Returns 0 or -errno. */
int pinning_unpin(struct ibv_mr *mr);

#endif
