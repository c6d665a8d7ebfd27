/* SPDX-License-Identifier: BSD-3-Clause */
/* statistics.c -- counters, looked up and counted */
#include "base/statistics.h"

#include <errno.h>
#include <stddef.h>
#include <time.h>

#include "base/kernel.h"
#include "base/text.h"

struct statistics statistics;

__thread struct tallies *statistics_mine;
static struct tallies tallies[TALLIES_OWN + 16];

struct tallies *statistics_join(void)
{
	static _Atomic uint32_t joined;
	uint32_t number = atomic_fetch_add_explicit(&joined, 1, memory_order_relaxed);
	struct tallies *mine = &tallies[number < TALLIES_OWN ? number : TALLIES_OWN + number % 16];

	if (number >= TALLIES_OWN)
		atomic_store_explicit(&mine->shared, true, memory_order_relaxed);
	statistics_mine = mine;
	return mine;
}

uint64_t statistics_tallied(enum tally tally)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < sizeof(tallies) / sizeof(tallies[0]); i++)
		sum += atomic_load_explicit(&tallies[i].counts[tally], memory_order_relaxed);
	return sum;
}

static const char *const tally_names[] = {
#define TALLY(name, meaning) #name,
#include "base/statistics.def"
#undef TALLY
};

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
	for (unsigned int i = 0; i < TALLY_COUNT; i++) {
		if (!text_equals(tally_names[i], name))
			continue;
		*value = statistics_tallied((enum tally)i);
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
