/* SPDX-License-Identifier: BSD-3-Clause */
/* pinning.h -- registration methods, and the choice for each pair of GPU and adapter */
#ifndef PEERPIN_REGISTRATION_PINNING_H
#define PEERPIN_REGISTRATION_PINNING_H

#include <errno.h>

#include "registration/registration.h"
#include "report/errors.h"

/* Registers by the method of the pair, else by the others in the table's order. `result->method`
 * registered, and deregisters. Returns 0 or -errno, with result->failure. Without any lock. */
int pinning_pin(const struct pin_request *request, struct pin_result *result);

/* Does the part of a registration that needs no adapter: may set request->source, which the caller
 * closes. Logs nothing. Without any lock. */
void pinning_prepare(struct pin_request *request);

/* The device has been closed. Forgets its pairs: another device may reuse the address. */
void pinning_device_closed(const struct ibv_context *context);

/* ---- methods ---- */

/* Capability probe of a method for the pair of the request's GPU and adapter. */
struct method_support {
	bool possible;	   /* false: never tried */
	bool expected;	   /* should work; false: for reports only, because software adapters may
			      do without */
	bool expected_vmm; /* as `expected`, for VMM memory */
	const char *text;  /* static */
};

/* The preferred method first; a row without a name ends the table. */
#define METHODS_MAX 4
extern const struct registration_method registration_methods[];

/* Exports the range to request->source. Nothing changes if it fails. */
void dma_buf_prepare(struct pin_request *request);

#define METHOD(id, text, of, before, end)                                                          \
	struct method_support id##_probe(const struct pin_request *request);                       \
	bool id##_accepts(const struct pin_request *request);                                      \
	int id##_pin(const struct pin_request *request, struct pin_result *result);
#include "report/methods.def"
#undef METHOD

/* A row of the table, from one of methods.def. */
#define REGISTRATION_METHOD(id, text, of, before, end)                                             \
	{ .name = (text),                                                                          \
	  .pin = id##_pin,                                                                         \
	  .unpin = (end),                                                                          \
	  .probe = id##_probe,                                                                     \
	  .accepts = id##_accepts,                                                                 \
	  .prepare = (before),                                                                     \
	  .registrations = &statistics_segment.counters.registrations_##id,                        \
	  .call = ERRORS_##of },

/* Deregisters by ibv_dereg_mr(), in a call marked as the library's own. Returns 0 or -errno. */
int pinning_unpin(struct ibv_mr *mr);

/* Error without meaning for GPU and adapter: at this moment no context of the device can export. */
#define PINNING_NO_CONTEXT (-ENXIO)

/* True for an error without meaning for the memory either: a retry may succeed. */
static inline bool pinning_is_of_the_moment(int error)
{
	return error == PINNING_NO_CONTEXT || error == -EAGAIN || error == -EINTR;
}

/* ---- the library's own verbs calls ----
 *
 * The provider calls back into libibverbs, and so into the library's wrappers, on the calling
 * thread. Between own_call_begin() and own_call_end() registration_is_own_call() is true, and the
 * wrappers forward every call but deregistrations. The calls nest. */
void own_call_begin(void);
void own_call_end(void);

#endif
