/* SPDX-License-Identifier: BSD-3-Clause */
/* demo_faults.c -- a preload between the client of `peerpin demo` and peerpin: DEMO_FAULT names a
 * fault, and DEMO_RUNS a file that gets a line from each run of the client */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sim_adapter.h"

int peerpin_statistic(const char *name, uint64_t *value);

static const char *fault = "";

static __attribute__((constructor)) void faults_start(void)
{
	FILE *runs = fopen(getenv("DEMO_RUNS"), "a");
	long before;

	if (!runs)
		abort();
	before = ftell(runs);
	fputs("\n", runs);
	fclose(runs);
	fault = getenv("DEMO_FAULT");
	/* In the runs of one measurement. */
	if (!strcmp(fault, "busy once"))
		fault = before < 2 ? "busy" : "idle";
}

static void *faults_next(const char *name)
{
	void *next = dlsym(RTLD_NEXT, name);

	if (!next)
		abort();
	return next;
}

#define NEXT(function) ((__typeof__(function) *)faults_next(#function))

/* The client subtracts the value at the end of its first round. */
int peerpin_statistic(const char *name, uint64_t *value)
{
	static const struct {
		const char *fault, *name;
		uint64_t first, step; /* from call to call */
	} steps[] = {
		{ "busy", "hits", 0, 0 },	{ "busy", "background_delays", 0, 1 },
		{ "busy first", "hits", 0, 0 }, { "busy first", "background_delays", 5, 0 },
		{ "early", "hits", 0, 1 },	{ "early", "background_delays", 0, 0 },
		{ "no hit", "hits", 0, 0 },	{ "no hit", "background_delays", 0, 0 },
		{ "idle", "hits", 0, 1000 },	{ "forwarded", "forwarded", 0, 1 },
	};
	static uint64_t calls;
	int result = NEXT(peerpin_statistic)(name, value);

	calls++;
	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		if (!strcmp(fault, steps[i].fault) && !strcmp(name, steps[i].name))
			*value = steps[i].first + steps[i].step * calls;
	}
	return result;
}

int sim_adapter_statistic(const char *name, uint64_t *value)
{
	int result = NEXT(sim_adapter_statistic)(name, value);

	if (!strcmp(name, "outlived") && !strcmp(fault, "outlived"))
		*value = 3;
	return result;
}

int sim_adapter_write(struct ibv_context *context, uint32_t key, uint64_t address, const void *from,
		      size_t bytes)
{
	if (!strcmp(fault, "byte") && bytes > 1)
		bytes--;
	/* The client writes a single byte with keys of freed memory. */
	if (!strcmp(fault, "key") && bytes == 1)
		return 0;
	return NEXT(sim_adapter_write)(context, key, address, from, bytes);
}
