/* SPDX-License-Identifier: BSD-3-Clause */
/* public.c -- under the preload: the promises of peerpin.h, compared with the driver and the
 * adapter */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ledger.h"
#include "memory/cuda_abi.h"
#include "unit/preload.h"
#include "unit/suite.h"
#include "verbs/libibverbs.h"

#define SIZE   ((size_t)1 << 20)
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ)

#define ck_cuda(call) ck_assert_int_eq((call), CUDA_SUCCESS)

static CUdevice device;
static CUcontext context;
static struct ibv_pd *pd;

static void set_up(void)
{
	ck_cuda(cuInit(0));
	ck_cuda(cuDeviceGet(&device, 0));
	ck_cuda(cuCtxCreate_v2(&context, 0, device));
	pd = ibv_alloc_pd(standin_open_device());
}

static CUdeviceptr allocate(size_t size)
{
	CUdeviceptr address;

	ck_cuda(cuMemAlloc_v2(&address, size));
	return address;
}

static bool preregister_is(const char *mode)
{
	const char *preregister = getenv("PEERPIN_PREREGISTER");

	return preregister && !strcmp(preregister, mode);
}

static void register_and_drop(CUdeviceptr address, size_t size)
{
	ck_assert_int_eq(ibv_dereg_mr(ibv_reg_mr(pd, (void *)address, size, ACCESS)), 0);
}

CASE(public, .set_up = set_up);

/* ---- allocations and frees ---- */

static struct ledger ledger, second;

#define THREADS 4
#define HELD	8

static CUdeviceptr held[THREADS][HELD];
static size_t sizes[THREADS][HELD];
static _Atomic unsigned int allocations, frees;
static _Atomic bool stop;

static void *churn(void *argument)
{
	unsigned int thread = (unsigned int)(uintptr_t)argument, seed = thread + 1;
	struct peerpin_allocation allocation;

	ck_cuda(cuCtxSetCurrent(context));
	for (unsigned int i = 0; i < 1000 && !stop; i++) {
		unsigned int which = (unsigned int)rand_r(&seed) % HELD;

		if (held[thread][which]) {
			ck_cuda(cuMemFree_v2(held[thread][which]));
			held[thread][which] = 0;
			frees++;
			continue;
		}
		sizes[thread][which] = (size_t)(rand_r(&seed) % 100000) + 1;
		held[thread][which] = allocate(sizes[thread][which]);
		allocations++;
		/* The event precedes the allocation's return. */
		if (i % 100 == 0 && ledger.subscription) {
			ck_assert(ledger_has(&ledger, held[thread][which], &allocation));
			ck_assert_uint_eq(allocation.size, sizes[thread][which]);
		}
	}
	return NULL;
}

static void churn_on_threads(void (*meanwhile)(void))
{
	pthread_t threads[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, churn, (void *)i), 0);
	if (meanwhile)
		meanwhile();
	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
}

/* The ledger's live memory equals the threads', and the driver's answer. */
static void compare_with_driver(struct ledger *of)
{
	struct peerpin_allocation allocation;
	unsigned int count = 0;
	CUdeviceptr base;
	size_t size;

	for (int thread = 0; thread < THREADS; thread++) {
		for (int i = 0; i < HELD; i++) {
			if (!held[thread][i])
				continue;
			count++;
			ck_assert(ledger_has(of, held[thread][i], &allocation));
			ck_cuda(cuMemGetAddressRange_v2(&base, &size, held[thread][i]));
			ck_assert_uint_eq(allocation.base, base);
			ck_assert_uint_eq(allocation.size, size);
			ck_assert_int_eq(allocation.device, device);
			ck_assert_int_eq(allocation.kind, PEERPIN_DEVICE);
		}
	}
	ck_assert_uint_eq(ledger_living(of), count);
	ck_assert_msg(!of->wrong, "not so: %s", of->wrong);
}

TEST(public, every_allocation_is_delivered_once_allocated_and_once_freeing)
{
	ck_assert_int_eq(ledger_open(&ledger), 0);
	churn_on_threads(NULL);
	compare_with_driver(&ledger);
	ck_assert_uint_eq(ledger.allocated, allocations);
	ck_assert_uint_eq(ledger.died, frees);
	ck_cuda(cuCtxDestroy_v2(context));
	ck_assert_uint_eq(ledger_living(&ledger), 0);
	ck_assert_ptr_null(ledger.wrong);
	ck_assert_int_eq(peerpin_unsubscribe(ledger.subscription), 0);
	ck_assert_int_eq(peerpin_unsubscribe(ledger.subscription), -ENOENT);
}

static void come_and_go(void)
{
	unsigned int rounds = 0;

	while (allocations < 200)
		sched_yield();
	/* Each subscription receives live memory, then new events; the last one stays. */
	while (allocations < 1000 || !rounds++) {
		ck_assert_int_eq(ledger_open(&second), 0);
		ck_assert_int_eq(peerpin_unsubscribe(second.subscription), 0);
		ck_assert_msg(!second.wrong, "not so: %s", second.wrong);
	}
	ck_assert_int_eq(ledger_open(&second), 0);
}

TEST(public, a_late_subscriber_misses_nothing_and_receives_nothing_twice)
{
	churn_on_threads(come_and_go);
	compare_with_driver(&second);
	ck_cuda(cuCtxDestroy_v2(context));
	ck_assert_uint_eq(ledger_living(&second), 0);
	ck_assert_ptr_null(second.wrong);
}

/* ---- one callback at a time ---- */

static struct scene {
	CUdeviceptr address; /* memory of interest; 0: all */
	_Atomic unsigned int allocated, died;
	_Atomic bool in_allocation, blocked, may_go, went;
	bool blocks, unsubscribes, was_over;
	int subscription, result;
	uint64_t id, died_id;
	void (*at_allocation)(const struct peerpin_allocation *allocation);
	void (*at_free)(const struct peerpin_allocation *allocation);
} scene, other_scene;

static void scene_allocated(const struct peerpin_allocation *allocation, void *argument)
{
	struct scene *of = argument;

	if (of->address && allocation->base != of->address)
		return;
	of->id = allocation->id;
	of->in_allocation = true;
	while (of->blocks && !of->may_go)
		sched_yield();
	if (of->at_allocation)
		of->at_allocation(allocation);
	if (of->unsubscribes)
		of->result = peerpin_unsubscribe(of->subscription);
	of->in_allocation = false;
	of->allocated++;
}

static void scene_freeing(const struct peerpin_allocation *allocation, void *argument)
{
	struct scene *of = argument;

	if (of->address && allocation->base != of->address)
		return;
	ck_assert(!of->blocks || !of->in_allocation);
	of->died_id = allocation->id;
	if (of->at_free)
		of->at_free(allocation);
	of->died++;
}

static int scene_open(struct scene *of)
{
	struct peerpin_subscriber subscriber = { .struct_size = sizeof(subscriber),
						 .context = of,
						 .allocated = scene_allocated,
						 .freeing = scene_freeing };

	return peerpin_subscribe(&subscriber, &of->subscription);
}

static struct ibv_mr *own;

static void let_go(const struct peerpin_allocation *allocation)
{
	CUdeviceptr base;
	size_t size;

	ck_cuda(cuMemGetAddressRange_v2(&base, &size, allocation->base));
	ck_assert_uint_eq(base, allocation->base);
	ck_assert_uint_eq(standin_kernel_regions(), 1);
	ck_assert_int_eq(ibv_dereg_mr(own), 0);
}

TEST(public, at_a_free_the_memory_is_there)
{
	CUdeviceptr address = allocate(SIZE);

	own = ibv_reg_mr(pd, (void *)address, SIZE, ACCESS);
	scene.at_free = let_go;
	ck_assert_int_eq(scene_open(&scene), 0);
	ck_cuda(cuMemFree_v2(address));
	ck_assert_uint_eq(scene.died, 1);
	ck_assert_uint_eq(statistic("revoked"), 0);
	ck_assert_uint_eq(standin_kernel_regions(), 0);
}

static void register_and_allocate(const struct peerpin_allocation *allocation)
{
	static __thread int depth;
	CUdeviceptr address;
	struct ibv_mr *mr;

	if (depth++)
		return;
	mr = ibv_reg_mr(pd, (void *)allocation->base, allocation->size, ACCESS);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	address = allocate(SIZE);
	mr = ibv_reg_mr(pd, (void *)address, SIZE, ACCESS);
	ck_cuda(cuMemFree_v2(address));
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	depth = 0;
}

TEST(public, callbacks_may_register_and_allocate)
{
	CUdeviceptr address;

	scene.at_allocation = register_and_allocate;
	scene.at_free = register_and_allocate;
	ck_assert_int_eq(scene_open(&scene), 0);
	address = allocate(SIZE);
	ck_assert_uint_eq(scene.allocated, 2);
	ck_assert_uint_eq(scene.died, 1);
	scene.at_free = NULL;
	ck_cuda(cuMemFree_v2(address));
	ck_assert_uint_eq(scene.died, 2);
	ck_assert_uint_eq(statistic("forwarded"), 0);
	ck_assert_uint_eq(standin_kernel_regions(), 0);
}

static void *open_scene(void *of)
{
	ck_assert_int_eq(scene_open(of), 0);
	return NULL;
}

static void *free_it(void *address)
{
	ck_cuda(cuCtxSetCurrent(context));
	ck_cuda(cuMemFree_v2((CUdeviceptr)address));
	return NULL;
}

static void *allocate_one(void *size)
{
	ck_cuda(cuCtxSetCurrent(context));
	allocate((size_t)size);
	return NULL;
}

TEST(public, a_free_waits_for_the_delivery_of_its_allocation_to_a_new_subscriber)
{
	CUdeviceptr address = allocate(SIZE);
	uint64_t before = statistic("frees");
	pthread_t subscribes, frees;

	register_and_drop(address, SIZE);
	scene.address = address;
	scene.blocks = true;
	ck_assert_int_eq(pthread_create(&subscribes, NULL, open_scene, &scene), 0);
	while (!scene.in_allocation)
		sched_yield();
	ck_assert_int_eq(pthread_create(&frees, NULL, free_it, (void *)address), 0);
	/* The free has begun, and the record has ended. */
	await_statistic("frees", before + 1);
	for (int i = 0; i < 1000; i++)
		sched_yield();
	ck_assert_uint_eq(scene.died, 0);
	scene.may_go = true;
	ck_assert_int_eq(pthread_join(subscribes, NULL), 0);
	ck_assert_int_eq(pthread_join(frees, NULL), 0);
	ck_assert_uint_eq(scene.allocated, 1);
	ck_assert_uint_eq(scene.died, 1);
	ck_assert_uint_eq(scene.id, scene.died_id);
}

static void *end_scene(void *argument)
{
	struct scene *of = argument;

	ck_assert_int_eq(peerpin_unsubscribe(of->subscription), 0);
	of->was_over = of->went;
	return NULL;
}

#define BLOCKING 12345 /* bytes of the allocation whose callback blocks */

static void block(const struct peerpin_allocation *allocation)
{
	if (allocation->size != BLOCKING)
		return;
	scene.blocked = true;
	while (!scene.may_go)
		sched_yield();
	scene.went = true;
}

TEST(public, an_unsubscription_waits_for_callbacks_that_run)
{
	pthread_t allocates, ends;
	unsigned int allocated;

	scene.at_allocation = block;
	ck_assert_int_eq(scene_open(&scene), 0);
	ck_assert_int_eq(pthread_create(&allocates, NULL, allocate_one, (void *)BLOCKING), 0);
	while (!scene.blocked)
		sched_yield();
	ck_assert_int_eq(pthread_create(&ends, NULL, end_scene, &scene), 0);
	/* Unsubscribing has begun when events stop. */
	do {
		allocated = scene.allocated;
		ck_cuda(cuMemFree_v2(allocate(SIZE)));
	} while (scene.allocated > allocated);
	for (int i = 0; i < 1000; i++)
		sched_yield();
	scene.may_go = true;
	ck_assert_int_eq(pthread_join(ends, NULL), 0);
	ck_assert(scene.was_over);
	ck_assert_int_eq(pthread_join(allocates, NULL), 0);
	/* Its events are forgotten: a new subscriber receives them again. */
	ck_assert_int_eq(scene_open(&other_scene), 0);
	ck_assert_uint_eq(other_scene.allocated, 1);
}

TEST(public, an_unsubscription_inside_a_callback_does_not_wait_for_it)
{
	pthread_t allocates;

	scene.unsubscribes = true;
	ck_assert_int_eq(scene_open(&scene), 0);
	allocate(SIZE);
	ck_assert_int_eq(scene.result, 0);
	allocate(SIZE);
	ck_assert_uint_eq(scene.allocated, 1);
	ck_assert_uint_eq(scene.died, 0);
	other_scene.at_allocation = block;
	ck_assert_int_eq(scene_open(&other_scene), 0);
	ck_assert_uint_eq(other_scene.allocated, 2);
	ck_assert_int_eq(pthread_create(&allocates, NULL, allocate_one, (void *)BLOCKING), 0);
	while (!scene.blocked)
		sched_yield();
	other_scene.unsubscribes = true;
	allocate(SIZE);
	ck_assert_int_eq(other_scene.result, -EINPROGRESS);
	other_scene.unsubscribes = false;
	scene.may_go = true;
	ck_assert_int_eq(pthread_join(allocates, NULL), 0);
	allocate(SIZE);
	ck_assert_uint_eq(other_scene.allocated, 4);
}

TEST(public, there_is_room_for_so_many_and_for_as_many_again)
{
	struct scene scenes[PEERPIN_SUBSCRIBERS_MAX + 1] = { 0 };
	CUdeviceptr address = allocate(SIZE);

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < PEERPIN_SUBSCRIBERS_MAX; i++)
			ck_assert_int_eq(scene_open(&scenes[i]), 0);
		ck_assert_int_eq(scene_open(&scenes[PEERPIN_SUBSCRIBERS_MAX]), -ENOSPC);
		for (int i = 0; i < PEERPIN_SUBSCRIBERS_MAX; i++) {
			ck_assert_uint_eq(scenes[i].allocated, (unsigned int)round + 1);
			ck_assert_int_eq(peerpin_unsubscribe(scenes[i].subscription), 0);
		}
	}
	ck_assert_int_eq(scene_open(&scenes[0]), 0);
	ck_cuda(cuMemFree_v2(address));
	ck_assert_uint_eq(scenes[0].died, 1);
	ck_assert_uint_eq(scenes[1].died, 0);
}

TEST(public, memory_without_access_for_adapters_is_not_delivered)
{
	CUdeviceptr before, after, plain = allocate(SIZE);

	ck_cuda(cuMemAllocManaged(&before, SIZE, 1));
	ck_assert_int_eq(scene_open(&scene), 0);
	ck_assert_uint_eq(scene.allocated, 1);
	ck_cuda(cuMemAllocManaged(&after, SIZE, 1));
	ck_cuda(cuMemFree_v2(before));
	ck_cuda(cuMemFree_v2(after));
	ck_assert_uint_eq(scene.allocated, 1);
	ck_assert_uint_eq(scene.died, 0);
	ck_cuda(cuMemFree_v2(plain));
	ck_assert_uint_eq(scene.died, 1);
}

TEST(public, a_newer_header_s_request_is_refused_and_half_a_struct_too)
{
	struct {
		struct peerpin_subscriber subscriber;
		uint64_t more;
	} newer = { .subscriber = { .struct_size = sizeof(newer) } };
	int subscription;

	ck_assert_int_eq(peerpin_subscribe(&newer.subscriber, &subscription), 0);
	ck_assert_int_eq(peerpin_unsubscribe(subscription), 0);
	ck_cuda(cuMemFree_v2(allocate(SIZE)));
	newer.more = 1;
	ck_assert_int_eq(peerpin_subscribe(&newer.subscriber, &subscription), -E2BIG);
	newer.subscriber.struct_size = sizeof(newer.subscriber) - 1;
	ck_assert_int_eq(peerpin_subscribe(&newer.subscriber, &subscription), -EINVAL);
	ck_assert_int_eq(peerpin_subscribe(NULL, &subscription), -EINVAL);
	newer.subscriber.struct_size = sizeof(newer.subscriber);
	ck_assert_int_eq(peerpin_subscribe(&newer.subscriber, NULL), -EINVAL);
	ck_assert_int_eq(peerpin_unsubscribe(0), -ENOENT);
}

TEST(public, memory_that_the_driver_keeps_is_delivered_as_allocated_again)
{
	CUcontext primary;
	CUdeviceptr address;
	uint64_t id;

	ck_cuda(cuDevicePrimaryCtxRetain(&primary, device));
	ck_cuda(cuCtxPushCurrent_v2(primary));
	ck_assert_int_eq(scene_open(&scene), 0);
	address = allocate(SIZE);
	id = scene.id;
	ck_assert_int_ne(cuCtxDestroy_v2(primary), CUDA_SUCCESS);
	ck_assert_uint_eq(scene.died, 1);
	ck_assert_uint_eq(scene.died_id, id);
	ck_assert_uint_eq(scene.allocated, 2);
	ck_assert_uint_ne(scene.id, id);
	ck_cuda(cuMemFree_v2(address));
	ck_assert_uint_eq(scene.died, 2);
}

/* ---- inside an allocation: its memory is recorded and registered before the call returns ---- */

static void subscribe_now(void)
{
	standin_in_register = NULL;
	ck_assert_int_eq(scene_open(&scene), 0);
}

static bool preregister_is_eager(void)
{
	return preregister_is("eager");
}

CASE(eager, .set_up = set_up, .applies = preregister_is_eager);

/* Allocations of SIZE are registered in the domain of ACCESS from now on. */
static void enable(void)
{
	CUdeviceptr address = allocate(SIZE);

	register_and_drop(address, SIZE);
	ck_cuda(cuMemFree_v2(address));
}

TEST(eager, an_allocation_that_a_subscription_delivered_is_not_delivered_again)
{
	CUdeviceptr address;

	enable();
	ck_assert_int_eq(scene_open(&other_scene), 0);
	standin_in_register = subscribe_now;
	address = allocate(SIZE);
	ck_assert_uint_eq(scene.allocated, 1);
	ck_assert_uint_eq(other_scene.allocated, 1);
	ck_cuda(cuMemFree_v2(address));
	ck_assert_uint_eq(scene.died, 1);
	ck_assert_uint_eq(other_scene.died, 1);
}

static CUdeviceptr expected;
static pthread_t freeing;

static void free_now(void)
{
	uint64_t before = statistic("frees");

	standin_in_register = NULL;
	ck_assert_int_eq(pthread_create(&freeing, NULL, free_it, (void *)expected), 0);
	await_statistic("frees", before + 1);
	for (int i = 0; i < 1000; i++)
		sched_yield();
}

TEST(eager, memory_freed_before_its_delivery_is_not_delivered_as_allocated)
{
	expected = allocate(SIZE);
	ck_cuda(cuMemFree_v2(expected));
	enable();
	ck_assert_int_eq(scene_open(&scene), 0);
	standin_in_register = free_now;
	ck_assert_uint_eq(allocate(SIZE), expected);
	ck_assert_int_eq(pthread_join(freeing, NULL), 0);
	ck_assert_uint_eq(scene.allocated, 0);
	ck_assert_uint_eq(standin_kernel_regions(), 0);
}

static int in_child(CUdeviceptr address)
{
	struct scene of = { 0 };

	if (scene_open(&of) != -EOPNOTSUPP)
		return 3;
	if (peerpin_unsubscribe(scene.subscription) != -EOPNOTSUPP)
		return 4;
	cuMemFree_v2(address);
	return scene.died ? 5 : 0;
}

TEST(public, in_a_forked_child_nothing_is_delivered)
{
	CUdeviceptr address = allocate(SIZE);
	int status;
	pid_t child;

	register_and_drop(address, SIZE);
	ck_assert_int_eq(scene_open(&scene), 0);
	child = fork();
	if (!child)
		_exit(in_child(address));
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_cuda(cuMemFree_v2(address));
	ck_assert_uint_eq(scene.died, 1);
	ck_assert_int_eq(peerpin_unsubscribe(scene.subscription), 0);
}

SUITE("public")
