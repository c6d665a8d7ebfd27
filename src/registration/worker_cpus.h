/* SPDX-License-Identifier: BSD-3-Clause */
/* worker_cpus.h -- CPUs of the worker; without any lock */
#ifndef PEERPIN_REGISTRATION_WORKER_CPUS_H
#define PEERPIN_REGISTRATION_WORKER_CPUS_H

#include "base/kernel.h"

/* For the thread that starts the worker: the first CPUs of the worker, all but that of the calling
 * thread, or as PEERPIN_WORKER_CPUS asks. Started on the CPU of a bound rank that does not sleep, a
 * thread ran after 0.45 to 3.9 ms, on another after 0.1 to 0.18 (2 CPUs, Linux 6.18). False: the
 * CPUs of the thread. */
bool worker_cpus_to_start(struct kernel_cpus *cpus);

/* For a thread that would start a worker again. False: a rank of the job is bound to each CPU that
 * the last worker might have chosen from. */
bool worker_cpus_are_left(void);

/* For the worker alone. Chooses CPUs by PEERPIN_WORKER_CPUS, the ranks of the job, the threads of
 * the process and the GPU with this ordinal (-1: unknown). The worker then runs on the first
 * choice, CPUs near the GPU. False: none is left. Without own_thread_begin(): a lender's CPU would
 * be taken for all that the process may use. */
bool worker_cpus_choose(int device);

/* Likewise. Moves the worker to the other choice, all its CPUs, or back. False: there is one
 * choice. */
bool worker_cpus_switch(void);

#endif
