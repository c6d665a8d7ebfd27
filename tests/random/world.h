/* SPDX-License-Identifier: BSD-3-Clause */
/* world.h -- below random programs: a driver, a kernel and an adapter that check the promises
 *
 * The driver (heap.c) takes small allocations from blocks of 2 MiB and reuses freed memory at once.
 * The kernel (world.c) reuses numbers of protection domains, the adapter (adapter.c) those of
 * regions; a key returns with another last byte. A broken promise ends the program by broken():
 *
 * - A region, from the request to its deregistration, consists of pages whose granules each hold
 * live memory.
 *
 * - It is in a live protection domain, named by the struct that opened it.
 *
 * - A deregistration is of a region.
 *
 * - An adapter has no more regions than its limit, unless clients hold as many.
 *
 * - Adapters that PEERPIN_DEVICES excludes have no background registrations.
 *
 * - Kept memory (keep.h) that is handed out is of that context and request, and has no other owner.
 * The library frees no other memory, and the program's own frees reach no kept memory.
 *
 * One lock; any thread.
 */
#ifndef PEERPIN_TESTS_RANDOM_WORLD_H
#define PEERPIN_TESTS_RANDOM_WORLD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "memory/keep.h"
#include "random/source.h"
#include "registration/methods.h"

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
 * (unset: one each); CHECK_RANDOM_REGIONS, an adapter's limit of regions for each thread;
 * CHECK_RANDOM_GPU, bytes of each GPU; CHECK_RANDOM_FAULTS=0, no registration fails and none is
 * evicted; CHECK_RANDOM_KEEP_END, operation at which nothing more is kept. */
void world_begin(uint64_t seed, unsigned int threads);

/* An adapter's limit of regions; 0: none. */
unsigned int world_region_limit(void);

bool world_has_faults(void);
uint64_t world_keep_end_at(void);

/* Check that nothing is registered or in flight. */
void world_must_be_empty(void);

/* In a forked child: every call of the adapter is now the parent's. */
void world_in_child(void);

/* ---- driver ---- */

/* From the heap of all threads, or the thread's own. 0: no room. */
uint64_t world_allocate(bool own, const struct keep_request *request, CUcontext context,
			bool rdma_capable);

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

/* The kernel ends it; clients have no registrations in it. */
void world_pd_end(const struct ibv_pd *pd);

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

/* ---- contexts (contexts.c) ---- */

#define GPUS		2
#define CONTEXTS	2 /* of each thread */
#define SHARED_CONTEXTS 2 /* never end */

struct CUctx_st {
	unsigned int gpu;
	_Atomic bool alive;
	unsigned int reusing; /* threads that may reuse kept memory of it */
	uint64_t reuses;      /* so far */
};

CUcontext world_context(unsigned int thread, unsigned int which);
CUcontext world_shared_context(unsigned int which);

/* Make it current; an ended one begins again. */
void world_enter(CUcontext context);

/* Whether the calling thread's waits fail. */
void world_fail_waits(bool failing);

/* The context that this thread last waited for. */
extern __thread CUcontext world_waited;

/* Captures in progress, of all threads. */
extern _Atomic int world_captures;

/* The context has ended. `settled`: all of its memory was freed before. Else its memory is unknown
 * to the driver, and its addresses stay taken until world_context_settled(). */
void world_context_ended(CUcontext context, bool settled);
void world_context_settled(CUcontext context);

/* ---- kept memory (kept.c) ---- */

/* A range of the memory that is registered, in a protection domain that stays open. */
struct world_region {
	const struct ibv_pd *pd; /* NULL: none */
	int access;
	uint64_t address, length;
};

struct world_kept {
	bool given_up; /* freed by the program */
	bool surely;   /* kept: the call has returned */
	uint64_t serial;
	uint64_t ending, ended; /* records of the memory, until this id */
	uint64_t evictions;	/* until it was given up */
	struct world_region region;
};

/* Bracket calls that may change kept memory. Between them nothing changes: the counters are then
 * compared with the kept memory, and the limits hold. */
void world_keep_begin(void);
void world_keep_end(void);

/* True if memory of the request fits within the limit. */
bool world_is_keepable(uint64_t base);

/* The program frees it, and the library may keep it. Returns its number. */
uint64_t world_give_up(uint64_t base, const struct world_region *region);
void world_take_back(uint64_t base);
void world_has_kept(uint64_t base, uint64_t number);

/* A free of this memory must have released what its context keeps in its list. */
void world_must_have_released(uint64_t base);

/* True if memory of `one` may be that of `other`: of its class of sizes, or a little more. */
bool world_fits(const struct keep_request *one, const struct keep_request *other);

/* Bracket an allocation that may reuse. The single thread knows the address: 0 if there is none;
 * WORLD_UNKNOWN: the library may not look so far. */
#define WORLD_UNKNOWN 1
uint64_t world_reuse_begins(CUcontext context, const struct keep_request *request);
void world_reuse_ends(CUcontext context);

struct world_reused {
	uint64_t size; /* of the whole memory, as the driver has it */
	bool own, rdma_capable;
	struct world_region region; /* registered still */
	uint64_t failures;	    /* so far */
};
struct world_reused world_reuse(uint64_t base, CUcontext context,
				const struct keep_request *request);

/* Not 0 while the address is in kept memory that is not reused; another number after a reuse. */
uint64_t world_hidden(uint64_t address);

/* The program's own call reaches the driver with the address: it must not be kept memory's. */
void world_must_not_be_kept(uint64_t address);

/* No memory of the context is kept (NULL: of any). */
void world_must_keep_nothing(CUcontext context);

/* State of the memory that had these ids. */
enum world_life { WORLD_LIVES, WORLD_ENDING, WORLD_GONE };
enum world_life world_life(uint64_t address, uint64_t buffer_id, uint64_t id);
void world_record_ended(uint64_t base, uint64_t id);

/* An eviction, or a failure of a registration: idle regions may end, now or soon. */
void world_may_evict(void);
uint64_t world_failures(void); /* how often so far */

/* keep_end() has returned. */
extern _Atomic bool world_keeps_no_more;

/* Calls that the driver refused for want of memory: those that have begun to release kept memory,
 * and those that are settled. */
extern _Atomic uint64_t world_refused, world_settled;

/* Bytes kept there: KEEP_CURRENT, KEEP_HOST or KEEP_DEVICES. */
uint64_t world_kept_at(int device);

/* Releases so far, by all threads and by this one. */
extern _Atomic uint64_t world_released;
extern __thread uint64_t world_own_releases;

/* Registrations by this thread: all, and those of the watched memory in their domain. */
extern __thread uint64_t world_own_pins, world_watched_pins;
extern __thread const struct world_region *world_watched; /* NULL: none */

/* Program's events of this thread. */
extern __thread struct world_events {
	unsigned int allocated, freeing;
	uint64_t base, allocated_id, freeing_id;
} world_events;

/* ---- between the files; the caller holds world_lock once threads run ---- */

void world_plug_in(unsigned int threads);
void world_begin_contexts(unsigned int threads);
extern unsigned int world_threads;

#define HOME	      ((uint64_t)0x7f1200000000)
#define SHARED_BLOCKS 512
#define OWN_BLOCKS    64
#define BLOCKS	      (SHARED_BLOCKS + WORLD_THREADS * (OWN_BLOCKS + MAPPED_BLOCKS))

extern pthread_mutex_t world_lock;
void world_units_begin(uint64_t base, uint64_t size);
void world_units_end(uint64_t base, uint64_t size);
extern const struct driver_calls world_driver;
unsigned int world_from_environment(const char *name, unsigned int otherwise);

/* Count a region's units, from before its registration to after its end or failure. */
void world_hold(const struct pin_request *request);
void world_let_go(const struct ibv_pd *pd, uint64_t base, uint64_t length, bool failed);

#endif
