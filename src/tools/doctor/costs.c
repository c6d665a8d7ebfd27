/* SPDX-License-Identifier: BSD-3-Clause */
/* costs.c -- the costs of registrations that --deep measured, and the time that hits save */
#include <stdio.h>

#include "tools/doctor/checks.h"
#include "tools/units.h"

static const size_t sizes[] = { PROBE_COSTS };
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

bool cost_of(struct host *host, const struct gpu *gpu, const struct adapter *adapter,
	     enum method method, unsigned int which, struct cost *cost)
{
	char name[32];
	const char *text;

	if (which >= SIZES)
		return false;
	cost->size = sizes[which];
	snprintf(name, sizeof(name), "cost/%zu", cost->size);
	text = probe_text(host, gpu, adapter, method, name, "ok");
	return text &&
	       sscanf(text, "%lld %lld %lld", &cost->export, &cost->enter, &cost->leave) == 3;
}

static void costs_print_pair(struct host *host, const struct gpu *gpu,
			     const struct adapter *adapter, enum method method)
{
	struct cost cost;
	char cell[64];

	printf("%-22s", clean(text_of("%s %s", pair_name(gpu, adapter), method_name(method))));
	for (unsigned int i = 0; cost_of(host, gpu, adapter, method, i, &cost); i++) {
		snprintf(cell, sizeof(cell), "%.2f+%.2f+%.2f", (double)cost.export / 1e6,
			 (double)cost.enter / 1e6, (double)cost.leave / 1e6);
		printf("  %-14s", cell);
	}
	puts("");
}

/* A request that hits takes nanoseconds; without peerpin it exports and registers. */
static void costs_print_savings(struct host *host, const struct gpu *gpu,
				const struct adapter *adapter, enum method method)
{
	struct cost cost;

	printf("peerpin saves, for each request that hits:");
	for (unsigned int i = 0; cost_of(host, gpu, adapter, method, i, &cost); i++)
		printf("%s %.2f ms (%s)", i ? "," : "", (double)(cost.export + cost.enter) / 1e6,
		       show(UNIT_BYTES, (int64_t)cost.size));
	puts("; with --keep, for each free: the deregistration");
}

static void costs_print_head(void)
{
	printf("\nms to export+register+deregister\n%-22s", "");
	for (size_t i = 0; i < SIZES; i++)
		printf(i + 1 < SIZES ? "  %-14s" : "  %s\n", show(UNIT_BYTES, (int64_t)sizes[i]));
}

void print_costs(struct host *host)
{
	const struct gpu *first_gpu = NULL;
	const struct adapter *first_adapter = NULL;
	enum method first = METHODS;
	struct cost cost;

	EACH_GPU(host, gpu) {
		EACH_ADAPTER(host, adapter) {
			enum method method = 0;

			while (method < METHODS && !cost_of(host, gpu, adapter, method, 0, &cost))
				method++;
			if (method == METHODS)
				continue;
			if (first == METHODS) {
				first_gpu = gpu;
				first_adapter = adapter;
				first = method;
				costs_print_head();
			}
			costs_print_pair(host, gpu, adapter, method);
		}
	}
	if (first != METHODS)
		costs_print_savings(host, first_gpu, first_adapter, first);
}
