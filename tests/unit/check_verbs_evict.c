/* SPDX-License-Identifier: BSD-3-Clause */
/* check_verbs_evict.c -- repeats of a forwarded registration: one per eviction, at most 3 */
#include "suite.h"

#include <check.h>
#include <errno.h>

#include "intercept/verbs.h"
#include "memory/keep.h"

#define DEVICE ((struct ibv_context *)0x5000)

static bool own_call, gives;
static unsigned int times;
static uint64_t asked[8];

bool registration_evict(struct ibv_context *context, uint64_t bytes)
{
	ck_assert_ptr_eq(context, DEVICE);
	asked[times++] = bytes;
	errno = EIO;
	return gives;
}

_Atomic int keep_mode;
static bool keeps;
static unsigned int releases;

bool keep_has_begun(void)
{
	return true;
}

bool keep_release(int device)
{
	ck_assert_int_eq(device, releases++ % 2 ? KEEP_HOST : KEEP_DEVICES);
	errno = EIO;
	return keeps;
}

bool registration_is_own_call(void)
{
	return own_call;
}

bool registration_drop(const void *handle)
{
	(void)handle;
	return false;
}

static void set_up(void)
{
	own_call = false;
	gives = true;
	times = 0;
	store_relaxed(&keep_mode, KEEP_OFF);
	keeps = true;
	releases = 0;
}

/* Number of calls if each one fails with `error`. */
static unsigned int calls(uint64_t bytes, int error)
{
	struct verbs_evict room = { .context = DEVICE, .bytes = bytes };
	unsigned int count = 0;

	errno = error;
	do
		count++;
	while (verbs_evicted(&room, error));
	ck_assert_int_eq(errno, error);
	return count;
}

CASE(verbs_evict, .set_up = set_up);

TEST(verbs_evict, it_is_repeated_three_times_for_twice_as_much_each_time)
{
	ck_assert_uint_eq(calls(1000, ENOMEM), 4);
	ck_assert_uint_eq(times, 3);
	ck_assert_uint_eq(asked[0], 1000);
	ck_assert_uint_eq(asked[1], 2000);
	ck_assert_uint_eq(asked[2], 4000);
}

TEST(verbs_evict, what_reaches_over_all_memory_asks_for_all_that_there_is)
{
	ck_assert_uint_eq(calls(UINT64_MAX - 1, ENOMEM), 4);
	ck_assert_uint_eq(asked[2], UINT64_MAX);
}

TEST(verbs_evict, it_is_not_repeated_if_nothing_made_way)
{
	gives = false;
	ck_assert_uint_eq(calls(1000, ENOMEM), 1);
	ck_assert_uint_eq(times, 1);
}

TEST(verbs_evict, nothing_makes_way_for_another_error_or_a_success)
{
	ck_assert_uint_eq(calls(1000, EINVAL), 1);
	ck_assert_uint_eq(calls(1000, 0), 1);
	ck_assert_uint_eq(times, 0);
}

TEST(verbs_evict, nothing_makes_way_for_our_own_or_a_forwarded_request)
{
	own_call = true;
	ck_assert_uint_eq(calls(1000, ENOMEM), 1);
	own_call = false;
	verbs_begin_forwarding();
	ck_assert_uint_eq(calls(1000, ENOMEM), 1);
	verbs_end_forwarding();
	ck_assert_uint_eq(times, 0);
	ck_assert_uint_eq(calls(1000, ENOMEM), 4);
}

TEST(verbs_evict, kept_memory_is_released_where_no_region_is_idle)
{
	store_relaxed(&keep_mode, KEEP_ON);
	gives = false;
	ck_assert_uint_eq(calls(1000, ENOMEM), 4);
	ck_assert_uint_eq(releases, 3 * 2);
	keeps = false;
	ck_assert_uint_eq(calls(1000, ENOMEM), 1);
}

TEST(verbs_evict, kept_memory_is_released_before_the_last_attempt)
{
	store_relaxed(&keep_mode, KEEP_ON);
	ck_assert_uint_eq(calls(1000, ENOMEM), 4);
	ck_assert_uint_eq(times, 3);
	ck_assert_uint_eq(releases, 2);
}

TEST(verbs_evict, without_peerpin_keep_nothing_is_released)
{
	gives = false;
	ck_assert_uint_eq(calls(1000, ENOMEM), 1);
	ck_assert_uint_eq(releases, 0);
}

SUITE("verbs_evict")
