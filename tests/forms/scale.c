/* SPDX-License-Identifier: BSD-3-Clause */
/* scale.c -- many parts and many spans: hits of repeated requests, times of a miss and of a free
 *
 * usage: scale SEED hits arena|spans|overlaps PARTS held|passing LEAST
 *        scale SEED times arena|spans
 * Settings come from the environment. LEAST: hits in percent of the repeated requests.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../vmm.h"
#include "forms.h"
#include "requests.h"

#define GRANULE ((uint64_t)64 << 10)
#define REPEATS 3
#define FEW	30u
#define MANY	10000u
#define MOST	2.0 /* ratio of the times of MANY and of FEW */
#define TRIES	5

/* ARENA: parts of one allocation, each in granules of its own. SPANS: ranges over the bounds of
 * adjacent mappings. OVERLAPS: ranges that all begin in one mapping and end in the next. */
enum shape { ARENA, SPANS, OVERLAPS };

struct scale {
	enum shape shape;
	CUdeviceptr base;
	size_t step, size; /* size: of a request */
	size_t mapping;	   /* size of each */
	unsigned int parts, mappings;
};

static enum shape scale_shape(const char *name)
{
	return !strcmp(name, "overlaps") ? OVERLAPS : !strcmp(name, "spans") ? SPANS : ARENA;
}

static struct scale scale_make(enum shape shape, unsigned int parts)
{
	struct scale scale = { .shape = shape, .parts = parts };

	scale.size = 4097 + random_below(GRANULE / 2);
	scale.step = round_up(scale.size, GRANULE) + GRANULE;
	scale.mapping = BLOCK;
	scale.mappings = shape == SPANS ? parts + 1 : 2;
	if (shape == OVERLAPS) {
		scale.step = GRANULE;
		scale.size += (parts + 1) * GRANULE;
		scale.mapping = round_up(scale.size, BLOCK);
	}
	if (shape == ARENA)
		require_cuda(cuMemAlloc_v2(&scale.base, parts * scale.step));
	else
		scale.base = map_equal(scale.mapping, scale.mappings, shape == SPANS);
	return scale;
}

static CUdeviceptr scale_at(const struct scale *scale, unsigned int part)
{
	switch (scale->shape) {
	case ARENA:
		return scale->base + part * scale->step + scale->size % 512;
	case SPANS:
		return scale->base + (part + 1) * scale->mapping - scale->size / 2;
	default:
		return scale->base + scale->mapping - (part + 1) * scale->step + scale->size % 512;
	}
}

/* The last mapping first: the simulated driver moves the list behind a mapping. */
static void scale_free(const struct scale *scale)
{
	for (unsigned int i = scale->mappings; scale->shape != ARENA && i--;)
		unmap(scale->base + i * scale->mapping, scale->mapping);
	if (scale->shape == ARENA)
		require_cuda(cuMemFree_v2(scale->base));
}

/* ---- hits ---- */

static enum shape wanted_shape;
static unsigned int wanted_parts, wanted_least;
static bool wanted_held;

static void hits_round(const struct scale *scale, struct ibv_mr **held)
{
	for (unsigned int i = 0; i < scale->parts; i++) {
		CUdeviceptr at = scale_at(scale, i);
		struct ibv_mr *mr = by_address(pd, at, scale->size, ACCESS);

		check_bytes(mr, at, at, scale->size);
		if (held)
			held[i] = mr;
		else
			drop(mr);
	}
	for (unsigned int i = 0; held && i < scale->parts; i++)
		drop(held[i]);
}

static void hits_run(size_t size)
{
	struct scale scale = scale_make(wanted_shape, wanted_parts);
	struct ibv_mr **held = NULL;
	uint64_t before, hits;
	static char text[100];

	(void)size;
	if (wanted_held)
		held = calloc(scale.parts, sizeof(*held));
	hits_round(&scale, held);
	before = own("hits");
	for (int i = 0; i < REPEATS; i++)
		hits_round(&scale, held);
	hits = own("hits") - before;
	snprintf(text, sizeof(text), "share of hits: %lu of %u repeated requests", hits,
		 REPEATS * scale.parts);
	if (hits * 100 < (uint64_t)wanted_least * REPEATS * scale.parts)
		report_wrong(text);
	scale_free(&scale);
	free(held);
}

static const char *hits_judge(uint64_t seed)
{
	static struct form_result with, without;
	struct form form = { "scale", hits_run, ONCE, "served", 0, "" };

	result = &with;
	form_run(&form, seed);
	without = with;
	without.wrong = 0;
	for (unsigned int i = 0; i < without.calls; i++)
		without.call[i].error = 0;
	return form_judge(&form, &without, &with);
}

/* ---- times ---- */

enum time { MISS, FREE, FREE_PLAIN, FREE_BESIDE, TIMES };

#define SAMPLES 40000

struct samples {
	double ns[SAMPLES];
	unsigned int count;
};

static struct samples samples[2][TIMES]; /* of few parts, and of many */

static double times_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void times_add(struct samples *to, double ns)
{
	if (to->count < SAMPLES)
		to->ns[to->count++] = ns;
}

static int times_compare(const void *one, const void *other)
{
	double difference = *(const double *)one - *(const double *)other;

	return (difference > 0) - (difference < 0);
}

static double times_median(struct samples *of)
{
	require(of->count);
	qsort(of->ns, of->count, sizeof(*of->ns), times_compare);
	return of->ns[of->count / 2];
}

/* A request that misses. */
static double times_miss(CUdeviceptr address, size_t size)
{
	double begin = times_now(), end;
	struct ibv_mr *mr = ibv_reg_mr(pd, (void *)address, size, ACCESS);

	end = times_now();
	require(mr && !ibv_dereg_mr(mr));
	return end - begin;
}

/* Per part. Each unmap is a sample. */
static void times_free(const struct scale *scale, struct samples *to)
{
	double begin, end;

	if (scale->shape == ARENA) {
		begin = times_now();
		scale_free(scale);
		times_add(to, (times_now() - begin) / scale->parts);
		return;
	}
	for (unsigned int i = scale->mappings; i--; times_add(to, end - begin)) {
		begin = times_now();
		unmap(scale->base + i * scale->mapping, scale->mapping);
		end = times_now();
	}
}

/* Of an allocation of one part, beside others. */
static void times_free_beside(struct samples *to)
{
	struct scale other = scale_make(ARENA, 1);

	times_miss(scale_at(&other, 0), other.size);
	times_free(&other, to);
}

/* Misses of the last FEW / 2 parts of the allocation. FREE_PLAIN: of as many mappings without a
 * registration, which is not peerpin's time. */
static void times_once(enum shape shape, bool many)
{
	struct scale scale = scale_make(shape, many ? MANY : FEW);
	struct scale plain = scale_make(shape, scale.parts);
	struct samples *to = samples[many];

	for (unsigned int i = 0; i < scale.parts; i++) {
		double ns = times_miss(scale_at(&scale, i), scale.size);

		if (i >= scale.parts - FEW / 2)
			times_add(&to[MISS], ns);
	}
	for (unsigned int i = 0; i < FEW / 2; i++)
		times_free_beside(&to[FREE_BESIDE]);
	times_free(&scale, &to[FREE]);
	times_free(&plain, &to[FREE_PLAIN]);
}

static bool times_ratio_is_low(const char *name, double few, double many)
{
	double ratio = many / few;

	printf("%s: %.0f ns with %u parts, %.0f ns with %u: ratio %.2f, at most %.0f\n", name, few,
	       FEW, many, MANY, ratio, MOST);
	return few > 0 && many > 0 && ratio <= MOST;
}

/* Low in one try at least: another load of the machine in a part of a try fails that alone. */
static bool miss_is_low, free_is_low, beside_is_low;

/* Few, many, many, few: a trend of the machine's load is in both. */
static void times_try(enum shape shape)
{
	double of[2][TIMES];

	memset(samples, 0, sizeof(samples));
	for (unsigned int quarter = 0; quarter < 4; quarter++) {
		bool many = quarter == 1 || quarter == 2;
		unsigned int repeats = !many ? 30 : shape == ARENA ? 3 : 1;

		while (repeats--)
			times_once(shape, many);
	}
	for (unsigned int many = 0; many < 2; many++) {
		for (unsigned int i = 0; i < TIMES; i++)
			of[many][i] = times_median(&samples[many][i]);
	}
	miss_is_low |= times_ratio_is_low("miss", of[0][MISS], of[1][MISS]);
	free_is_low |= times_ratio_is_low("free, per part", of[0][FREE] - of[0][FREE_PLAIN],
					  of[1][FREE] - of[1][FREE_PLAIN]);
	beside_is_low |= times_ratio_is_low("free beside", of[0][FREE_BESIDE], of[1][FREE_BESIDE]);
}

static bool times_are_low(void)
{
	return miss_is_low && free_is_low && beside_is_low;
}

static void times_run(size_t size)
{
	(void)size;
	for (unsigned int try = 0; try < TRIES && !times_are_low(); try++)
		times_try(wanted_shape);
}

static const char *times_judge(uint64_t seed)
{
	static struct form_result with;
	struct form form = { "times", times_run, ONCE, "served", 0, "" };

	result = &with;
	form_run(&form, seed);
	return times_are_low() ? NULL : "times grow with the number of parts";
}

int main(int count, char **arguments)
{
	bool hits = count == 7 && !strcmp(arguments[2], "hits");
	const char *text;
	uint64_t seed;

	if (count < 4) {
		fprintf(stderr, "usage: scale SEED hits SHAPE PARTS HOLD LEAST | times SHAPE\n");
		return 2;
	}
	seed = strtoul(arguments[1], NULL, 10);
	wanted_shape = scale_shape(arguments[3]);
	if (hits) {
		wanted_parts = (unsigned int)strtoul(arguments[4], NULL, 10);
		wanted_held = !strcmp(arguments[5], "held");
		wanted_least = (unsigned int)strtoul(arguments[6], NULL, 10);
	}
	text = hits ? hits_judge(seed) : times_judge(seed);
	if (text)
		printf("%s\n", text);
	return text ? EXIT_FAILURE : EXIT_SUCCESS;
}
