/* SPDX-License-Identifier: BSD-3-Clause */
/* ended.h -- what the simulated driver does for the simulated adapter, which looks these up by their names
 *
 * On hardware the driver and the adapter meet in the kernel. Both functions are the driver's exports; a real
 * driver has none of them.
 */
#ifndef PEERPIN_SIM_ENDED_H
#define PEERPIN_SIM_ENDED_H

#include <stdbool.h>
#include <stdint.h>

/* Whether any device memory lives in [from, to). */
typedef bool sim_driver_lives(uint64_t from, uint64_t to);

/* [base, base + size) is no longer device memory; its pages and addresses are still there until this returns.
 * Called with the driver's lock held: no call into the driver but `lives`. */
typedef void sim_driver_ended(uint64_t base, uint64_t size, sim_driver_lives *lives);

/* Who is told of every end from now on. */
void sim_driver_tell_ends(sim_driver_ended *ended);

enum sim_driver_range {
	SIM_RANGE_OTHER, /* no device memory, and not where that could be */
	SIM_RANGE_ALIVE, /* device memory lives in every block of 2 MiB that it reaches into */
	SIM_RANGE_ENDED, /* addresses of the driver's, but in one of its blocks nothing lives */
};

/* Not to be called from `ended`. */
enum sim_driver_range sim_driver_range(uint64_t from, uint64_t to);

/* The first bytes of what cuMemGetHandleForAddressRange made: what it stands for. */
#define SIM_DMABUF_MAGIC ((uint64_t)0x666275616d647370)

struct sim_dmabuf {
	uint64_t magic;
	uint64_t address, size;
};

#endif
