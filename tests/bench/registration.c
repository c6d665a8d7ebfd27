/* SPDX-License-Identifier: BSD-3-Clause */
/* registration.c -- cost of registrations and allocations to a client, with peerpin and without
 *
 * Preloaded, it runs each part in a process of its own with the settings in question. Hits stand
 * beside a process without the preload, allocations beside the driver's own in the same process.
 * Without a preload only the former rows exist. Needs a driver and an adapter, real or simulated,
 * and libc alone: it runs on GPU machines.
 */
#include "registration.h"

#include <malloc.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SKIPPED	     77
#define BARE	     "without peerpin"
#define MANY_HANDLES 10000

/* First match. */
static const struct bench_goal goals[] = {
	{ .pattern = "hit, *", .threads_to = 1, .ns = 60 },
	{ .pattern = "cuMemAlloc added, *, auto", .ns = 1000 },
	{ .pattern = "per iteration: never used, auto", .most = 10 },
	{ .pattern = "per iteration: hits, auto", .least = 95 },
	{ .pattern = "same sizes: never used, auto", .most = 10 },
	{ .pattern = "same sizes: hits, auto", .least = 95 },
	{ .pattern = "many small, *: registrations, *", .most_of_peer = 1 },
	{ .pattern = "twice the pin limit, *: registrations, *", .most_of_peer = 1.1 },
	{ .pattern = "twice the pin limit, *: most pinned, *", .most_of_peer = 1 },
	{ 0 },
};

/* ---- hits: a registration and its end, inside memory that has been registered ---- */

#define ORDER ((uint64_t)1 << 14)

struct hits {
	struct ibv_pd *pd;
	struct buffer *buffers;
	uint32_t order[ORDER]; /* of their use */
	_Atomic uint64_t operations;
};

static uint64_t do_hits(void *context, unsigned int thread, uint64_t count)
{
	const struct hits *hits = context;
	uint64_t sum = 0, place = thread * (ORDER / 7);

	for (; count; count--, place++) {
		const struct buffer *buffer = &hits->buffers[hits->order[place % ORDER]];
		struct ibv_mr *mr = client_register(hits->pd, buffer, 0, buffer->size);

		if (mr && mr->length == buffer->size)
			sum += !client.ibv_dereg_mr(mr);
	}
	return sum;
}

static bool check_hits(void *context, unsigned int thread, uint64_t count, uint64_t sum)
{
	struct hits *hits = context;

	(void)thread;
	hits->operations += count;
	return sum == count;
}

struct hit_case {
	struct hits *hits;
	const char *name;
	uint64_t live;
};

static void measure_hits(unsigned int threads, void *argument)
{
	const struct hit_case *measured = argument;
	struct bench_operation operation = { .prepare = client_set_context,
					     .run = do_hits,
					     .check = check_hits,
					     .context = measured->hits };
	struct bench_row row = bench_row(measured->name, measured->live, threads);
	uint64_t before = 0, after;

	measured->hits->operations = 0;
	if (client.peerpin_statistic)
		before = client_statistic("hits");
	bench_measure(&operation, NULL, &row);
	if (client.peerpin_statistic) {
		after = client_statistic("hits");
		if (after - before != measured->hits->operations)
			bench_fail("%s, %llu live: of %llu registrations %llu hit", measured->name,
				   (unsigned long long)measured->live,
				   (unsigned long long)measured->hits->operations,
				   (unsigned long long)(after - before));
	}
	bench_report(row);
}

static void hits_of(const char *name, size_t size, uint64_t live, unsigned int held)
{
	struct ibv_mr **handles = bench_memory((held + 1) * sizeof(struct ibv_mr *));
	struct hits *hits = bench_memory(sizeof(*hits));
	struct hit_case measured = { .hits = hits, .name = name, .live = live };
	uint64_t state = 1;

	if (!bench_wants(name))
		return;
	hits->pd = client_domain();
	hits->buffers = bench_memory(live * sizeof(*hits->buffers));
	for (uint64_t i = 0; i < live; i++) {
		hits->buffers[i] = client_allocate(size);
		client_use(hits->pd, &hits->buffers[i], 0, size);
	}
	for (uint64_t i = 0; i < ORDER; i++)
		hits->order[i] = (uint32_t)(bench_random(&state) % live);
	for (unsigned int i = 0; i < held; i++) {
		handles[i] = client_register(hits->pd, &hits->buffers[i % live], 0, size);
		bench_require(handles[i], "a registration failed");
	}
	bench_each_threads(measure_hits, &measured);
	for (unsigned int i = 0; i < held; i++)
		bench_require(!client.ibv_dereg_mr(handles[i]), "a deregistration failed");
	for (uint64_t i = 0; i < live; i++)
		client_free(&hits->buffers[i]);
	bench_require(!client.ibv_dealloc_pd(hits->pd), "a protection domain could not be ended");
	free(hits->buffers);
	free(hits);
	free(handles);
}

static const char struct_row[] = "of these, the provider's struct: calloc and free";

/* A provider's share of a hit: it makes the client's struct, hit or not. */
static uint64_t do_structs(void *size, unsigned int thread, uint64_t count)
{
	uint64_t sum = 0;

	(void)thread;
	for (; count; count--) {
		void *made = calloc(1, *(const size_t *)size);

		__asm__ volatile("" : "+r"(made) : : "memory"); /* keeps the pair of calls */
		sum += made != NULL;
		free(made);
	}
	return sum;
}

static bool check_structs(void *size, unsigned int thread, uint64_t count, uint64_t sum)
{
	(void)size;
	(void)thread;
	return sum == count;
}

static void measure_structs(unsigned int threads, void *size)
{
	struct bench_operation operation = { .run = do_structs,
					     .check = check_structs,
					     .context = size };
	struct bench_row row = bench_row(struct_row, 1, threads);

	bench_measure(&operation, NULL, &row);
	bench_report(row);
}

/* As large as the provider's own from malloc. */
static void structs_of_hits(void)
{
	struct buffer buffer;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	size_t size;

	if (!bench_wants(struct_row))
		return;
	pd = client_domain();
	buffer = client_allocate(MIB);
	mr = client_register(pd, &buffer, 0, MIB);
	bench_require(mr, "a registration failed");
	size = malloc_usable_size(mr);
	bench_require(!client.ibv_dereg_mr(mr), "a deregistration failed");
	client_free(&buffer);
	bench_require(!client.ibv_dealloc_pd(pd), "a protection domain could not be ended");
	bench_each_threads(measure_structs, &size);
}

static void part_hits(void)
{
	static const uint64_t lives[] = { 1, 100, 10000 };

	hits_of("hit, 64KiB", 64 * KIB, 1, 0);
	hits_of("hit, 1MiB", MIB, 1, 0);
	hits_of("hit, 16MiB", 16 * MIB, 1, 0);
	hits_of("hit, 64MiB", 64 * MIB, 1, 0);
	for (unsigned int i = 1; i < 3; i++)
		hits_of("hit, 64KiB", 64 * KIB, lives[i], 0);
	for (unsigned int i = 0; i < 3; i++)
		hits_of("hit, 64KiB, 10000 handles held", 64 * KIB, lives[i],
			bench_is_quick() ? 1000 : MANY_HANDLES);
	structs_of_hits();
}

/* ---- the runs ---- */

#define BARE_ROWS 128

static struct bench_row bare[BARE_ROWS];
static unsigned int bare_count;

static void hear_bare(struct bench_row row, void *unused)
{
	(void)unused;
	bench_require(bare_count < BARE_ROWS, "too many rows");
	bare[bare_count++] = row;
}

/* A row with peerpin; `mode` is appended to its name. */
static void hear(struct bench_row row, void *mode)
{
	char name[sizeof(row.name)];

	for (unsigned int i = 0; i < bare_count; i++) {
		if (strcmp(bare[i].name, row.name) || bare[i].live != row.live ||
		    bare[i].threads != row.threads)
			continue;
		snprintf(row.peer, sizeof(row.peer), BARE);
		row.peer_ns = bare[i].ns;
	}
	if (mode) {
		snprintf(name, sizeof(name), "%.60s, %s", row.name, (const char *)mode);
		memcpy(row.name, name, sizeof(name));
	}
	if (bench_wants(row.name))
		bench_report(row);
}

static void hear_as_bare(struct bench_row row, void *unused)
{
	(void)unused;
	snprintf(row.name + strlen(row.name), sizeof(row.name) - strlen(row.name), ", " BARE);
	if (bench_wants(row.name))
		bench_report(row);
}

/* Of each part the run without peerpin is first: the peer of the others. */
static void run_hits(bool preloaded)
{
	static const char *const without[] = { "LD_PRELOAD", NULL };

	bare_count = 0;
	bench_again("hits", without, preloaded ? hear_bare : hear_as_bare, NULL);
	if (preloaded)
		bench_again("hits", without + 1, hear, NULL);
}

/* A delay in the simulated adapter: as long as the shortest measured registration on a real one. */
#define DELAY "PEERPIN_SIM_ADAPTER_DELAY=50"

static void run_allocating(bool preloaded)
{
	static const char *const modes[] = { "off", "sync", "auto", "all", NULL };
	static const char *const without[] = { "LD_PRELOAD", DELAY, NULL };
	char preregister[32];
	const char *const with[] = { preregister, DELAY, NULL };

	if (!preloaded && allocating_is_wanted(BARE))
		bench_again("allocating", without, hear_as_bare, NULL);
	bare_count = 0;
	for (const char *const *mode = modes; preloaded && *mode; mode++) {
		snprintf(preregister, sizeof(preregister), "PEERPIN_PREREGISTER=%s", *mode);
		if (allocating_is_wanted(*mode))
			bench_again("allocating", with, hear, (void *)*mode);
	}
}

static bool pattern_is_wanted(const struct pattern *pattern, const char *mode)
{
	static const char *const figures[] = { "registrations", "never used", "hits",
					       "most pinned" };
	char name[80];

	for (unsigned int i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "%s: %s, %s", pattern->name, figures[i], mode);
		if (bench_wants(name))
			return true;
	}
	return false;
}

static void run_pattern(const struct pattern *pattern)
{
	static const char *const modes[] = { "auto", "all", NULL };
	char preregister[32], part[64];
	const char *const with[] = { preregister, pattern->setting, NULL };

	snprintf(part, sizeof(part), "pattern %s", pattern->name);
	for (const char *const *mode = modes; *mode; mode++) {
		snprintf(preregister, sizeof(preregister), "PEERPIN_PREREGISTER=%s", *mode);
		if (pattern_is_wanted(pattern, *mode))
			bench_again(part, with, hear, (void *)*mode);
	}
}

static void run_part(const char *part)
{
	if (!strcmp(part, "hits"))
		part_hits();
	else if (!strcmp(part, "allocating"))
		run_allocations();
	for (const struct pattern *pattern = patterns; pattern->name; pattern++) {
		if (!strncmp(part, "pattern ", 8) && !strcmp(part + 8, pattern->name))
			pattern->run(pattern);
	}
}

static const char *add_to_machine(void)
{
	return client.machine;
}

int main(int argc, char **argv)
{
	static const unsigned int threads[] = { 1, 2, 4, 8, 16, 0 };
	static const struct bench bench = {
		.name = "registration",
		.about = "What registrations and allocations of GPU memory cost a client: with "
			 "peerpin "
			 "preloaded beside\nthe same without it, in processes that this one "
			 "starts. What is "
			 "\"added\" to "
			 "cuMemAlloc and\ncuMemFree is the median of what they take more than the "
			 "driver's "
			 "own, called in turn with\nthem; not least and most are beside it, but "
			 "between what "
			 "it lies with 95 % certainty.\n",
		.goals = goals,
		.threads = threads,
		.add_to_machine = add_to_machine,
	};
	bool preloaded;

	bench_begin(&bench, argc, argv);
	if (!client_begin())
		return SKIPPED;
	if (bench_part()) {
		run_part(bench_part());
		return bench_end();
	}
	preloaded = client.peerpin_statistic;
	if (!preloaded)
		fprintf(stderr, "registration: peerpin is not preloaded: this is what there is "
				"without it\n");
	run_hits(preloaded);
	run_allocating(preloaded);
	for (const struct pattern *pattern = patterns; preloaded && pattern->name; pattern++)
		run_pattern(pattern);
	return bench_end();
}
