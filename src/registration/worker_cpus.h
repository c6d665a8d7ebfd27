/* SPDX-License-Identifier: BSD-3-Clause */
/* worker_cpus.h -- CPUs of the worker; for the worker alone, without any lock */
#ifndef PEERPIN_REGISTRATION_WORKER_CPUS_H
#define PEERPIN_REGISTRATION_WORKER_CPUS_H

#include <stdbool.h>

/* The worker starts, on the CPUs of the thread that starts it. */
void worker_cpus_begin(void);

/* Chooses CPUs by PEERPIN_WORKER_CPUS, the threads of the process and the GPU with this ordinal
 * (-1: unknown). The worker then runs on the first choice, CPUs near the GPU. Without
 * own_thread_begin(): a lender's CPU would be taken for all that the process may use. */
void worker_cpus_choose(int device);

/* Moves the worker to the other choice, all its CPUs, or back. False: there is one choice. */
bool worker_cpus_switch(void);

#endif
