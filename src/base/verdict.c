/* SPDX-License-Identifier: BSD-3-Clause */
/* verdict.c -- is GPUDirect RDMA used, and if not, why not; and other conclusions from what was counted */
#include "base/emit.h"

#include "base/emit_forms.h"
#include "base/system.h"
#include "base/text.h"

#define count(image, name) image_value(&(image)->counters.name)

void verdict_bytes(uint64_t bytes, char *to, size_t size)
{
	static const char units[][4] = { "B", "KiB", "MiB", "GiB", "TiB" };
	double amount = (double)bytes;
	unsigned int unit = 0;

	/* As it would be rounded. */
	for (; amount >= 1023.95 && unit < 4; unit++)
		amount /= 1024;
	system_format(to, size, unit ? "%.1f %s" : "%.0f %s", amount, units[unit]);
}

void verdict_time(uint64_t nanoseconds, char *to, size_t size)
{
	static const char units[][3] = { "ns", "us", "ms", "s" };
	double amount = (double)nanoseconds;
	unsigned int unit = 0;

	for (; amount >= 999.95 && unit < 3; unit++)
		amount /= 1000;
	if (!nanoseconds)
		unit = 3;
	system_format(to, size, unit && nanoseconds ? "%.1f %s" : "%.0f %s", amount, units[unit]);
}

static uint64_t served(const struct image *image)
{
	return image_tallied(image, TALLY_hits) + count(image, waited) + count(image, taken_over) +
	       count(image, on_demand);
}

bool verdict_is_used(const struct image *image)
{
	return served(image) || image_tallied(image, TALLY_look_ups);
}

static const char *methods(const struct image *image)
{
	if (!count(image, registrations_dma_buf))
		return "peer memory";
	return count(image, registrations_peer_memory) ? "dma-buf and peer memory" : "dma-buf";
}

/* " (PIX, SYS)": the paths that are known from GPUs to that adapter, each once. */
static void name_paths(const struct image *image, int adapter, char *to, size_t size)
{
	size_t used = 0;

	*to = '\0';
	for (int i = 0; i < IMAGE_PAIRS && image->pairs[i].known; i++) {
		const struct image_pair *pair = &image->pairs[i];
		bool told = pair->adapter != adapter || !pair->path[0];
		int length;

		for (int j = 0; j < i && !told; j++)
			told = image->pairs[j].adapter == adapter &&
			       text_equals(image->pairs[j].path, pair->path);
		if (told)
			continue;
		length = system_format(to + used, size - used, "%s%s", used ? ", " : " (", pair->path);
		used += length > 0 && (size_t)length < size - used - 1 ? (size_t)length : 0;
		to[used] = '\0';
	}
	if (used)
		system_format(to + used, size - used, ")");
}

/* "; mlx5_0 (PIX), mlx5_1 (SYS)": each adapter once, with the ways to it. */
static void add_adapters(const struct image *image, char *to, size_t size)
{
	size_t used = 0;

	*to = '\0';
	for (int i = 0; i < IMAGE_PAIRS && image->pairs[i].known; i++) {
		const struct image_pair *pair = &image->pairs[i];
		bool told = pair->adapter < 0 || pair->adapter >= IMAGE_ADAPTERS;
		char paths[48];
		int length;

		for (int j = 0; j < i && !told; j++)
			told = image->pairs[j].adapter == pair->adapter;
		if (told)
			continue;
		name_paths(image, pair->adapter, paths, sizeof(paths));
		length = system_format(to + used, size - used, "%s%s%s", used ? ", " : "; ",
				       image->adapters[pair->adapter].name, paths);
		if (length < 0 || (size_t)length >= size - used) {
			to[used] = '\0';
			return;
		}
		used += (size_t)length;
	}
}

struct reason {
	const char *label;
	uint64_t number;
};

static void take_commonest(void *argument, const struct emit_row *row)
{
	struct reason *reason = argument;

	if (row->line == LINE_REASONS && row->value > reason->number)
		*reason = (struct reason){ row->label, row->value };
}

/* For which most requests were passed through. */
static const char *main_reason(const struct image *image)
{
	struct reason reason = { "no request could be served", 0 };

	emit_walk(image, take_commonest, &reason);
	return reason.label;
}

void verdict_write(const struct image *image, char *to, size_t size)
{
	char adapters[256], bytes[24];

	if (verdict_is_used(image)) {
		verdict_bytes(count(image, pinned_bytes_peak), bytes, sizeof(bytes));
		add_adapters(image, adapters, sizeof(adapters));
		system_format(to, size, "used: %s%s; %s registered at peak", methods(image), adapters, bytes);
	} else if (count(image, not_served_version)) {
		system_format(to, size, "not used by peerpin: this libibverbs is not known to it");
	} else if (image_tallied(image, TALLY_requests)) {
		system_format(to, size, "not used by peerpin: %s", main_reason(image));
	} else if (count(image, host_requests)) {
		system_format(to, size, "not used: only host memory was registered");
	} else if (count(image, protection_domains)) {
		system_format(to, size, "not used: no registration was asked for");
	} else {
		system_format(to, size, "not used: the program opened no RDMA adapter");
	}
}

/* The settings are lines. */
bool verdict_registers_all(const struct image *image)
{
	for (const char *at = image->header.settings; at; at = text_find(at, '\n')) {
		at += *at == '\n';
		if (text_begins(at, "PEERPIN_EAGER=all"))
			return true;
	}
	return false;
}

bool verdict_smallest_size(const struct image *image, uint64_t *bytes, uint64_t *skipped)
{
	unsigned int smallest = 0, largest = 0;

	while (smallest < HISTOGRAM_BUCKETS &&
	       !image_value(&image->histograms[HISTOGRAM_used_bytes][smallest]))
		smallest++;
	*skipped = 0;
	/* Of keys that are looked up nobody sees what they are used for. */
	if (smallest == HISTOGRAM_BUCKETS || image_tallied(image, TALLY_look_ups))
		return false;
	for (unsigned int i = 0; i < smallest; i++) {
		uint64_t unused = image_value(&image->histograms[HISTOGRAM_never_used_bytes][i]);

		*skipped += unused;
		if (unused)
			largest = i;
	}
	/* No more than that takes, as `peerpin report` says it: of sizes in between nothing is known. */
	*bytes = (uint64_t)2 << largest;
	return *skipped > 0;
}
