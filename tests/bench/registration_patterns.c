/* SPDX-License-Identifier: BSD-3-Clause */
/* registration_patterns.c -- registrations for programs with different allocation patterns, and
 * their use
 *
 * Only under the preload. Counting starts after a warm-up; all memory is freed before the counters
 * are read.
 */
#include "registration.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCRATCH	  45
#define MESSAGES  5
#define COMPUTING 2000 /* microseconds of each iteration without allocations and requests */

struct counts {
	uint64_t allocations, requests, hits, served, made, never_used;
};

static struct counts counts_now(void)
{
	uint64_t hits = client_statistic("hits");
	uint64_t made = client_statistic("synchronous_queued") + client_statistic("synchronous");

	return (struct counts){
		.allocations = client_statistic("allocations"),
		.requests = client_statistic("requests"),
		.hits = hits,
		.served = hits + client_statistic("waited") + made,
		.made = client_statistic("registrations_background") + made,
		/* Live allocations may still be requested. */
		.never_used =
			client_statistic("never_used") - client_statistic("never_used_pinned"),
	};
}

static struct counts counts_since(const struct counts *before)
{
	struct counts now = counts_now();

	now.allocations -= before->allocations;
	now.requests -= before->requests;
	now.hits -= before->hits;
	now.served -= before->served;
	now.made -= before->made;
	now.never_used -= before->never_used;
	return now;
}

static void report(const char *pattern, const char *what, double figure, const char *unit,
		   const char *peer, double peer_figure)
{
	struct bench_row row = bench_row("", 0, 1);

	snprintf(row.name, sizeof(row.name), "%s: %s", pattern, what);
	snprintf(row.unit, sizeof(row.unit), "%s", unit);
	row.figure = figure;
	if (peer) {
		snprintf(row.peer, sizeof(row.peer), "%s", peer);
		row.peer_figure = peer_figure;
	}
	bench_report(row);
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

/* Forwarded requests are not registered either, and would flatter the result. */
static void require_served(const struct counts *counts, uint64_t uses)
{
	bench_require(counts->requests == uses, "not every use was seen as a request");
	bench_require(counts->served == uses, "not every request was served");
}

static void report_counts(const struct pattern *pattern, const struct counts *counts, uint64_t uses)
{
	require_served(counts, uses);
	report(pattern->name, "registrations", (double)counts->made, "", "allocations",
	       (double)counts->allocations);
	report(pattern->name, "never used", percent(counts->never_used, counts->made), " %", NULL,
	       0);
	report(pattern->name, "hits", percent(counts->hits, counts->requests), " %", NULL, 0);
}

/* ---- a caching allocator: few big segments, messages from inside of them ---- */

static void run_pytorch(const struct pattern *pattern)
{
	enum { SEGMENTS = 64 };
	unsigned int sends = bench_is_quick() ? 200 : 4000, warm_up = sends / 4, segments = 8;
	struct buffer held[SEGMENTS];
	struct ibv_pd *pd = client_domain();
	struct counts before, counts;
	uint64_t state = 1, size, offset;
	const struct buffer *from;

	for (unsigned int i = 0; i < segments; i++)
		held[i] = client_allocate(20 * MIB);
	for (unsigned int i = 0; i < sends; i++) {
		if (i == warm_up)
			before = counts_now();
		/* Now and then the cache grows. */
		if (i % (sends / 40) == 0 && segments < SEGMENTS)
			held[segments++] = client_allocate(i % 3 ? 20 * MIB : 2 * MIB);
		from = &held[bench_random(&state) % segments];
		size = 512 * (1 + bench_random(&state) % (from->size / 1024));
		offset = 512 * (bench_random(&state) % ((from->size - size) / 512));
		client_use(pd, from, offset, size);
	}
	while (segments)
		client_free(&held[--segments]);
	counts = counts_since(&before);
	report_counts(pattern, &counts, sends - warm_up);
}

/* ---- iterations that end with freeing all: 9 of 10 allocations are scratch, 1 is sent ---- */

/* Scratch of all sizes except 512 KiB to 4 MiB, where messages are. */
static size_t other_size(uint64_t *state)
{
	uint64_t number = bench_random(state);

	return number % 2 ? 512 * (8 + number / 2 % 1000) : 4 * MIB + 512 * (number / 2 % 8000);
}

/* Scratch of about the sizes of messages. */
static size_t similar_size(uint64_t *state)
{
	static const size_t sizes[] = { 640 * KIB, 960 * KIB,  1280 * KIB, 1536 * KIB, 1792 * KIB,
					2 * MIB,   2560 * KIB, 2816 * KIB, 3 * MIB,    3328 * KIB };

	return sizes[bench_random(state) % (sizeof(sizes) / sizeof(sizes[0]))];
}

static size_t message_size(unsigned int message)
{
	static const size_t sizes[] = { 768 * KIB, 1 * MIB, 1664 * KIB, 2304 * KIB, 3584 * KIB };

	return sizes[message % (sizeof(sizes) / sizeof(sizes[0]))];
}

static void iterate(struct ibv_pd *pd, size_t (*scratch_size)(uint64_t *state), uint64_t *state)
{
	struct buffer scratch[SCRATCH], messages[MESSAGES];

	for (unsigned int i = 0; i < SCRATCH; i++) {
		scratch[i] = client_allocate(scratch_size(state));
		if (i % (SCRATCH / MESSAGES) == 0)
			messages[i / (SCRATCH / MESSAGES)] =
				client_allocate(message_size(i / (SCRATCH / MESSAGES)));
	}
	client_pause(COMPUTING);
	for (unsigned int i = 0; i < MESSAGES; i++)
		client_use(pd, &messages[i], 0, messages[i].size);
	for (unsigned int i = 0; i < SCRATCH; i++)
		client_free(&scratch[i]);
	for (unsigned int i = 0; i < MESSAGES; i++)
		client_free(&messages[i]);
}

static void run_iterations(const struct pattern *pattern)
{
	unsigned int iterations = bench_is_quick() ? 20 : 250, warm_up = iterations / 5;
	struct ibv_pd *pd = client_domain();
	struct counts before, counts;
	uint64_t state = 1;

	for (unsigned int i = 0; i < iterations; i++) {
		if (i == warm_up)
			before = counts_now();
		iterate(pd, pattern->unit ? similar_size : other_size, &state);
	}
	counts = counts_since(&before);
	report_counts(pattern, &counts, (uint64_t)(iterations - warm_up) * MESSAGES);
}

/* ---- many small allocations, each of which is sent: as many registrations as places that they
 * share ---- */

static int compare(const void *one, const void *other)
{
	uint64_t first = *(const uint64_t *)one, second = *(const uint64_t *)other;

	return first < second ? -1 : first > second;
}

static void run_many_small(const struct pattern *pattern)
{
	unsigned int count = bench_is_quick() ? 1000 : 10000;
	struct buffer *buffers = bench_memory(count * sizeof(*buffers));
	uint64_t *places = bench_memory(count * sizeof(*places)), shared = 0;
	struct ibv_pd *pd = client_domain();
	struct counts before, counts;

	before = counts_now();
	for (unsigned int i = 0; i < count; i++)
		buffers[i] = client_allocate(1000);
	for (unsigned int i = 0; i < count; i++) {
		client_use(pd, &buffers[i], 0, buffers[i].size);
		places[i] = buffers[i].address / pattern->unit;
	}
	counts = counts_since(&before);
	require_served(&counts, count);
	qsort(places, count, sizeof(*places), compare);
	for (unsigned int i = 0; i < count; i++)
		shared += !i || places[i] != places[i - 1];
	report(pattern->name, "registrations", (double)counts.made, "", "granules", (double)shared);
	for (unsigned int i = 0; i < count; i++)
		client_free(&buffers[i]);
}

/* ---- twice as much memory as the pin limit, used in turns and by chance ---- */

#define PIN_LIMIT ((uint64_t)32 << 20)
#define PIECES	  (2 * PIN_LIMIT / MIB)

/* Registrations of an LRU cache of PIN_LIMIT bytes. */
struct lru {
	uint64_t used[PIECES]; /* time; 0: not in the cache */
	uint64_t now, held, misses;
};

static void lru_use(struct lru *lru, unsigned int piece)
{
	unsigned int oldest = 0;

	if (!lru->used[piece]) {
		lru->misses++;
		if (++lru->held > PIN_LIMIT / MIB) {
			for (unsigned int i = 0; i < PIECES; i++) {
				if (lru->used[i] &&
				    (!lru->used[oldest] || lru->used[i] < lru->used[oldest]))
					oldest = i;
			}
			lru->used[oldest] = 0;
			lru->held--;
		}
	}
	lru->used[piece] = ++lru->now;
}

static void run_pin_limit(const struct pattern *pattern)
{
	unsigned int uses = bench_is_quick() ? 500 : 10000, warm_up = 2 * PIECES, piece;
	struct buffer buffers[PIECES];
	struct ibv_pd *pd = client_domain();
	struct counts before, counts;
	struct lru lru = { .now = 0 };
	uint64_t state = 1;

	for (unsigned int i = 0; i < PIECES; i++)
		buffers[i] = client_allocate(MIB);
	for (unsigned int i = 0; i < warm_up + uses; i++) {
		if (i == warm_up) {
			before = counts_now();
			lru.misses = 0;
		}
		piece = i < warm_up || !pattern->unit
				? i % PIECES
				: (unsigned int)(bench_random(&state) % PIECES);
		client_use(pd, &buffers[piece], 0, buffers[piece].size);
		lru_use(&lru, piece);
	}
	counts = counts_since(&before);
	require_served(&counts, uses);
	report(pattern->name, "registrations", (double)counts.made, "", "LRU", (double)lru.misses);
	report(pattern->name, "most pinned", (double)client_statistic("pinned_bytes_peak") / MIB,
	       " MiB", "pin limit", (double)PIN_LIMIT / MIB);
	for (unsigned int i = 0; i < PIECES; i++)
		client_free(&buffers[i]);
}

const struct pattern patterns[] = {
	{ "PyTorch-like", run_pytorch, NULL, 0 },
	{ "per iteration", run_iterations, NULL, 0 },
	{ "same sizes", run_iterations, NULL, 1 },
	{ "many small", run_many_small, NULL, 64 * KIB },
	{ "twice the pin limit, in turns", run_pin_limit, "PEERPIN_PIN_LIMIT=32M", 0 },
	{ "twice the pin limit, by chance", run_pin_limit, "PEERPIN_PIN_LIMIT=32M", 1 },
	{ NULL, NULL, NULL, 0 },
};
