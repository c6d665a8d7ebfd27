/* SPDX-License-Identifier: BSD-3-Clause */
/* check_requests.c -- requests that a region serves: small allocations, access flags, forms,
 * repeated requests, and requests during a free */
#include "suite.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "registration/lock.h"
#include "registration/entry.h"
#include "registration_fixture.h"

#define SMALL 10000u

/* One request for each of SMALL allocations; returns the number of registrations. */
static unsigned int ask_for_small(void)
{
	for (unsigned int i = 0; i < SMALL; i++)
		begin(HOME + i * 1024, 1000);
	for (unsigned int i = 0; i < SMALL; i++) {
		ck_assert(standin_covers(ask(0, HOME + i * 1024, 1000), HOME + i * 1024 + 999));
		ck_assert(registration_drop(&client_mrs[0]));
	}
	return standin_registrations();
}

START_TEST(small_allocations_make_at_most_a_region_for_each_granule)
{
	ck_assert_uint_le(ask_for_small(), (SMALL * 1024 + 65535) / 65536);
}
END_TEST

START_TEST(access_flags_are_served_by_their_own_region)
{
	struct registration_keys relaxed, keys;

	begin(HOME, BLOCK);
	ck_assert(ask_in(&pd, 0, HOME, 4096, RIGHTS | IBV_ACCESS_RELAXED_ORDERING, &relaxed));
	ck_assert(ask_in(&pd, 1, HOME, 4096, IBV_ACCESS_LOCAL_WRITE, &keys));
	ck_assert_uint_ne(keys.lkey, relaxed.lkey);
	ck_assert(!ask_in(&pd, 2, HOME, 4096, IBV_ACCESS_REMOTE_WRITE, &keys));
	ck_assert_uint_eq(standin_registrations(), 2);
}
END_TEST

START_TEST(what_has_been_served_before_is_served_at_once)
{
	struct registration_request request = request_in(&pd, 0, HOME + 100, 4096, RIGHTS);
	struct registration_keys keys;
	uint32_t key;

	begin(HOME, BLOCK);
	ck_assert(!registration_hit(&request, &keys));
	ck_assert(registration_request(&request, &keys));
	key = keys.lkey;
	request.client_mr = &client_mrs[1];
	ck_assert(registration_hit(&request, &keys));
	ck_assert_uint_eq(keys.lkey, key);
	ck_assert_uint_eq(statistics_tallied(TALLY_hits), 1);
	ck_assert_uint_eq(statistics_tallied(TALLY_requests), 2);
	request.iova++;
	ck_assert(!registration_hit(&request, &keys));
	request.iova--;
	request.access = IBV_ACCESS_LOCAL_WRITE;
	ck_assert(!registration_hit(&request, &keys));
	request.access = RIGHTS;
	request.length = BLOCK;
	ck_assert(!registration_hit(&request, &keys));
	request.length = 0;
	ck_assert(!registration_hit(&request, &keys));
	request.length = 1;
	ck_assert(registration_drop(&client_mrs[0]));
	ck_assert(registration_drop(&client_mrs[1]));
	end(HOME);
	ck_assert(!registration_hit(&request, &keys));
	begin(HOME, BLOCK);
	ck_assert(!registration_hit(&request, &keys));
	ck_assert_uint_eq(statistics_get(late_deregistrations), 0);
}
END_TEST

START_TEST(what_only_a_dma_buf_reaches_is_served_to_who_asks_by_one)
{
	struct registration_request request = request_in(&pd, 0, HOME, 4096, RIGHTS);
	struct registration_keys keys;

	standin_allocate(HOME, BLOCK, NULL, false);
	memory_allocated(ALLOCATION_POOL, HOME, BLOCK);
	ck_assert(!registration_request(&request, &keys));
	ck_assert_uint_eq(statistics_get(forwarded_capability), 1);
	request.dma_buf = true;
	ck_assert(registration_request(&request, &keys));
	ck_assert(standin_covers(keys.lkey, HOME));
	end(HOME);
	ck_assert_uint_eq(standin_registered(), 0);
	ck_assert(registration_drop(&client_mrs[0]));
}
END_TEST

START_TEST(a_hit_by_address_is_not_what_only_a_dma_buf_may_have)
{
	struct registration_request request = request_in(&pd, 0, HOME, 4096, RIGHTS);
	struct registration_keys keys;

	request.dma_buf = true;
	standin_allocate(HOME, BLOCK, NULL, false);
	memory_allocated(ALLOCATION_POOL, HOME, BLOCK);
	ck_assert(registration_request(&request, &keys));
	request.dma_buf = false;
	request.client_mr = &client_mrs[1];
	ck_assert(!registration_request(&request, &keys));
	ck_assert(!registration_hit(&request, &keys));
}
END_TEST

/* ---- SYNC_MEMOPS ---- */

START_TEST(sync_memops_is_set_by_the_first_request_that_is_served)
{
	begin(HOME, BLOCK);
	standin_fail_with(-EIO);
	ck_assert_uint_eq(ask(0, HOME, 4096), 0);
	standin_fail_with(0);
	ck_assert_uint_ne(ask(0, HOME, 4096), 0);
	ck_assert_uint_eq(standin_sync_memops(), 1);
}
END_TEST

static _Atomic bool setting, let_set, is_set;

static CUresult set_slowly(const void *value, CUpointer_attribute attribute, CUdeviceptr address)
{
	(void)value, (void)attribute, (void)address;
	setting = true;
	while (!let_set)
		sched_yield();
	is_set = true;
	return CUDA_SUCCESS;
}

static void *ask_first(void *unused)
{
	ask(0, HOME, 4096);
	return unused;
}

static void *let_it_set(void *unused)
{
	nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
	let_set = true;
	return unused;
}

START_TEST(no_client_gets_keys_before_sync_memops_is_set)
{
	struct registration_request request = request_in(&pd, 1, HOME, 4096, RIGHTS);
	struct registration_keys keys;
	pthread_t first, timer;
	bool served, set;

	standin_driver.cuPointerSetAttribute = set_slowly;
	begin(HOME, BLOCK);
	pthread_create(&first, NULL, ask_first, NULL);
	while (!setting)
		sched_yield();
	pthread_create(&timer, NULL, let_it_set, NULL);
	served = registration_hit(&request, &keys);
	set = is_set;
	let_set = true;
	pthread_join(first, NULL);
	pthread_join(timer, NULL);
	ck_assert(!served || set);
}
END_TEST

/* ---- a region kept by a neighbour ---- */

struct asking {
	int handle;
	uint64_t address;
	uint32_t key;
};

static void *ask_there(void *argument)
{
	struct asking *asking = argument;

	asking->key = ask(asking->handle, asking->address, 1000);
	return NULL;
}

static void *end_there(void *argument)
{
	end(((struct asking *)argument)->address);
	return NULL;
}

static bool has_entry(uint64_t address)
{
	struct allocation allocation;
	bool has;

	pthread_mutex_lock(&registration_mutex);
	has = memory_find(address, &allocation) && domain_after(NULL, 0) &&
	      entry_of(domain_after(NULL, 0), &allocation);
	pthread_mutex_unlock(&registration_mutex);
	return has;
}

START_TEST(no_handle_is_given_for_what_was_freed_while_its_region_was_in_the_making)
{
	struct asking first = { .handle = 0, .address = HOME, .key = 1 };
	struct asking neighbour = { .handle = 1, .address = HOME + 1024 };
	pthread_t threads[3];

	begin(first.address, 1000);
	begin(neighbour.address, 1000);
	standin_block(true);
	ck_assert_int_eq(pthread_create(&threads[0], NULL, ask_there, &first), 0);
	standin_await_blocked(1);
	ck_assert_int_eq(pthread_create(&threads[1], NULL, ask_there, &neighbour), 0);
	while (!has_entry(neighbour.address))
		sched_yield();
	ck_assert_int_eq(pthread_create(&threads[2], NULL, end_there, &first), 0);
	while (has_entry(first.address))
		sched_yield();
	standin_block(false);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(first.key, 0);
	ck_assert_uint_eq(statistics_get(forwarded_freed), 1);
	ck_assert(!registration_holds(&client_mrs[0]));
	ck_assert(standin_covers(neighbour.key, neighbour.address));
	end(neighbour.address);
	ck_assert_uint_eq(standin_registered(), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("requests");
	TCase *granule = tcase_create("granule");
	TCase *off = tcase_create("off");

	tcase_add_checked_fixture(granule, set_up, NULL);
	tcase_set_timeout(granule, 120);
	tcase_add_test(granule, small_allocations_make_at_most_a_region_for_each_granule);
	tcase_add_test(granule, what_has_been_served_before_is_served_at_once);
	tcase_add_test(granule, access_flags_are_served_by_their_own_region);
	tcase_add_test(granule, what_only_a_dma_buf_reaches_is_served_to_who_asks_by_one);
	suite_add_tcase(suite, granule);
	tcase_add_checked_fixture(off, set_up_off, NULL);
	tcase_set_timeout(off, 300);
	tcase_add_test(off, a_hit_by_address_is_not_what_only_a_dma_buf_may_have);
	tcase_add_test(off, sync_memops_is_set_by_the_first_request_that_is_served);
	tcase_add_test(off, no_client_gets_keys_before_sync_memops_is_set);
	tcase_add_test(off,
		       no_handle_is_given_for_what_was_freed_while_its_region_was_in_the_making);
	suite_add_tcase(suite, off);
	return suite_run(suite);
}
