/* SPDX-License-Identifier: BSD-3-Clause */
/* processes.c -- children are passive, however they are made; their parents are unaffected */
#include "ends.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "../../forks.h"
#include "peerpin.h"

static struct ibv_mr *held;
static CUdeviceptr memory;

/* Variants of a test. */
#define WITH_FORK_INIT	    1u
#define VARIANT(child, way) ((unsigned int)(child) << 3 | (unsigned int)(way) << 1)
#define WAY(variant)	    ((enum fork_way)((variant) >> 1 & 3))

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
	until(own("registrations") == 3);
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

enum child { EXITS, LEAVES, DEREGISTERS, FREES, ALLOCATES, REQUESTS, CLOSES, EXECS, FORKS };

/* A child counts nothing: the counters are its parent's. */
static const char *const counted[] = {
	"allocations",	  "frees",	     "untracked_frees",	     "requests",
	"hits",		  "forwarded",	     "protection_domains",   "host_requests",
	"registrations",  "deregistrations", "late_deregistrations", "queries_forwarded",
	"internal_errors"
};
#define COUNTED (sizeof(counted) / sizeof(*counted))

struct counts {
	uint64_t of[COUNTED];
};

static struct counts count_all(void)
{
	struct counts counts;

	for (size_t i = 0; i < COUNTED; i++)
		counts.of[i] = own(counted[i]);
	return counts;
}

static void same_counts(struct counts before)
{
	for (size_t i = 0; i < COUNTED; i++) {
		if (own(counted[i]) == before.of[i])
			continue;
		fprintf(stderr, "%s has changed\n", counted[i]);
		_exit(1);
	}
}

static void be_grandchild(void)
{
	alarm(TIME_OUT);
	_exit(ibv_dereg_mr(held) ? 1 : 3);
}

/* The driver defines which calls on device memory a child may make. */
static void be(enum child child)
{
	struct counts before = count_all();
	unsigned int type;
	CUdeviceptr other;
	struct ibv_mr *mr;
	uint64_t asked;
	pid_t next;

	alarm(TIME_OUT);
	require(!worker_thread());
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
	case ALLOCATES:
		if (cuMemAlloc_v2(&other, UNIT) == CUDA_SUCCESS)
			cuMemFree_v2(other);
		cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory);
		break;
	case REQUESTS:
		set("hold", 0);
		asked = begun();
		mr = registered(memory);
		require(begun() == asked + 1 && mr->rkey != held->rkey);
		require(!ibv_dereg_mr(mr) && sim("dereg_mr") == 1);
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
	require(sim("dereg_mr") == (child == REQUESTS));
	same_counts(before);
	_exit(3);
}

/* Any thread may hold the lock at the fork; another one waits for the worker's region. */
static void a_child_of_a_busy_parent(unsigned int variant)
{
	struct waiter waiter;
	uint64_t before, waited;
	CUdeviceptr busy;
	pid_t child;

	set_up_parent(variant & WITH_FORK_INIT);
	set("hold", 1);
	before = begun();
	busy = allocate(UNIT);
	until(begun() > before);
	waited = own("waited"); /* the client of set_up_parent() has it by chance */
	begin_waiter(&waiter, busy);
	child = fork_by(WAY(variant));
	if (!child)
		be(variant >> 3);
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
		own_memory = allocate(UNIT);
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
static void a_child_that_is_the_first_to_use_cuda(unsigned int variant)
{
	CUdeviceptr first;
	pid_t child;

	device = open_device(0);
	pd = ibv_alloc_pd(device);
	require(pd);
	child = fork_by(WAY(variant));
	if (!child) {
		alarm(TIME_OUT);
		set_up();
		first = allocate(UNIT);
		require(!ibv_dereg_mr(registered(first)));
		require(own("registrations") == 1 && sim("live") == 1);
		require_cuda(cuMemFree_v2(first));
		require(!ibv_dealloc_pd(pd) && !ibv_close_device(device) &&
			own("internal_errors") == 0);
		_exit(3);
	}
	require(await_child(child) == 3 << 8);
	set_up();
	require(!ibv_dereg_mr(registered(allocate(UNIT))));
	require(own("registrations") == 1);
}

/* ---- locks ---- */

static _Atomic bool forks, answered;

static void await_answer(void)
{
	forks = true;
	until(answered);
}

static void *answer(void *is_active)
{
	struct ibv_pd *other;
	CUdeviceptr own_memory;

	until(forks);
	other = ibv_alloc_pd(device);
	require(other && !ibv_dealloc_pd(other));
	if (is_active) {
		require_cuda(cuCtxSetCurrent(context));
		own_memory = allocate(UNIT);
		require(!ibv_dereg_mr(registered(own_memory)));
		require_cuda(cuMemFree_v2(own_memory));
	}
	answered = true;
	return NULL;
}

/* As for a lock that the program's handler takes, and another thread holds around calls. */
static void a_fork_handler_may_wait_for_calls_of_other_threads(unsigned int is_active)
{
	pthread_t thread;
	pid_t child;

	require(!pthread_atfork(await_answer, NULL, NULL));
	if (is_active) {
		set_up();
		activate();
	} else {
		device = open_device(0);
		require(ibv_alloc_pd(device));
	}
	require(!pthread_create(&thread, NULL, answer, is_active ? &forks : NULL));
	child = fork();
	if (!child)
		_exit(3);
	require(await_child(child) == 3 << 8);
	pthread_join(thread, NULL);
}

static __typeof__(peerpin_subscribe) *begin_subscription;
static __typeof__(peerpin_unsubscribe) *end_subscription;

static void subscribe(void)
{
	struct peerpin_subscriber subscriber = { .struct_size = sizeof(subscriber) };
	int subscription;

	require(!begin_subscription(&subscriber, &subscription) && !end_subscription(subscription));
}

static void *subscribe_often(void *unused)
{
	while (!stop)
		subscribe();
	return unused;
}

/* Of a program that has not used CUDA. */
static void children_while_a_thread_subscribes(unsigned int variant)
{
	enum { CHILDREN = 200 };
	pthread_t thread;
	pid_t child;

	begin_subscription =
		(__typeof__(begin_subscription))dlsym(RTLD_DEFAULT, "peerpin_subscribe");
	end_subscription = (__typeof__(end_subscription))dlsym(RTLD_DEFAULT, "peerpin_unsubscribe");
	require(begin_subscription && end_subscription);
	/* Look-ups of names take the linker's lock, which only fork() frees in a child. */
	subscribe();
	require(!pthread_create(&thread, NULL, subscribe_often, NULL));
	for (int i = 0; i < CHILDREN; i++) {
		child = fork_by(WAY(variant));
		if (!child) {
			alarm(TIME_OUT);
			for (int j = 0; j < PEERPIN_SUBSCRIBERS_MAX + 1; j++)
				subscribe();
			_exit(3);
		}
		require(await_child(child) == 3 << 8);
	}
	stop = true;
	pthread_join(thread, NULL);
}

/* ---- results ---- */

/* The table, the file of results, and the file of the counters. */
static void a_child_that_exits_leaves_the_results_to_its_parent(unsigned int variant)
{
	struct stat before, after;
	char pattern[256];
	glob_t counters;
	pid_t child;

	with_files();
	snprintf(pattern, sizeof(pattern), "%s/peerpin/%d-*.stats", getenv("XDG_RUNTIME_DIR"),
		 (int)getpid());
	set_up_parent(0);
	require(!glob(pattern, 0, NULL, &counters) && counters.gl_pathc == 1);
	require(!fstat(STDERR_FILENO, &before));
	child = fork_by(WAY(variant));
	if (!child)
		exit(3);
	require(await_child(child) == 3 << 8);
	require(!fstat(STDERR_FILENO, &after) && after.st_size == before.st_size);
	require(!access(counters.gl_pathv[0], R_OK) && !file_contains("results", ""));
	check_parent();
	remove_files();
	_exit(0);
}

/* As posix_spawn() and system(): the parent's memory is the child's until exec. */
static void a_program_started_by_vfork(unsigned int unused)
{
	uint64_t before;
	struct ibv_mr *mr;
	CUdeviceptr busy;
	pid_t child;

	(void)unused;
	set_up_parent(0);
	set("hold", 1);
	before = begun();
	busy = allocate(UNIT);
	until(begun() > before);
	child = vfork();
	if (!child) {
		execl("/bin/sh", "sh", "-c", "exit 3", (char *)NULL);
		_exit(1);
	}
	require(await_child(child) == 3 << 8);
	set("hold", 0);
	mr = registered(busy);
	require(own("forwarded") == 0 && can_read(mr->rkey, busy) && !ibv_dereg_mr(mr));
	require_cuda(cuMemFree_v2(busy));
	check_parent();
}

#define ALL	  "PEERPIN_PREREGISTER=auto"
#define FORK_SAFE ALL " RDMAV_FORK_SAFE=1"

#define CHILD(test, child, way)                                                                    \
	TEST(test, VARIANT(child, way), ALL),                                                      \
		TEST(test, VARIANT(child, way) | WITH_FORK_INIT, FORK_SAFE)
#define EACH_CHILD(name, way)                                                                      \
	CHILD(name, EXITS, way), CHILD(name, LEAVES, way), CHILD(name, DEREGISTERS, way),          \
		CHILD(name, FREES, way), CHILD(name, ALLOCATES, way), CHILD(name, REQUESTS, way),  \
		CHILD(name, CLOSES, way), CHILD(name, EXECS, way), CHILD(name, FORKS, way)
#define EACH_WAY(name, settings)                                                                   \
	TEST(name, VARIANT(0, FORK), settings),                                                    \
		TEST(name, VARIANT(0, FORK_WITHOUT_HANDLERS), settings),                           \
		TEST(name, VARIANT(0, CLONE), settings)

const struct test process_tests[] = {
	EACH_CHILD(a_child_of_a_busy_parent, FORK),
	EACH_CHILD(a_child_of_a_busy_parent, FORK_WITHOUT_HANDLERS),
	EACH_CHILD(a_child_of_a_busy_parent, CLONE),
	TEST(a_fork_handler_may_wait_for_calls_of_other_threads, 0, NULL),
	TEST(a_fork_handler_may_wait_for_calls_of_other_threads, 1, ALL),
	EACH_WAY(children_while_a_thread_subscribes, NULL),
	EACH_WAY(a_child_that_exits_leaves_the_results_to_its_parent, ALL " PEERPIN_SUMMARY=table"),
	TEST(children_while_the_lock_is_taken, 0, NULL),
	TEST(children_while_the_lock_is_taken, 1, NULL),
	EACH_WAY(a_child_that_is_the_first_to_use_cuda, "PEERPIN_PREREGISTER=eager"),
	TEST(a_program_started_by_vfork, 0, ALL),
	{ .name = NULL },
};
