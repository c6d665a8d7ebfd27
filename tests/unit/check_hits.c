/* SPDX-License-Identifier: BSD-3-Clause */
/* check_hits.c -- hits without a lock: holds keep regions, frees revoke them
 * (registration/holds.h); the table of client MRs */
#include "suite.h"

#include <sys/wait.h>

#include "hits_fixture.h"
#include "registration/holds.h"

CASE(hits, .set_up = set_up_with_pin_limit);

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

/* The first tally gives the thread a number. */
static void *hit_and_hold_buffer_0(void *at)
{
	require(hit(at, 0) && registration_drop(at) && hit(at, 0));
	return NULL;
}

TEST(hits, a_claim_fails_while_held_and_an_ended_generation_is_dropped_and_not_taken)
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

TEST(hits, a_hold_of_any_stripe_fails_a_claim_and_is_revoked_by_an_end)
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

TEST(hits, threads_that_hit_one_region_change_different_words)
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

/* The deregistration of the former struct bypassed peerpin. */
TEST(hits, a_struct_that_begins_beside_a_former_one_is_told_from_it)
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

TEST(hits, a_struct_at_an_address_that_the_table_lacks_makes_its_request_forwarded)
{
	const void *high = (const void *)((uintptr_t)1 << 48);

	prime(0);
	ck_assert_uint_eq(get(high, 0), 0);
	ck_assert_uint_eq(statistics_get(forwarded_failed), 1);
	ck_assert(!registration_holds(high) && !registration_drop(high));
	ck_assert(evict_all());
}

SUITE("hits")
