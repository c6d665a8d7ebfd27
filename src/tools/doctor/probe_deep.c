/* SPDX-License-Identifier: BSD-3-Clause */
/* probe_deep.c -- --deep: data through registered memory, and the costs of registrations (child) */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/kernel.h"
#include "tools/doctor/probe_pair.h"
#include "tools/doctor/transfer.h"

/* A size that would take longer than this, by the time of the one before, is left out. */
#define COSTS_NS 2000000000ull

#define SMALL ((size_t)2 << 20)
#define LARGE ((size_t)64 << 20)

static bool probe_deep_export(enum method method, struct probe_memory *memory)
{
	memory->fd = -1;
	return !probe_pair_pinnings[method].export || probe_pair_pinnings[method].export(memory);
}

static struct ibv_mr *probe_deep_register(enum method method, const struct probe_memory *memory)
{
	struct ibv_mr *mr;

	errno = 0;
	mr = probe_pair_pinnings[method].register_it(memory, PROBE_ACCESS);
	if (!mr)
		probe_pair_failed_verbs(probe_pair_pinnings[method].call);
	return mr;
}

/* The calls succeeded before, with this size: a failure is the transfer's. */
static const char *probe_deep_transfer(enum method method, struct probe_memory *memory,
				       struct transfer transfer, bool *tried)
{
	const char *error;

	*tried = true;
	if (!probe_deep_export(method, memory))
		return probe_pair.failure;
	transfer.mr = probe_deep_register(method, memory);
	transfer.address = memory->address;
	transfer.length = memory->length;
	error = probe_pair.failure;
	if (transfer.mr) {
		error = transfer_run(probe_pair.pd, &transfer, tried);
		VERBS(ibv_dereg_mr, (struct ibv_mr *)transfer.mr);
	}
	if (memory->fd >= 0)
		close(memory->fd);
	return error;
}

static void probe_deep_exchange(struct host *host, enum method method)
{
	struct probe_memory memory = { .length = SMALL };
	const char *error, *name;
	bool tried;

	if (!probe_pair_allocate(host, &memory))
		return;
	error = probe_deep_transfer(method, &memory, (struct transfer){ .old = NULL }, &tried);
	name = probe_pair_name(method, "transfer");
	if (!tried)
		host_record_error(host, name, EOPNOTSUPP, "%s", error);
	else
		host_record(host, name, error ? "fail %s" : "ok", error);
	probe_pair_free(&memory);
}

/* Copies without and with SYNC_MEMOPS of the target (GPUDirect RDMA guide 12.6, 2.7). */
static void probe_deep_copy(struct host *host, enum method method)
{
	struct probe_memory to = { .length = LARGE }, from = { .length = LARGE };
	unsigned int old[2] = { 0 }, on = 1;
	const char *error;
	bool tried;

	if (!probe_pair_allocate(host, &to))
		return;
	if (!to.is_host && probe_pair_allocate(host, &from)) {
		error = probe_deep_transfer(
			method, &to, (struct transfer){ .from = from.address, .old = old }, &tried);
		if (!error && CUDA(cuPointerSetAttribute, &on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
				   to.address) == CUDA_SUCCESS)
			error = probe_deep_transfer(
				method, &to,
				(struct transfer){ .from = from.address, .old = old + 1 }, &tried);
		if (!error)
			host_record(host, probe_pair_name(method, "copies"), "ok %u %u %u", old[0],
				    old[1], TRANSFER_ROUNDS);
		probe_pair_free(&from);
	}
	probe_pair_free(&to);
}

/* ---- costs ---- */

static bool probe_deep_time(enum method method, struct probe_memory *memory, uint64_t *export,
			    uint64_t *enter, uint64_t *leave)
{
	uint64_t start = kernel_time(CLOCK_MONOTONIC), exported, registered;
	struct ibv_mr *mr;

	if (!probe_deep_export(method, memory))
		return false;
	exported = kernel_time(CLOCK_MONOTONIC);
	mr = probe_deep_register(method, memory);
	registered = kernel_time(CLOCK_MONOTONIC);
	if (mr)
		VERBS(ibv_dereg_mr, mr);
	*export = memory->fd < 0 ? 0 : exported - start;
	*enter = registered - exported;
	*leave = kernel_time(CLOCK_MONOTONIC) - registered;
	if (memory->fd >= 0)
		close(memory->fd);
	return mr;
}

static bool probe_deep_cost(struct host *host, enum method method, size_t length)
{
	struct probe_memory memory = { .length = length };
	uint64_t export[PROBE_TIMES], enter[PROBE_TIMES], leave[PROBE_TIMES];
	char name[32];
	bool done;

	done = probe_pair_allocate(host, &memory);
	if (!done)
		return false;
	for (int i = 0; i < PROBE_TIMES && done; i++)
		done = probe_deep_time(method, &memory, export + i, enter + i, leave + i);
	probe_pair_free(&memory);
	snprintf(name, sizeof(name), "cost/%zu", length);
	if (done)
		host_record(host, probe_pair_name(method, name), "ok %llu %llu %llu",
			    memory.fd < 0 ? 0ull : (unsigned long long)probe_pair_median(export),
			    (unsigned long long)probe_pair_median(enter),
			    (unsigned long long)probe_pair_median(leave));
	return done;
}

/* A quarter of the GPU's free memory, and of its free BAR1: other programs need both. */
static size_t probe_deep_room(struct host *host)
{
	const char *bar1 = host_text(host, "cuda/%d/bar1", probe_pair.gpu);
	unsigned long long total = 0, used = 0;
	size_t free_bytes = 0, all;

	if (CUDA(cuMemGetInfo_v2, &free_bytes, &all) != CUDA_SUCCESS)
		return 0;
	if (bar1 && sscanf(bar1, "%llu %llu", &total, &used) == 2 && total &&
	    total - used < free_bytes)
		free_bytes = total - used;
	return free_bytes / 4;
}

void probe_deep(struct host *host, enum method method)
{
	static const size_t sizes[] = { PROBE_COSTS, 0 };
	const char *option = host_text(host, "option/deep");
	const char *small = host_text(host, "%s", probe_pair_name(method, PROBE_SMALL));
	uint64_t start;
	size_t room;

	if (!option || strcmp(option, "on") || !small || strncmp(small, "ok", 2))
		return;
	room = probe_deep_room(host);
	probe_deep_exchange(host, method);
	if (room >= LARGE)
		probe_deep_copy(host, method);
	for (size_t i = 0; sizes[i] && sizes[i] <= room; i++) {
		start = kernel_time(CLOCK_MONOTONIC);
		if (!probe_deep_cost(host, method, sizes[i]))
			return;
		if (sizes[i + 1] / sizes[i] * (kernel_time(CLOCK_MONOTONIC) - start) > COSTS_NS)
			return;
	}
}
