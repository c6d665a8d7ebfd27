/* SPDX-License-Identifier: BSD-3-Clause */
/* ended.c -- tells the simulated adapter when device memory ends, so that it sees a registration that goes on
 * */
#include "sim.h"
#include "ended.h"

static sim_driver_ended *listener; /* read and stored atomically */

void sim_driver_tell_ends(sim_driver_ended *ended)
{
	__atomic_store_n(&listener, ended, __ATOMIC_RELEASE);
}

/* Of pages of the host's, and of managed memory, an adapter has a hold of its own. */
static bool is_device_memory(const struct sim_allocation *allocation)
{
	return !sim_is_host(allocation) && allocation->kind != SIM_MANAGED;
}

static bool lives(uint64_t from, uint64_t to)
{
	return sim_lives_in_blocks(from, to) || sim_find_attached_in(from, to - from);
}

void sim_tell_end(const struct sim_allocation *allocation)
{
	sim_driver_ended *ended = __atomic_load_n(&listener, __ATOMIC_ACQUIRE);

	if (ended && is_device_memory(allocation))
		ended(allocation->base, allocation->size, lives);
}

enum sim_driver_range sim_driver_range(uint64_t from, uint64_t to)
{
	enum sim_driver_range range = SIM_RANGE_OTHER;
	uint64_t base, size, end;

	if (sim_enter() != CUDA_SUCCESS)
		return range;
	if (sim_is_device_address(from) || sim_is_device_address(to - 1) ||
	    sim_find_reservation(from, &base, &size)) {
		range = SIM_RANGE_ALIVE;
		for (; from < to && range == SIM_RANGE_ALIVE; from = end) {
			end = (from & ~(SIM_BLOCK - 1)) + SIM_BLOCK;
			if (end > to)
				end = to;
			if (!lives(from, end))
				range = SIM_RANGE_ENDED;
		}
	} else {
		const struct sim_allocation *attached = sim_find_attached(from);

		if (attached && is_device_memory(attached))
			range = SIM_RANGE_ALIVE;
	}
	sim_leave(CUDA_SUCCESS);
	return range;
}
