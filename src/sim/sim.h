/* SPDX-License-Identifier: BSD-3-Clause */
/* sim.h -- the simulated driver's state, and the lock that guards it
 *
 * A libcuda.so.1 for machines without a GPU. Device memory is host memory in an address range of
 * its own. Where the interface leaves a choice, behaviour follows measurements of a real driver.
 * Contract tests check both drivers alike.
 *
 * One lock, sim_lock, serialises all calls, as in the real driver. sim_lock guards every
 * declaration here except a thread's context stack. Hazard: libc's mmap, munmap and madvise run
 * with sim_lock held, so memory hooks must not call CUDA.
 *
 * Settings, read from the environment by cuInit:
 * PEERPIN_SIM_DEVICES: number of devices
 * PEERPIN_SIM_MEMORY: bytes of each device, with suffix K, M or G
 * PEERPIN_SIM_PAGEABLE=1: devices access memory from malloc
 * PEERPIN_SIM_DMABUF=0: no dma-buf exports
 * PEERPIN_SIM_C2C=1: dma-buf exports can map the memory over PCIe, as on hosts with NVLink-C2C
 * PEERPIN_SIM_INTEGRATED=1: devices are part of the processor
 * PEERPIN_SIM_ASYNC=1: a copy between device memory without SYNC_MEMOPS is done at the next call
 * PEERPIN_SIM_HOOKS=0: an MPI library's memory hooks intercept no free of device memory
 */
#ifndef PEERPIN_SIM_SIM_H
#define PEERPIN_SIM_SIM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/cuda_abi.h"

/* The exported names are entries (entries_x86_64.S), which jump to these definitions. */
#ifdef __x86_64__
#define SIM_SYMBOL(symbol) "sim_" #symbol
#else
#define SIM_SYMBOL(symbol) #symbol
#endif
#define FUNCTION(symbol, ...) extern __typeof__(symbol) symbol __asm__(SIM_SYMBOL(symbol));
#include "memory/cuda_abi.def"
#undef FUNCTION

#define SIM_DEVICES_MAX 8
#define SIM_VERSION	13000

extern pthread_mutex_t sim_lock;

/* ---- device.c ---- */

struct sim_device {
	uint64_t base;	   /* start of the address range */
	uint64_t memory;   /* bytes, a multiple of 2 MiB */
	int file;	   /* memory file behind the range */
	CUcontext primary; /* NULL: never retained */
	unsigned int retains;
	unsigned int primary_flags;
	struct sim_block *blocks; /* memory / 2 MiB elements */
	uint64_t used_blocks;
};

extern struct sim_device sim_devices[SIM_DEVICES_MAX];
extern int sim_device_count; /* 0: cuInit has not succeeded */
extern bool sim_dma_buf;     /* memory can be exported as a dma-buf */
extern bool sim_c2c;	     /* ... also mapped over PCIe */
extern bool sim_async;	     /* PEERPIN_SIM_ASYNC */
extern bool sim_populates;   /* memory has pages before its first access, as on a GPU */
extern bool sim_hooks;	     /* device memory is released by libc's functions */

/* Take sim_lock. On error (driver not initialised) the lock is not held. */
CUresult sim_enter(void);
CUresult sim_leave(CUresult result); /* unlock; return the argument */

/* Define a driver call. Its body runs with sim_lock held and returns the call's result:
 *
 *	SIM_CALL(cuX, (argument), CUtype argument)
 *	{
 *		return CUDA_SUCCESS;
 *	}
 *
 * `enter` takes the lock, or fails the call before the body: without a successful cuInit at least.
 */
#define SIM_CALL_AFTER(enter, symbol, arguments, ...)                                              \
	static CUresult symbol##_locked(__VA_ARGS__);                                              \
	CUresult symbol(__VA_ARGS__)                                                               \
	{                                                                                          \
		CUresult result = enter;                                                           \
                                                                                                   \
		return result == CUDA_SUCCESS ? sim_leave(symbol##_locked arguments) : result;     \
	}                                                                                          \
	static CUresult symbol##_locked(__VA_ARGS__)
#define SIM_CALL(symbol, arguments, ...) SIM_CALL_AFTER(sim_enter(), symbol, arguments, __VA_ARGS__)
/* Captures forbid the call. */
#define SIM_UNCAPTURED_CALL(symbol, arguments, ...)                                                \
	SIM_CALL_AFTER(sim_uncaptured(sim_enter()), symbol, arguments, __VA_ARGS__)
/* The call fails for a `device` that there is not. */
#define SIM_DEVICE_CALL(symbol, arguments, ...)                                                    \
	SIM_CALL_AFTER(sim_enter_device(device), symbol, arguments, __VA_ARGS__)

/* The body finds the current context in `context`, as sim_enter_context() and the other functions
 * store it. */
#define SIM_CONTEXT_CALL_AFTER(enter, symbol, arguments, ...)                                      \
	static CUresult symbol##_locked(CUcontext context, __VA_ARGS__);                           \
	CUresult symbol(__VA_ARGS__)                                                               \
	{                                                                                          \
		CUcontext context;                                                                 \
		CUresult result = enter;                                                           \
                                                                                                   \
		return result == CUDA_SUCCESS                                                      \
			       ? sim_leave(symbol##_locked(context, SIM_ARGUMENTS arguments))      \
			       : result;                                                           \
	}                                                                                          \
	static CUresult symbol##_locked(__attribute__((unused)) CUcontext context, __VA_ARGS__)
#define SIM_CONTEXT_CALL(symbol, arguments, ...)                                                   \
	SIM_CONTEXT_CALL_AFTER(sim_enter_context(&context), symbol, arguments, __VA_ARGS__)
#define SIM_ANY_CONTEXT_CALL(symbol, arguments, ...)                                               \
	SIM_CONTEXT_CALL_AFTER(sim_enter_any_context(&context), symbol, arguments, __VA_ARGS__)
/* A destroyed current context and a forbidding capture fail a free for any address (measured). */
#define SIM_FREEING_CALL(symbol, arguments, ...)                                                   \
	SIM_CONTEXT_CALL_AFTER(sim_uncaptured(sim_enter_any_context(&context)), symbol, arguments, \
			       __VA_ARGS__)
#define SIM_ARGUMENTS(...) __VA_ARGS__

/* Define a driver call that forwards to `target`, and may ignore parameters. It has an address of
 * its own, as in the real driver. */
#define SIM_FORWARD(symbol, target, arguments, ...)                                                \
	_Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wunused-parameter\"")    \
		CUresult                                                                           \
		symbol(__VA_ARGS__)                                                                \
	{                                                                                          \
		return target arguments;                                                           \
	}                                                                                          \
	_Pragma("GCC diagnostic pop") struct sim_forward_end

/* ---- handles (device.c) ---- */

/* First member of the object behind a handle. Objects are never freed: a stale handle is
 * recognised. */
struct sim_object {
	struct sim_object *next; /* of this kind */
	bool live;
};

/* Add a live object of `size` bytes, zeroed otherwise; NULL: out of memory. */
void *sim_make_object(struct sim_object **list, size_t size);
bool sim_is_live(const struct sim_object *list, const void *handle);

/* ---- context.c ---- */

struct CUctx_st {
	struct sim_object object;
	int device;
	unsigned int flags;
	unsigned int usage; /* attachments (cuCtxAttach, cuCtxDetach) */
	unsigned long long id;
	bool primary;
	bool old; /* created by the interface before CUDA 3.2: only its calls allocate here */
	/* Owner of allocations made here: a green context's primary context; NULL: this context. */
	CUcontext owner;
};

CUresult sim_check_device(CUdevice device);
/* sim_enter() that fails for a device that there is not. */
CUresult sim_enter_device(CUdevice device);
bool sim_context_exists(CUcontext context);

/* sim_enter() that fails without a current context, or with a destroyed one. */
CUresult sim_enter_context(CUcontext *current);

/* sim_enter() that fails if the current context is destroyed. *current is NULL without one. */
CUresult sim_enter_any_context(CUcontext *current);

/* The current context; NULL: none, or destroyed. */
CUcontext sim_live_context(void);

/* True if the current context is live and of the interface before CUDA 3.2. */
bool sim_in_old_context(void);

/* ---- allocator.c ---- */

#define SIM_BLOCK ((uint64_t)2 << 20)

/* `unit` is a power of 2. */
static inline uint64_t sim_round_down(uint64_t value, uint64_t unit)
{
	return value & ~(unit - 1);
}

static inline uint64_t sim_round_up(uint64_t value, uint64_t unit)
{
	return sim_round_down(value + unit - 1, unit);
}

static inline void *sim_pointer(uint64_t address)
{
	return (void *)(uintptr_t)address;
}

/* Origin of an allocation: decides query answers and the freeing call. */
enum sim_kind {
	SIM_DEVICE,
	SIM_HOST,
	SIM_REGISTERED, /* the program's own pages */
	SIM_MANAGED,
	SIM_POOL,
	SIM_MAPPED,
	SIM_IMPORTED, /* another process's, through a pool */
	SIM_OPENED,   /* another process's, through an IPC handle */
	SIM_EXTERNAL,
	SIM_GRAPH, /* of a launched graph */
	/* Variable of a module, or buffer of a graphics interface: the program cannot free it. */
	SIM_GLOBAL,
};

struct sim_allocation {
	struct sim_allocation *next; /* in a block: next higher one that starts there */
	uint64_t base, size;
	uint64_t buffer_id;
	CUcontext context;
	int device;
	enum sim_kind kind;
	CUmemoryPool pool;
	/* Range in pointer queries. VMM memory: the reservation. Size 0: base and size. */
	uint64_t range_base, range_size;
	uint64_t block_base, block_size, block_id; /* backing memory, maybe shared */
	unsigned int access;			   /* CU_MEM_ACCESS_FLAGS_ of its own device */
	unsigned int openings;			   /* of an IPC handle */
	struct sim_physical *physical;		   /* behind VMM and external memory */
	bool sync_memops;
};

/* Free an allocation of any kind; of a pool, which may hold the memory. */
void sim_free_any(struct sim_allocation *allocation);
void sim_free_pooled(struct sim_allocation *allocation);
/* Return the memory that pools hold to the device. False: they hold none. */
bool sim_trim_pools(int device);

static inline bool sim_is_host(const struct sim_allocation *allocation)
{
	return allocation->kind == SIM_HOST || allocation->kind == SIM_REGISTERED;
}

struct sim_block {
	uint64_t id;
	struct sim_allocation *first; /* starts in this block, or owns it */
	bool whole;		      /* first owns the whole block, maybe from an earlier one */
	bool used;
};

/* Reserve a device's address range. Return 0, or -errno without effect. */
int sim_reserve(struct sim_device *device);

/* NULL: out of memory. */
struct sim_allocation *sim_allocate(int device, CUcontext context, enum sim_kind kind,
				    uint64_t size);
void sim_free(struct sim_allocation *allocation);
/* With `sim_populates`: give the range its pages, and the rest of its granules of 64 KiB. Else the
 * first access of each page takes a fault: in the program, or in a registration. */
void sim_populate(uint64_t base, uint64_t size);
uint64_t sim_next_id(void); /* BUFFER_ID or MEMORY_BLOCK_ID, unique */

/* Do the copy that has returned (PEERPIN_SIM_ASYNC). */
void sim_end_copy(void);

/* Allocation of any kind that contains the address; NULL: none. */
struct sim_allocation *sim_find(uint64_t address);
/* The first allocation in the range, as far as it lies in one device's; else that at its first
 * byte. */
struct sim_allocation *sim_find_in_range(uint64_t from, uint64_t to);
/* True if each block of [from, to), in one device's range, has memory. */
bool sim_blocks_are_used(uint64_t from, uint64_t to);
/* True if the device has a free block. Without memory the real driver also refuses the calls that
 * entry_points.def lists as REPEATED. */
bool sim_has_room(CUdevice device);
/* True if the address lies in a device's range, allocated or not. */
bool sim_is_device_address(uint64_t address);
/* True if any allocation in a device's range overlaps [from, to). */
bool sim_blocks_have_memory(uint64_t from, uint64_t to);
void sim_free_context(CUcontext context);

/* ---- attached.c: memory outside of the devices' ranges ---- */

/* Map `size` bytes of `file` from `offset`, which may be off a page boundary. `file` -1: zeroes.
 * `at` 0: addresses reserved by the call. sim_find_attached() finds the allocation from now on.
 * NULL: out of memory.
 */
struct sim_allocation *sim_attach(enum sim_kind kind, CUcontext context, int device, uint64_t at,
				  int file, uint64_t offset, uint64_t size);
/* Record existing memory, which stays after sim_detach(). NULL: out of memory. */
struct sim_allocation *sim_attach_pages(enum sim_kind kind, CUcontext context, uint64_t base,
					uint64_t size);
/* Remove the allocation and its memory. `keep`: its addresses stay reserved. */
void sim_detach(struct sim_allocation *allocation, bool keep);
struct sim_allocation *sim_find_attached(uint64_t address);
/* Any allocation that overlaps the range; NULL: none. */
struct sim_allocation *sim_find_attached_in(uint64_t address, uint64_t size);
void sim_detach_context(CUcontext context);
/* Reserve addresses, aligned to SIM_BLOCK; 0: none left. */
uint64_t sim_reserve_addresses(uint64_t size);

/* ---- freed.c ---- */

/* Report a free to the simulated adapter. The allocation is no longer found; its pages still exist.
 */
void sim_report_free(const struct sim_allocation *allocation);

/* Wait for all work of the context (NULL: none), and return its result. */
CUresult sim_await_work(CUcontext context);

/* ---- callbacks.c ---- */

/* Host functions enqueued in any stream so far. */
uint64_t sim_enqueued_callbacks(void);
bool sim_callbacks_are_done(uint64_t count);
/* Wait for the first `count` host functions. sim_lock is released meanwhile: what the caller looked
 * up before may have ended. */
void sim_await_callbacks(uint64_t count);

/* ---- host.c ---- */

/* Release a detached cuMemHostAlloc allocation's space in its block. */
void sim_free_host(uint64_t base);

/* ---- mapping.c ---- */

/* Reservation that contains the address. False: none, and both are 0. */
bool sim_find_reservation(uint64_t address, uint64_t *base, uint64_t *size);

/* ---- physical.c ---- */

struct sim_physical {
	struct sim_physical *next;
	struct sim_physical *origin; /* of an import, which holds a reference; else NULL */
	uint64_t size;
	uint64_t id; /* block id */
	int file;
	int device;
	unsigned int handles, uses; /* uses: mappings, buffers, imports */
	CUmemAllocationHandleType handle_types;
	bool rdma_capable;
};

static inline bool sim_is_aligned(uint64_t size)
{
	return size && !(size % SIM_BLOCK);
}

/* NULL: no such handle. */
struct sim_physical *sim_find_physical(CUmemGenericAllocationHandle handle);
/* Inodes: descriptors are duplicated and passed between processes. */
bool sim_is_same_file(int one, int other);
/* Physical memory behind a descriptor, with one more use; NULL: not exported here. */
struct sim_physical *sim_open_physical(int file);
void sim_close_physical(struct sim_physical *physical);
bool sim_physical_is_rdma_capable(const struct sim_physical *physical);

/* ---- shared.c ---- */

/* Drop the record of an opened IPC handle: a later open maps anew. */
void sim_forget_opened(uint64_t base);

/* ---- capture.c ---- */

/* Add sim_check_uncaptured() to the result of a sim_enter function. An error is returned without
 * sim_lock. */
CUresult sim_uncaptured(CUresult entered);
/* Check a call that cannot be captured. Return CUDA_SUCCESS, or the error after invalidating each
 * capture that forbids the call. */
CUresult sim_check_uncaptured(void);
/* Invalidate each capture. Return CUDA_SUCCESS if there is none, or the error. */
CUresult sim_lose_captures(void);
/* Check a stream-ordered call. *captured: the call becomes a graph node. */
CUresult sim_check_stream(CUstream stream, bool *captured);
bool sim_stream_exists(CUstream stream);
/* `blocking`: the stream and the legacy stream wait for each other. */
CUstream sim_make_stream(bool blocking);
void sim_end_stream(CUstream stream);

/* ---- graph.c ---- */

bool sim_graph_exists(CUgraph graph);

/* Address of a captured allocation, without memory until its graph runs; 0: out of memory. */
uint64_t sim_capture_allocation(uint64_t size);
bool sim_is_captured_allocation(uint64_t address);

#endif
