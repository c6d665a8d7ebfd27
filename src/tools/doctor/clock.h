/* SPDX-License-Identifier: BSD-3-Clause */
/* clock.h -- monotonic time in ns, for measurements */
#ifndef PEERPIN_TOOLS_DOCTOR_CLOCK_H
#define PEERPIN_TOOLS_DOCTOR_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

#endif
