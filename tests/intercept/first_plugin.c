/* SPDX-License-Identifier: BSD-3-Clause */
/* first_plugin.c -- a plug-in whose constructor waits for an allocation, inside the dynamic linker,
 * while another thread makes the first allocation of the process */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../sleeps.h"
#include "memory/cuda_abi.h"

#define SIZE ((size_t)1 << 20)

int plugin_end(void);

static CUcontext context;
static pthread_t other;
static _Atomic int begins; /* the other thread's number */
static _Atomic bool has_begun;
static int constructed, other_result;

static void *begin_first(void *unused)
{
	CUdeviceptr address;

	(void)unused;
	other_result = cuCtxSetCurrent(context);
	begins = (int)syscall(SYS_gettid);
	other_result |= cuMemAlloc_v2(&address, SIZE);
	has_begun = true;
	return NULL;
}

static __attribute__((constructor)) void construct(void)
{
	CUdeviceptr address;

	if (cuCtxGetCurrent(&context) || pthread_create(&other, NULL, begin_first, NULL)) {
		constructed = 1;
		return;
	}
	/* Until it waits for a lock that this thread holds, or needed none. */
	while (!begins || !(has_begun || sleeps(begins)))
		sched_yield();
	constructed = cuMemAlloc_v2(&address, SIZE);
}

int plugin_end(void)
{
	if (constructed || pthread_join(other, NULL) || other_result)
		return 1;
	puts("constructor: both have their memory");
	return 0;
}
