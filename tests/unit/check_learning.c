/* SPDX-License-Identifier: BSD-3-Clause */
/* check_learning.c -- which allocations get speculative registrations, for kinds of programs
 *
 * In sync mode every speculative registration is complete when begin() returns.
 */
#include "suite.h"

#include "registration/objects.h"
#include "registration_fixture.h"

#define KIB ((uint64_t)1024)

struct counted {
	/* `unused` counts ended regions only: a live one may still be used. */
	uint64_t requests, hits, made, unused;
};

static struct counted count(void)
{
	return (struct counted){ .requests = statistics_tallied(TALLY_requests),
				 .hits = statistics_tallied(TALLY_hits),
				 .made = statistics_get(registrations),
				 .unused = statistics_get(never_used) -
					   statistics_get(never_used_pinned) };
}

static struct counted count_since(const struct counted *before)
{
	struct counted now = count();

	return (struct counted){ now.requests - before->requests, now.hits - before->hits,
				 now.made - before->made, now.unused - before->unused };
}

static void must_be_learned(const struct counted *counted)
{
	ck_assert_uint_gt(counted->requests, 100);
	ck_assert_msg(counted->unused * 10 <= counted->made,
		      "%llu of %llu registrations were never used",
		      (unsigned long long)counted->unused, (unsigned long long)counted->made);
	ck_assert_msg(counted->hits * 100 >= counted->requests * 95,
		      "%llu of %llu requests were hits", (unsigned long long)counted->hits,
		      (unsigned long long)counted->requests);
}

/* One iteration of a program: nine scratch buffers and a message, all of them freed at its end. */
static void iterate(unsigned int round, uint64_t (*scratch)(unsigned int round, unsigned int which),
		    uint64_t (*message)(unsigned int round))
{
	uint64_t bases[10];

	for (unsigned int i = 0; i < 10; i++) {
		bases[i] = HOME + (2 * i + 1) * 64 * BLOCK;
		begin(bases[i], i == 5 ? message(round) : scratch(round, i));
	}
	ck_assert_uint_ne(ask(0, bases[5], message(round)), 0);
	ck_assert(registration_drop(&handles[0]));
	for (unsigned int i = 0; i < 10; i++)
		end(bases[i]);
}

static void run(uint64_t (*scratch)(unsigned int round, unsigned int which),
		uint64_t (*message)(unsigned int round))
{
	struct counted warm, since;
	unsigned int round = 0;

	activate();
	for (; round < 100; round++)
		iterate(round, scratch, message);
	warm = count();
	for (; round < 400; round++)
		iterate(round, scratch, message);
	since = count_since(&warm);
	must_be_learned(&since);
}

static uint64_t random_scratch(unsigned int round, unsigned int which)
{
	return 4096 + (round * 2654435761u + which * 40503u) % (512 * KIB);
}

static uint64_t two_messages(unsigned int round)
{
	return round % 2 ? 4096 * KIB : 1024 * KIB;
}

CASE(learning, .set_up = set_up_sync);

TEST(learning, scratch_of_other_size_classes_stops_being_registered)
{
	run(random_scratch, two_messages);
}

static uint64_t fixed_scratch(unsigned int round, unsigned int which)
{
	(void)round;
	return 1000 * KIB + which * 4096;
}

static uint64_t fixed_message(unsigned int round)
{
	(void)round;
	return 1000 * KIB + 100;
}

TEST(learning, scratch_of_the_same_size_class_is_told_by_its_exact_size)
{
	run(fixed_scratch, fixed_message);
}

static uint64_t random_near_message(unsigned int round, unsigned int which)
{
	return 800 * KIB + (round * 2654435761u + which * 40503u) % (200 * KIB);
}

TEST(learning, message_sizes_stand_out_of_a_class_of_random_scratch)
{
	run(random_near_message, fixed_message);
}

/* A program with messages of 2000 sizes, then another phase. */
TEST(learning, sizes_of_a_phase_that_is_over_do_not_stand_in_the_way)
{
	activate();
	for (unsigned int i = 0; i < 2000; i++) {
		begin(HOME, 64 * KIB + i * 512);
		ck_assert_uint_ne(ask(0, HOME, 4096), 0);
		ck_assert(registration_drop(&handles[0]));
		end(HOME);
	}
	run(random_near_message, fixed_message);
}

static uint64_t many_messages(unsigned int round)
{
	return (1 + round % 37) * 64 * KIB;
}

static uint64_t large_scratch(unsigned int round, unsigned int which)
{
	return (16 << 20) + round % 11 * 4096 + which * 65536;
}

TEST(learning, many_sizes_of_messages_are_learned)
{
	run(large_scratch, many_messages);
}

TEST(learning, without_a_client_nothing_is_registered)
{
	for (unsigned int i = 0; i < 50; i++)
		begin(HOME + i * BLOCK, BLOCK);
	ck_assert_uint_eq(standin_attempts(), 0);
}

TEST(learning, what_is_never_freed_and_never_asked_for_is_not_registered_without_end)
{
	activate();
	for (unsigned int i = 0; i < 500; i++)
		begin(HOME + i * BLOCK, 300 * KIB + i * 512);
	ck_assert_uint_lt(standin_registrations(), 50);
}

TEST(learning, buffers_that_are_all_there_before_the_first_request_are_hit_nearly_all)
{
	struct counted before, since;

	for (unsigned int i = 0; i < 500; i++)
		begin(HOME + i * 4 * BLOCK, 4 * BLOCK);
	before = count();
	for (unsigned int i = 0; i < 500; i++) {
		ck_assert_uint_ne(ask(0, HOME + i * 4 * BLOCK, BLOCK), 0);
		await_rescans();
	}
	since = count_since(&before);
	must_be_learned(&since);
}

TEST(learning, a_kind_comes_back_when_one_is_asked_for)
{
	struct counted before, since;

	activate();
	for (unsigned int i = 0; i < 50; i++) {
		begin(HOME, 3 * BLOCK);
		end(HOME);
	}
	before = count();
	begin(HOME, 3 * BLOCK);
	begin(HOME + 8 * BLOCK, 3 * BLOCK);
	since = count_since(&before);
	ck_assert_uint_eq(since.made, 0);
	/* A request has the worker register the other live one of that kind. */
	ck_assert_uint_ne(ask(0, HOME, BLOCK), 0);
	await_rescans();
	since = count_since(&before);
	ck_assert_uint_eq(since.made, 2);
	begin(HOME + 16 * BLOCK, 3 * BLOCK);
	ck_assert_uint_ne(ask(1, HOME + 16 * BLOCK, BLOCK), 0);
	since = count_since(&before);
	ck_assert_uint_eq(since.hits, 1);
}

TEST(learning, a_domain_learns_for_itself)
{
	struct ibv_pd other = { .context = DEVICE, .handle = 2 };
	struct registration_keys keys;
	unsigned int made;

	registration_pd_opened(&other, false);
	activate();
	begin(HOME + 900 * BLOCK, BLOCK);
	ck_assert(ask_in(&other, 100, HOME + 900 * BLOCK, 64, RIGHTS, &keys));
	/* Requests in the first domain only: it registers all 40, the second soon none. */
	for (unsigned int i = 0; i < 40; i++) {
		begin(HOME, 5 * BLOCK);
		ck_assert_uint_ne(ask(0, HOME, 64), 0);
		end(HOME);
		registration_drop(&handles[0]);
	}
	made = standin_registrations();
	begin(HOME, 5 * BLOCK);
	ck_assert_uint_eq(standin_registrations(), made + 1);
}

CASE(all, .set_up = set_up_all);

TEST(all, all_registers_whatever_begins)
{
	activate();
	for (unsigned int i = 0; i < 200; i++)
		begin(HOME + i * BLOCK, BLOCK);
	await("registrations_background", 200);
}

SUITE("learning")
