/* SPDX-License-Identifier: BSD-3-Clause */
/* methods.h -- registration methods */
#ifndef PEERPIN_REGISTRATION_METHODS_H
#define PEERPIN_REGISTRATION_METHODS_H

#include "registration/registration.h"
#include "report/errors.h"

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
	  .registrations = &statistics.counters.registrations_##id,                        \
	  .call = ERRORS_##of },

#endif
