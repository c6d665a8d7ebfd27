/* SPDX-License-Identifier: BSD-3-Clause */
/* freed.h -- functions of the simulated driver for the simulated adapter, found by dlsym
 *
 * On hardware the driver and the adapter meet in the kernel. The simulated driver exports these
 * functions; a real driver has none.
 */
#ifndef PEERPIN_SIM_FREED_H
#define PEERPIN_SIM_FREED_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/cuda_abi.h"

/* True if any device memory is allocated in [from, to). */
typedef bool sim_driver_has_memory(uint64_t from, uint64_t to);

/* Report that [base, base + size) is no longer device memory. Pages and addresses stay until the
 * callback returns. The driver holds sim_lock: the callback may call only `has_memory` in the
 * driver. */
typedef void sim_driver_freed(uint64_t base, uint64_t size, sim_driver_has_memory *has_memory);

/* Set the callback for all later frees. */
void sim_driver_subscribe(sim_driver_freed *callback);

enum sim_driver_range {
	/* Not device memory, and outside of the driver's address ranges. */
	SIM_RANGE_OTHER,
	/* Device memory in every 2 MiB block of the range. Outside of device ranges and
	 * reservations, only the first address is checked. */
	SIM_RANGE_ALLOCATED,
	/* Addresses of the driver, but one of the 2 MiB blocks has no memory. */
	SIM_RANGE_FREED,
};

/* A sim_driver_freed callback must not call this: sim_driver_range() takes sim_lock. */
enum sim_driver_range sim_driver_range(uint64_t from, uint64_t to);

/* The work of an export of the pages under sim_lock, and its end: as the real driver works when
 * nvidia-peermem asks it for pages. */
bool sim_driver_take_pages(uint64_t start, uint64_t length);

/* First bytes of a file from cuMemGetHandleForAddressRange: the exported range. */
#define SIM_DMABUF_MAGIC ((uint64_t)0x666275616d647370)
#define SIM_DMABUF_PCIE	 ((uint64_t)1)

struct sim_dmabuf {
	uint64_t magic;
	uint64_t address, size;
	uint64_t flags; /* of the export: the mapping */
};

/* ---- a test's stand-in for the work of a context ----
 *
 * The simulated driver completes all work at once, so that its waits are invisible. A test that
 * subscribes receives them. */

/* Wait for all work of the context, in cuCtxSynchronize, for an event of cuCtxRecordEvent, and in
 * frees of the context's memory. Returns the result of the work, which is the call's if not
 * CUDA_SUCCESS. The driver holds sim_lock: the callback calls no driver function. */
typedef CUresult sim_driver_work(CUcontext context);

/* Set the callback for all later waits. NULL: none. */
void sim_driver_subscribe_work(sim_driver_work *callback);

#endif
