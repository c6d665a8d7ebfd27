/* SPDX-License-Identifier: BSD-3-Clause */
/* check_hits.c -- hits without a lock: holds keep regions, frees revoke them
 * (registration/holds.h); the table of client MRs */
#include "suite.h"

#include <sys/wait.h>

#include "hits_fixture.h"
#include "registration/holds.h"

static void set_up_unique_keys(void)
{
	pd_by_key = true;
	set_up_with_pin_limit();
}

static void in_a_thread(void *(*run)(void *), void *argument)
{
	pthread_t thread;

	ck_assert(!pthread_create(&thread, NULL, run, argument));
	ck_assert(!pthread_join(thread, NULL));
}

static void *drop_it(void *at)
{
	require(registration_holds(at) && registration_drop(at) && !registration_drop(at));
	return NULL;
}

static void *hit_buffer_1(void *at)
{
	require(hit(at, 1) && registration_drop(at));
	return NULL;
}

/* The first tally gives the thread a number. */
static void *hit_and_hold_buffer_0(void *at)
{
	require(hit(at, 0) && registration_drop(at) && hit(at, 0));
	return NULL;
}

START_TEST(a_hit_and_its_deregistration_need_no_lock_and_count)
{
	uint64_t hits;

	prime(0);
	hits = statistics_tallied(TALLY_hits);
	pthread_mutex_lock(&registration_mutex);
	for (unsigned int i = 0; i < 1000; i++) {
		ck_assert(standin_covers(hit(AT(i % 200), 0), buffer(0)));
		ck_assert(registration_drop(AT(i % 200)));
	}
	pthread_mutex_unlock(&registration_mutex);
	ck_assert_uint_eq(statistics_tallied(TALLY_hits), hits + 1000);
	ck_assert(!registration_holds(AT(0)) && !registration_drop(AT(0)));
}
END_TEST

START_TEST(a_held_region_is_never_evicted_and_any_thread_may_drop_it)
{
	for (unsigned int i = 0; i < FIT; i++) {
		prime(i);
		ck_assert_uint_ne(hit(AT(i), i), 0);
	}
	ck_assert(!evict_all());
	ck_assert_uint_eq(get(AT(100), FIT), 0);
	in_a_thread(drop_it, AT(3));
	ck_assert_uint_ne(get(AT(100), FIT), 0);
	ck_assert_uint_eq(hit(AT(3), 3), 0);
	ck_assert_uint_eq(standin_registered(), FIT);
	ck_assert_uint_eq(statistics_get(evictions), 1);
}
END_TEST

START_TEST(a_claim_fails_while_held_and_an_ended_generation_is_dropped_and_not_taken)
{
	struct region_hits *hits;
	uint64_t hold, taken;

	prime(0);
	hits = holds_at(1);
	hold = holds_of(hits);
	ck_assert_uint_ne(hit(AT(0), 0), 0);
	ck_assert(holds_any(hits));
	pthread_mutex_lock(&registration_mutex);
	ck_assert(!holds_claim(hits));
	taken = holds_take(hold);
	ck_assert(taken);
	drop_it(AT(0));
	ck_assert(!holds_claim(hits));
	ck_assert(holds_drop(taken));
	ck_assert(holds_claim(hits));
	pthread_mutex_unlock(&registration_mutex);
	ck_assert(!holds_take(hold));
	ck_assert_uint_eq(hit(AT(0), 0), 0);
	/* By another region: the entry names no ended generation. */
	ck_assert_uint_ne(get(AT(0), 0), 0);
	hits = holds_at(2);
	pthread_mutex_lock(&registration_mutex);
	ck_assert_uint_eq(holds_end(hits), 1);
	pthread_mutex_unlock(&registration_mutex);
	ck_assert(holds_any(hits));
	drop_it(AT(0));
	ck_assert(!holds_any(hits));
	ck_assert_uint_eq(statistics_get(late_deregistrations), 1);
}
END_TEST

START_TEST(a_hold_of_any_stripe_fails_a_claim_and_is_revoked_by_an_end)
{
	struct region_hits *hits;
	uint64_t hold, taken;

	prime(0);
	hits = holds_at(1);
	pthread_mutex_lock(&registration_mutex);
	for (uint64_t stripe = 0; stripe < HOLDS_STRIPES; stripe++) {
		hold = holds_of(hits);
		ck_assert(holds_change(hold | stripe << 56, 1));
		ck_assert(holds_any(hits) && !holds_claim(hits));
		/* The stripes before it are of that generation again. */
		for (uint64_t other = 0; other < HOLDS_STRIPES; other++)
			ck_assert(holds_change(hold | other << 56, 1));
		ck_assert_uint_eq(holds_end(hits), HOLDS_STRIPES + 1);
		for (uint64_t other = 0; other < HOLDS_STRIPES; other++)
			ck_assert(holds_any(hits) && !holds_drop(hold | other << 56));
		ck_assert(!holds_drop(hold | stripe << 56) && !holds_any(hits));
	}
	/* Forgotten ones are not dropped from the next generation. */
	hold = holds_take(holds_of(hits));
	ck_assert_uint_eq(holds_end(hits), 1);
	holds_forget(hits);
	taken = holds_take(holds_of(hits));
	ck_assert(taken && !holds_drop(hold) && holds_any(hits) && holds_drop(taken));
	ck_assert(holds_claim(hits));
	pthread_mutex_unlock(&registration_mutex);
}
END_TEST

START_TEST(threads_that_hit_one_region_change_different_words)
{
	struct region_hits *hits;
	unsigned int words = 0;

	prime(0);
	hits = holds_at(1);
	for (unsigned int i = 0; i < HOLDS_STRIPES; i++)
		in_a_thread(hit_and_hold_buffer_0, AT(i));
	for (unsigned int stripe = 0; stripe < HOLDS_STRIPES; stripe++)
		words += (load_seq_cst(holds_word(hits, stripe)) & HOLDS_COUNT) != 0;
	ck_assert_uint_eq(words, HOLDS_STRIPES);
}
END_TEST

START_TEST(a_hit_of_any_thread_counts_as_a_use)
{
	for (unsigned int i = 0; i < FIT + 1; i++)
		prime(i);
	in_a_thread(hit_buffer_1, AT(0));
	prime(FIT + 1);
	ck_assert_uint_ne(hit(AT(0), 1), 0);
	ck_assert_uint_eq(hit(AT(1), 2), 0);
}
END_TEST

START_TEST(a_free_revokes_client_mrs_and_their_deregistration_is_late)
{
	uint32_t key;

	prime(0);
	key = hit(AT(0), 0);
	end(buffer(0));
	ck_assert(!standin_covers(key, buffer(0)));
	ck_assert_uint_eq(hit(AT(1), 0), 0);
	ck_assert_uint_eq(statistics_get(revoked), 1);
	begin(buffer(0), BLOCK);
	ck_assert_uint_eq(hit(AT(1), 0), 0);
	ck_assert_uint_ne(get(AT(1), 0), key);
	/* The late one is not a deregistration of the new region, which uses the hits again.
	 */
	drop_it(AT(0));
	ck_assert_uint_eq(statistics_get(late_deregistrations), 1);
	ck_assert(!evict_all());
	drop_it(AT(1));
	ck_assert(evict_all());
}
END_TEST

START_TEST(client_mrs_of_a_shared_granule_hold_it_until_its_last_allocation_is_freed)
{
	struct registration_keys keys;

	begin(HOME, 1000);
	begin(HOME + 4096, 1000);
	ck_assert_uint_ne(get_in(&pd, AT(0), HOME, 1000), 0);
	ck_assert_uint_ne(get_in(&pd, AT(1), HOME + 4096, 1000), 0);
	ck_assert_uint_eq(standin_registered(), 1);
	ck_assert(!evict_all());
	end(HOME);
	ck_assert_uint_eq(statistics_get(revoked), 0);
	ck_assert_uint_eq(hit_in(&pd, AT(2), HOME, 1000, &keys), 0);
	drop_it(AT(1));
	ck_assert(!evict_all());
	end(HOME + 4096);
	ck_assert_uint_eq(statistics_get(revoked), 1);
	ck_assert_uint_eq(standin_registered(), 0);
	drop_it(AT(0));
	ck_assert_uint_eq(statistics_get(late_deregistrations), 1);
}
END_TEST

START_TEST(a_struct_at_a_reused_address_stands_for_the_newer_client_mr_alone)
{
	prime(0);
	prime(1);
	for (unsigned int times = 0; times < 3; times++) {
		ck_assert_uint_ne(get(AT(0), 0), 0);
		ck_assert_uint_ne(get(AT(0), 1), 0);
		ck_assert_uint_ne(get(AT(0), 1), 0);
	}
	drop_it(AT(0));
	ck_assert(evict_all());
	ck_assert_uint_eq(standin_registered(), 0);
}
END_TEST

/* The deregistration of the former struct bypassed peerpin. */
START_TEST(a_struct_that_begins_beside_a_former_one_is_told_from_it)
{
	const void *former = (const void *)((uintptr_t)AT(1) & ~(uintptr_t)31);

	prime(0);
	for (uintptr_t offset = 8; offset < 32; offset += 8) {
		const void *beside = (const char *)former + offset;

		ck_assert_uint_ne(get(former, 0), 0);
		ck_assert(!registration_holds(beside) && !registration_drop(beside));
		ck_assert_uint_ne(get(beside, 0), 0);
		ck_assert(!registration_holds(former) && !registration_drop(former));
		ck_assert(!evict_all());
		ck_assert(registration_drop(beside) && evict_all());
		prime(0);
	}
	ck_assert_uint_eq(statistics_get(late_deregistrations), 0);
}
END_TEST

START_TEST(a_struct_at_an_address_that_the_table_lacks_makes_its_request_forwarded)
{
	const void *high = (const void *)((uintptr_t)1 << 48);

	prime(0);
	ck_assert_uint_eq(get(high, 0), 0);
	ck_assert_uint_eq(statistics_get(forwarded_failed), 1);
	ck_assert(!registration_holds(high) && !registration_drop(high));
	ck_assert(evict_all());
}
END_TEST

START_TEST(an_imported_client_mr_keeps_its_region_until_it_is_dropped_or_the_memory_freed)
{
	struct registration_keys keys;

	for (unsigned int i = 0; i < 2; i++) {
		prime(0);
		ck_assert(hit_in(&pd, AT(0), buffer(0), BLOCK, &keys));
		registration_imported(AT(1), DEVICE, keys.kernel_handle);
		drop_it(AT(0));
		ck_assert(registration_holds(AT(1)));
		ck_assert(!evict_all());
		ck_assert(standin_covers(keys.lkey, buffer(0)));
		if (i)
			end(buffer(0));
		drop_it(AT(1));
		ck_assert_uint_eq(statistics_get(late_deregistrations), i);
		ck_assert_int_eq(evict_all(), !i);
		ck_assert_uint_eq(standin_registered(), 0);
	}
}
END_TEST

START_TEST(a_closing_protection_domain_has_no_regions_and_serves_no_hit)
{
	prime(1);
	prime(0);
	ck_assert(registration_pd_closing(&pd));
	ck_assert_uint_eq(standin_registered(), 0);
	ck_assert_uint_eq(get(AT(2), 0), 0);
	registration_pd_closed(&pd, false);
	ck_assert_uint_ne(get(AT(2), 0), 0);
	ck_assert_uint_ne(hit(AT(3), 0), 0);
	ck_assert(registration_drop(AT(2)) && registration_drop(AT(3)));
	ck_assert(registration_pd_closing(&pd));
	registration_pd_closed(&pd, true);
	ck_assert_uint_eq(hit(AT(0), 0), 0);
}
END_TEST

/* The first request counts the region as used, and is evidence for background registration. */
START_TEST(a_client_s_first_request_in_a_domain_is_no_hit_though_the_region_is_registered)
{
	struct ibv_pd second = { .context = DEVICE, .handle = 2 };
	struct registration_keys keys;

	registration_pd_opened(&second, false);
	begin(buffer(0), BLOCK);
	prime(0);
	ck_assert_uint_ne(get_in(&second, AT(0), buffer(0), BLOCK), 0);
	begin(buffer(1), BLOCK);
	ck_assert_uint_eq(standin_registered(), 4);
	prime(1);
	ck_assert(!hit_in(&second, AT(1), buffer(1), BLOCK, &keys));
	ck_assert_uint_ne(get_in(&second, AT(1), buffer(1), BLOCK), 0);
	ck_assert(hit_in(&second, AT(2), buffer(1), BLOCK, &keys));
	ck_assert_uint_eq(standin_registered(), 4);
}
END_TEST

START_TEST(unique_keys_are_never_held_twice)
{
	uint32_t first, second;

	prime(0);
	first = get(AT(0), 0);
	second = get(AT(1), 0);
	ck_assert(first && second && first != second);
	drop_it(AT(0));
	ck_assert_uint_eq(get(AT(2), 0), first);
}
END_TEST

/* In the child, without the lock, which another thread of the parent may have. */
static bool child_knows_them(void)
{
	for (unsigned int i = 0; i < 8; i++) {
		if (!registration_holds(AT(i)) || !registration_drop(AT(i)) ||
		    registration_drop(AT(i)))
			return false;
	}
	return !registration_drop(AT(8)) && standin_registered() == 1;
}

START_TEST(a_forked_child_has_the_client_mrs_of_its_parent)
{
	int status;
	pid_t child;

	for (unsigned int i = 0; i < 8; i++)
		ck_assert_uint_ne(get(AT(i), 0), 0);
	pthread_mutex_lock(&registration_mutex);
	child = fork();
	if (!child)
		_exit(!child_knows_them());
	pthread_mutex_unlock(&registration_mutex);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	for (unsigned int i = 0; i < 8; i++)
		drop_it(AT(i));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("hits");
	TCase *hits = tcase_create("hits");
	TCase *blocks = tcase_create("blocks");
	TCase *sync = tcase_create("sync");
	TCase *unique = tcase_create("unique keys");

	tcase_add_checked_fixture(hits, set_up_with_pin_limit, NULL);
	tcase_add_test(hits, a_hit_and_its_deregistration_need_no_lock_and_count);
	tcase_add_test(hits, a_held_region_is_never_evicted_and_any_thread_may_drop_it);
	tcase_add_test(hits,
		       a_claim_fails_while_held_and_an_ended_generation_is_dropped_and_not_taken);
	tcase_add_test(hits, a_hold_of_any_stripe_fails_a_claim_and_is_revoked_by_an_end);
	tcase_add_test(hits, threads_that_hit_one_region_change_different_words);
	tcase_add_test(hits, a_hit_of_any_thread_counts_as_a_use);
	tcase_add_test(hits, a_free_revokes_client_mrs_and_their_deregistration_is_late);
	tcase_add_test(hits, a_struct_at_a_reused_address_stands_for_the_newer_client_mr_alone);
	tcase_add_test(hits, a_struct_that_begins_beside_a_former_one_is_told_from_it);
	tcase_add_test(hits,
		       a_struct_at_an_address_that_the_table_lacks_makes_its_request_forwarded);
	tcase_add_test(
		hits,
		an_imported_client_mr_keeps_its_region_until_it_is_dropped_or_the_memory_freed);
	tcase_add_test(hits, a_closing_protection_domain_has_no_regions_and_serves_no_hit);
	tcase_add_test(hits, a_forked_child_has_the_client_mrs_of_its_parent);
	suite_add_tcase(suite, hits);
	tcase_add_checked_fixture(blocks, set_up_off, NULL);
	tcase_add_test(blocks,
		       client_mrs_of_a_shared_granule_hold_it_until_its_last_allocation_is_freed);
	suite_add_tcase(suite, blocks);
	tcase_add_checked_fixture(sync, set_up_eager, NULL);
	tcase_add_test(
		sync,
		a_client_s_first_request_in_a_domain_is_no_hit_though_the_region_is_registered);
	suite_add_tcase(suite, sync);
	tcase_add_checked_fixture(unique, set_up_unique_keys, NULL);
	tcase_add_test(unique, unique_keys_are_never_held_twice);
	suite_add_tcase(suite, unique);
	return suite_run(suite);
}
