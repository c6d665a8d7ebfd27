/* SPDX-License-Identifier: BSD-3-Clause */
/* cycles.h -- what the patterns of cycles.c share: a client of verbs, and the driver behind
 * peerpin's back */
#ifndef PEERPIN_TESTS_GPU_CYCLES_H
#define PEERPIN_TESTS_GPU_CYCLES_H

#include <stdatomic.h>
#include <stdbool.h>

#include "memory/cuda_abi.h"
#include "sim/adapter_verbs.h"
#include "statistic.h"

#define MIB ((size_t)1 << 20)

#define must_cuda(call) must((call) == CUDA_SUCCESS)

/* Ends the program where there is no driver, no adapter or no peerpin. */
void client_begin(void);
void client_end(void);
extern CUcontext client_context;
extern struct ibv_pd *client_pd, *client_other_pd;

/* The driver sets SYNC_MEMOPS on all that lies in one block: of what lies beside what was used
 * nothing can be said. */
extern bool client_neighbours_share;

/* What a pattern has asked for, which of it had to be a hit, and what was seen of SYNC_MEMOPS. */
struct client_told {
	atomic_ullong asked, due, looked, wrong;
};
extern struct client_told told;

uint64_t client_adapter_statistic(const char *name);
size_t client_free_memory(void);

CUdeviceptr client_obtain(size_t size);
void client_free(CUdeviceptr address);

/* surely: it was registered before, or has been in the background, and so has to be a hit. */
struct ibv_mr *client_register(struct ibv_pd *pd, CUdeviceptr address, size_t size, bool surely);
/* Registered, and no longer. */
void client_use(CUdeviceptr address, size_t size, bool surely);
/* The adapter writes there and reads it back; only the simulated driver's memory can be looked at.
 */
void client_reach(const struct ibv_mr *mr);

/* SYNC_MEMOPS as the driver itself has it, and whether that is what it should be. */
bool client_is_set(CUdeviceptr address);
void client_look(CUdeviceptr address, bool expected);

/* A pattern, in which a process of its own dies; and what that does, if it was started as "cycles
 * --die". */
void crash(int cycles);
void crash_child(void) __attribute__((noreturn));

/* Each does its cycles and leaves nothing; the last one has no name. */
struct pattern {
	const char *name;
	void (*run)(int cycles);
	bool any_way; /* peer memory is no failure */
};
extern const struct pattern patterns[];

#endif
