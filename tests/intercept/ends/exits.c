/* SPDX-License-Identifier: BSD-3-Clause */
/* exits.c -- the process ends while the worker is inside a registration that never returns */
#include "ends.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>

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

static uint64_t milliseconds(void)
{
	struct timespec now;

	require(!clock_gettime(CLOCK_MONOTONIC, &now));
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static uint64_t exit_began, begun_at_exit;
static unsigned int delay;

/* The first registration is that of activate(). */
static bool worker_is_inside(void)
{
	return sim("live") == 1;
}

/* Of a handler after the library's. */
static void judge_wait(void)
{
	uint64_t waited = milliseconds() - exit_began;

	if (delay < 100)
		require(!worker_is_inside());
	else
		require(waited >= 100 && waited < delay && worker_is_inside());
	/* The worker returns, and has more to do: other memory, and the same again, as its dma-buf
	 * is closed. */
	require(!syscall(SYS_close_range, 3, ~0u, 0));
	until(!worker_is_inside());
	until(is_waiting(worker_thread()));
	require(begun() == begun_at_exit && !worker_is_inside());
}

/* `milliseconds`: the duration of a registration by the worker. */
static void exit_waits_for_the_worker(unsigned int duration)
{
	delay = duration;
	require(!atexit(judge_wait));
	set_up();
	occupy_worker("delay", 1000 * (uint64_t)duration);
	for (int i = 0; i < 10; i++)
		allocate(UNIT);
	begun_at_exit = begun();
	exit_began = milliseconds();
	exit(7);
}

/* Handlers that run after the library's own may call anything. */
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

/* In sync mode an allocation registers. */
static void exit_handlers_clean_up_after_the_library(unsigned int unused)
{
	(void)unused;
	require(!atexit(clean_up)); /* before the library's handler, so that it runs after it */
	set_up();
	activate();
	allocate(UNIT);
	require(sim("live") == 2);
	exit(7);
}

/* ---- the last thread ends ---- */

static int to_parent;

static void report_signals(void)
{
	sigset_t blocked;
	char byte;

	require(!pthread_sigmask(SIG_BLOCK, NULL, &blocked));
	byte = sigismember(&blocked, SIGTERM) ? 'b' : sigismember(&blocked, SIGUSR1) ? '+' : '-';
	require(write(to_parent, &byte, 1) == 1);
}

static void *work_on(void *unused)
{
	require_cuda(cuCtxSetCurrent(context));
	allocate(UNIT);
	until(own("registrations_background") > 0);
	return unused;
}

static void be_without_main(void)
{
	pthread_t thread;
	sigset_t mine;

	alarm(TIME_OUT);
	sigemptyset(&mine);
	sigaddset(&mine, SIGUSR1);
	require(!pthread_sigmask(SIG_SETMASK, &mine, NULL));
	set_up();
	activate();
	require(!atexit(report_signals));
	require(!pthread_create(&thread, NULL, work_on, NULL));
	pthread_exit(NULL);
}

/* libc runs the exit handlers on the last thread, here the worker: with the program's signals. */
static void a_process_ends_with_the_last_thread_of_its_program(unsigned int unused)
{
	char byte = 0;
	int ends[2];
	pid_t child;

	(void)unused;
	with_files();
	require(!pipe(ends));
	to_parent = ends[1];
	child = fork();
	if (!child)
		be_without_main();
	require(await_child(child) == 0);
	require(read(ends[0], &byte, 1) == 1 && byte == '+');
	require(file_contains("results", ""));
	remove_files();
}

#define ALL "PEERPIN_PREREGISTER=auto"

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
	{ exit_waits_for_the_worker, "exit_waits_for_the_worker", 50, ALL, 7, 0 },
	{ exit_waits_for_the_worker, "exit_waits_for_the_worker_for_100_ms", 1000, ALL, 7, 0 },
	{ exit_handlers_clean_up_after_the_library, "exit_handlers_clean_up_after_the_library", 0,
	  "PEERPIN_PREREGISTER=eager", 7, 0 },
	TEST(a_process_ends_with_the_last_thread_of_its_program, 0, ALL),
	{ .name = NULL },
};
