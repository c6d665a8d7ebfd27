/* SPDX-License-Identifier: BSD-3-Clause */
/* probe_pair.h -- registers memory of one GPU with one adapter by each method (child) */
#ifndef PEERPIN_TOOLS_DOCTOR_PROBE_PAIR_H
#define PEERPIN_TOOLS_DOCTOR_PROBE_PAIR_H

#include "tools/doctor/cuda_calls.h"
#include "tools/doctor/verbs_calls.h"

struct probe_pair {
	/* Parameters of the next child, set before the fork. */
	int gpu;
	char adapter[64];
	enum method first; /* earlier methods are done */
	/* Of the child. */
	struct ibv_pd *pd;
	const char *failure; /* the last: "ibv_reg_mr EFAULT" */
};

extern struct probe_pair probe_pair;

/* In the child. */
void probe_pair_query(struct host *host);

/* Parent only: records failure `how` of the lost child for this method. Readings already
 * recorded stay (host_record). */
void probe_pair_lost(struct host *host, enum method method, const char *how);

/* ---- probe_deep.c: --deep ---- */

/* In the child, after the method's registrations: transfers, copies with and without SYNC_MEMOPS,
 * and costs by size. Nothing without --deep, or if the registrations failed. */
void probe_deep(struct host *host, enum method method);

/* Calls of a measurement; the reading is their median. */
#define PROBE_TIMES 5

struct probe_memory {
	CUdeviceptr address;
	size_t length;
	int fd; /* dma-buf descriptor; -1: none */
	bool is_host;
};

extern const struct pinning {
	const char *call;
	bool (*export)(struct probe_memory *memory); /* NULL: no export */
	struct ibv_mr *(*register_it)(const struct probe_memory *memory, int access);
} probe_pair_pinnings[METHODS];

/* False, as with each failed call: see probe_pair.failure. */
bool probe_pair_allocate(struct host *host, struct probe_memory *memory);
void probe_pair_free(const struct probe_memory *memory);
bool probe_pair_failed_verbs(const char *call);
/* Sorts the times. */
uint64_t probe_pair_median(uint64_t times[PROBE_TIMES]);
/* Name of a reading of the pair, in a buffer that the next call overwrites. */
const char *probe_pair_name(enum method method, const char *what);

#endif
