/* SPDX-License-Identifier: BSD-3-Clause */
/* events.c -- subscribers of peerpin.h and look-ups of keys see frees and allocations of the
 * program
 */
#include "keep.h"

#include <dlfcn.h>
#include <errno.h>

#include "peerpin.h"

#define EVENTS_MAX 64

static struct {
	bool allocated;
	struct peerpin_allocation of;
	uint64_t tag; /* at the event, from the driver */
	bool visible; /* at the event, to the client's query */
} events[EVENTS_MAX];
static _Atomic unsigned int event_count;

static void record(bool is_allocated, const struct peerpin_allocation *allocation)
{
	unsigned int number = event_count++;

	require(number < EVENTS_MAX);
	events[number].allocated = is_allocated;
	events[number].of = *allocation;
	events[number].tag = tag(allocation->base);
	events[number].visible = query_tag(allocation->base) != 0;
}

static void allocated(const struct peerpin_allocation *allocation, void *unused)
{
	(void)unused;
	record(true, allocation);
}

static void freeing(const struct peerpin_allocation *allocation, void *unused)
{
	(void)unused;
	record(false, allocation);
}

#define PUBLIC(name) ((__typeof__(name) *)dlsym(RTLD_DEFAULT, #name))

static int subscribe(void)
{
	const struct peerpin_subscriber subscriber = { .struct_size = sizeof(subscriber),
						       .allocated = allocated,
						       .freeing = freeing };
	int number;

	require(!PUBLIC(peerpin_subscribe)(&subscriber, &number));
	return number;
}

static bool is_event(unsigned int number, bool is_allocated, CUdeviceptr base, size_t size)
{
	return number < event_count && events[number].allocated == is_allocated &&
	       events[number].of.base == base && events[number].of.size == size;
}

static void a_subscriber_sees_a_free_and_an_allocation_with_a_new_id(unsigned int unused)
{
	CUdeviceptr memory;
	uint64_t last = 0;

	(void)unused;
	begin();
	subscribe();
	memory = allocate(UNIT);
	for (unsigned int round = 0; round < 5; round++) {
		require(event_count == 2 * round + 1);
		require(is_event(2 * round, true, memory, UNIT) && events[2 * round].visible);
		require(events[2 * round].of.id > last);
		require(events[2 * round].of.kind == PEERPIN_DEVICE);
		last = events[2 * round].of.id;
		require_cuda(cuMemFree_v2(memory));
		require(event_count == 2 * round + 2);
		require(is_event(2 * round + 1, false, memory, UNIT));
		/* The memory is there until the subscriber returns. */
		require(events[2 * round + 1].of.id == last && events[2 * round + 1].tag);
		require(allocate(UNIT) == memory);
	}
	require(own("reused") == 5);
	/* A release of kept memory is no event of the program. */
	require_cuda(cuMemFree_v2(memory));
	require(event_count == 12);
	release_all();
	require(event_count == 12 && !tag(memory));
	expect_no_kept();
}

static void a_refused_free_is_followed_by_an_allocation(unsigned int unused)
{
	CUdeviceptr memory;
	CUstream stream;
	CUgraph graph;

	(void)unused;
	begin();
	subscribe();
	memory = allocate(UNIT);
	require_cuda(cuStreamCreate(&stream, 1));
	require_cuda(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	require(cuMemFree_v2(memory) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	require(cuStreamEndCapture(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	require(event_count == 1 && query_tag(memory));
	require(cuMemFree_v2(memory) == CUDA_SUCCESS && event_count == 2);
	require(cuMemFree_v2(memory) == CUDA_ERROR_INVALID_VALUE && event_count == 2);
	expect_no_errors();
}

static void a_new_subscriber_sees_live_memory_and_none_that_is_kept(unsigned int unused)
{
	CUdeviceptr live, kept, reused;
	int number;

	(void)unused;
	begin();
	live = allocate(UNIT);
	reused = keep(3 * UNIT);
	require(allocate(3 * UNIT) == reused);
	kept = keep(UNIT);
	number = subscribe();
	require(event_count == 2 && events[0].allocated && events[1].allocated);
	require(events[0].of.base != kept && events[1].of.base != kept);
	require(events[0].of.base + events[1].of.base == live + reused);
	require(events[0].of.id != events[1].of.id);
	/* Each id is the one of later events. */
	require_cuda(cuMemFree_v2(reused));
	require(event_count == 3 && is_event(2, false, reused, 3 * UNIT));
	require(events[2].of.id == events[events[0].of.base == reused ? 0 : 1].of.id);
	require(allocate(UNIT) == kept && event_count == 4 && is_event(3, true, kept, UNIT));
	require(!PUBLIC(peerpin_unsubscribe)(number));
	require_cuda(cuMemFree_v2(kept));
	require(event_count == 4 && subscribe() != number);
	require(event_count == 5 && is_event(4, true, live, UNIT));
	expect_no_errors();
}

static void the_end_of_a_context_is_no_second_free(unsigned int unused)
{
	CUdeviceptr kept, live;

	(void)unused;
	begin();
	subscribe();
	live = allocate(3 * UNIT);
	kept = keep(UNIT);
	require(event_count == 3);
	require_cuda(cuCtxDestroy_v2(context));
	require(event_count == 4 && is_event(3, false, live, 3 * UNIT) && !tag(kept));
	require_cuda(cuCtxCreate_v2(&context, 0, 0));
	expect_no_kept();
}

/* ---- look-ups ---- */

static struct peerpin_domain *domain;

static int look_up(CUdeviceptr address, size_t size, struct peerpin_keys *keys)
{
	return PUBLIC(peerpin_lookup)(domain, address, size, ACCESS, keys);
}

static void a_look_up_finds_no_keys_of_kept_memory_and_finds_them_again(unsigned int further)
{
	struct peerpin_keys keys, again;
	struct ibv_pd *others[12];
	CUdeviceptr memory;
	uint64_t registrations;

	set_up();
	begin();
	/* Keys of the first domains are in the record; those of further ones in arrays. */
	for (unsigned int i = 0; i < further; i++) {
		others[i] = ibv_alloc_pd(device);
		require(!PUBLIC(peerpin_domain)(others[i], ACCESS, &domain));
	}
	require(!PUBLIC(peerpin_domain)(pd, ACCESS, &domain));
	memory = allocate(UNIT);
	until(!look_up(memory, UNIT, &keys));
	until(own("registrations_background") == further + 1);
	registrations = sim("registrations");
	for (int round = 0; round < 5; round++) {
		require_cuda(cuMemFree_v2(memory));
		require(look_up(memory, UNIT, &again) == -ENOENT);
		require(look_up(memory + 4096, 1, &again) == -ENOENT);
		require(allocate(UNIT) == memory && !look_up(memory, UNIT, &again));
		require(again.lkey == keys.lkey && again.rkey == keys.rkey);
		require(can_read(again.rkey, memory));
	}
	require(sim("registrations") == registrations && sim("dereg_mr") == 0);
	require_cuda(cuMemFree_v2(memory));
	release_all();
	require(look_up(memory, UNIT, &again) == -ENOENT && sim("live") == 0);
	require(allocate(UNIT) == memory);
	until(!look_up(memory, UNIT, &again));
	expect_no_errors();
}

/* A registration that completes while its memory is kept. */
static void keys_that_come_while_memory_is_kept_are_found_after_reuse(unsigned int unused)
{
	struct peerpin_keys keys;
	CUdeviceptr memory;
	uint64_t before;

	(void)unused;
	set_up();
	begin();
	require(!PUBLIC(peerpin_domain)(pd, ACCESS, &domain));
	before = begun();
	set("hold", 1);
	memory = allocate(UNIT);
	until(begun() > before);
	require_cuda(cuMemFree_v2(memory));
	require(own("kept") == 1 && look_up(memory, UNIT, &keys) == -ENOENT);
	set("hold", 0);
	until(own("registrations_background") == 1);
	require(look_up(memory, UNIT, &keys) == -ENOENT);
	require(allocate(UNIT) == memory);
	until(!look_up(memory, UNIT, &keys));
	require(can_read(keys.rkey, memory) && sim("registrations") == 1);
	expect_no_errors();
}

const struct test event_tests[] = {
	TEST(a_subscriber_sees_a_free_and_an_allocation_with_a_new_id, 0, KEEP),
	TEST(a_subscriber_sees_a_free_and_an_allocation_with_a_new_id, 0, KEEP_PLAIN),
	TEST(a_refused_free_is_followed_by_an_allocation, 0, KEEP),
	TEST(a_new_subscriber_sees_live_memory_and_none_that_is_kept, 0, KEEP),
	TEST(the_end_of_a_context_is_no_second_free, 0, KEEP),
	TEST(a_look_up_finds_no_keys_of_kept_memory_and_finds_them_again, 0, KEEP),
	TEST(a_look_up_finds_no_keys_of_kept_memory_and_finds_them_again, 12, KEEP),
	TEST(a_look_up_finds_no_keys_of_kept_memory_and_finds_them_again, 0, KEEP_VERIFY),
	TEST(keys_that_come_while_memory_is_kept_are_found_after_reuse, 0, KEEP),
	{ .name = NULL },
};
