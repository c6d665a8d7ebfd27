/* SPDX-License-Identifier: BSD-3-Clause */
/* lookup.c -- cost of finding an allocation, and of an allocation and a free
 *
 * A look-up finds the allocation of an address, and checks the range: the part of a hit that grows
 * with the number of allocations. Successive look-ups do not depend on each other, like those of a
 * client that sends many messages. Each number of live allocations has a process of its own.
 */
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "memory/lookup.h"
#include "memory/table.h"
#include "peer.h"
#include "population.h"

#define MILLION 1000000u

static const struct bench_goal goals[] = {
	{ .pattern = "hot, *", .threads_to = 1, .ns = 4, .ratio = 5 },
	{ .pattern = "random, *", .threads_to = 1, .live_from = MILLION, .ns = 80, .ratio = 4 },
	{ .pattern = "random, mixed", .threads_to = 1, .ns = 15, .ratio = 4 },
	{ .pattern = "random, *", .threads_to = 1, .ns = 8, .ratio = 4 },
	{ .pattern = "hot, *", .threads_from = 2, .alone_ratio = 1.1, .ratio = 15 },
	{ .pattern = "random, *", .threads_from = 2, .alone_ratio = 1.1, .ratio = 15 },
	{ .pattern = "*, registered" },
	{ .pattern = "memory, *", .bytes = 160 },
	{ .pattern = "allocation and free*", .ns = 1000 },
	{ .pattern = "table insert and take*", .ns = 1000 },
	{ 0 },
};

static struct population population;

/* ---- look-ups ---- */

/* Start of each thread, so that no two query the same at once. */
static uint64_t start_of(const struct queries *queries, unsigned int thread)
{
	return thread * (queries->count / 7) % queries->count;
}

static uint64_t find(void *context, unsigned int thread, uint64_t count)
{
	const struct queries *queries = context;
	uint64_t at = start_of(queries, thread), sum = 0;
	struct found found;

	for (; count; count--) {
		if (!lookup(queries->addresses[at], &found) ||
		    found.size - found.offset < REQUEST_LENGTH)
			return 0;
		sum += queries->addresses[at] - found.offset;
		if (!lookup_is_same(&found))
			return 0;
		if (++at == queries->count)
			at = 0;
	}
	return sum;
}

static bool check_find(void *context, unsigned int thread, uint64_t count, uint64_t sum)
{
	const struct queries *queries = context;
	uint64_t at = start_of(queries, thread), round = 0;

	for (uint64_t i = 0; i < queries->count; i++)
		round += queries->keys[i];
	sum -= count / queries->count * round;
	for (count %= queries->count; count; count--) {
		sum -= queries->keys[at];
		if (++at == queries->count)
			at = 0;
	}
	return !sum;
}

#ifdef HAVE_UCX
static uint64_t find_with_peer(void *context, unsigned int thread, uint64_t count)
{
	const struct queries *queries = context;

	return peer_use(queries->addresses, queries->count, start_of(queries, thread),
			REQUEST_LENGTH, count);
}
#endif

struct looks {
	const char *name;
	struct queries *queries;
};

static void measure_looks(unsigned int threads, void *argument)
{
	const struct looks *looks = argument;
	struct bench_operation ours = { .run = find,
					.check = check_find,
					.context = looks->queries };
	struct bench_operation *peer = NULL;
	struct bench_row row = bench_row(looks->name, population.live, threads);
#ifdef HAVE_UCX
	struct bench_operation theirs = { .run = find_with_peer,
					  .check = check_find,
					  .context = looks->queries };

	if (peer_begin()) {
		peer = &theirs;
		snprintf(row.peer, sizeof(row.peer), "%s", PEER_NAME);
	}
#endif
	bench_measure(&ours, peer, &row);
	bench_report(row);
}

/* ---- allocations and frees ---- */

/* Chosen beforehand, outside of the time. */
#define VICTIMS ((uint64_t)1 << 18)

static struct victim {
	uint64_t base, size;
} * victims;

static void choose_victims(void)
{
	uint64_t state = 3, which;

	victims = bench_memory(VICTIMS * sizeof(*victims));
	for (uint64_t i = 0; i < VICTIMS; i++) {
		which = bench_random(&state) % population.live;
		victims[i] = (struct victim){ population.bases[which], population.sizes[which] };
	}
}

/* A free, and an allocation at its address. */
static uint64_t end_and_begin(void *context, unsigned int thread, uint64_t count)
{
	static uint64_t next;
	struct allocation ended;
	uint64_t right = 0;

	(void)context;
	(void)thread;
	for (; count; count--) {
		const struct victim *victim = &victims[next++ % VICTIMS];

		right += memory_freeing(FREE_DEVICE, victim->base, &ended);
		memory_allocated(ALLOCATION_DEVICE, victim->base, victim->size);
	}
	return right;
}

static bool check_all(void *context, unsigned int thread, uint64_t count, uint64_t sum)
{
	(void)context;
	(void)thread;
	return sum == count;
}

/* Behind all others. */
static uint64_t insert_and_take(void *context, unsigned int thread, uint64_t count)
{
	struct allocation allocation = { .size = (uint64_t)2 << 20,
					 .rdma_capable = true,
					 .accessible = true };
	struct allocation taken;
	uint64_t right = 0;

	(void)context;
	(void)thread;
	for (; count; count--) {
		allocation.base = ((population.end >> 21) + 1 + count % 1024) << 21;
		right += !table_insert(&allocation) && table_take(allocation.base, 0, &taken);
	}
	return right;
}

static void measure_changes(const char *name, uint64_t (*run)(void *, unsigned int, uint64_t))
{
	struct bench_operation ours = { .run = run, .check = check_all };
	struct bench_row row = bench_row(name, population.live, 1);

	bench_measure(&ours, NULL, &row);
	bench_report(row);
}

/* ---- parts ---- */

struct part {
	enum shape shape;
	uint64_t live;
	char hot[32], random[32], memory[32], memory_registered[48], events[48],
		events_registered[64], table[48];
};

static void name_cases(struct part *part)
{
	const char *shape = shape_names[part->shape];

	snprintf(part->hot, sizeof(part->hot), "hot, %s", shape);
	snprintf(part->random, sizeof(part->random), "random, %s", shape);
	snprintf(part->memory, sizeof(part->memory), "memory, %s", shape);
	snprintf(part->memory_registered, sizeof(part->memory_registered), "%s, registered",
		 part->memory);
	snprintf(part->events, sizeof(part->events), "allocation and free, %s", shape);
	snprintf(part->events_registered, sizeof(part->events_registered), "%s, registered",
		 part->events);
	snprintf(part->table, sizeof(part->table), "table insert and take, %s", shape);
}

/* Allocations and frees among the largest population. */
static bool has_changes(const struct part *part)
{
	return part->live == (bench_is_quick() ? 10000 : MILLION);
}

/* With few allocations whole pages dominate. */
static bool has_memory(const struct part *part)
{
	return part->live >= 10000;
}

static void report_bytes(const char *name, double bytes)
{
	struct bench_row row = bench_row(name, population.live, 1);

	row.bytes = bytes;
	bench_report(row);
}

/* Interference of two threads that share nothing: where processors are halves of a core, a look-up
 * cannot be better. */
static uint64_t calculate(void *context, unsigned int thread, uint64_t count)
{
	uint64_t state = thread + 1, right = 0;

	(void)context;
	for (; count; count--) {
		uint64_t first = state * 3, second = state ^ 0x5555, third = state + 77,
			 fourth = state >> 3;

		for (unsigned int i = 0; i < 4; i++) {
			first += second ^ i;
			second += third << 1;
			third ^= fourth + i;
			fourth += first >> 2;
		}
		state = first ^ second ^ third ^ fourth;
		right += state != 0;
		__asm__ volatile("" : "+r"(state));
	}
	return right;
}

static bool check_nothing(void *context, unsigned int thread, uint64_t count, uint64_t sum)
{
	(void)context;
	(void)thread;
	return sum <= count;
}

static void measure_calculation(unsigned int threads, void *argument)
{
	struct bench_operation calculation = { .run = calculate, .check = check_nothing };
	struct bench_row row = bench_row(argument, 0, threads);

	bench_measure(&calculation, NULL, &row);
	bench_report(row);
}

static void run_part(void *argument)
{
	struct part *part = argument;

	population_make(&population, part->shape, part->live);
	if (has_memory(part) && bench_wants(part->memory))
		report_bytes(part->memory, population.bytes);
	if (has_changes(part))
		choose_victims();
	if (has_changes(part) && bench_wants(part->table))
		measure_changes(part->table, insert_and_take);
	if (has_changes(part) && bench_wants(part->events))
		measure_changes(part->events, end_and_begin);
	population_register(&population);
	if (has_memory(part) && bench_wants(part->memory_registered))
		report_bytes(part->memory_registered, population.bytes_registered);
#ifdef HAVE_UCX
	if (peer_begin())
		peer_make(population.bases, population.sizes, population.keys, population.live);
#endif
	if (bench_wants(part->hot))
		bench_each_threads(measure_looks, &(struct looks){ part->hot, &population.hot });
	if (bench_wants(part->random))
		bench_each_threads(measure_looks,
				   &(struct looks){ part->random, &population.random });
	/* Last: its allocations are not registered again. */
	if (has_changes(part) && bench_wants(part->events_registered))
		measure_changes(part->events_registered, end_and_begin);
}

static bool is_wanted(const struct part *part)
{
	return bench_wants(part->hot) || bench_wants(part->random) ||
	       (has_memory(part) &&
		(bench_wants(part->memory) || bench_wants(part->memory_registered))) ||
	       (has_changes(part) &&
		(bench_wants(part->events) || bench_wants(part->events_registered) ||
		 bench_wants(part->table)));
}

int main(int argc, char **argv)
{
	static const unsigned int threads[] = { 1, 2, 0 };
	static const uint64_t lives[] = { 1, 100, 10000, MILLION };
	static const struct bench bench = {
		.name = "lookup",
		.about = "What a client pays to find its allocation, beside UCX's cache where "
			 "UCX is installed,\nby number and shape of living allocations; their "
			 "memory; an allocation and a free.\n",
		.goals = goals,
		.threads = threads,
	};
	struct part part;

	bench_begin(&bench, argc, argv);
	if (bench_wants("calculation alone"))
		bench_each_threads(measure_calculation, (void *)"calculation alone");
	/* Synchronous registrations only. */
	setenv("PEERPIN_PREREGISTER", "off", 1);
	setenv("PEERPIN_SUMMARY", "0", 1);
	for (unsigned int shape = 0; shape < SHAPES; shape++) {
		for (unsigned int i = 0; i < sizeof(lives) / sizeof(lives[0]); i++) {
			if (bench_is_quick() && lives[i] == MILLION)
				continue;
			part = (struct part){ .shape = shape, .live = lives[i] };
			name_cases(&part);
			if (is_wanted(&part))
				bench_apart(run_part, &part);
		}
	}
	return bench_end();
}
