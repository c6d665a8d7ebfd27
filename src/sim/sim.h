/* SPDX-License-Identifier: BSD-3-Clause */
/* sim.h -- the simulated driver's state, and the lock that guards it
 *
 * A libcuda.so.1 for machines without a GPU: device memory is host memory in an address range of its own.
 * What it does where the interface leaves a choice is what a real driver was measured to do; the contract
 * tests hold both to the same. Like the real one it answers everything under one lock, sim_lock, which guards
 * all that this header declares except the thread's own stack of contexts. libc is called with it held where
 * memory changes hands: what memory hooks do then must not come back to CUDA.
 *
 * Settings, read by cuInit from the environment: PEERPIN_SIM_DEVICES and PEERPIN_SIM_MEMORY (of each, with K, M or G);
 * PEERPIN_SIM_PAGEABLE=1, devices reach what malloc gave; PEERPIN_SIM_DMABUF=0, nothing is exported as a dma-buf;
 * PEERPIN_SIM_INTEGRATED=1, devices are part of the processor.
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
extern bool sim_dma_buf;     /* whether memory can be exported as a dma-buf */

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
	bool old; /* of the interface before CUDA 3.2: only its calls allocate here */
	CUcontext
		owner; /* of what is allocated here, if it is another one: a green context's is the primary's */
};

/* The primary context, one retain more; NULL: out of memory. With the lock held, like the next. */
CUcontext sim_retain_primary(CUdevice device);
void sim_release_primary(CUdevice device);
/* A context that is not on any stack; NULL: out of memory. */
CUcontext sim_make_context(CUdevice device, unsigned int flags, bool primary);
CUresult sim_check_device(CUdevice device);

/* sim_enter for what needs a current context: an error too where there is none, or it has been destroyed. */
CUresult sim_enter_context(CUcontext *current);

/* sim_enter; an error too where the current context has been destroyed. NULL: there is none. */
CUresult sim_enter_any_context(CUcontext *current);

/* The current context, if it is of use. */
CUcontext sim_live_context(void);

/* Whether the thread's current context is of the interface before CUDA 3.2. */
bool sim_in_old_context(void);

/* ---- allocator.c ---- */

#define SIM_BLOCK ((uint64_t)2 << 20)

/* Of whose making memory is: the driver's answers differ by that, and how it ends. */
enum sim_kind {
	SIM_DEVICE,
	SIM_HOST,
	SIM_REGISTERED, /* pages of the program's own */
	SIM_MANAGED,
	SIM_POOL,
	SIM_MAPPED,
	SIM_IMPORTED, /* another process's, by way of a pool */
	SIM_OPENED,   /* another process's, by an IPC handle */
	SIM_EXTERNAL,
	SIM_GRAPH,  /* of a graph that has been launched */
	SIM_GLOBAL, /* a variable of a module, or a graphics interface's: not the program's to free */
};

struct sim_allocation {
	struct sim_allocation *next; /* next higher of those that begin in the same block; or of the list */
	uint64_t base, size;
	uint64_t buffer_id;
	CUcontext context;
	int device;
	enum sim_kind kind;
	CUmemoryPool pool;
	uint64_t range_base,
		range_size; /* what pointer queries call its range: of mapped memory the reservation */
	uint64_t block_base, block_size, block_id; /* what backs it, and maybe others */
	unsigned int access;			   /* CU_MEM_ACCESS_FLAGS_ of its own device */
	unsigned int openings;			   /* of an IPC handle */
	struct sim_physical *physical;		   /* behind mapped and external memory */
	bool sync_memops;
};

/* Ends memory of whatever kind in the way in which it ends. */
void sim_end(struct sim_allocation *allocation);

static inline bool sim_is_host(const struct sim_allocation *allocation)
{
	return allocation->kind == SIM_HOST || allocation->kind == SIM_REGISTERED;
}

struct sim_block {
	uint64_t id;
	struct sim_allocation *first; /* begins in this block, or owns it */
	bool whole;		      /* first owns the whole block, and may begin in an earlier one */
	bool used;
};

/* Reserves a device's address range. Returns 0, or -errno having done nothing. */
int sim_reserve(struct sim_device *device);

/* NULL: out of memory. */
struct sim_allocation *sim_allocate(int device, CUcontext context, enum sim_kind kind, uint64_t size);
void sim_free(struct sim_allocation *allocation);
uint64_t sim_next_buffer_id(void); /* each is given once */
uint64_t sim_next_block_id(void);

/* The allocation of whatever kind that the address lies in; NULL if it is not the driver's. */
struct sim_allocation *sim_find(uint64_t address);
/* Whether the address is of a device's range, allocated or not. */
bool sim_is_device_address(uint64_t address);
/* Whether any allocation in a device's range has a byte in [from, to). */
bool sim_lives_in_blocks(uint64_t from, uint64_t to);
void sim_free_context(CUcontext context);

/* ---- attached.c: memory outside of the devices' ranges ---- */

/* Shows `size` bytes of `file` from `offset` on, which need not be a page's beginning, or zeroes if it is -1, at an address of its own, or at `at` if that
 * is not 0. The new allocation is found from now on; NULL: out of memory. */
struct sim_allocation *sim_attach(enum sim_kind kind, CUcontext context, int device, uint64_t at, int file,
				  uint64_t offset, uint64_t size);
/* The same for memory that is there already, and stays when it is detached. */
struct sim_allocation *sim_attach_pages(enum sim_kind kind, CUcontext context, uint64_t base, uint64_t size);
/* The memory goes; `keep`: its addresses stay reserved. */
void sim_detach(struct sim_allocation *allocation, bool keep);
struct sim_allocation *sim_find_attached(uint64_t address);
/* Any that has a byte in the range. */
struct sim_allocation *sim_find_attached_in(uint64_t address, uint64_t size);
void sim_detach_all_of(CUcontext context);
/* Addresses that nothing else gets, on a boundary of SIM_BLOCK; 0: there are none. */
uint64_t sim_reserve_addresses(uint64_t size);

/* ---- ended.c ---- */

/* The allocation is found no more; its pages are still there. */
void sim_tell_end(const struct sim_allocation *allocation);

/* ---- host.c ---- */

/* What cuMemHostAlloc gave has been detached: its room is free. */
void sim_free_host(uint64_t base);

/* ---- mapping.c ---- */

/* The reservation that the address lies in. */
bool sim_find_reservation(uint64_t address, uint64_t *base, uint64_t *size);

/* ---- physical.c ---- */

struct sim_physical {
	struct sim_physical *next;
	struct sim_physical *origin; /* what it was imported from, which is kept by that */
	uint64_t size;
	uint64_t id; /* as a block */
	int file;
	int device;
	unsigned int handles, uses; /* uses: mappings, buffers and imports */
	bool rdma_capable;
};

static inline bool sim_is_aligned(uint64_t size)
{
	return size && !(size % SIM_BLOCK);
}

/* NULL: there is no such handle. */
struct sim_physical *sim_find_physical(CUmemGenericAllocationHandle handle);
/* What a descriptor that another interface exported stands for, one reference more; NULL: nothing of ours. */
struct sim_physical *sim_open_physical(int file);
void sim_close_physical(struct sim_physical *physical);
bool sim_physical_is_rdma_capable(const struct sim_physical *physical);

/* ---- shared.c ---- */

/* What was opened here is so no longer: its handle opens it anew. */
void sim_forget_opened(uint64_t base);

/* ---- capture.c ---- */

/* What a call that cannot be captured gets in this thread: CUDA_SUCCESS, or the error, captures invalidated. */
CUresult sim_check_uncaptured(void);
/* What sim_enter or one of its like has said, of such a call: where that has entered and this is an error, it has left again. */
CUresult sim_uncaptured(CUresult entered);
/* The same for a call in the order of `stream`; *captured: it becomes a node of a graph. */
CUresult sim_check_stream(CUstream stream, bool *captured);
bool sim_stream_exists(CUstream stream);
CUstream sim_make_stream(bool blocking); /* blocking: it and the legacy stream wait for each other */
void sim_end_stream(CUstream stream);

/* ---- old.c ---- */

/* Addresses of the old interface, which end with nothing: no pointer query knows them. */
uint32_t sim_old_addresses(uint64_t size);

/* ---- module.c ---- */

/* Whether there is such a file to load; what is in it does not matter. */
bool sim_file_is_there(const char *file);

/* ---- graph.c ---- */

bool sim_graph_exists(CUgraph graph);

/* Addresses of a captured allocation, which is no memory before its graph runs. */
uint64_t sim_capture_allocation(uint64_t size);
bool sim_is_captured_allocation(uint64_t address);

#endif
