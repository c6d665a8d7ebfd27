/* SPDX-License-Identifier: BSD-3-Clause */
/* check_region_life.c -- counters and pin limit with concurrent use of a region */
#include "suite.h"

#include <errno.h>
#include <pthread.h>

#include "base/system.h"
#include "registration/entry.h"
#include "registration_fixture.h"

#define MILLISECOND ((uint64_t)1000000)

static struct ibv_pd second = { .context = DEVICE, .handle = 2 };

static void set_up_two(void)
{
	set_up_off();
	registration_pd_opened(&second, false);
}

static uint32_t ask_second(int handle, uint64_t address)
{
	struct registration_keys keys;

	return ask_in(&second, handle, address, 1000, RIGHTS, &keys) ? keys.lkey : 0;
}

static void *ask_on_thread(void *unused)
{
	ask(0, HOME, 1000);
	return unused;
}

static void *free_on_thread(void *unused)
{
	end(HOME);
	return unused;
}

static void *close_on_thread(void *unused)
{
	registration_pd_closing(&pd);
	return unused;
}

static pthread_t begin_thread(void *(*act)(void *unused))
{
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, act, NULL), 0);
	return thread;
}

/* ---- cancelled; registered synchronously while queued ---- */

START_TEST(a_region_in_the_making_is_not_cancelled)
{
	pthread_t freeing;

	enable_domain();
	standin_block(true);
	begin(HOME, BLOCK);
	standin_await_blocked(1);
	freeing = begin_thread(free_on_thread);
	await("frees", 1);
	standin_block(false);
	pthread_join(freeing, NULL);
	ck_assert_uint_eq(standin_registrations(), 2);
	ck_assert_uint_eq(statistics_get(invalidated), 1);
}
END_TEST

START_TEST(nor_is_one_that_a_client_has_taken_over)
{
	enable_domain();
	hold_up_worker();
	begin(HOME, BLOCK);
	begin(HOME + 4 * BLOCK, BLOCK);
	ck_assert_uint_ne(ask(0, HOME, 1000), 0);
	ck_assert_uint_eq(statistics_get(synchronous_queued), 1);
	end(HOME);
	end(HOME + 4 * BLOCK);
	standin_block_at(0);
	await("registrations_background", 1);
}
END_TEST

#define QUEUED 4096u /* capacity in registration/background.c */
#define OTHERS 8u

static uint64_t buffer(unsigned int number)
{
	return HOME + (2000 + number * 2) * BLOCK;
}

/* A scan of all allocations takes the place of a full queue. */
START_TEST(what_a_full_queue_has_dropped_is_still_queued)
{
	enable_domain();
	hold_up_worker();
	for (unsigned int i = 0; i < QUEUED + 1; i++)
		begin(buffer(i), 1000);
	for (unsigned int i = 0; i < OTHERS; i++)
		end(buffer(i));
	for (unsigned int i = OTHERS; i < 2 * OTHERS; i++)
		ask(0, buffer(i), 1000);
	ck_assert_uint_eq(statistics_get(synchronous_queued), OTHERS);
	standin_block_at(0);
}
END_TEST

/* ---- invalidated; time in frees ---- */

/* Of HOME's two regions one is registered, the other in flight: a free deregisters the first before
 * it waits for the second. */
static pthread_t begin_making_one_of_two(void)
{
	pthread_t asking;

	begin(HOME, 1000);
	standin_fail_with(-EINVAL);
	ck_assert_uint_eq(ask(0, HOME, 1000), 0);
	standin_fail_with(0);
	ck_assert_uint_ne(ask_second(1, HOME), 0);
	standin_block(true);
	asking = begin_thread(ask_on_thread);
	standin_await_blocked(1);
	return asking;
}

START_TEST(all_that_a_free_deregisters_is_invalidated)
{
	pthread_t asking = begin_making_one_of_two(), freeing = begin_thread(free_on_thread);

	while (standin_registered())
		sched_yield();
	standin_block(false);
	pthread_join(freeing, NULL);
	pthread_join(asking, NULL);
	ck_assert_uint_eq(statistics_get(deregistrations), 2);
	ck_assert_uint_eq(statistics_get(invalidated), 2);
}
END_TEST

START_TEST(what_is_deregistered_for_another_reason_is_not)
{
	begin(HOME, 1000);
	ck_assert_uint_ne(ask(0, HOME, 1000), 0);
	registration_pd_closing(&pd);
	ck_assert_uint_ne(ask_second(1, HOME), 0);
	ck_assert(registration_drop(&client_mrs[0]));
	ck_assert(registration_drop(&client_mrs[1]));
	ck_assert(registration_evict(DEVICE, BLOCK));
	registration_pd_closed(&pd, true);
	end(HOME);
	ck_assert_uint_eq(statistics_get(deregistrations), 2);
	ck_assert_uint_eq(statistics_get(invalidated), 0);
}
END_TEST

/* A neighbour shares HOME's region in the second domain: there a free deregisters nothing. The free
 * drops the lock only to wait. */
static struct allocation begin_neighbours(void)
{
	struct allocation home;

	begin(HOME, 1000);
	begin(HOME + 4096, 1000);
	require(memory_find(HOME, &home));
	return home;
}

static void share_with_neighbour(void)
{
	ck_assert_uint_ne(ask_second(1, HOME), 0);
	ck_assert_uint_ne(ask_second(2, HOME + 4096), 0);
}

/* HOME has an entry in the second domain until its free has taken the lock. */
static bool home_has_entry(const struct allocation *home)
{
	bool has;

	registration_lock();
	has = entry_of(domain_find(protection_domain_of(&second), RIGHTS), home);
	registration_unlock();
	return has;
}

static void await_waiting_for_a_millisecond(const struct allocation *home)
{
	uint64_t start;

	while (home_has_entry(home))
		sched_yield();
	ck_assert(registration_holds(&client_mrs[2]));
	start = system_clock();
	while (system_clock() - start < MILLISECOND)
		sched_yield();
}

static unsigned int timed_frees(void)
{
	unsigned int frees = 0;

	for (int i = 0; i < HISTOGRAM_BUCKETS; i++)
		frees += (unsigned int)load_relaxed(&statistics.histograms[HISTOGRAM_free_ns][i]);
	return frees;
}

START_TEST(a_free_s_wait_for_a_region_in_the_making_is_time_in_frees)
{
	pthread_t asking, freeing;
	struct allocation home;

	home = begin_neighbours();
	standin_fail_with(-EINVAL);
	ck_assert_uint_eq(ask(0, HOME, 1000), 0);
	standin_fail_with(0);
	share_with_neighbour();
	standin_block(true);
	asking = begin_thread(ask_on_thread);
	standin_await_blocked(1);
	freeing = begin_thread(free_on_thread);
	await_waiting_for_a_millisecond(&home);
	standin_block(false);
	pthread_join(freeing, NULL);
	pthread_join(asking, NULL);
	ck_assert_uint_ge(statistics_get(free_ns), MILLISECOND);
	ck_assert_uint_eq(timed_frees(), 1);
}
END_TEST

START_TEST(so_is_its_wait_for_what_others_deregister)
{
	pthread_t closing, freeing;
	struct allocation home;

	home = begin_neighbours();
	ck_assert_uint_ne(ask(0, HOME, 1000), 0);
	ck_assert(registration_drop(&client_mrs[0]));
	share_with_neighbour();
	standin_block_unpin(true);
	closing = begin_thread(close_on_thread);
	standin_await_blocked_unpin();
	freeing = begin_thread(free_on_thread);
	await_waiting_for_a_millisecond(&home);
	standin_block_unpin(false);
	pthread_join(freeing, NULL);
	pthread_join(closing, NULL);
	ck_assert_uint_ge(statistics_get(free_ns), MILLISECOND);
	ck_assert_uint_eq(timed_frees(), 1);
}
END_TEST

START_TEST(a_free_that_no_adapter_holds_up_is_not_timed)
{
	begin_neighbours();
	share_with_neighbour();
	end(HOME);
	begin(HOME + 2 * BLOCK, 1000);
	standin_fail_with(-EINVAL);
	ck_assert_uint_eq(ask(0, HOME + 2 * BLOCK, 1000), 0);
	end(HOME + 2 * BLOCK);
	ck_assert_uint_eq(timed_frees(), 0);
	ck_assert_uint_eq(statistics_get(free_ns), 0);
	end(HOME + 4096);
	ck_assert_uint_eq(timed_frees(), 1);
}
END_TEST

/* ---- pin limit ---- */

static void set_up_small_pin_limit(void)
{
	setenv("PEERPIN_PIN_LIMIT", "4M", 1);
	set_up_off();
}

static int unpins;

static int unpin_and_ask(struct ibv_mr *mr)
{
	/* A concurrent request of another client. */
	if (++unpins == 2)
		ask(9, HOME + 20 * BLOCK, 4096);
	return standin_method.unpin(mr);
}

static uint64_t pinned_now, pinned_most;

static int pin_and_count(const struct pin_request *request, struct pin_result *result)
{
	int error = standin_method.pin(request, result);

	if (!error)
		pinned_now += request->length;
	if (pinned_now > pinned_most)
		pinned_most = pinned_now;
	return error;
}

START_TEST(two_clients_that_make_room_keep_to_the_pin_limit)
{
	struct registration_method method = { .name = "counting",
					      .pin = pin_and_count,
					      .unpin = unpin_and_ask };

	registration_forced_method = &method;
	for (uint64_t i = 0; i < 2; i++) {
		begin(HOME + 2 * i * BLOCK, BLOCK);
		ck_assert_uint_ne(ask(0, HOME + 2 * i * BLOCK, 4096), 0);
		registration_drop(&client_mrs[0]);
	}
	begin(HOME + 10 * BLOCK, 2 * BLOCK);
	begin(HOME + 20 * BLOCK, BLOCK);
	pinned_now = pinned_most = 0;
	ask(1, HOME + 10 * BLOCK, 2 * BLOCK);
	ck_assert_int_eq(unpins, 2);
	/* Counted from 0: both earlier regions have been evicted. */
	ck_assert_uint_le(pinned_most, 2 * BLOCK);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("region_life");
	TCase *off = tcase_create("off"), *ahead = tcase_create("ahead"),
	      *sync = tcase_create("sync"), *pin_limit = tcase_create("pin limit");

	tcase_add_checked_fixture(ahead, set_up, NULL);
	tcase_set_timeout(ahead, 120);
	tcase_add_test(ahead, a_region_in_the_making_is_not_cancelled);
	tcase_add_test(ahead, nor_is_one_that_a_client_has_taken_over);
	tcase_add_test(ahead, what_a_full_queue_has_dropped_is_still_queued);
	suite_add_tcase(suite, ahead);
	tcase_add_checked_fixture(off, set_up_two, NULL);
	tcase_set_timeout(off, 120);
	tcase_add_test(off, all_that_a_free_deregisters_is_invalidated);
	tcase_add_test(off, what_is_deregistered_for_another_reason_is_not);
	tcase_add_test(off, a_free_s_wait_for_a_region_in_the_making_is_time_in_frees);
	tcase_add_test(off, so_is_its_wait_for_what_others_deregister);
	tcase_add_test(off, a_free_that_no_adapter_holds_up_is_not_timed);
	suite_add_tcase(suite, off);
	tcase_add_checked_fixture(sync, set_up_eager, NULL);
	suite_add_tcase(suite, sync);
	tcase_add_checked_fixture(pin_limit, set_up_small_pin_limit, NULL);
	tcase_add_test(pin_limit, two_clients_that_make_room_keep_to_the_pin_limit);
	suite_add_tcase(suite, pin_limit);
	return suite_run(suite);
}
