/* SPDX-License-Identifier: BSD-3-Clause */
/* statistic.h -- for programs under the preload: peerpin's statistics, and an exit on failure */
#ifndef PEERPIN_TESTS_GPU_STATISTIC_H
#define PEERPIN_TESTS_GPU_STATISTIC_H

#include <dlfcn.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BACKGROUND_S 300 /* longer than the worker waits on a busy machine */

#define must(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			printf("not ok %s, line %d: not so: %s\n", __FILE__, __LINE__,             \
			       #condition);                                                        \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#define must_cuda(call)                                                                            \
	do {                                                                                       \
		int result_ = (int)(call);                                                         \
		if (result_) {                                                                     \
			printf("not ok %s, line %d: %s: error %d\n", __FILE__, __LINE__, #call,    \
			       result_);                                                           \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static inline uint64_t statistic(const char *name)
{
	static int (*peerpin_statistic)(const char *name, uint64_t *value);
	uint64_t value;

	if (!peerpin_statistic)
		peerpin_statistic =
			(__typeof__(peerpin_statistic))dlsym(RTLD_DEFAULT, "peerpin_statistic");
	must(peerpin_statistic && !peerpin_statistic(name, &value));
	return value;
}

static inline double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Wait until the background has registered more than `before`. */
static inline void await_background(uint64_t before)
{
	double end = seconds() + BACKGROUND_S;

	while (statistic("registrations_background") == before) {
		if (seconds() > end) {
			printf("not ok: the background has registered nothing in %d s\n",
			       BACKGROUND_S);
			exit(1);
		}
		sched_yield();
	}
}

#endif
