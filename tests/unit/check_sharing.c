/* SPDX-License-Identifier: BSD-3-Clause */
/* check_sharing.c -- which requests one registration serves: small allocations, rights, forms, and
 * again at once */
#include "suite.h"

#include "registration_fixture.h"

#define SMALL 10000u

static void set_up_granule(void)
{
	setenv("PEERPIN_GRANULARITY", "64K", 1);
	set_up();
}

static void set_up_block(void)
{
	setenv("PEERPIN_GRANULARITY", "2M", 1);
	set_up();
}

static void set_up_superset(void)
{
	setenv("PEERPIN_ACCESS_MATCH", "superset", 1);
	set_up();
}

/* Asks for each of many small allocations; returns the registrations that it took. */
static unsigned int ask_for_small(void)
{
	for (unsigned int i = 0; i < SMALL; i++)
		begin(HOME + i * 1024, 1000);
	for (unsigned int i = 0; i < SMALL; i++) {
		ck_assert(standin_covers(ask(0, HOME + i * 1024, 1000), HOME + i * 1024 + 999));
		ck_assert(registration_drop(&handles[0]));
	}
	return standin_registrations();
}

START_TEST(small_allocations_make_at_most_a_region_for_each_granule)
{
	ck_assert_uint_le(ask_for_small(), (SMALL * 1024 + 65535) / 65536);
}
END_TEST

START_TEST(small_allocations_make_at_most_a_region_for_each_block)
{
	ck_assert_uint_le(ask_for_small(), (SMALL * 1024 + BLOCK - 1) / BLOCK);
}
END_TEST

START_TEST(a_block_stays_until_the_last_of_its_allocations_that_need_it_is_freed)
{
	uint32_t key;

	begin(HOME, 1000);
	begin(HOME + 1000000, 1000000);
	begin(HOME + BLOCK, 3 * BLOCK);
	key = ask(0, HOME, 1000);
	ck_assert(standin_covers(key, HOME + BLOCK - 1));
	ck_assert(!standin_covers(key, HOME + BLOCK));
	ck_assert_uint_eq(ask(1, HOME + 1000000, 1000000), key);
	ck_assert_uint_ne(ask(2, HOME + BLOCK, 4096), key);
	end(HOME);
	ck_assert(standin_covers(key, HOME + 1000000));
	end(HOME + 1000000);
	ck_assert(!standin_covers(key, HOME + 1000000));
	ck_assert_uint_eq(standin_registered(), 1);
}
END_TEST

START_TEST(a_wider_region_serves_where_it_may)
{
	struct registration_keys wide, keys;

	begin(HOME, BLOCK);
	ck_assert(ask_in(&pd, 0, HOME, 4096, RIGHTS, &wide));
	ck_assert(
		ask_in(&pd, 1, HOME, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, &keys));
	ck_assert_uint_eq(keys.lkey, wide.lkey);
	/* Again: at once, too. */
	ck_assert(ask_in(&pd, 2, HOME, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, &keys));
	ck_assert_uint_eq(keys.lkey, wide.lkey);
	/* Relaxed ordering is neither wider nor narrower. */
	ck_assert(ask_in(&pd, 3, HOME, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING,
			 &keys));
	ck_assert_uint_ne(keys.lkey, wide.lkey);
	ck_assert(ask_in(&pd, 4, HOME, 4096, RIGHTS | IBV_ACCESS_RELAXED_ORDERING, &keys));
	ck_assert_uint_ne(keys.lkey, wide.lkey);
	ck_assert_uint_eq(standin_registrations(), 3);
}
END_TEST

START_TEST(relaxed_ordering_serves_nobody_who_has_not_asked_for_it)
{
	struct registration_keys relaxed, keys;

	begin(HOME, BLOCK);
	ck_assert(ask_in(&pd, 0, HOME, 4096, RIGHTS | IBV_ACCESS_RELAXED_ORDERING, &relaxed));
	ck_assert(ask_in(&pd, 1, HOME, 4096, IBV_ACCESS_LOCAL_WRITE, &keys));
	ck_assert_uint_ne(keys.lkey, relaxed.lkey);
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
	request.client_mr = &handles[1];
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
	ck_assert(registration_drop(&handles[0]));
	ck_assert(registration_drop(&handles[1]));
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
	ck_assert_uint_eq(statistics_get(bypassed_capability), 1);
	request.dma_buf = true;
	ck_assert(registration_request(&request, &keys));
	ck_assert(standin_covers(keys.lkey, HOME));
	end(HOME);
	ck_assert_uint_eq(standin_registered(), 0);
	ck_assert(registration_drop(&handles[0]));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sharing");
	TCase *granule = tcase_create("granule");
	TCase *block = tcase_create("block");
	TCase *superset = tcase_create("superset");

	tcase_add_checked_fixture(granule, set_up_granule, NULL);
	tcase_set_timeout(granule, 120);
	tcase_add_test(granule, small_allocations_make_at_most_a_region_for_each_granule);
	tcase_add_test(granule, what_has_been_served_before_is_served_at_once);
	tcase_add_test(granule, what_only_a_dma_buf_reaches_is_served_to_who_asks_by_one);
	suite_add_tcase(suite, granule);
	tcase_add_checked_fixture(block, set_up_block, NULL);
	tcase_set_timeout(block, 120);
	tcase_add_test(block, small_allocations_make_at_most_a_region_for_each_block);
	tcase_add_test(block,
		       a_block_stays_until_the_last_of_its_allocations_that_need_it_is_freed);
	suite_add_tcase(suite, block);
	tcase_add_checked_fixture(superset, set_up_superset, NULL);
	tcase_add_test(superset, a_wider_region_serves_where_it_may);
	tcase_add_test(superset, relaxed_ordering_serves_nobody_who_has_not_asked_for_it);
	suite_add_tcase(suite, superset);
	return suite_run(suite);
}
