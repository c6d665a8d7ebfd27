/* SPDX-License-Identifier: BSD-3-Clause */
/* keep_fixture.h -- contexts, events and frees of the stand-in driver, for kept memory */
#ifndef PEERPIN_TESTS_KEEP_FIXTURE_H
#define PEERPIN_TESTS_KEEP_FIXTURE_H

#include "suite.h"

#include <stdio.h>

#include "memory/memory.h"
#include "memory/keep.h"
#include "memory/kept.h"
#include "memory/table.h"
#include "report/statistics.h"
#include "contexts_fixture.h"

#define HOME  ((uint64_t)0x7f1200000000)
#define BLOCK ((uint64_t)2 << 20)
#define MIB   ((uint64_t)1 << 20)
#define FREES 8192

struct CUevent_st {
	CUcontext of, recorded;
};

static struct CUctx_st first, second, of_second_gpu;

/* Functions in which a test does what another thread might do meanwhile. */
enum driver_point {
	IN_VERSION,
	IN_EVENT,
	IN_RECORD,
	IN_WAIT,
	IN_POLL,
	IN_INFO,
	IN_FREE,
	DRIVER_POINTS
};

static struct {
	CUresult wait_result, record_result, query_result, free_result, info_result;
	unsigned int flags;			  /* of the contexts */
	unsigned int version;			  /* of their interface */
	_Atomic unsigned int events, event_flags; /* events that exist; flags of the last */
	_Atomic unsigned int probes, queries, records;
	void (*pass)(enum driver_point point); /* called inside each of these functions */
	uint64_t total, unused; /* memory of the first GPU; the second has half of it */
	uint64_t freed[FREES];	/* addresses, in order */
	_Atomic unsigned int frees;
} gpu;

static void enter(CUcontext context)
{
	stack[0] = context;
	depth = context != NULL;
}

static void pass(enum driver_point point)
{
	if (gpu.pass)
		gpu.pass(point);
}

static CUresult get_version(CUcontext context, unsigned int *version)
{
	ck_assert_ptr_null(context);
	pass(IN_VERSION);
	*version = gpu.version;
	return state();
}

static void call(void)
{
	standin_called();
	require(capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED);
}

static CUresult get_flags(unsigned int *flags)
{
	*flags = gpu.flags;
	return state();
}

static CUresult create_event(CUevent *event, unsigned int flags)
{
	static __thread struct CUevent_st own;

	call();
	pass(IN_EVENT);
	require(!own.of && state() == CUDA_SUCCESS);
	own = (struct CUevent_st){ .of = stack[depth - 1] };
	gpu.events++;
	gpu.event_flags = flags;
	*event = &own;
	return CUDA_SUCCESS;
}

static CUresult record_event(CUcontext context, CUevent event)
{
	call();
	gpu.records++;
	pass(IN_RECORD);
	require(event->of == context);
	event->recorded = context;
	return gpu.record_result;
}

static CUresult synchronize_event(CUevent event)
{
	call();
	pass(IN_WAIT);
	event->recorded->waits++;
	return gpu.wait_result;
}

static CUresult query_event(CUevent event)
{
	CUresult result = gpu.query_result;

	call();
	require(event->recorded);
	gpu.queries++;
	pass(IN_POLL);
	return result;
}

static CUresult destroy_event(CUevent event)
{
	call();
	event->of = NULL;
	gpu.events--;
	return CUDA_SUCCESS;
}

/* peerpin's own memory. */
#define PROBE (HOME - BLOCK)

static CUresult allocate_probe(CUdeviceptr *address, size_t size)
{
	call();
	require(size > 0);
	*address = PROBE;
	return state();
}

static CUresult free_probe(CUdeviceptr address)
{
	call();
	pass(IN_WAIT);
	require(address == PROBE && state() == CUDA_SUCCESS);
	gpu.probes++;
	stack[depth - 1]->waits++;
	return gpu.wait_result;
}

static CUresult get_info(size_t *unused, size_t *total)
{
	call();
	pass(IN_INFO);
	*unused = gpu.unused;
	*total = stack[depth - 1]->device == 1 ? gpu.total / 2 : gpu.total;
	return gpu.info_result;
}

static CUresult free_any(CUdeviceptr address)
{
	call();
	pass(IN_FREE);
	gpu.freed[gpu.frees++ % FREES] = address;
	if (gpu.free_result == CUDA_SUCCESS)
		standin_free(address);
	return gpu.free_result;
}

/* In the memory's context. */
static CUresult free_device(CUdeviceptr address)
{
	require(depth && stack[depth - 1] == standin_context(address));
	return free_any(address);
}

static CUresult free_host(void *address)
{
	return free_any((uintptr_t)address);
}

const struct keep_targets keep_targets = { free_device, free_host };

/* ---- the program's calls, as the wrappers make them ---- */

static void allocate_in(CUcontext context, uint64_t base, uint64_t size)
{
	standin_allocate(base, size, context, true);
	standin_describe(base, context->device, false);
	memory_allocated(ALLOCATION_DEVICE, base, size);
}

static inline void allocate(uint64_t base, uint64_t size)
{
	allocate_in(&first, base, size);
}

static inline void allocate_host(uint64_t base, uint64_t size, uint64_t flags)
{
	standin_allocate(base, size, &first, false);
	standin_describe(base, 0, true);
	memory_allocated(ALLOCATION_HOST, base, size);
	keep_allocated_host(&(struct keep_request){ ALLOCATION_HOST, flags, size }, base);
}

static inline bool keeps(uint64_t base)
{
	return keep_free(FREE_DEVICE, base);
}

static inline bool keeps_host(uint64_t base)
{
	return keep_free(FREE_HOST, base);
}

/* keeps(), or the driver frees the memory. */
static inline bool keeps_or_ends(uint64_t base)
{
	struct allocation ended;

	if (keeps(base))
		return true;
	require(memory_freeing(FREE_DEVICE, base, &ended));
	standin_free(base);
	return false;
}

/* Address of kept memory; 0: none. */
static uint64_t reuse_request(enum allocation_kind kind, uint64_t flags, uint64_t size)
{
	CUdeviceptr address = 0;

	return keep_allocate(&(struct keep_request){ kind, flags, size }, &address) ? address : 0;
}

static inline uint64_t reuse(uint64_t size)
{
	return reuse_request(ALLOCATION_DEVICE, 0, size);
}

static inline bool is_found(uint64_t base)
{
	struct allocation found;

	return memory_find(base, &found) && found.base == base;
}

/* The driver has freed these, in this order. */
static inline void must_have_freed(unsigned int count, const uint64_t *bases)
{
	ck_assert_uint_eq(gpu.frees, count);
	for (unsigned int i = 0; i < count; i++)
		ck_assert_uint_eq(gpu.freed[i], bases[i]);
}

static inline void set_up_with(const char *keep, const char *keep_host)
{
	setenv("PEERPIN_KEEP", keep, 1);
	setenv("PEERPIN_KEEP_HOST", keep_host, 1);
	standin_reset();
	gpu.total = gpu.unused = (uint64_t)1 << 40;
	gpu.version = 3020;
	first = second = (struct CUctx_st){ .alive = true };
	of_second_gpu = (struct CUctx_st){ .device = 1, .alive = true };
	set_up_contexts();
	enter(&first);
	standin_driver.cuCtxGetApiVersion = get_version;
	standin_driver.cuCtxGetFlags = get_flags;
	standin_driver.cuEventCreate = create_event;
	standin_driver.cuCtxRecordEvent = record_event;
	standin_driver.cuEventSynchronize = synchronize_event;
	standin_driver.cuEventQuery = query_event;
	standin_driver.cuEventDestroy_v2 = destroy_event;
	standin_driver.cuMemAlloc_v2 = allocate_probe;
	standin_driver.cuMemFree_v2 = free_probe;
	standin_driver.cuMemGetInfo_v2 = get_info;
	ck_assert(keep_is_on());
}

#endif
