/* SPDX-License-Identifier: BSD-3-Clause */
/* sim.h -- the simulated driver's state, and the lock that guards it
 *
 * A libcuda.so.1 for machines without a GPU: device memory is host memory in an address range of its own.
 * What it does where the interface leaves a choice is what a real driver was measured to do; the contract
 * tests hold both to the same. Like the real one it answers everything under one lock, sim_lock, which guards
 * all that this header declares except the thread's own stack of contexts. libc is called with it held where
 * memory changes hands: what memory hooks do then must not come back to CUDA.
 */
#ifndef PEERPIN_SIM_SIM_H
#define PEERPIN_SIM_SIM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/cuda_abi.h"

#define SIM_DEVICES_MAX 8
#define SIM_VERSION	13000

extern pthread_mutex_t sim_lock;

/* ---- device.c ---- */

struct sim_device {
	uint64_t base;	   /* of its address range */
	uint64_t memory;   /* bytes, a multiple of 2 MiB */
	int file;	   /* what backs the range */
	CUcontext primary; /* NULL: never retained */
	unsigned int retains;
	unsigned int primary_flags;
	struct sim_block *blocks; /* memory / 2 MiB of them */
	uint64_t used_blocks;
};

extern struct sim_device sim_devices[SIM_DEVICES_MAX];
extern int sim_device_count; /* 0: cuInit has not been called */

/* Takes the lock if the driver is initialised; otherwise returns the error without it. */
CUresult sim_enter(void);
CUresult sim_leave(CUresult result); /* passes its argument on */

/* ---- context.c ---- */

struct CUctx_st {
	struct CUctx_st *next; /* contexts are never given back, so that a stale handle is recognised */
	int device;
	unsigned int flags;
	unsigned int usage; /* attachments, for cuCtxAttach and cuCtxDetach */
	bool primary;
	bool alive;
};

/* sim_enter for what needs a current context: an error too where there is none, or it has been destroyed. */
CUresult sim_enter_context(CUcontext *current);

/* ---- allocator.c ---- */

#define SIM_BLOCK ((uint64_t)2 << 20)

struct sim_allocation {
	struct sim_allocation *next; /* next higher of those that begin in the same block */
	uint64_t base, size;
	uint64_t buffer_id;
	CUcontext context;
	int device;
	bool host; /* page-locked memory of the host */
	bool sync_memops;
};

struct sim_block {
	struct sim_allocation *first; /* begins in this block, or owns it */
	bool whole;		      /* first owns the whole block, and may begin in an earlier one */
	bool used;
};

/* Reserves a device's address range. Returns 0, or -errno having done nothing. */
int sim_reserve(struct sim_device *device);

/* NULL: out of memory. */
struct sim_allocation *sim_allocate(CUcontext context, uint64_t size);
void sim_free(struct sim_allocation *allocation);
uint64_t sim_next_buffer_id(void); /* each is given once */

/* The allocation of whatever kind that the address lies in; NULL if it is not the driver's. */
struct sim_allocation *sim_find(uint64_t address);
/* Whether the address is of a device's range, allocated or not. */
bool sim_is_device_address(uint64_t address);
void sim_free_context(CUcontext context);

/* ---- host.c ---- */

struct sim_allocation *sim_find_host(uint64_t address);
void sim_free_host_of(CUcontext context);

#endif
