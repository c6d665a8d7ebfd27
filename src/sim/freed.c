/* SPDX-License-Identifier: BSD-3-Clause */
/* freed.c -- reports freed device memory to the simulated adapter, and waits for work to a test
 *
 * The adapter detects registrations that outlive the memory.
 */
#include "sim.h"
#include "freed.h"

/* Read and stored atomically. */
static sim_driver_freed *freed_callback;

void sim_driver_subscribe(sim_driver_freed *callback)
{
	__atomic_store_n(&freed_callback, callback, __ATOMIC_RELEASE);
}

/* Exclude host and managed memory: an adapter holds its own reference to these pages. */
static bool freed_is_device_memory(const struct sim_allocation *allocation)
{
	return !sim_is_host(allocation) && allocation->kind != SIM_MANAGED;
}

static bool freed_has_memory(uint64_t from, uint64_t to)
{
	return sim_blocks_have_memory(from, to) || sim_find_attached_in(from, to - from);
}

void sim_report_free(const struct sim_allocation *allocation)
{
	sim_driver_freed *callback = __atomic_load_n(&freed_callback, __ATOMIC_ACQUIRE);

	if (callback && freed_is_device_memory(allocation))
		callback(allocation->base, allocation->size, freed_has_memory);
}

enum sim_driver_range sim_driver_range(uint64_t from, uint64_t to)
{
	enum sim_driver_range range = SIM_RANGE_OTHER;
	uint64_t base, size, end;

	/* sim_enter() is of calls to the driver, and does the copy that has returned. */
	pthread_mutex_lock(&sim_lock);
	if (sim_is_device_address(from) || sim_is_device_address(to - 1) ||
	    sim_find_reservation(from, &base, &size)) {
		range = SIM_RANGE_ALLOCATED;
		for (; from < to && range == SIM_RANGE_ALLOCATED; from = end) {
			end = sim_round_down(from, SIM_BLOCK) + SIM_BLOCK;
			if (end > to)
				end = to;
			if (!freed_has_memory(from, end))
				range = SIM_RANGE_FREED;
		}
	} else {
		const struct sim_allocation *attached = sim_find_attached(from);

		if (attached && freed_is_device_memory(attached))
			range = SIM_RANGE_ALLOCATED;
	}
	sim_leave(CUDA_SUCCESS);
	return range;
}

/* ---- the work of a context ---- */

/* Read and stored atomically. */
static sim_driver_work *work_callback;

void sim_driver_subscribe_work(sim_driver_work *callback)
{
	__atomic_store_n(&work_callback, callback, __ATOMIC_RELEASE);
}

CUresult sim_await_work(CUcontext context)
{
	sim_driver_work *callback = __atomic_load_n(&work_callback, __ATOMIC_ACQUIRE);

	return callback && context ? callback(context) : CUDA_SUCCESS;
}
