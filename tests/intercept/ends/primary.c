/* SPDX-License-Identifier: BSD-3-Clause */
/* primary.c -- regions end before the last release of a primary context, and with no other one */
#include "ends.h"

#include <dlfcn.h>

#include "peerpin.h"

static CUcontext primary;

static void retain(CUdevice gpu)
{
	require_cuda(cuDevicePrimaryCtxRetain(&primary, gpu));
}

/* The driver retains the primary context of GPU 0 for a green context: peerpin does not count it.
 */
static CUgreenCtx retain_uncounted(void)
{
	CUdevResourceDesc description;
	_Alignas(16) char space[256]; /* of a CUdevResource, whose layout nothing here needs */
	CUdevResource *resource = (CUdevResource *)space;
	CUgreenCtx green;

	require_cuda(cuDeviceGetDevResource(0, resource, CU_DEV_RESOURCE_TYPE_SM));
	require_cuda(cuDevResourceGenerateDesc(&description, resource, 1));
	require_cuda(cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
	return green;
}

static void release_uncounted(CUgreenCtx green)
{
	set("outlive", 1);
	require_cuda(cuGreenCtxDestroy(green));
}

static CUdeviceptr allocated(void)
{
	CUcontext popped;
	CUdeviceptr memory;

	require_cuda(cuCtxPushCurrent_v2(primary));
	memory = allocate(UNIT);
	require_cuda(cuCtxPopCurrent_v2(&popped));
	return memory;
}

/* Memory with an idle region. */
static CUdeviceptr idle(void)
{
	CUdeviceptr memory = allocated();

	require(!ibv_dereg_mr(registered(memory)));
	return memory;
}

static bool is_active(CUdevice gpu)
{
	unsigned int flags;
	int active;

	require_cuda(cuDevicePrimaryCtxGetState(gpu, &flags, &active));
	return active;
}

static void release(CUdevice gpu, bool last)
{
	uint64_t regions = sim("live"), frees = own("frees");

	require_cuda(cuDevicePrimaryCtxRelease_v2(gpu));
	require(is_active(gpu) == !last);
	if (last)
		require(sim("live") == regions - 1 && own("frees") == frees + 1);
	else
		require(sim("live") == regions && own("frees") == frees);
}

static void only_the_last_release_ends_regions(unsigned int reset)
{
	set_up();
	retain(0);
	if (reset) {
		idle();
		require_cuda(cuDevicePrimaryCtxReset_v2(0));
		require(!is_active(0) && sim("live") == 0);
		retain(0);
	}
	idle();
	for (int i = 0; i < 10; i++) {
		retain(0);
		release(0, false);
	}
	if (reset)
		release(0, false);
	release(0, true);
	require(own("deregistrations") == sim("registrations") && own("revoked") == 0);
	/* The count begins anew. */
	retain(0);
	idle();
	release(0, true);
}

static void retains_of_each_gpu_are_counted(unsigned int unused)
{
	CUdeviceptr first;
	uint64_t hits;

	(void)unused;
	set_up();
	retain(0);
	first = idle();
	retain(1);
	idle();
	release(1, true);
	hits = own("hits"); /* the worker may have registered before a request of idle() */
	require(!ibv_dereg_mr(registered(first)) && own("hits") == hits + 1);
	release(0, true);
}

/* A context with a retain that peerpin does not count goes on after the last counted release. */
static void a_context_that_goes_on_keeps_memory_in_use(unsigned int unused)
{
	CUdeviceptr unused_memory, used_memory;
	uint64_t hits, ended, registrations;
	CUgreenCtx green;
	struct ibv_mr *mr;

	(void)unused;
	set_up();
	retain(0);
	green = retain_uncounted();
	unused_memory = idle();
	used_memory = allocated();
	mr = registered(used_memory);
	ended = sim("deregistrations");
	registrations = own("registrations");
	require_cuda(cuDevicePrimaryCtxRelease_v2(0));
	require(is_active(0) && sim("deregistrations") == ended + 1);
	require(can_read(mr->rkey, used_memory) && own("revoked") == 0 && own("frees") == 0);
	/* Registered again in the background. */
	until(own("registrations") == registrations + 1);
	hits = own("hits");
	require(!ibv_dereg_mr(registered(unused_memory)) && own("hits") == hits + 1);
	require(!ibv_dereg_mr(mr));
	release_uncounted(green);
	require(!is_active(0) && sim("live") == 0 && own("frees") == 2);
}

static void where_others_retain_the_context_regions_end_after_it(unsigned int unused)
{
	CUgreenCtx green;
	CUdeviceptr memory;

	(void)unused;
	set_up();
	green = retain_uncounted();
	retain(0);
	memory = idle();
	for (int i = 0; i < 10; i++) {
		release(0, false);
		retain(0);
	}
	release(0, false);
	require(!ibv_dereg_mr(registered(memory)) && own("hits") == 1);
	release_uncounted(green);
	require(!is_active(0) && sim("live") == 0 && own("frees") == 1);
}

/* ---- threads ---- */

static CUdeviceptr later;
static unsigned int reported_frees;

static void retain_and_allocate(const struct peerpin_allocation *allocation, void *unused)
{
	(void)allocation;
	(void)unused;
	if (reported_frees++)
		return;
	retain(0);
	allocated(); /* in the slot of the ended one */
	later = allocated();
}

static void a_retain_during_the_last_release_protects_its_memory(unsigned int unused)
{
	const struct peerpin_subscriber subscriber = { .struct_size = sizeof(subscriber),
						       .freeing = retain_and_allocate };
	__typeof__(peerpin_subscribe) *subscribe =
		(__typeof__(subscribe))dlsym(RTLD_DEFAULT, "peerpin_subscribe");
	CUdeviceptr memory;
	int subscription;

	(void)unused;
	set_up();
	retain(0);
	memory = idle();
	require(subscribe && !subscribe(&subscriber, &subscription));
	require_cuda(cuDevicePrimaryCtxRelease_v2(0));
	require(is_active(0) && reported_frees == 1 && own("frees") == 0);
	until(sim("live") == 3);
	require(!ibv_dereg_mr(registered(memory)) && !ibv_dereg_mr(registered(later)));
	require(own("forwarded") == 0);
	require_cuda(cuDevicePrimaryCtxRelease_v2(0));
	require(!is_active(0) && sim("live") == 0 && own("frees") == 3);
}

enum { THREADS = 4, ROUNDS = 300 };

/* While the thread retains the context, no release of another may end its memory. */
static void *use_context(void *unused)
{
	CUdeviceptr memory;
	struct ibv_mr *mr;
	CUcontext own_context;
	char byte;

	(void)unused;
	for (int i = 0; i < ROUNDS; i++) {
		require_cuda(cuDevicePrimaryCtxRetain(&own_context, 0));
		require_cuda(cuCtxSetCurrent(own_context));
		memory = allocate(UNIT);
		mr = registered(memory);
		require(!sim_adapter_read(device, mr->rkey, memory, &byte, 1));
		require(!ibv_dereg_mr(mr));
		if (i % 3 == 0)
			require_cuda(cuMemFree_v2(memory));
		require_cuda(cuCtxSetCurrent(NULL));
		require_cuda(cuDevicePrimaryCtxRelease_v2(0));
	}
	return NULL;
}

/* Another thread's memory may end after a release that is not the last one by the count, and other
 * memory have its address before: such records end as missed frees. */
static void threads_retain_and_release_at_once(unsigned int unused)
{
	pthread_t threads[THREADS];

	(void)unused;
	set_up();
	set("outlive", 1);
	for (int i = 0; i < THREADS; i++)
		require(!pthread_create(&threads[i], NULL, use_context, NULL));
	for (int i = 0; i < THREADS; i++)
		require(!pthread_join(threads[i], NULL));
	require(!is_active(0) && own("revoked") == 0 && own("internal_errors") == 0);
	require(own("allocations") == own("frees") + own("missed_frees"));
	until(sim("live") == 0);
}

#define ALL "PEERPIN_PREREGISTER=auto"

const struct test primary_tests[] = {
	TEST(only_the_last_release_ends_regions, 0, ALL),
	TEST(only_the_last_release_ends_regions, 1, ALL),
	TEST(retains_of_each_gpu_are_counted, 0, ALL " PEERPIN_SIM_DEVICES=2"),
	TEST(a_context_that_goes_on_keeps_memory_in_use, 0, ALL),
	TEST(where_others_retain_the_context_regions_end_after_it, 0, ALL),
	TEST(a_retain_during_the_last_release_protects_its_memory, 0, ALL),
	TEST(threads_retain_and_release_at_once, 0, ALL),
	{ .name = NULL },
};
