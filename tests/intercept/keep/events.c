/* SPDX-License-Identifier: BSD-3-Clause */
/* events.c -- subscribers of peerpin.h see frees and allocations of the program */
#include "keep.h"

#include <dlfcn.h>

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

const struct test event_tests[] = {
	TEST(a_subscriber_sees_a_free_and_an_allocation_with_a_new_id, 0, KEEP),
	TEST(a_new_subscriber_sees_live_memory_and_none_that_is_kept, 0, KEEP),
	{ .name = NULL },
};
