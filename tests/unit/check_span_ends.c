/* SPDX-License-Identifier: BSD-3-Clause */
/* check_span_ends.c -- regions over several adjacent mappings: what ends them, also beside requests
 */
#include "spans_fixture.h"

#include "memory/table.h"

CASE(spans, .set_up = set_up_spans);

LOOP_TEST(spans, the_first_unmap_ends_it, 0, 3)
{
	struct pending_frees *frees;
	uint32_t key;

	map_all(3);
	key = get_span(AT(0), 0, 3);
	ck_assert_uint_ne(key, 0);
	frees = unmapping((unsigned int)_i, 1);
	/* Before the driver's call. */
	ck_assert_uint_eq(standin_registered(), 0);
	ck_assert_uint_eq(statistics_get(revoked), 1);
	standin_free(at((unsigned int)_i));
	memory_frees_settled(frees, false);
	ck_assert_uint_eq(use(0, 3), 0);
	map((unsigned int)_i);
	ck_assert_uint_ne(use(0, 3), 0);
	ck_assert(registration_drop(AT(0)));
	ck_assert_uint_eq(statistics_get(late_deregistrations), 1);
	ck_assert_uint_eq(statistics_get(forwarded_range) + statistics_get(host_requests), 1);
}

TEST(spans, one_unmap_of_all_mappings_ends_it)
{
	map_all(3);
	ck_assert_uint_ne(get_span(AT(0), 0, 3), 0);
	memory_frees_settled(unmapping(0, 3), true);
	ck_assert_uint_eq(standin_registered(), 0);
	ck_assert_uint_eq(statistics_get(revoked), 1);
	/* The driver refused: the mappings have other ids. */
	ck_assert_uint_ne(use(0, 3), 0);
	ck_assert(registration_drop(AT(0)));
}

LOOP_TEST(spans, a_loss_of_access_ends_it, 0, 3)
{
	map_all(3);
	ck_assert_uint_ne(get_span(AT(0), 0, 3), 0);
	memory_access_ending(at((unsigned int)_i), BLOCK, 0);
	ck_assert_uint_eq(standin_registered(), 0);
	ck_assert_uint_eq(statistics_get(revoked), 1);
	set_access((unsigned int)_i, false);
	ck_assert_uint_eq(use(0, 3), 0);
	set_access((unsigned int)_i, true);
	ck_assert_uint_ne(use(0, 3), 0);
	ck_assert_uint_eq(standin_registrations(), 2);
}

TEST(spans, requests_for_fewer_mappings_survive_the_others)
{
	uint32_t one, two, three;

	map_all(3);
	three = get_span(AT(0), 0, 3);
	two = get_span(AT(1), 0, 2);
	one = get_span(AT(2), 1, 1);
	ck_assert(three && two && one && three != two && two != one && three != one);
	/* A wait-free hit is of one mapping. */
	ck_assert_uint_eq(get_span(AT(3), 1, 1), one);
	unmap(2);
	ck_assert_uint_eq(standin_registered(), 2);
	ck_assert_uint_eq(statistics_get(revoked), 1);
	ck_assert(standin_covers(two, at(1)) && standin_covers(one, at(1)));
	unmap(0);
	ck_assert_uint_eq(standin_registered(), 1);
	ck_assert(standin_covers(one, at(1)));
	unmap(1);
	ck_assert_uint_eq(standin_registered(), 0);
	ck_assert_uint_eq(statistics_get(revoked), 4);
}

static void *request_two(void *key)
{
	*(uint32_t *)key = get_span(AT(50), 0, 2);
	return NULL;
}

static void *unmap_second(void *unused)
{
	struct pending_frees *frees = unmapping(1, 1);

	require(!standin_registered());
	standin_free(at(1));
	memory_frees_settled(frees, false);
	return unused;
}

TEST(spans, an_unmap_waits_for_a_registration_and_ends_it)
{
	pthread_t requests, unmaps;
	struct allocation found;
	uint32_t key = 1;

	map_all(2);
	standin_block(true);
	ck_assert_int_eq(pthread_create(&requests, NULL, request_two, &key), 0);
	standin_await_blocked(1);
	ck_assert_int_eq(pthread_create(&unmaps, NULL, unmap_second, NULL), 0);
	while (memory_find(at(1), &found))
		sched_yield();
	standin_block(false);
	ck_assert_int_eq(pthread_join(unmaps, NULL), 0);
	ck_assert_int_eq(pthread_join(requests, NULL), 0);
	ck_assert_uint_eq(key, 0);
	ck_assert_uint_eq(standin_registered(), 0);
}

static _Atomic bool over;

static void *request_spans(void *argument)
{
	const char *mr = argument;

	while (!over) {
		for (unsigned int i = 0; i < 2; i++) {
			if (get_span(mr, i, 2))
				require(registration_drop(mr));
		}
	}
	return NULL;
}

/* _i 1: by a loss of access. */
LOOP_TEST(spans, mappings_end_beside_requests, 0, 2)
{
	struct pending_frees *frees;
	pthread_t threads[3];

	map_all(3);
	for (unsigned int i = 0; i < 3; i++)
		require(!pthread_create(&threads[i], NULL, request_spans, AT(i)));
	await("hits", 1);
	for (unsigned int i = 0; i < 1000; i++) {
		if (_i)
			memory_access_ending(at(i % 3), BLOCK, 0);
		else
			frees = unmapping(i % 3, 1);
		/* Both spans need the second one. */
		require(i % 3 != 1 || !standin_registered());
		if (_i) {
			set_access(i % 3, false);
			set_access(i % 3, true);
		} else {
			standin_free(at(i % 3));
			memory_frees_settled(frees, false);
			map(i % 3);
		}
	}
	over = true;
	for (unsigned int i = 0; i < 3; i++)
		require(!pthread_join(threads[i], NULL));
	ck_assert_uint_eq(statistics_get(forwarded_failed), 0);
	ck_assert_uint_ne(use(0, 3), 0);
	memory_frees_settled(unmapping(0, 3), false);
	ck_assert_uint_eq(standin_registered(), 0);
	ck_assert_uint_eq(statistics_get(internal_errors), 0);
}

TEST(spans, two_requests_share_one_registration)
{
	uint32_t keys[2] = { 0, 0 };
	pthread_t threads[2];

	map_all(2);
	standin_block(true);
	ck_assert_int_eq(pthread_create(&threads[0], NULL, request_two, &keys[0]), 0);
	standin_await_blocked(1);
	ck_assert_int_eq(pthread_create(&threads[1], NULL, request_two, &keys[1]), 0);
	await("requests", 2);
	standin_block(false);
	for (unsigned int i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	ck_assert(keys[0] && keys[0] == keys[1]);
	ck_assert_uint_eq(standin_registrations(), 1);
}

/* The mapping is another one than recorded. */
TEST(spans, a_closing_protection_domain_ends_it)
{
	map_all(2);
	use(0, 2);
	registration_pd_closing(&pd);
	ck_assert_uint_eq(standin_registered(), 0);
	registration_pd_closed(&pd, true);
	registration_pd_opened(&pd, false);
	ck_assert_uint_ne(use(0, 2), 0);
	unmap(0);
	ck_assert_uint_eq(standin_registered(), 0);
}

/* As between the end of a record and its event, in another thread. */
TEST(spans, another_mapping_at_the_address_is_not_served)
{
	struct allocation before, after;

	map_all(3);
	ck_assert_uint_ne(use(0, 3), 0);
	ck_assert(table_take(at(1), 0, &before));
	after = before;
	ck_assert_int_eq(table_insert(&after), 0);
	ck_assert_uint_eq(use(0, 3), 0);
	ck_assert_uint_eq(statistics_get(forwarded_freed), 1);
	registration_freeing(&before);
	ck_assert_uint_eq(standin_registered(), 0);
	ck_assert_uint_ne(use(0, 3), 0);
}

SUITE("span_ends")
