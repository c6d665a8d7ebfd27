/* SPDX-License-Identifier: BSD-3-Clause */
/* preload.h -- for test programs that run under the preload: its counters */
#ifndef PEERPIN_TESTS_PRELOAD_H
#define PEERPIN_TESTS_PRELOAD_H

#include <check.h>
#include <dlfcn.h>
#include <sched.h>
#include <stdint.h>

static inline uint64_t statistic(const char *name)
{
	int (*peerpin_statistic)(const char *name, uint64_t *value) =
		(__typeof__(peerpin_statistic))dlsym(RTLD_DEFAULT, "peerpin_statistic");
	uint64_t value;

	ck_assert_msg(peerpin_statistic, "not under the preload");
	ck_assert_int_eq(peerpin_statistic(name, &value), 0);
	return value;
}

static inline void await_statistic(const char *name, uint64_t at_least)
{
	while (statistic(name) < at_least)
		sched_yield();
}

#endif
