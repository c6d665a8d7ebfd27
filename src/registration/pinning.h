/* SPDX-License-Identifier: BSD-3-Clause */
/* pinning.h -- the choice of a registration method for each pair of GPU and adapter */
#ifndef PEERPIN_REGISTRATION_PINNING_H
#define PEERPIN_REGISTRATION_PINNING_H

#include "registration/methods.h"

/* Registers by the method of the pair, else by the others in the table's order. `result->method`
 * registered, and deregisters. Returns 0 or -errno, with result->failure. Without any lock. */
int pinning_pin(const struct pin_request *request, struct pin_result *result);

/* Does the part of a registration that needs no adapter: may set request->source, which the caller
 * closes. Logs nothing. Without any lock. */
void pinning_prepare(struct pin_request *request);

/* The device has been closed. Forgets its pairs: another device may reuse the address. */
void pinning_device_closed(const struct ibv_context *context);

#endif
