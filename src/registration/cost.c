/* SPDX-License-Identifier: BSD-3-Clause */
/* cost.c -- adapters on which a registration takes longer, the more is registered
 *
 * On EFA 2.79 MB take 70 ms at first, and 2505 ms beside 9 GiB (Mooncake#3210). Each speculative
 * registration there makes the client's own ones slower. So after the first signs of such an
 * adapter only kinds that clients request are registered in the background, and the regions of
 * other kinds end.
 *
 * The sign: SLOW registrations in a row each take FACTOR times as long as expected. The expectation
 * comes from the shortest times so far: of a range of at least that length, or in proportion to the
 * length of a shorter one. A busy machine may give that sign, too. Then a kind's first request
 * misses, and no request is slower than without peerpin.
 */
#include "registration/internal.h"

#define FACTOR	     4u
#define SLOW	     3u
#define LEAST_NS     20000000u /* added time below it is noise */
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

bool cost_add(struct adapter *adapter, uint64_t bytes, uint64_t nanoseconds)
{
	unsigned int class = cost_class(bytes);
	bool slow = nanoseconds > LEAST_NS &&
		    (nanoseconds - LEAST_NS) / FACTOR >= cost_expected(adapter, class);

	if (!adapter->least_ns[class] || nanoseconds < adapter->least_ns[class])
		adapter->least_ns[class] = nanoseconds | 1;
	adapter->slow = slow ? adapter->slow + 1 : 0;
	if (adapter->is_steep || adapter->slow < SLOW)
		return false;
	adapter->is_steep = true;
	return true;
}
