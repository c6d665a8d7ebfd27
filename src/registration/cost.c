/* SPDX-License-Identifier: BSD-3-Clause */
/* cost.c -- adapters on which a registration takes longer, the more is registered
 *
 * On EFA 2.79 MB take 70 ms at first, and 2505 ms beside 9 GiB (Mooncake#3210). Each speculative
 * registration there makes the client's own ones slower. So on such an adapter only kinds that
 * clients request are registered in the background, and the regions of other kinds end.
 *
 * The sign: SLOW registrations in a row, each beside more registered bytes than any that took the
 * expected time, take longer by a tolerance. The expectation comes from the shortest times so far:
 * of a range of at least that length, or in proportion to the length of a shorter one. Noise only
 * adds time, so one registration in the expected time shows that the bytes beside it cost nothing.
 *
 * A busy machine may give that sign, too. A registration in the expected time beside as many bytes
 * revokes it. Meanwhile a kind's first request misses, and no request is slower than without
 * peerpin.
 */
#include "registration/internal.h"

#define SLOW	     4u
#define LEAST_NS     1000000u /* added time below it is noise */
#define PART	     32u      /* of the expected time: a shorter added time is noise, too */
#define SHIFT_MAX    20u
#define USUAL_MAX_NS 1000000u

static uint64_t cost_expected(const struct adapter *adapter, unsigned int class)
{
	uint64_t expected = UINT64_MAX, least;

	for (unsigned int i = 0; i < COST_CLASSES; i++) {
		least = adapter->least_ns[i];
		if (!least || i + SHIFT_MAX <= class)
			continue;
		if (i < class)
			least <<= class - i + 1;
		if (least < expected)
			expected = least;
	}
	return expected;
}

static unsigned int cost_class(uint64_t bytes)
{
	return 63u - (unsigned int)__builtin_clzll(bytes);
}

uint64_t cost_usual(const struct adapter *adapter, uint64_t bytes)
{
	uint64_t expected = cost_expected(adapter, cost_class(bytes));

	return expected < USUAL_MAX_NS ? expected : USUAL_MAX_NS;
}

static bool cost_is_late(uint64_t nanoseconds, uint64_t expected)
{
	uint64_t tolerance = expected / PART > LEAST_NS ? expected / PART : LEAST_NS;

	return nanoseconds > expected && nanoseconds - expected > tolerance;
}

enum cost_change cost_add(struct adapter *adapter, uint64_t bytes, uint64_t nanoseconds)
{
	unsigned int class = cost_class(bytes);
	uint64_t least = adapter->least_ns[class], beside = adapter->bytes - bytes;
	bool late = cost_is_late(nanoseconds, cost_expected(adapter, class));

	if (!least || nanoseconds < least)
		adapter->least_ns[class] = nanoseconds | 1;
	if (!late) {
		adapter->slow = 0;
		/* The expectation for a new length may be a multiple of its time. */
		if (least && beside > adapter->proven)
			adapter->proven = beside;
		if (!adapter->is_steep || adapter->proven < adapter->sign_bytes)
			return COST_UNCHANGED;
		adapter->is_steep = false;
		return COST_FLAT;
	}
	if (adapter->is_steep || beside <= adapter->proven)
		return COST_UNCHANGED;
	if (!adapter->slow || beside < adapter->sign_bytes)
		adapter->sign_bytes = beside;
	adapter->is_steep = ++adapter->slow >= SLOW;
	return adapter->is_steep ? COST_STEEP : COST_UNCHANGED;
}
