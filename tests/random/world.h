/* SPDX-License-Identifier: BSD-3-Clause */
/* world.h -- below random programs: a driver, a kernel and an adapter that check the promises
 *
 * The driver (heap.c) takes small allocations from blocks of 2 MiB and reuses freed memory at once.
 * The kernel (world.c) reuses numbers of protection domains, the adapter (adapter.c) those of
 * regions; a key returns with another last byte. A broken promise ends the program by broken():
 *
 * - A region, from the request to its deregistration, consists of units (granules, or blocks with
 * PEERPIN_GRANULARITY=2M) that each hold live memory.
 *
 * - It is in a live protection domain, named by the struct that opened it.
 *
 * - A deregistration is of a region.
 *
 * - An adapter has no more regions than its limit, unless clients hold as many.
 *
 * - Adapters that PEERPIN_DEVICES excludes have no background registrations.
 *
 * One lock; any thread.
 */
#ifndef PEERPIN_TESTS_RANDOM_WORLD_H
#define PEERPIN_TESTS_RANDOM_WORLD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "memory/memory.h"
#include "random/source.h"
#include "registration/registration.h"

#define WORLD_THREADS 8
#define GRANULE	      ((uint64_t)64 << 10)
#define BLOCK	      ((uint64_t)2 << 20)

/* Report the broken promise and the command that repeats it, and abort. */
_Noreturn void broken(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Parts of that report: the command, and the place of this thread. */
extern const char *world_repeat;
extern __thread unsigned int world_thread;
extern __thread bool world_is_client; /* false: a thread of the library's */
extern __thread uint64_t world_operation;

/* Current event of each thread: a good target for others. */
extern _Atomic uint64_t world_recent[WORLD_THREADS];

/* From the environment: CHECK_RANDOM_ADAPTERS, number of adapters, devices distributed over them
 * (unset: one each); CHECK_RANDOM_REGIONS, an adapter's limit of regions for each thread. */
void world_begin(uint64_t seed, unsigned int threads);

/* An adapter's limit of regions; 0: none. */
unsigned int world_region_limit(void);

/* Check that nothing is registered or in flight. */
void world_must_be_empty(void);

/* In a forked child: every call of the adapter is now the parent's. */
void world_in_child(void);

/* ---- driver ---- */

/* From the heap of all threads, or the thread's own. 0: no room. */
uint64_t world_allocate(bool own, uint64_t size, CUcontext context, bool rdma_capable);

/* Right after the library released it: no region may remain. */
void world_free(uint64_t base);

/* The thread's own address space for mappings of whole blocks. */
#define MAPPED_BLOCKS 32
uint64_t world_reserved(void);
void world_map(uint64_t base, uint64_t size, bool rdma_capable); /* not accessible yet */
void world_set_access(uint64_t base, bool accessible);

/* ---- kernel ---- */

#define SHARED_DEVICE 0 /* own heap: 1 + number of the thread */
#define DEVICES	      (1 + WORLD_THREADS)
struct ibv_context *world_device(unsigned int number);

void world_pd_open(unsigned int device, struct ibv_pd *pd);

/* The kernel ends it; `held`: registrations of clients in it. True: ended. */
bool world_pd_end(const struct ibv_pd *pd, unsigned int held);

/* Adapter of the device. */
unsigned int world_adapter(const struct ibv_context *context);
const char *world_adapter_name(unsigned int adapter);

/* With everything in it. */
void world_device_close(unsigned int number);

/* ---- adapter ---- */

enum fault {
	FAULT_NONE,
	FAULT_CALL,   /* the registration after this many fails */
	FAULT_BYTES,  /* registrations beyond so many more bytes fail */
	FAULT_RANDOM, /* one of so many fails */
	FAULT_DELAY,  /* each call yields so often */
};
void world_set_fault(enum fault fault, uint64_t number);

/* NULL: the keys reach the range in the protection domain with these access flags; otherwise the
 * reason. */
const char *world_reaches(uint32_t lkey, uint32_t rkey, const struct ibv_pd *pd, int access,
			  uint64_t address, uint64_t length);

/* Whether a registration of the memory, or of its unit's neighbours, failed since the unit was last
 * empty. */
bool world_has_failed(uint64_t address);

struct world_counts {
	uint64_t pins, failures, unpins, most_regions;
};
struct world_counts world_counts(void);

/* ---- between the three files; the caller holds world_lock once threads run ---- */

void world_plug_in(unsigned int threads);

#define HOME	      ((uint64_t)0x7f1200000000)
#define SHARED_BLOCKS 512
#define OWN_BLOCKS    64
#define BLOCKS	      (SHARED_BLOCKS + WORLD_THREADS * (OWN_BLOCKS + MAPPED_BLOCKS))

extern pthread_mutex_t world_lock;
void world_units_begin(uint64_t base, uint64_t size);
void world_units_end(uint64_t base, uint64_t size);
extern const struct driver_calls world_driver;

/* Count a region's units, from before its registration to after its end or failure. */
void world_hold(const struct pin_request *request);
void world_let_go(const struct ibv_pd *pd, uint64_t base, uint64_t length, bool failed);

#endif
