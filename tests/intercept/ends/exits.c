/* SPDX-License-Identifier: BSD-3-Clause */
/* exits.c -- the process ends while the worker is in the middle of a registration that is never let
 * go: nobody waits for it */
#include "ends.h"

#include <signal.h>
#include <stdlib.h>

/* The worker is in the middle, and more is queued. */
static CUdeviceptr set_up_busy(void)
{
	CUdeviceptr memory;

	set_up();
	memory = occupy_worker("hold", 1);
	for (int i = 0; i < 10; i++)
		allocate(UNIT);
	require(sim("live") == 1);
	return memory;
}

static void *exit_on_thread(void *unused)
{
	(void)unused;
	exit(7);
}

/* Waits for what never comes. */
static void add_waiter(CUdeviceptr memory)
{
	static struct waiter waiter;

	begin_waiter(&waiter, memory);
}

enum way { EXIT, UNDERSCORE, QUICK, THREAD, THREAD_WITHOUT_MAIN, ABORT, KILL, EXEC };

static void end(unsigned int way)
{
	pthread_t thread;

	switch (way) {
	case EXIT:
		exit(7);
	case UNDERSCORE:
		_exit(7);
	case QUICK:
		quick_exit(7);
	case THREAD:
		require(!pthread_create(&thread, NULL, exit_on_thread, NULL));
		pthread_join(thread, NULL);
		break;
	case THREAD_WITHOUT_MAIN:
		require(!pthread_create(&thread, NULL, exit_on_thread, NULL));
		pthread_exit(NULL);
	case ABORT:
		abort();
	case KILL:
		raise(SIGKILL);
		break;
	case EXEC:
		execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
		break;
	default:
		break;
	}
	require(!"it ended");
}

static void ends_while_the_worker_works(unsigned int way)
{
	set_up_busy();
	end(way);
}

static void ends_while_a_client_waits(unsigned int way)
{
	add_waiter(set_up_busy());
	end(way);
}

/* Handlers that come after ours may do what they like; nothing is begun ahead for that. */
static void clean_up(void)
{
	uint64_t before = begun();
	CUdeviceptr memory = allocate(UNIT);
	struct ibv_mr *mr;

	require(begun() == before && sim("live") == 2);
	mr = registered(memory);
	require(can_read(mr->rkey, memory) && sim("live") == 3);
	require_cuda(cuMemFree_v2(memory));
	require(cannot_read(mr->rkey, memory) && !ibv_dereg_mr(mr));
	require(!ibv_dealloc_pd(pd) && !ibv_close_device(device) && sim("live") == 0);
}

/* In sync mode what is begun ahead is begun in the allocation. */
static void handlers_clean_up_after_us(unsigned int unused)
{
	(void)unused;
	require(!atexit(clean_up)); /* before ours, so that it comes after it */
	set_up();
	activate();
	allocate(UNIT);
	require(sim("live") == 2);
	exit(7);
}

#define ALL "PEERPIN_PREREGISTER=all"

#define EACH(name, way, ends)                                                                      \
	{                                                                                          \
		name, #name, way, ALL, ends, 0                                                     \
	}
#define BOTH(way, ends)                                                                            \
	EACH(ends_while_the_worker_works, way, ends), EACH(ends_while_a_client_waits, way, ends)

const struct test exit_tests[] = {
	BOTH(EXIT, 7),
	BOTH(UNDERSCORE, 7),
	BOTH(QUICK, 7),
	BOTH(THREAD, 7),
	BOTH(THREAD_WITHOUT_MAIN, 7),
	BOTH(ABORT, -SIGABRT),
	BOTH(KILL, -SIGKILL),
	BOTH(EXEC, 7),
	{ handlers_clean_up_after_us, "handlers_clean_up_after_us", 0, "PEERPIN_PREREGISTER=sync",
	  7, 0 },
	{ .name = NULL },
};
