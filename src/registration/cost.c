/* SPDX-License-Identifier: BSD-3-Clause */
/* cost.c -- what registrations take on an adapter: by their length, and by what is registered
 *
 * The shortest time so far of each length is compared, as noise only adds time. Where the whole of
 * an allocation takes no longer than a part of it, a request registers the whole.
 *
 * On EFA 2.79 MB take 70 ms at first, and 2505 ms beside 9 GiB (Mooncake#3210). Each speculative
 * registration there makes the client's own ones slower. So on such an adapter only kinds that
 * clients request are registered in the background, and the regions of other kinds end.
 *
 * The sign: a row of at least SLOW registrations that take longer than expected, by times in
 * proportion to the bytes registered beside them, within a factor of 2.5, up to 3 times as many
 * bytes as at the row's beginning. The expectation comes from the shortest times so far: of a range
 * of at least that length, or in proportion to the length of a shorter one. Noise only adds time,
 * so one registration in the expected time shows that the bytes beside it cost nothing.
 *
 * A busy machine adds time in proportion to other things, but may give that sign by chance. A
 * registration in the expected time beside as many bytes revokes it. Meanwhile a kind's first
 * request misses, and no request is slower than without peerpin.
 */
#include "registration/internal.h"

#define SLOW	     4u
#define LEAST_NS     500000u /* added time below it is noise */
#define PART	     32u     /* of the expected time: a shorter added time is noise, too */
#define SHIFT_MAX    20u
#define USUAL_MAX_NS 1000000u

/* Equal times: at most a 64th apart. Shorter ones than LEAST_EQUAL_NS vary more, and after fewer
 * registrations the shortest time may be far from what they take. */
#define EQUAL_PART     64u
#define LEAST_EQUAL_NS 100000u
#define ENOUGH	       4u
#define RECHECK_EVERY  8u

static uint64_t cost_expected(const struct adapter *adapter, unsigned int class)
{
	uint64_t expected = UINT64_MAX, least;

	for (unsigned int i = 0; i < COST_CLASSES; i++) {
		least = adapter->costs[i].least_ns;
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

/* Returns the added time; 0: it is noise. */
static uint64_t cost_added(uint64_t nanoseconds, uint64_t expected)
{
	uint64_t tolerance = expected / PART > LEAST_NS ? expected / PART : LEAST_NS;

	return nanoseconds > expected && nanoseconds - expected > tolerance ? nanoseconds - expected
									    : 0;
}

/* In the expected time. */
static enum cost_change cost_prove(struct adapter *adapter, uint64_t beside)
{
	adapter->slow = 0;
	if (beside > adapter->proven)
		adapter->proven = beside;
	if (!adapter->is_steep || adapter->proven < adapter->sign_bytes)
		return COST_UNCHANGED;
	adapter->is_steep = false;
	return COST_FLAT;
}

/* `slope`: the added time for each granule beside. */
static enum cost_change cost_continue_row(struct adapter *adapter, uint64_t beside, uint64_t slope)
{
	if (5 * slope < 2 * adapter->most_slope || 5 * adapter->least_slope < 2 * slope)
		adapter->slow = 0;
	if (!adapter->slow) {
		adapter->sign_bytes = beside;
		adapter->least_slope = adapter->most_slope = slope;
	}
	if (slope < adapter->least_slope)
		adapter->least_slope = slope;
	if (slope > adapter->most_slope)
		adapter->most_slope = slope;
	adapter->slow += adapter->slow < SLOW;
	adapter->is_steep = adapter->slow == SLOW && beside / 3 >= adapter->sign_bytes;
	return adapter->is_steep ? COST_STEEP : COST_UNCHANGED;
}

enum cost_change cost_add(struct adapter *adapter, uint64_t bytes, uint64_t nanoseconds)
{
	unsigned int class = cost_class(bytes);
	struct cost *cost = &adapter->costs[class];
	uint64_t least = cost->least_ns, beside = adapter->bytes - bytes, added = 0;

	/* Most are too short to be late. */
	if (nanoseconds > LEAST_NS)
		added = cost_added(nanoseconds, cost_expected(adapter, class));
	cost->count += cost->count < UINT8_MAX;
	if (!least || nanoseconds < least) {
		cost->least_ns = nanoseconds | 1;
		cost->bytes = bytes;
	}
	/* The expectation for a new length may be a multiple of its time. */
	if (!added)
		return least ? cost_prove(adapter, beside) : COST_UNCHANGED;
	if (adapter->is_steep || beside <= adapter->proven)
		return COST_UNCHANGED;
	return cost_continue_row(adapter, beside, added / (beside / GRANULE + 1));
}

/* The shortest time of registrations of that class; 0: unknown, or not of `from` to `to` bytes. */
static uint64_t cost_least(const struct adapter *adapter, unsigned int class, uint64_t from,
			   uint64_t to)
{
	const struct cost *cost = &adapter->costs[class % COST_CLASSES];

	return cost->count >= ENOUGH && cost->bytes >= from && cost->bytes <= to ? cost->least_ns
										 : 0;
}

bool cost_is_equal(struct adapter *adapter, uint64_t bytes, uint64_t more)
{
	unsigned int class = cost_class(bytes);
	uint64_t short_ns = cost_least(adapter, class, 0, bytes), long_ns;

	if (!short_ns)
		short_ns = cost_least(adapter, class - 1, 0, bytes);
	class = cost_class(more);
	long_ns = cost_least(adapter, class, more, UINT64_MAX);
	if (!long_ns)
		long_ns = cost_least(adapter, class + 1, more, UINT64_MAX);
	return !adapter->is_steep && short_ns >= LEAST_EQUAL_NS && long_ns &&
	       long_ns <= short_ns + short_ns / EQUAL_PART && ++adapter->equals % RECHECK_EVERY;
}
