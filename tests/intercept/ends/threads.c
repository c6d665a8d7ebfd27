/* SPDX-License-Identifier: BSD-3-Clause */
/* threads.c -- threads are cancelled or signalled while they wait for a region or register one;
 * memory hooks inside a registration */
#include "ends.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>

static _Atomic int handled;

static void handler(int signal)
{
	(void)signal;
	handled++;
}

static void check_others(CUdeviceptr waited_for)
{
	CUdeviceptr other;
	struct ibv_mr *mr;

	mr = registered(waited_for);
	require(can_read(mr->rkey, waited_for) && !ibv_dereg_mr(mr));
	other = allocate(UNIT);
	mr = registered(other);
	require(can_read(mr->rkey, other) && !ibv_dereg_mr(mr));
	require_cuda(cuMemFree_v2(other));
	require_cuda(cuMemFree_v2(waited_for));
	require(!ibv_dealloc_pd(pd) || own("revoked"));
	require(sim("live") == 0 || own("revoked"));
}

/* A second waiter, which the first must not leave behind. */
static void cancelled_while_it_waits(unsigned int type)
{
	struct waiter cancelled, other;
	CUdeviceptr memory;
	void *result;

	(void)type;
	set_up();
	memory = occupy_worker("hold", 1);
	begin_waiter(&cancelled, memory);
	begin_waiter(&other, memory);
	require(!pthread_cancel(cancelled.thread));
	set("hold", 0);
	pthread_join(cancelled.thread, &result);
	pthread_join(other.thread, NULL);
	require(other.mr && can_read(other.mr->rkey, memory) && own("waited") == 2);
	require(!ibv_dereg_mr(other.mr));
	/* No cancellation point in between: the request is served. */
	require(result != PTHREAD_CANCELED && cancelled.mr && !ibv_dereg_mr(cancelled.mr));
	check_others(memory);
}

static void signalled_while_it_waits(unsigned int restart)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = restart ? SA_RESTART : 0 };
	struct waiter waiter;
	CUdeviceptr memory;

	require(!sigaction(SIGUSR1, &action, NULL));
	set_up();
	memory = occupy_worker("hold", 1);
	begin_waiter(&waiter, memory);
	for (int i = 0; i < 10; i++) {
		require(!pthread_kill(waiter.thread, SIGUSR1));
		until(handled > i);
	}
	set("hold", 0);
	pthread_join(waiter.thread, NULL);
	require(waiter.mr && can_read(waiter.mr->rkey, memory) && own("waited") == 1);
	require(!ibv_dereg_mr(waiter.mr));
	check_others(memory);
}

static void *register_until_cancelled(void *argument)
{
	struct waiter *waiter = argument;

	waiter->id = gettid();
	waiter->mr = ibv_reg_mr(pd, (void *)waiter->address, UNIT, ACCESS);
	waiter->done = true;
	pthread_testcancel();
	return NULL;
}

/* Its registration serves other waiters too; the adapter waits at a cancellation point, as drivers
 * may (write, close). */
static void cancelled_while_it_makes_one(unsigned int unused)
{
	struct waiter maker = { .done = false }, other;
	uint64_t before;
	void *result;

	(void)unused;
	set_up();
	activate();
	maker.address = allocate(UNIT);
	before = begun();
	set("hold", 1);
	require(!pthread_create(&maker.thread, NULL, register_until_cancelled, &maker));
	until(begun() > before);
	begin_waiter(&other, maker.address);
	require(!pthread_cancel(maker.thread));
	set("hold", 0);
	pthread_join(other.thread, NULL);
	pthread_join(maker.thread, &result);
	require(result == PTHREAD_CANCELED && maker.done && maker.mr && other.mr);
	require(maker.mr->rkey == other.mr->rkey && can_read(other.mr->rkey, maker.address));
	require(!ibv_dereg_mr(other.mr) && !ibv_dereg_mr(maker.mr));
	check_others(maker.address);
}

static void *free_until_cancelled(void *argument)
{
	struct waiter *waiter = argument;

	require_cuda(cuCtxSetCurrent(context));
	waiter->id = gettid();
	require_cuda(cuMemFree_v2(waiter->address));
	waiter->done = true;
	pthread_testcancel();
	return NULL;
}

static void cancelled_while_it_frees(unsigned int unused)
{
	struct waiter freeing = { .done = false };
	void *result;

	(void)unused;
	set_up();
	freeing.address = occupy_worker("hold", 1);
	require(!pthread_create(&freeing.thread, NULL, free_until_cancelled, &freeing));
	until(own("frees") == 1 && is_waiting(freeing.id));
	require(!pthread_cancel(freeing.thread));
	set("hold", 0);
	pthread_join(freeing.thread, &result);
	require(result == PTHREAD_CANCELED && freeing.done && sim("live") == 1);
	check_others(allocate(UNIT));
}

#define STACK ((size_t)16 << 10)

static void *do_everything(void *unused)
{
	struct ibv_mr *mr;
	CUdeviceptr memory;

	require_cuda(cuCtxSetCurrent(context));
	memory = allocate(UNIT);
	mr = registered(memory);
	require(can_read(mr->rkey, memory) && !ibv_dereg_mr(mr));
	require_cuda(cuMemFree_v2(memory));
	return unused;
}

/* Runtimes with many threads use stacks of this size. Below it lies other memory. */
static void all_of_it_on_a_small_stack(unsigned int unused)
{
	char *stack = mmap(NULL, 64 * STACK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attributes;
	pthread_t thread;

	(void)unused;
	set_up();
	require(stack != MAP_FAILED);
	stack += 63 * STACK;
	require(!mprotect(stack, STACK, PROT_READ | PROT_WRITE));
	require(!pthread_attr_init(&attributes) &&
		!pthread_attr_setstack(&attributes, stack, STACK));
	for (int i = 0; i < 2; i++) {
		require(!pthread_create(&thread, &attributes, do_everything, NULL));
		require(!pthread_join(thread, NULL));
	}
	require(own("registrations") >= 2 && sim("live") == 0);
}

static struct ibv_mr *cached;
static _Atomic uint64_t hook_at; /* requests until the hook fires; 0: no hook */

void *__libc_calloc(size_t count, size_t size);

void *calloc(size_t count, size_t size)
{
	if (hook_at && own("requests") >= hook_at) {
		hook_at = 0;
		require(!ibv_dereg_mr(cached));
	}
	return __libc_calloc(count, size);
}

/* A registration cache may intercept the provider's munmap and deregister, here inside a
 * registration of the library's. */
static void a_cache_deregisters_inside_a_registration(unsigned int unused)
{
	struct ibv_mr *other, *mr;
	CUdeviceptr memory, more;

	(void)unused;
	set_up();
	memory = allocate(UNIT);
	cached = registered(memory);
	other = registered(memory);
	more = allocate(UNIT);
	hook_at = own("requests") + 1;
	mr = registered(more);
	require(!hook_at && own("synchronous") == 2);
	require(own("deregistrations") == 0 && sim("deregistrations") == 0 &&
		can_read(other->rkey, memory));
	require(!ibv_dereg_mr(other) && !ibv_dereg_mr(mr));
	require_cuda(cuMemFree_v2(memory));
	require_cuda(cuMemFree_v2(more));
	require(own("deregistrations") == 2 && own("deregistrations_failed") == 0 &&
		sim("live") == 0);
}

#define ALL "PEERPIN_PREREGISTER=auto"

const struct test thread_tests[] = {
	TEST(cancelled_while_it_waits, 0, ALL),
	TEST(signalled_while_it_waits, 0, ALL),
	TEST(signalled_while_it_waits, 1, ALL),
	TEST(cancelled_while_it_makes_one, 0, "PEERPIN_PREREGISTER=off"),
	TEST(cancelled_while_it_frees, 0, ALL),
	TEST(all_of_it_on_a_small_stack, 0, "PEERPIN_PREREGISTER=off"),
	TEST(all_of_it_on_a_small_stack, 1, "PEERPIN_PREREGISTER=eager"),
	TEST(a_cache_deregisters_inside_a_registration, 0, "PEERPIN_PREREGISTER=off"),
	{ .name = NULL },
};
