/* SPDX-License-Identifier: BSD-3-Clause */
/* world.h -- what random programs run on: a driver, a kernel and an adapter that watch over the
 * promises
 *
 * The driver (heap.c) carves small allocations out of blocks of 2 MiB and gives out what was freed
 * at once. The kernel (world.c) gives out the numbers of protection domains, the adapter
 * (adapter.c) those of regions, in the same way; a key comes back with another last byte. Whoever
 * breaks a promise ends the program by broken():
 * - what is registered, from the moment that the adapter is asked until it has deregistered, is
 * made of units (granules, or blocks with PEERPIN_GRANULARITY=2M) each of which holds living
 * memory;
 * - it is in a protection domain that the kernel has not ended, named by the struct it was opened
 * with;
 * - what is deregistered is registered;
 * - an adapter has no more regions than it can have, as long as clients do not hold as many;
 * - what PEERPIN_DEVICES does not name is not registered on ahead.
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

/* Says which promise is broken and how to see it again, and aborts. */
_Noreturn void broken(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What the message says of the program: what repeats it, and where this thread is in it. */
extern const char *world_repeat;
extern __thread unsigned int world_thread;
extern __thread bool world_is_client; /* false: a thread of the library's own */
extern __thread uint64_t world_operation;

/* Where each thread's memory begins or ends just now: a good place for others to look at. */
extern _Atomic uint64_t world_recent[WORLD_THREADS];

/* Of the environment, beside what the library is told: CHECK_RANDOM_ADAPTERS, so many there are,
 * and the devices are of one after the other (not set: each is of its own); CHECK_RANDOM_REGIONS,
 * so many regions for each thread an adapter can have. */
void world_begin(uint64_t seed, unsigned int threads);

/* Regions that each adapter can have; 0: any number. */
unsigned int world_region_limit(void);

/* Nothing is registered, or about to be. */
void world_must_be_empty(void);

/* In a forked child: whatever comes to the adapter now is the parent's. */
void world_in_child(void);

/* ---- driver ---- */

/* From the heap of all threads, or the thread's own. Returns the address; 0: there is no room. */
uint64_t world_allocate(bool own, uint64_t size, CUcontext context, bool rdma_capable);

/* Right after the library said that nothing uses it any more: so nothing may. */
void world_free(uint64_t base);

/* Address space of the thread's own for mappings of whole blocks. */
#define MAPPED_BLOCKS 32
uint64_t world_reserved(void);
void world_map(uint64_t base, uint64_t size, bool rdma_capable); /* not accessible yet */
void world_set_access(uint64_t base, bool accessible);

/* ---- kernel ---- */

#define SHARED_DEVICE 0 /* the thread's own is 1 + its number */
#define DEVICES	      (1 + WORLD_THREADS)
struct ibv_context *world_device(unsigned int number);

void world_pd_open(unsigned int device, struct ibv_pd *pd);

/* The kernel is asked to end it, with so many of our registrations in a client's hands. True: it
 * has, since nothing was in it. */
bool world_pd_end(const struct ibv_pd *pd, unsigned int held);

/* The adapter of that device. */
unsigned int world_adapter(const struct ibv_context *context);
const char *world_adapter_name(unsigned int adapter);

/* With all that is in it. */
void world_device_close(unsigned int number);

/* ---- adapter ---- */

enum fault {
	FAULT_NONE,
	FAULT_CALL,   /* the registration after so many fails */
	FAULT_BYTES,  /* those fail that would make it more bytes than there are now and so many */
	FAULT_RANDOM, /* one of so many fails */
	FAULT_DELAY,  /* registrations and deregistrations yield the processor so often */
};
void world_set_fault(enum fault fault, uint64_t number);

/* NULL if these keys reach all of the range in the protection domain with these rights now; or why
 * not. */
const char *world_reaches(uint32_t lkey, uint32_t rkey, const struct ibv_pd *pd, int access,
			  uint64_t address, uint64_t length);

/* Whether a registration of the memory there, or of what shares its unit, has failed since the unit
 * was last empty. */
bool world_has_failed(uint64_t address);

struct world_counts {
	uint64_t pins, failures, unpins, most_regions;
};
struct world_counts world_counts(void);

/* ---- between the three files; the lock is held, but where nobody is there yet ---- */

void world_plug_in(unsigned int threads);

#define HOME	      ((uint64_t)0x7f1200000000)
#define SHARED_BLOCKS 512
#define OWN_BLOCKS    64
#define BLOCKS	      (SHARED_BLOCKS + WORLD_THREADS * (OWN_BLOCKS + MAPPED_BLOCKS))

extern pthread_mutex_t world_lock;
void world_units_begin(uint64_t base, uint64_t size);
void world_units_end(uint64_t base, uint64_t size);
extern const struct driver_calls world_driver;

/* The adapter holds, or is about to, memory in a protection domain; and no longer, since it failed
 * or has ended. */
void world_hold(const struct pin_request *request);
void world_let_go(const struct ibv_pd *pd, uint64_t base, uint64_t length, bool failed);

#endif
