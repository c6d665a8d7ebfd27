/* SPDX-License-Identifier: BSD-3-Clause */
/* cycles.c -- a client of verbs that uses GPU memory as MPI programs do, some thousand times over
 *
 * Each pattern says which of its registrations have to be hits, and peerpin's statistics have to agree. Free memory is
 * the same before and after, and SYNC_MEMOPS, read from the driver itself and not through peerpin, is set on what was
 * registered and on nothing else. Runs under the preload, with the simulated adapter, on the real driver or the
 * simulated one.
 */
#include "cycles.h"

#include <string.h>

#define WARM_UP 40

/* ---- rows ---- */

struct counts {
	uint64_t requests, hits, waited, taken_over, on_demand, not_served, failed;
};

static struct counts counted(void)
{
	return (struct counts){ .requests = client_statistic("requests"),
				.hits = client_statistic("hits"),
				.waited = client_statistic("waited"),
				.taken_over = client_statistic("taken_over"),
				.on_demand = client_statistic("on_demand"),
				.not_served = client_statistic("not_served"),
				.failed = client_statistic("registrations_failed") };
}

static bool row(const struct pattern *pattern, int cycles)
{
	struct counts before, after;
	size_t free_before, free_after;
	uint64_t others;
	double start;
	bool good;

	/* What the driver keeps for itself it keeps from the first cycles on. */
	pattern->run(cycles < WARM_UP ? cycles : WARM_UP);
	told.asked = told.due = told.looked = told.wrong = 0;
	free_before = client_free_memory();
	before = counted();
	start = client_seconds();
	pattern->run(cycles);
	start = client_seconds() - start;
	after = counted();
	free_after = client_free_memory();
	after.requests -= before.requests;
	after.hits -= before.hits;
	others = after.waited + after.taken_over + after.on_demand - before.waited - before.taken_over -
		 before.on_demand;
	good = free_before == free_after && after.requests == told.asked && after.hits >= told.due &&
	       after.hits + others == told.asked && after.not_served == before.not_served &&
	       after.failed == before.failed && !told.wrong;
	printf("%s %s: %d cycles, %.2f s: %llu requests of %llu, %llu hits of at least %llu, %llu others, "
	       "%llu not served; free memory %zu before, %zu after; SYNC_MEMOPS wrong %llu times of %llu\n",
	       good ? "ok" : "not ok", pattern->name, cycles, start, (unsigned long long)after.requests,
	       (unsigned long long)told.asked, (unsigned long long)after.hits, (unsigned long long)told.due,
	       (unsigned long long)others, (unsigned long long)(after.not_served - before.not_served),
	       free_before, free_after, (unsigned long long)told.wrong, (unsigned long long)told.looked);
	fflush(stdout);
	return good;
}

/* Nothing of any kind has the attribute but by an adapter's use. */
static bool unused_kinds(void)
{
	CUdeviceptr plain, pitched, pooled;
	size_t pitch;
	bool good;

	plain = client_obtain(2 * MIB);
	must_cuda(cuMemAllocPitch_v2(&pitched, &pitch, 1000, 1000, 4));
	must_cuda(cuMemAllocAsync(&pooled, 2 * MIB, NULL));
	must_cuda(cuCtxSynchronize());
	good = !client_is_set(plain) && !client_is_set(pitched) && !client_is_set(pooled);
	client_use(plain, 2 * MIB, false);
	good = good && client_is_set(plain) && !client_is_set(pitched) && !client_is_set(pooled);
	client_use(pitched, pitch, false);
	good = good && client_is_set(pitched) && !client_is_set(pooled);
	must_cuda(cuMemFreeAsync(pooled, NULL));
	client_free(pitched);
	client_free(plain);
	printf("%s kinds: SYNC_MEMOPS stands on what was used alone\n", good ? "ok" : "not ok");
	return good;
}

static int usage(FILE *to)
{
	fputs("usage: cycles [--cycles N] [PATTERN...]\npatterns:", to);
	for (size_t i = 0; patterns[i].name; i++)
		fprintf(to, " %s", patterns[i].name);
	fputs("\n", to);
	return to == stdout ? 0 : 2;
}

static bool is_known(const char *name)
{
	size_t i = 0;

	while (patterns[i].name && strcmp(patterns[i].name, name))
		i++;
	return patterns[i].name;
}

int main(int count, char **arguments)
{
	int cycles = 200, first = 1, passed = 0, failed = 0;

	if (count > 1 && !strcmp(arguments[1], "--help"))
		return usage(stdout);
	if (count > 2 && !strcmp(arguments[1], "--cycles")) {
		cycles = atoi(arguments[2]);
		first = 3;
	}
	for (int i = first; i < count; i++) {
		if (!is_known(arguments[i]))
			return usage(stderr);
	}
	if (cycles <= 0)
		return usage(stderr);
	client_begin();
	for (size_t i = 0; patterns[i].name; i++) {
		bool wanted = count == first;

		for (int j = first; j < count; j++)
			wanted = wanted || !strcmp(arguments[j], patterns[i].name);
		if (wanted && row(&patterns[i], cycles))
			passed++;
		else
			failed += wanted;
	}
	if (unused_kinds())
		passed++;
	else
		failed++;
	client_end();
	printf("%d passed, %d failed, 0 skipped\n", passed, failed);
	return failed != 0;
}
