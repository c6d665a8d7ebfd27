/* SPDX-License-Identifier: BSD-3-Clause */
/* usage.c -- whether GPUDirect RDMA was used and why not; other conclusions from the counters */
#include "report/output.h"

#include <stdio.h>

#include "base/capped.h"
#include "base/config.h"
#include "base/pci.h"
#include "base/plain_text.h"
#include "base/text.h"
#include "report/statistics.h"

void usage_bytes(uint64_t bytes, char *to, size_t size)
{
	static const char units[][4] = { "B", "KiB", "MiB", "GiB", "TiB" };
	double amount = (double)bytes;
	unsigned int unit = 0;

	/* 1023.95 prints as 1024.0. */
	for (; amount >= 1023.95 && unit < 4; unit++)
		amount /= 1024;
	snprintf(to, size, unit ? "%.1f %s" : "%.0f %s", amount, units[unit]);
}

void usage_time(uint64_t nanoseconds, char *to, size_t size)
{
	static const char units[][4] = { "ns", "µs", "ms", "s" };
	double amount = (double)nanoseconds;
	unsigned int unit = 0;

	for (; amount >= 999.95 && unit < 3; unit++)
		amount /= 1000;
	if (!nanoseconds)
		unit = 3;
	snprintf(to, size, unit && nanoseconds ? "%.1f %s" : "%.0f %s", amount, units[unit]);
}

bool usage_served(void)
{
	return statistics_tallied(TALLY_hits) || statistics_get(waited) ||
	       statistics_get(synchronous_queued) || statistics_get(synchronous);
}

/* Write "dma-buf and peer memory": the methods with registrations. */
static void usage_name_methods(char *to, size_t size)
{
	size_t used = 0;

#define METHOD(id, name)                                                                           \
	if (statistics_get(registrations_##id) && used < size)                                     \
		used += (size_t)snprintf(to + used, size - used, "%s%s", used ? " and " : "", name);
#include "report/methods.def"
#undef METHOD
	if (!used)
		snprintf(to, size, "peer memory");
}

/* Write " (PIX, SYS)": the known paths from GPUs to the adapter, each once. */
static void usage_name_paths(int adapter, char *to, size_t size)
{
	size_t used = 0;

	*to = '\0';
	for (int i = 0; i < STATISTICS_PAIRS && statistics.pairs[i].known; i++) {
		const struct statistics_pair *pair = &statistics.pairs[i];
		bool skip = pair->adapter != adapter || !pair->path[0] ||
			    text_equals(pair->path, PCI_PATH_NONE);
		int length;

		for (int j = 0; j < i && !skip; j++)
			skip = statistics.pairs[j].adapter == adapter &&
			       text_equals(statistics.pairs[j].path, pair->path);
		if (skip)
			continue;
		length = snprintf(to + used, size - used, "%s%s", used ? ", " : " (", pair->path);
		used += length > 0 && (size_t)length < size - used - 1 ? (size_t)length : 0;
		to[used] = '\0';
	}
	if (used)
		snprintf(to + used, size - used, ")");
}

/* Write "; mlx5_0 (PIX), mlx5_1 (SYS)": each adapter once, with its paths. */
static void usage_add_adapters(char *to, size_t size)
{
	size_t used = 0;

	*to = '\0';
	for (int i = 0; i < STATISTICS_PAIRS && statistics.pairs[i].known; i++) {
		const struct statistics_pair *pair = &statistics.pairs[i];
		bool skip = pair->adapter < 0 || pair->adapter >= STATISTICS_ADAPTERS;
		char paths[48];
		int length;

		for (int j = 0; j < i && !skip; j++)
			skip = statistics.pairs[j].adapter == pair->adapter;
		if (skip)
			continue;
		usage_name_paths(pair->adapter, paths, sizeof(paths));
		length = snprintf(to + used, size - used, "%s%s%s", used ? ", " : "; ",
				  statistics.adapters[pair->adapter].name, paths);
		if (length < 0 || (size_t)length >= size - used) {
			to[used] = '\0';
			return;
		}
		used += (size_t)length;
	}
}

/* Set *reason to the most frequent reason of forwarded requests. Return its number; 0: none. */
static uint64_t usage_main_reason(struct statistics_row *reason)
{
	uint64_t most = 0;

	for (struct statistics_row row = { .count = 0 }; statistics_next_row(&row);) {
		uint64_t number = *row.label && text_begins(row.name, "forwarded_")
					  ? statistics_number(&row)
					  : 0;

		if (number <= most)
			continue;
		most = number;
		*reason = row;
	}
	return most;
}

/* True if each adapter with registrations is one without hardware (topology.h). */
static bool usage_is_software(void)
{
	bool any = false;

	for (int i = 0; i < STATISTICS_PAIRS && statistics.pairs[i].known; i++) {
		if (!load_relaxed(&statistics.pairs[i].registrations))
			continue;
		if (!text_equals(statistics.pairs[i].path, PCI_PATH_NONE))
			return false;
		any = true;
	}
	return any;
}

bool usage_is_used(void)
{
	return usage_served() && !usage_is_software();
}

static void usage_write_served(char *to, size_t size)
{
	bool hit = statistics_tallied(TALLY_hits) || statistics_get(waited);
	char methods[64], adapters[256], bytes[24];

	usage_bytes(statistics_get(pinned_bytes_peak), bytes, sizeof(bytes));
	usage_add_adapters(adapters, sizeof(adapters));
	usage_name_methods(methods, sizeof(methods));
	if (usage_is_software())
		snprintf(to, size, "not used: software adapter%s; %s; %s registered at peak",
			 *adapters ? adapters + 1 : "", methods, bytes);
	else
		snprintf(to, size, "%s: %s%s; %s registered at peak",
			 hit ? "used" : "no request hit", methods, adapters, bytes);
}

void usage_write(char *to, size_t size)
{
	struct statistics_row reason;

	if (config_get()->observe) {
		snprintf(to, size, "not used: calls are only observed");
	} else if (usage_served()) {
		usage_write_served(to, size);
	} else if (statistics_get(forwarded_version)) {
		snprintf(to, size, "not used by peerpin: unsupported libibverbs");
	} else if (statistics_tallied(TALLY_requests)) {
		snprintf(to, size, "not used by peerpin: %s",
			 usage_main_reason(&reason) ? reason.label : "no request was served");
	} else if (statistics_get(bypasses)) {
		snprintf(to, size,
			 "not used by peerpin: calls of the CUDA driver bypass it (see the "
			 "log)");
	} else if (statistics_get(untracked) &&
		   statistics_get(untracked) >= statistics_get(allocations)) {
		snprintf(to, size, "not used by peerpin: GPU memory is not recorded");
	} else if (statistics_get(exports) && statistics_get(protection_domains)) {
		/* libibverbs itself refuses the registration if the provider lacks the form. */
		snprintf(to, size,
			 "not used: dma-bufs of GPU memory were exported, none was "
			 "registered");
	} else if (statistics_get(host_requests)) {
		snprintf(to, size, "not used: only host memory was registered");
	} else if (statistics_get(protection_domains)) {
		snprintf(to, size, "not used: no registration was requested");
	} else {
		snprintf(to, size, "not used: the program opened no RDMA adapter");
	}
	plain_text(to, '?'); /* names of adapters */
}

void usage_hit_rate(char *to, size_t size)
{
	uint64_t requests = statistics_tallied(TALLY_requests),
		 hits = statistics_tallied(TALLY_hits);
	uint64_t tenths = share_of(hits, requests, 1000);

	/* Rounded down, as in the report: 100 % only if every request hit. */
	*to = '\0';
	if (requests)
		snprintf(to, size, " (%llu.%llu %%)", (unsigned long long)tenths / 10,
			 (unsigned long long)tenths % 10);
}
