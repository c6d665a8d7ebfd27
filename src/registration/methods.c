/* SPDX-License-Identifier: BSD-3-Clause */
/* methods.c -- the table of registration methods; tests link their own */
#include "registration/pinning.h"

#include "report/statistics.h"

const struct registration_method registration_methods[] = {
#define METHOD(id, text, of, end)                                                                  \
	{ .name = (text),                                                                          \
	  .pin = id##_pin,                                                                         \
	  .unpin = (end),                                                                          \
	  .probe = id##_probe,                                                                     \
	  .accepts = id##_accepts,                                                                 \
	  .registrations = &statistics_segment.counters.registrations_##id,                        \
	  .call = ERRORS_##of },
#include "report/methods.def"
#undef METHOD
	{ .name = NULL },
};
