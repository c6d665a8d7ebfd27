/* SPDX-License-Identifier: BSD-3-Clause */
/* facts.h -- functions of facts.def, in facts.c and facts_*.c
 *
 * A text is NULL where the value is not there.
 */
#ifndef PEERPIN_DOCTOR_FACTS_H
#define PEERPIN_DOCTOR_FACTS_H

#include "tools/doctor/rules.h"

#define NUMBER(number) text_of("%lld", (long long)(number))

/* 0: the value is no number. */
int64_t facts_number(const struct subject *subject, const char *name);
/* NULL for 0. */
const char *facts_count(int64_t number);
/* "1" if both values are there, and differ. */
const char *facts_differ(const struct subject *subject, const char *name, const char *other);
/* "128 GiB" */
const char *facts_size(int64_t bytes);
/* Seconds: option/limit, or HOST_LIMIT. */
int64_t facts_time_limit(struct host *host);

const char *facts_driver(const struct subject *subject);
const char *facts_flavour(const struct subject *subject);
const char *facts_cuda(const struct subject *subject);
const char *facts_loaded_at_boot(const struct subject *subject);

/* Size of BAR1 in use, if it is above this part of the whole. */
const char *facts_bar1_used(struct host *host, const struct gpu *gpu, int eighths);
const char *facts_unexported(const struct subject *subject);
const char *facts_incapable(const struct subject *subject);

const char *facts_hardware(const struct subject *subject);
unsigned int facts_rdma_inactive(struct host *host);
const char *facts_slow_link(const struct subject *subject);
const char *facts_uverbs_open(const struct subject *subject);
const char *facts_opened_adapter(const struct subject *subject);

bool facts_limits_has_capability(struct host *host, int capability);
int64_t facts_limits_reach(struct host *host, const char *name, int64_t wanted);
int facts_limits_host_error(struct host *host);
int64_t facts_limits_job_mib(const struct subject *subject);
int64_t facts_limits_free_mib(const struct subject *subject);
const char *facts_memlock_size(const struct subject *subject);
const char *facts_memlock_reach(const struct subject *subject);
const char *facts_largest_memory(const struct subject *subject);

/* Bridges between each GPU and its adapter, as lists of words. */
struct bridges {
	bool known; /* a path */
	bool seen;
	char *redirecting;
	char *hidden; /* their capabilities cannot be read */
};
struct bridges facts_path_bridges_of(struct host *host);
const char *facts_path_shorten(const char *list);
const char *facts_path_first(const char *list);
/* True if a GPU is, or is not, far from its closest adapter. */
bool facts_path_has(struct host *host, bool far);
const char *facts_passthrough(const struct subject *subject);

const char *facts_probe_tried(const struct subject *subject);
/* GPU memory that the probe did not get back. */
int64_t facts_probe_lost_bytes(const struct subject *subject);

#endif
