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

bool keep_release_idle(void)
{
	releases++;
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

static const struct {
	const char *promise;
	bool evicts, keeping, releases;
	uint64_t bytes;
	int error;
	unsigned int calls, evictions, releases_of_kept;
	uint64_t last_bytes;
} rows[] = {
	{ "a refusal is repeated 3 times, for twice as much each time", true, false, false, 1000,
	  ENOMEM, 4, 3, 0, 4000 },
	{ "a request beyond all memory evicts all", true, false, false, UINT64_MAX - 1, ENOMEM, 4,
	  3, 0, UINT64_MAX },
	{ "without an eviction there is no repeat", false, false, true, 1000, ENOMEM, 1, 1, 0,
	  1000 },
	{ "nothing is evicted for another error", true, false, false, 1000, EINVAL, 1, 0, 0, 0 },
	{ "nothing is evicted for a success", true, false, false, 1000, 0, 1, 0, 0, 0 },
	{ "kept memory is released where no region is idle", false, true, true, 1000, ENOMEM, 4, 3,
	  3, 4000 },
	{ "without kept memory there is no repeat", false, true, false, 1000, ENOMEM, 1, 1, 1,
	  1000 },
	{ "kept memory is released before the last attempt", true, true, true, 1000, ENOMEM, 4, 3,
	  1, 4000 },
};

LOOP_TEST(verbs_evict, room_is_made_for_a_refused_registration, 0, sizeof(rows) / sizeof(*rows))
{
	gives = rows[_i].evicts;
	keeps = rows[_i].releases;
	if (rows[_i].keeping)
		store_relaxed(&keep_mode, KEEP_ON);
	ck_assert_uint_eq(calls(rows[_i].bytes, rows[_i].error), rows[_i].calls);
	ck_assert_uint_eq(times, rows[_i].evictions);
	ck_assert_uint_eq(releases, rows[_i].releases_of_kept);
	ck_assert_uint_eq(times ? asked[times - 1] : 0, rows[_i].last_bytes);
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

SUITE("verbs_evict")
