/* SPDX-License-Identifier: BSD-3-Clause */
/* check_vain.c -- background registration is eager until it proves vain: by domain, and by class of
 * sizes
 *
 * In eager mode every background registration is complete when begin() returns.
 */
#include "suite.h"

#include "registration/policy.h"
#include "registration_fixture.h"

#define SCRATCH (3 * BLOCK) /* of another class than the memory of enable_domain() */

static uint64_t made(void)
{
	return statistics_get(registrations_background);
}

/* Allocations that no client requests; the number of those that were registered. */
static uint64_t made_in_vain(unsigned int count, uint64_t size)
{
	uint64_t before = made();

	for (unsigned int i = 0; i < count; i++) {
		begin(HOME, size);
		end(HOME);
	}
	return made() - before;
}

static void use(uint64_t size)
{
	begin(HOME, size);
	ck_assert_uint_ne(ask(0, HOME, BLOCK), 0);
	ck_assert(registration_drop(&client_mrs[0]));
	end(HOME);
}

CASE(vain, .set_up = set_up_eager);

TEST(vain, without_a_client_nothing_is_registered)
{
	for (unsigned int i = 0; i < 50; i++)
		begin(HOME + i * BLOCK, BLOCK);
	ck_assert_uint_eq(standin_attempts(), 0);
}

TEST(vain, eight_in_a_row_end_a_class_and_a_request_begins_it_again)
{
	uint64_t before;

	enable_domain();
	ck_assert_uint_eq(made_in_vain(50, SCRATCH), POLICY_VAIN);
	/* All sizes of that power of two, and no other. */
	ck_assert_uint_eq(made_in_vain(50, 2 * BLOCK), 0);
	ck_assert_uint_eq(made_in_vain(1, 4 * BLOCK), 1);
	before = made();
	begin(HOME, SCRATCH);
	begin(HOME + 8 * BLOCK, SCRATCH);
	ck_assert_uint_eq(made(), before);
	/* The worker registers the other live one. */
	ck_assert_uint_ne(ask(0, HOME, BLOCK), 0);
	await_rescans();
	ck_assert_uint_eq(made(), before + 1);
	begin(HOME + 16 * BLOCK, SCRATCH);
	ck_assert_uint_ne(ask(1, HOME + 16 * BLOCK, BLOCK), 0);
	ck_assert_uint_eq(statistics_tallied(TALLY_hits), 1);
}

TEST(vain, a_request_in_between_begins_a_new_row)
{
	enable_domain();
	for (unsigned int i = 0; i < 10; i++) {
		ck_assert_uint_eq(made_in_vain(POLICY_VAIN - 1, SCRATCH), POLICY_VAIN - 1);
		use(SCRATCH);
	}
	ck_assert_uint_eq(statistics_tallied(TALLY_hits), 10);
}

TEST(vain, memory_that_lives_on_is_no_proof)
{
	enable_domain();
	for (unsigned int i = 0; i < 100; i++)
		begin(HOME + i * 4 * BLOCK, SCRATCH);
	ck_assert_uint_eq(made(), 100);
	for (unsigned int i = 0; i < 100; i++)
		ck_assert_uint_ne(ask(0, HOME + i * 4 * BLOCK, BLOCK), 0);
	ck_assert_uint_eq(statistics_tallied(TALLY_hits), 100);
}

TEST(vain, a_domain_counts_for_itself)
{
	struct ibv_pd other = { .context = DEVICE, .handle = 2 };
	struct registration_keys keys;

	registration_pd_opened(&other, false);
	enable_domain();
	begin(HOME + 900 * BLOCK, BLOCK);
	ck_assert(ask_in(&other, 100, HOME + 900 * BLOCK, 64, RIGHTS, &keys));
	/* Requests in the first domain alone. */
	for (unsigned int i = 0; i < 40; i++)
		use(SCRATCH);
	ck_assert_uint_eq(made_in_vain(1, SCRATCH), 1);
	ck_assert_uint_eq(statistics_tallied(TALLY_hits), 40);
	/* The end of the second domain ends its count, too. */
	ck_assert(registration_drop(&client_mrs[100]));
	ck_assert(registration_pd_closing(&other));
	registration_pd_closed(&other, true);
	ck_assert_uint_eq(made_in_vain(20, SCRATCH), POLICY_VAIN - 1);
}

SUITE("vain")
