/* SPDX-License-Identifier: BSD-3-Clause */
/* pinning.h -- the two ways of registering GPU memory, and which of them serves a pair of GPU and adapter */
#ifndef PEERPIN_REGISTRATION_PINNING_H
#define PEERPIN_REGISTRATION_PINNING_H

#include <errno.h>

#include "registration/registration.h"

/* The library's default: one of the two below, found out for each pair of GPU and adapter, with the other one in
 * reserve. */
extern const struct registration_backend pinning_backend;

/* By a dma-buf of the range. What it registers keeps the memory until it is deregistered. */
extern const struct registration_backend dma_buf_backend;

/* An error of dma_buf_backend's that says nothing about GPU and adapter: at this moment there is no context of the
 * device's to export in. */
#define DMA_BUF_NO_CONTEXT (-ENXIO)

/* Whether an error says nothing about the memory either: another try may go well. */
static inline bool pinning_is_of_the_moment(int error)
{
	return error == DMA_BUF_NO_CONTEXT || error == -EAGAIN || error == -EINTR;
}

/* The device has been closed: what is known of it is forgotten, since another one may come to be at its address. */
void pinning_device_closed(const struct ibv_context *context);

/* Ends a registration, whichever way it was made. */
int pinning_unpin(struct ibv_mr *mr);

#endif
