/* SPDX-License-Identifier: BSD-3-Clause */
/* registration_allocating.c -- time of cuMemAlloc and cuMemFree with peerpin, beside the driver's
 * own
 *
 * Both alternate in one process, since the driver's time differs more between processes than the
 * difference sought. A pair is one time of each, in alternating order. The result is the median of
 * the differences.
 *
 * Without pauses a time is the mean of a batch; with pauses, in which a program would wait for its
 * GPU, that of one call. Allocations of the driver's own are freed by the driver's own.
 */
#include "registration.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH	    64
#define PAUSE	    2e6 /* ns */
#define PAIRS	    400
#define LEAST	    100
#define QUICK	    4
#define LONG_ENOUGH 3e9 /* ns: afterwards LEAST pairs suffice */

struct domains {
	struct ibv_pd *pds[16];
	unsigned int count;
};

struct functions {
	__typeof__(cuMemAlloc_v2) *allocate;
	__typeof__(cuMemFree_v2) *give_back;
};

enum side { OURS, DRIVERS, SIDES };

/* Times of the pairs, in ns. */
struct times {
	double allocating[SIDES][PAIRS], freeing[SIDES][PAIRS];
	unsigned int pairs;
};

/* Busy, as a program that waits for its GPU: sleep would measure caches and clocks that wake up. */
static void compute(double ns)
{
	double start = client_now();

	while (ns > 0 && client_now() - start < ns)
		;
}

/* Mean time of `count` allocations, or of their frees. */
static double allocate(const struct functions *functions, CUdeviceptr *memory, unsigned int count)
{
	double start = client_now();

	for (unsigned int i = 0; i < count; i++)
		bench_require(functions->allocate(&memory[i], MIB) == CUDA_SUCCESS,
			      "no GPU memory");
	return (client_now() - start) / count;
}

static double give_back(const struct functions *functions, const CUdeviceptr *memory,
			unsigned int count)
{
	double start = client_now();

	for (unsigned int i = 0; i < count; i++)
		bench_require(functions->give_back(memory[i]) == CUDA_SUCCESS,
			      "GPU memory cannot be freed");
	return (client_now() - start) / count;
}

/* So that allocations of this size are requested ones. */
static void ask_for(const struct domains *domains, CUdeviceptr memory)
{
	struct buffer one = { .address = memory, .size = MIB, .dmabuf = -1 };

	client_export(&one);
	for (unsigned int i = 0; i < domains->count; i++)
		client_use(domains->pds[i], &one, 0, MIB);
	client_end_export(&one);
}

static void one_side(const struct domains *domains, enum side side, unsigned int count,
		     double pause, struct times *times)
{
	const struct functions functions = {
		side == OURS ? client.cuMemAlloc_v2 : client.driver_alloc,
		side == OURS ? client.cuMemFree_v2 : client.driver_free,
	};
	CUdeviceptr memory[BATCH];

	compute(pause);
	times->allocating[side][times->pairs] = allocate(&functions, memory, count);
	if (side == OURS)
		ask_for(domains, memory[0]);
	compute(pause);
	times->freeing[side][times->pairs] = give_back(&functions, memory, count);
}

static void one_pair(const struct domains *domains, unsigned int count, double pause,
		     struct times *times)
{
	enum side first = times->pairs % 2 && client.driver_alloc ? DRIVERS : OURS;

	one_side(domains, first, count, pause, times);
	if (client.driver_alloc)
		one_side(domains, first == OURS ? DRIVERS : OURS, count, pause, times);
}

/* ---- rows ---- */

static const char *const paces[] = { "at once", "with pauses" };
static const unsigned int domain_counts[] = { 0, 1, 4, 16 };

static void name_times(char *name, size_t size, bool freeing, bool added, unsigned int domains,
		       unsigned int pace)
{
	snprintf(name, size, "%s%s, %u domain%s, %s", freeing ? "cuMemFree" : "cuMemAlloc",
		 added ? " added" : "", domains, domains == 1 ? "" : "s", paces[pace]);
}

bool allocating_is_wanted(const char *mode)
{
	char name[80];

	for (unsigned int i = 0; i < 32; i++) {
		name_times(name, sizeof(name), i & 1, i >> 1 & 1, domain_counts[i / 8], i >> 2 & 1);
		if (bench_wants_in(name, mode))
			return true;
	}
	return false;
}

/* Median of differences; it lies between least and most with 95 % certainty for any distribution
 * (binomial). */
static void report_added(struct bench_row row, const double *ours, const double *drivers,
			 unsigned int pairs)
{
	double differences[PAIRS];
	unsigned int reach = (unsigned int)ceil(0.98 * sqrt(pairs)), middle = pairs / 2;

	for (unsigned int i = 0; i < pairs; i++)
		differences[i] = ours[i] - drivers[i];
	client_sort(differences, pairs);
	row.ns = differences[middle];
	row.min_ns = differences[reach < middle ? middle - reach : 0];
	row.max_ns = differences[middle + reach < pairs ? middle + reach : pairs - 1];
	bench_report(row);
}

static void report(bool freeing, unsigned int domains, unsigned int pace, double (*of)[PAIRS],
		   unsigned int pairs)
{
	struct bench_row row = bench_row("", 0, 1), added = row;

	name_times(row.name, sizeof(row.name), freeing, false, domains, pace);
	name_times(added.name, sizeof(added.name), freeing, true, domains, pace);
	if (client.driver_alloc)
		report_added(added, of[OURS], of[DRIVERS], pairs);
	client_set_times(&row, of[OURS], pairs);
	if (client.driver_alloc) {
		client_sort(of[DRIVERS], pairs);
		snprintf(row.peer, sizeof(row.peer), "the driver's own");
		row.peer_ns = of[DRIVERS][pairs / 2];
	}
	bench_report(row);
}

static void measure(const struct domains *domains, unsigned int pace)
{
	static struct times times;
	unsigned int count = pace ? 1 : bench_is_quick() ? QUICK : BATCH;
	unsigned int most = bench_is_quick() ? QUICK : PAIRS;
	double pause = pace ? PAUSE : 0, began;

	times.pairs = 0;
	one_pair(domains, count, pause, &times); /* discard the first of its kind */
	for (began = client_now(); times.pairs < most; times.pairs++) {
		if (times.pairs >= LEAST && client_now() - began >= LONG_ENOUGH)
			break;
		one_pair(domains, count, pause, &times);
	}
	report(false, domains->count, pace, times.allocating, times.pairs);
	report(true, domains->count, pace, times.freeing, times.pairs);
}

void run_allocations(void)
{
	struct domains domains = { .count = 0 };
	struct buffer buffer = client_allocate(MIB);

	for (unsigned int i = 0; i < 4; i++) {
		for (; domains.count < domain_counts[i]; domains.count++) {
			domains.pds[domains.count] = client_domain();
			client_use(domains.pds[domains.count], &buffer, 0, MIB);
		}
		measure(&domains, 0);
		measure(&domains, 1);
	}
}
