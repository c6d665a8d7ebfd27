/* SPDX-License-Identifier: BSD-3-Clause */
/* cycles.h -- shared by the patterns of cycles.c: a verbs client, and the driver's own functions */
#ifndef PEERPIN_TESTS_GPU_CYCLES_H
#define PEERPIN_TESTS_GPU_CYCLES_H

#include <stdatomic.h>
#include <stdbool.h>

#include "memory/cuda_abi.h"
#include "sim/adapter_verbs.h"
#include "statistic.h"

#define MIB ((size_t)1 << 20)

#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

#define must_cuda(call) must((call) == CUDA_SUCCESS)

/* Exits without a driver, an adapter or peerpin. */
void client_begin(void);
void client_end(void);
extern CUcontext client_context;
extern struct ibv_pd *client_pd, *client_other_pd;

/* The driver sets SYNC_MEMOPS on a whole block: the neighbours of used memory cannot be judged. */
extern bool client_neighbours_share;

/* A pattern's requests, its required hits, and the observed SYNC_MEMOPS. */
struct client_counts {
	atomic_ullong requests, due, looked, wrong;
};
extern struct client_counts seen;

uint64_t client_adapter_statistic(const char *name);
size_t client_free_memory(void);

CUdeviceptr client_obtain(size_t size);
void client_free(CUdeviceptr address);

/* surely: registered before, also in the background, so it must be a hit. */
struct ibv_mr *client_register(struct ibv_pd *pd, CUdeviceptr address, size_t size, bool surely);
/* Register and deregister. */
void client_use(CUdeviceptr address, size_t size, bool surely);
/* The adapter writes and reads back; only the simulated driver's memory can be read. */
void client_reach(const struct ibv_mr *mr);

/* SYNC_MEMOPS according to the driver itself, and whether it is as expected. */
bool client_is_set(CUdeviceptr address);
void client_look(CUdeviceptr address, bool expected);

/* A pattern in which another process dies; and that process, started as "cycles --die". */
void crash(int cycles);
void crash_child(void) __attribute__((noreturn));

/* Each runs its cycles and frees everything; the last has no name. */
struct pattern {
	const char *name;
	void (*run)(int cycles);
	bool any_way; /* peer memory is no failure */
	bool by_name; /* left out where it is not named */
};
extern const struct pattern patterns[];

#endif
