/* SPDX-License-Identifier: BSD-3-Clause */
/* processes.c -- forked children are inert; their parents are unaffected */
#include "ends.h"

#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>

extern char **environ;

static struct ibv_mr *held;
static CUdeviceptr memory;

/* A client MR and background regions exist. A child that ends a registration of its parent aborts.
 */
static void set_up_parent(unsigned int fork_init)
{
	set_up();
	if (fork_init)
		require(!ibv_fork_init());
	activate();
	memory = allocate(UNIT);
	held = registered(memory);
	allocate(UNIT);
	until(own("registrations_background") == 2 || sim("live") == 3);
	require(sim("live") == 3);
}

static void check_parent(void)
{
	CUdeviceptr more;
	struct ibv_mr *mr;

	require(can_read(held->rkey, memory) && sim("live") == 3);
	more = allocate(UNIT);
	mr = registered(more);
	require(can_read(mr->rkey, more) && !ibv_dereg_mr(mr));
	require_cuda(cuMemFree_v2(more));
	require(!ibv_dereg_mr(held) && sim("live") == 3);
	require_cuda(cuMemFree_v2(memory));
	require(sim("live") == 2 && own("internal_errors") == 0 && own("revoked") == 0);
	require(!ibv_dealloc_pd(pd) && !ibv_close_device(device) && sim("live") == 0);
	require(sim("dontfork") == 0);
}

enum child { EXITS, LEAVES, DEREGISTERS, FREES, CLOSES, EXECS, FORKS };

static void be_grandchild(void)
{
	alarm(TIME_OUT);
	_exit(ibv_dereg_mr(held) ? 1 : 3);
}

/* The driver defines which calls on device memory a child may make. */
static void be(enum child child)
{
	uint64_t frees = own("frees"), ended = own("deregistrations"),
		 answered = own("late_deregistrations");
	pid_t next;

	alarm(TIME_OUT);
	require(!worker());
	switch (child) {
	case EXITS:
		exit(3);
	case LEAVES:
		break;
	case DEREGISTERS:
		require(!ibv_dereg_mr(held));
		break;
	case FREES:
		set("outlive", 1);
		cuMemFree_v2(memory);
		require(!ibv_dereg_mr(held));
		break;
	case CLOSES:
		require(!ibv_dereg_mr(held));
		set("busy", 1);
		ibv_dealloc_pd(pd);
		break;
	case EXECS:
		execl("/bin/sh", "sh", "-c", "exit 3", (char *)NULL);
		_exit(1);
	case FORKS:
		next = fork();
		if (!next)
			be_grandchild();
		require(WEXITSTATUS(await_child(next)) == 3);
		break;
	}
	require(own("frees") == frees && own("deregistrations") == ended &&
		own("late_deregistrations") == answered && sim("dereg_mr") == 0);
	_exit(3);
}

static void a_child(unsigned int variant)
{
	pid_t child;

	set_up_parent(variant & 1);
	child = fork();
	if (!child)
		be(variant >> 1);
	require(await_child(child) == 3 << 8);
	check_parent();
}

/* Any thread may hold the lock at the fork; another one waits for the worker's region. */
static void a_child_of_a_busy_parent(unsigned int variant)
{
	struct waiter waiter;
	uint64_t before, waited;
	CUdeviceptr busy;
	pid_t child;

	set_up_parent(variant & 1);
	set("hold", 1);
	before = begun();
	busy = allocate(UNIT);
	until(begun() > before);
	waited = own("waited"); /* the client of set_up_parent() has it by chance */
	begin_waiter(&waiter, busy);
	child = fork();
	if (!child)
		be(variant >> 1);
	require(await_child(child) == 3 << 8);
	set("hold", 0);
	pthread_join(waiter.thread, NULL);
	require(waiter.mr);
	require(can_read(waiter.mr->rkey, busy));
	require(own("waited") == waited + 1);
	require(!ibv_dereg_mr(waiter.mr));
	require_cuda(cuMemFree_v2(busy));
	check_parent();
}

/* Threads take and release the lock while children are forked. */
static _Atomic bool stop;

static void *be_busy(void *unused)
{
	CUdeviceptr own_memory;
	struct ibv_mr *mr;

	require_cuda(cuCtxSetCurrent(context));
	while (!stop) {
		own_memory = allocate(SIZE);
		mr = registered(own_memory);
		require(!ibv_dereg_mr(mr));
		require_cuda(cuMemFree_v2(own_memory));
	}
	return unused;
}

static void children_while_the_lock_is_taken(unsigned int fork_init)
{
	enum { CHILDREN = 200 };
	pthread_t thread[2];
	pid_t child;

	set_up_parent(fork_init);
	for (int i = 0; i < 2; i++)
		require(!pthread_create(&thread[i], NULL, be_busy, NULL));
	for (int i = 0; i < CHILDREN; i++) {
		child = fork();
		if (!child) {
			alarm(TIME_OUT);
			require(!ibv_dereg_mr(held));
			_exit(3);
		}
		require(await_child(child) == 3 << 8);
	}
	stop = true;
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	until(sim("live") == 3);
	check_parent();
}

/* Regions of a child in an adapter that the parent opened would outlive the child. */
static void a_child_that_is_the_first_to_use_cuda(unsigned int unused)
{
	CUdeviceptr first;
	pid_t child;

	(void)unused;
	device = open_device(0);
	pd = ibv_alloc_pd(device);
	require(pd);
	child = fork();
	if (!child) {
		alarm(TIME_OUT);
		set_up();
		first = allocate(UNIT);
		require(own("registrations") == 1 && sim("live") == 1);
		require_cuda(cuMemFree_v2(first));
		require(!ibv_dealloc_pd(pd) && !ibv_close_device(device) &&
			own("internal_errors") == 0);
		_exit(3);
	}
	require(await_child(child) == 3 << 8);
	set_up();
	allocate(UNIT);
	require(own("registrations") == 2);
}

enum program { VFORK, SPAWN, SYSTEM };

/* vfork: the parent's memory is the child's until exec. */
static void another_program(unsigned int variant)
{
	static char *arguments[] = { "sh", "-c", "exit 3", NULL };
	pid_t child = -1;
	uint64_t before;
	struct ibv_mr *mr;
	CUdeviceptr busy;

	set_up_parent(0);
	set("hold", 1);
	before = begun();
	busy = allocate(UNIT);
	until(begun() > before);
	if (variant == SYSTEM) {
		require(system("exit 3") == 3 << 8);
	} else if (variant == SPAWN) {
		require(!posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ));
		require(await_child(child) == 3 << 8);
	} else {
		child = vfork();
		if (!child) {
			execv("/bin/sh", arguments);
			_exit(1);
		}
		require(await_child(child) == 3 << 8);
	}
	set("hold", 0);
	mr = registered(busy);
	require(own("bypassed") == 0 && can_read(mr->rkey, busy) && !ibv_dereg_mr(mr));
	require_cuda(cuMemFree_v2(busy));
	check_parent();
}

#define ALL	  "PEERPIN_PREREGISTER=all"
#define FORK_SAFE ALL " RDMAV_FORK_SAFE=1"

#define CHILD(test, child) TEST(test, child << 1, ALL), TEST(test, child << 1 | 1, FORK_SAFE)
#define EACH_CHILD(name)                                                                           \
	CHILD(name, EXITS), CHILD(name, LEAVES), CHILD(name, DEREGISTERS), CHILD(name, FREES),     \
		CHILD(name, CLOSES), CHILD(name, EXECS), CHILD(name, FORKS)

const struct test process_tests[] = {
	EACH_CHILD(a_child),
	EACH_CHILD(a_child_of_a_busy_parent),
	TEST(children_while_the_lock_is_taken, 0, NULL),
	TEST(children_while_the_lock_is_taken, 1, NULL),
	TEST(a_child_that_is_the_first_to_use_cuda, 0,
	     "PEERPIN_DOMAIN_POLICY=all PEERPIN_PREREGISTER=sync"),
	TEST(another_program, VFORK, ALL),
	TEST(another_program, SPAWN, ALL),
	TEST(another_program, SYSTEM, ALL),
	{ .name = NULL },
};
