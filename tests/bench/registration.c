/* SPDX-License-Identifier: BSD-3-Clause */
/* registration.c -- what registrations and allocations cost a client, with peerpin and without
 *
 * Started with peerpin preloaded, it runs each part in a process of its own, once without the preload, and
 * once with it and the settings in question; what the first took stands beside the second. Without a preload
 * there is only the first. Needs a driver and an adapter, real or simulated, and nothing but libc: it is
 * taken to GPU machines.
 */
#include "registration.h"

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
	{ .pattern = "cuMemAlloc, *, async", .over_peer = 1000 },
	{ .pattern = "per iteration: never used, async", .most = 10 },
	{ .pattern = "per iteration: hits, async", .least = 95 },
	{ .pattern = "same sizes: never used, async", .most = 10 },
	{ .pattern = "same sizes: hits, async", .least = 95 },
	{ .pattern = "many small, *: registrations, *", .most_of_peer = 1 },
	{ .pattern = "twice the budget, *: registrations, *", .most_of_peer = 1.1 },
	{ .pattern = "twice the budget, *: most pinned, *", .most_of_peer = 1 },
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
	struct bench_operation operation = {
		.prepare = client_set_context, .run = do_hits, .check = check_hits, .context = measured->hits
	};
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
}

/* ---- what cuMemAlloc and cuMemFree take, with registrations or without ---- */

#define BATCH	    64
#define QUICK	    4
#define PAUSED	    5
#define PAUSE	    20e6 /* ns */
#define RUNS	    9
#define LONG_ENOUGH 20e6 /* ns */

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int compare(const void *one, const void *other)
{
	double first = *(const double *)one, second = *(const double *)other;

	return first < second ? -1 : first > second;
}

struct domains {
	struct ibv_pd *pds[16];
	unsigned int count;
};

/* As a program that waits for its GPU: not asleep, or the time would be that of caches and clocks that wake
 * up. */
static void compute(double ns)
{
	double start = now();

	while (ns > 0 && now() - start < ns)
		;
}

/* One round: what each of its calls took, in ns. What is timed are the driver's functions alone. */
static void round_of(const struct domains *domains, unsigned int count, double pause, double *allocating,
		     double *freeing)
{
	CUdeviceptr memory[BATCH];
	struct buffer one = { .size = MIB, .dmabuf = -1 };
	double start;

	for (unsigned int i = 0; i < count; i++) {
		compute(pause);
		start = now();
		bench_require(client.cuMemAlloc_v2(&memory[i], MIB) == CUDA_SUCCESS, "no GPU memory");
		allocating[i] = now() - start;
	}
	/* So that these allocations are of a kind that is asked for. */
	one.address = memory[0];
	client_export(&one);
	for (unsigned int i = 0; i < domains->count; i++)
		client_use(domains->pds[i], &one, 0, MIB);
	client_end_export(&one);
	for (unsigned int i = 0; i < count; i++) {
		compute(pause);
		start = now();
		bench_require(client.cuMemFree_v2(memory[i]) == CUDA_SUCCESS, "GPU memory cannot be freed");
		freeing[i] = now() - start;
	}
}

static const char *const paces[] = { "at once", "with pauses" };
static const unsigned int domain_counts[] = { 0, 1, 4, 16 };

static void name_times(char *name, size_t size, bool freeing, unsigned int domains, unsigned int pace)
{
	snprintf(name, size, "%s, %u domain%s, %s", freeing ? "cuMemFree" : "cuMemAlloc", domains,
		 domains == 1 ? "" : "s", paces[pace]);
}

/* Whether anything of the part's is asked for. */
static bool allocating_is_wanted(const char *mode)
{
	char name[80];

	for (unsigned int i = 0; i < 16; i++) {
		name_times(name, sizeof(name), i & 1, domain_counts[i / 4], i >> 1 & 1);
		snprintf(name + strlen(name), sizeof(name) - strlen(name), ", %s", mode);
		if (bench_wants(name))
			return true;
	}
	return false;
}

static void report_times(bool freeing, unsigned int domains, unsigned int pace, double *times,
			 unsigned int runs)
{
	struct bench_row row = bench_row("", 0, 1);

	name_times(row.name, sizeof(row.name), freeing, domains, pace);
	qsort(times, runs, sizeof(*times), compare);
	row.ns = times[runs / 2];
	row.min_ns = times[0];
	row.max_ns = times[runs - 1];
	bench_report(row);
}

/* What one of a round's calls took: at once the mean, since what holds one up is part of it; with pauses the
 * median, since in so much time other programs get in between. */
static double one_of(double *times, unsigned int count, unsigned int pace)
{
	double sum = 0;

	qsort(times, count, sizeof(*times), compare);
	for (unsigned int i = 0; i < count; i++)
		sum += times[i];
	return pace ? times[count / 2] : sum / count;
}

static void measure_allocating(const struct domains *domains, unsigned int pace)
{
	double pause = pace ? PAUSE : 0;
	unsigned int count = bench_is_quick() ? QUICK : pace ? PAUSED : BATCH;
	unsigned int runs = bench_is_quick() ? 1 : RUNS, rounds;
	double allocating[RUNS], freeing[RUNS], begins[BATCH], ends[BATCH];

	round_of(domains, count, 0, begins, ends);
	for (unsigned int i = 0; i < runs; i++) {
		double began = now();

		allocating[i] = freeing[i] = 0;
		for (rounds = 1;; rounds++) {
			round_of(domains, count, pause, begins, ends);
			allocating[i] += one_of(begins, count, pace);
			freeing[i] += one_of(ends, count, pace);
			if (now() - began >= LONG_ENOUGH || bench_is_quick())
				break;
		}
		allocating[i] /= rounds;
		freeing[i] /= rounds;
	}
	report_times(false, domains->count, pace, allocating, runs);
	report_times(true, domains->count, pace, freeing, runs);
}

static void part_allocating(void)
{
	struct domains domains = { .count = 0 };
	struct buffer buffer = client_allocate(MIB);

	for (unsigned int i = 0; i < 4; i++) {
		for (; domains.count < domain_counts[i]; domains.count++) {
			domains.pds[domains.count] = client_domain();
			client_use(domains.pds[domains.count], &buffer, 0, MIB);
		}
		measure_allocating(&domains, 0);
		measure_allocating(&domains, 1);
	}
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

/* A row of one with peerpin; `mode` is added to its name. */
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

/* Of each part the run without peerpin comes first: what the others are beside. */
static void run_hits(bool preloaded)
{
	static const char *const without[] = { "LD_PRELOAD", NULL };

	bare_count = 0;
	bench_again("hits", without, preloaded ? hear_bare : hear_as_bare, NULL);
	if (preloaded)
		bench_again("hits", without + 1, hear, NULL);
}

/* As real adapters do, the simulated one takes its time: the smallest registration that was measured on one
 * took longer. */
#define DELAY "PEERPIN_SIM_ADAPTER_DELAY=50"

static void run_allocating(bool preloaded)
{
	static const char *const modes[] = { "off", "sync", "async", "all", NULL };
	static const char *const without[] = { "LD_PRELOAD", DELAY, NULL };
	char eager[32];
	const char *const with[] = { eager, DELAY, NULL };
	bool any = false;

	for (const char *const *mode = modes; preloaded && *mode; mode++)
		any |= allocating_is_wanted(*mode);
	if (!any && (preloaded || !allocating_is_wanted(BARE)))
		return;
	bare_count = 0;
	bench_again("allocating", without, preloaded ? hear_bare : hear_as_bare, NULL);
	for (const char *const *mode = modes; preloaded && *mode; mode++) {
		snprintf(eager, sizeof(eager), "PEERPIN_EAGER=%s", *mode);
		if (allocating_is_wanted(*mode))
			bench_again("allocating", with, hear, (void *)*mode);
	}
}

static bool pattern_is_wanted(const struct pattern *pattern, const char *mode)
{
	static const char *const figures[] = { "registrations", "never used", "hits", "most pinned" };
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
	static const char *const modes[] = { "async", "all", NULL };
	char eager[32], part[64];
	const char *const with[] = { eager, pattern->setting, NULL };

	snprintf(part, sizeof(part), "pattern %s", pattern->name);
	for (const char *const *mode = modes; *mode; mode++) {
		snprintf(eager, sizeof(eager), "PEERPIN_EAGER=%s", *mode);
		if (pattern_is_wanted(pattern, *mode))
			bench_again(part, with, hear, (void *)*mode);
	}
}

static void run_part(const char *part)
{
	if (!strcmp(part, "hits"))
		part_hits();
	else if (!strcmp(part, "allocating"))
		part_allocating();
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
		.about = "What registrations and allocations of GPU memory cost a client: with peerpin "
			 "preloaded beside\nthe same without it, in processes that this one starts.\n",
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
		fprintf(stderr, "registration: peerpin is not preloaded: this is what there is without it\n");
	run_hits(preloaded);
	run_allocating(preloaded);
	for (const struct pattern *pattern = patterns; preloaded && pattern->name; pattern++)
		run_pattern(pattern);
	return bench_end();
}
