/* SPDX-License-Identifier: BSD-3-Clause */
/* work.h -- a test's stand-in for the work of a context
 *
 * The simulated driver completes all work at once, so that its waits are invisible. A test that
 * subscribes receives them.
 */
#ifndef PEERPIN_SIM_WORK_H
#define PEERPIN_SIM_WORK_H

#include "memory/cuda_abi.h"

/* Wait for all work of the context, in cuCtxSynchronize, for an event of cuCtxRecordEvent, and in
 * frees of the context's memory. Returns the result of the work, which is the call's if not
 * CUDA_SUCCESS. The driver holds sim_lock: the callback calls no driver function. */
typedef CUresult sim_driver_work(CUcontext context);

/* Set the callback for all later waits. NULL: none. */
void sim_driver_subscribe_work(sim_driver_work *callback);

#endif
