/* SPDX-License-Identifier: BSD-3-Clause */
/* check_choices.c -- parts and wholes where the whole cannot serve: keys of their own, limits,
 * memory for dma-bufs alone, granules of two allocations
 */
#include <errno.h>

#include "hits_fixture.h"

#include "registration/domain.h"
#include "registration/lock.h"
#include "registration/methods.h"
#include "registration/policy.h"
#include "registration/entry.h"

#define GIB    ((uint64_t)1 << 30)
#define LARGE  (100 * GIB)
#define PIECES 16

static bool use(int handle, uint64_t address, uint64_t length)
{
	return ask(handle, address, length) && registration_drop(&client_mrs[handle]);
}

static void set_up_own_keys(void)
{
	pd_by_key = true;
	set_up_eager();
}

CASE(own_keys, .set_up = set_up_own_keys);

TEST(own_keys, each_piece_of_a_large_allocation_has_its_client_mr)
{
	begin(HOME, LARGE);
	for (unsigned int round = 0; round < 3; round++) {
		for (int i = 0; i < PIECES; i++)
			ck_assert_uint_ne(ask(i, HOME + (uint64_t)i * GIB, 4096), 0);
		for (int i = 0; i < PIECES; i++)
			ck_assert(registration_drop(&client_mrs[i]));
	}
	ck_assert_uint_eq(statistics_get(forwarded), 0);
	ck_assert_uint_eq(statistics_get(registrations), PIECES);
	ck_assert_uint_eq(statistics_tallied(TALLY_hits), 2 * PIECES);
}

/* The worker registered the whole before any request: a kind that clients request. */
TEST(own_keys, the_whole_serves_one_client_mr_and_parts_the_others)
{
	begin(HOME, LARGE);
	ck_assert_uint_ne(ask(PIECES, HOME, LARGE), 0);
	for (int i = 0; i < PIECES; i++)
		ck_assert_uint_ne(ask(i, HOME + (uint64_t)i * GIB, 4096), 0);
	ck_assert_uint_eq(statistics_get(forwarded), 0);
	ck_assert_uint_eq(standin_registered(), PIECES + 1);
}

/* aws-ofi-nccl registers one buffer for each endpoint. */
TEST(own_keys, a_buffer_that_is_held_has_further_regions)
{
	uint32_t keys[40];

	begin(HOME, LARGE);
	for (unsigned int round = 0; round < 2; round++) {
		for (unsigned int i = 0; i < 40; i++) {
			keys[i] = ask(i, HOME, 4096);
			ck_assert(standin_covers(keys[i], HOME));
			for (unsigned int other = 0; other < i; other++)
				ck_assert_uint_ne(keys[i], keys[other]);
		}
		for (unsigned int i = 0; i < 40; i++)
			ck_assert(registration_drop(&client_mrs[i]));
		ck_assert_uint_eq(standin_registrations(), 40);
	}
	ck_assert_uint_eq(statistics_get(forwarded), 0);
	end(HOME);
	ck_assert_uint_eq(standin_registered(), 0);
}

#define AT_ONCE 4

static void *ask_home(void *handle)
{
	return (void *)(uintptr_t)ask((int)(uintptr_t)handle, HOME, 4096);
}

/* None waits for another's registration, whose keys it could not have. */
TEST(own_keys, requests_at_once_for_one_buffer_register_at_once)
{
	pthread_t threads[AT_ONCE];
	void *keys[AT_ONCE];

	begin(HOME, LARGE);
	ck_assert(use(0, HOME + GIB, 4096));
	standin_block(true);
	for (uintptr_t i = 0; i < AT_ONCE; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, ask_home, (void *)i), 0);
	standin_await_blocked(AT_ONCE);
	standin_block(false);
	for (unsigned int i = 0; i < AT_ONCE; i++) {
		ck_assert_int_eq(pthread_join(threads[i], &keys[i]), 0);
		ck_assert(standin_covers((uint32_t)(uintptr_t)keys[i], HOME));
		for (unsigned int other = 0; other < i; other++)
			ck_assert_ptr_ne(keys[i], keys[other]);
	}
	ck_assert_uint_eq(statistics_get(forwarded), 0);
}

CASE(again, .set_up = set_up_off);

/* A struct of a domain that has ended is used again. */
TEST(again, failures_in_a_domain_that_has_ended_say_nothing_of_the_next)
{
	struct ibv_pd next = pd;

	begin(HOME, LARGE);
	standin_fail_with(-EINVAL);
	for (unsigned int i = 0; i < 8; i++)
		ck_assert_uint_eq(ask(0, HOME, 4096), 0);
	standin_fail_with(0);
	ck_assert_uint_eq(ask(0, HOME, 4096), 0);
	ck_assert(registration_pd_closing(&pd));
	registration_pd_closed(&pd, true);
	registration_pd_opened(&next, false);
	ck_assert_uint_ne(get_in(&next, AT(0), HOME, 4096), 0);
	ck_assert_uint_eq(statistics_get(requested_bytes), 2 * LARGE);
}

static void set_up_limited(void)
{
	setenv("PEERPIN_PIN_LIMIT", "64M", 1);
	set_up();
}

static void set_up_limited_off(void)
{
	setenv("PEERPIN_PREREGISTER", "off", 1);
	set_up_limited();
}

/* 10 MiB are held, 60 MiB do not fit beside them. */
static void serve_beside_held(void)
{
	begin(HOME + 200 * BLOCK, 5 * BLOCK);
	begin(HOME, 30 * BLOCK);
	ck_assert_uint_ne(ask(1, HOME + 200 * BLOCK, 5 * BLOCK), 0);
	for (uint64_t i = 0; i < 20; i++)
		ck_assert(use(2, HOME + i * BLOCK, 4096));
	ck_assert(use(2, HOME, 20 * BLOCK));
	ck_assert_uint_eq(statistics_get(forwarded), 0);
}

CASE(limited, .set_up = set_up_limited);
CASE(limited_off, .set_up = set_up_limited_off);

TEST(limited, a_part_fits_where_the_whole_does_not)
{
	serve_beside_held();
}

TEST(limited_off, without_the_worker_a_part_fits_where_the_whole_does_not)
{
	serve_beside_held();
}

TEST(limited_off, a_request_for_the_whole_is_tried_once)
{
	begin(HOME + 200 * BLOCK, 5 * BLOCK);
	begin(HOME, 30 * BLOCK);
	ck_assert_uint_ne(ask(1, HOME + 200 * BLOCK, 5 * BLOCK), 0);
	ck_assert_uint_eq(ask(2, HOME, 30 * BLOCK), 0);
	ck_assert_uint_eq(statistics_get(over_pin_limit), 1);
}

CASE(sync, .set_up = set_up_eager);

static struct ibv_pd other = { .context = (struct ibv_context *)0x6000, .handle = 2 };

/* In the protection domain that has the dma-bufs. */
TEST(sync, the_whole_of_memory_for_dma_bufs_alone_follows)
{
	struct registration_request request;
	struct registration_keys keys;

	registration_pd_opened(&other, false);
	begin(HOME + 200 * GIB, BLOCK);
	ck_assert(ask_in(&other, 1, HOME + 200 * GIB, 4096, RIGHTS, &keys));
	standin_allocate(HOME, LARGE, NULL, false);
	memory_allocated(ALLOCATION_POOL, HOME, LARGE);
	for (uint64_t i = 0; i < 100; i++) {
		request = request_in(&pd, 9, HOME + i % 50 * GIB, 4096, RIGHTS);
		request.dma_buf = true;
		request.youngest = memory_youngest();
		ck_assert(registration_request(&request, &keys));
		ck_assert(registration_drop(&client_mrs[9]));
	}
	await("registrations_background", 1);
	ck_assert_uint_eq(statistics_get(registrations), POLICY_PARTS + 3);
	ck_assert_uint_eq(statistics_get(evictions), 0);
}

/* The last granule is the first allocation's part, and all of the second one. */
TEST(sync, the_whole_leaves_a_neighbours_region)
{
	const uint64_t neighbour = HOME + LARGE + 4096;

	begin(HOME, LARGE + 4096);
	begin(neighbour, 4096);
	ck_assert(use(1, HOME + LARGE, 100));
	ck_assert(use(2, neighbour, 100));
	ck_assert_uint_eq(statistics_get(registrations), 1);
	for (unsigned int i = 1; i <= POLICY_PARTS; i++)
		ck_assert(use(1, HOME + i * GIB, 100));
	ck_assert(use(2, neighbour, 100));
	ck_assert_uint_eq(statistics_get(registrations), POLICY_PARTS + 1);
}

static bool frees;

static CUresult free_in_first_request(int *value, CUdevice_attribute attribute, CUdevice device)
{
	(void)value, (void)attribute, (void)device;
	if (frees) {
		frees = false;
		end(HOME);
	}
	return CUDA_ERROR_INVALID_VALUE;
}

/* In the driver's call, without the lock. */
TEST(sync, a_free_in_the_first_request_loses_no_rescan)
{
	begin(HOME, BLOCK);
	for (uint64_t i = 1; i < 5; i++)
		begin(HOME + i * 2 * BLOCK, BLOCK);
	standin_driver.cuDeviceGetAttribute = free_in_first_request;
	frees = true;
	ck_assert_uint_eq(ask(1, HOME, 100), 0);
	ck_assert(!frees);
	await("registrations_background", 4);
	ck_assert(use(1, HOME + 2 * BLOCK, 100));
}

/* The thread that marked the first one had stopped before. */
TEST(sync, a_late_mark_leaves_the_slot_to_the_next_allocation)
{
	struct allocation first, second;

	begin(HOME, BLOCK);
	ck_assert(memory_find(HOME, &first));
	end(HOME);
	begin(HOME, BLOCK);
	ck_assert(memory_find(HOME, &second));
	ck_assert_uint_eq(first.slot, second.slot);
	ck_assert(background_set_queued(&second));
	ck_assert(background_set_queued(&first));
	ck_assert(background_is_queued(&second));
	background_unqueue(&second);
}

static struct registration_method method;
static _Atomic unsigned int attempts;
static pthread_t freeing;

static bool has_entry(const struct allocation *allocation)
{
	bool has;

	pthread_mutex_lock(&registration_mutex);
	has = entry_of(domain_find(protection_domain_find(pd.context, pd.handle), RIGHTS),
		       allocation);
	pthread_mutex_unlock(&registration_mutex);
	return has;
}

static void *free_it(void *unused)
{
	(void)unused;
	end(HOME);
	return NULL;
}

/* The free waits for this registration, which then has no use. */
static int pin_without_room(const struct pin_request *request, struct pin_result *result)
{
	struct allocation allocation;

	(void)request, (void)result;
	if (!attempts++) {
		require(memory_find(HOME, &allocation));
		require(!pthread_create(&freeing, NULL, free_it, NULL));
		while (has_entry(&allocation))
			sched_yield();
	}
	return -ENOMEM;
}

TEST(limited_off, a_registration_without_room_ends_with_its_allocation)
{
	for (uint64_t i = 1; i < 5; i++) {
		begin(HOME + i * 2 * BLOCK, BLOCK);
		ck_assert(use(1, HOME + i * 2 * BLOCK, BLOCK));
	}
	begin(HOME, BLOCK);
	method = (struct registration_method){ .name = "full",
					       .pin = pin_without_room,
					       .unpin = standin_method.unpin };
	registration_forced_method = &method;
	ck_assert_uint_eq(ask(2, HOME, BLOCK), 0);
	ck_assert_int_eq(pthread_join(freeing, NULL), 0);
	ck_assert_uint_eq(attempts, 1);
	ck_assert_uint_eq(standin_registered(), 4);
}

SUITE("choices")
