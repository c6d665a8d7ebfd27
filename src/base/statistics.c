/* SPDX-License-Identifier: BSD-3-Clause */
/* statistics.c -- counters, looked up and counted */
#include "base/statistics.h"

#include <errno.h>
#include <stddef.h>
#include <time.h>

#include "base/kernel.h"
#include "base/text.h"

struct statistics statistics;

static const struct {
	const char *name;
	size_t offset;
} rows[] = {
#define STATISTIC(name, meaning) { #name, offsetof(struct statistics, name) },
#include "base/statistics.def"
#undef STATISTIC
};

void statistics_pinned(int64_t amount)
{
	uint64_t now =
		atomic_fetch_add_explicit(&statistics.pinned_bytes, (uint64_t)amount, memory_order_relaxed) +
		(uint64_t)amount;
	uint64_t peak = statistics_get(pinned_bytes_peak);

	while ((int64_t)(now - peak) > 0 &&
	       !atomic_compare_exchange_weak_explicit(&statistics.pinned_bytes_peak, &peak, now,
						      memory_order_relaxed, memory_order_relaxed))
		;
}

int statistics_find(const char *name, uint64_t *value)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (!text_equals(rows[i].name, name))
			continue;
		*value = atomic_load_explicit((_Atomic uint64_t *)((char *)&statistics + rows[i].offset),
					      memory_order_relaxed);
		return 0;
	}
	return -ENOENT;
}

uint64_t statistics_clock(void)
{
	struct timespec now;

	kernel_clock(&now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
