/* SPDX-License-Identifier: BSD-3-Clause */
/* work.c -- waits for the work of a context */
#include "sim.h"
#include "work.h"

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
