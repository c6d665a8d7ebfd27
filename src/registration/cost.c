/* SPDX-License-Identifier: BSD-3-Clause */
/* cost.c -- times of registrations on an adapter, by their length and by the registered bytes
 *
 * A request by address registers the whole allocation where that takes no longer than a part. The
 * time of the whole is the shortest of its last registrations, WINDOW or more if there are as many,
 * that of the part the shortest one ever: a machine that is busy for a while lengthens times, and
 * must not make the whole seem quick. Of some requests the part is registered all the same, since
 * its shortest time may still be unknown. If the whole takes longer lately, only requests for such
 * ranges themselves can show that it no longer does.
 *
 * Only registrations for requests by address are compared: the worker's have no export of a dma-buf
 * in their time, nor have those for a client's own dma-buf. And only those of one GPU: the way to
 * the adapter and the method may differ.
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

#define SLOW	     6u /* four come by chance on busy machines, in 1 of 50 runs (check_cost) */
#define LEAST_NS     500000u /* added time below it is noise */
#define PART	     32u     /* of the expected time: a shorter added time is noise, too */
#define SHIFT_MAX    20u
#define USUAL_MAX_NS 1000000u
#define SLOPE_SHIFT  16u /* 0.5 ms beside 100 GiB are a third of a ns for each granule */

/* Equal times: at most a 32nd apart. Shorter ones than LEAST_EQUAL_NS vary more. */
#define EQUAL_PART     32u
#define LEAST_EQUAL_NS 100000u
#define ENOUGH	       4u /* registrations of each length */
#define WINDOW	       16u
#define PART_EVERY     8u

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

/* `slope`: the added time for each granule beside, in ns / 2^SLOPE_SHIFT. */
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
	uint64_t least = adapter->least_ns[class], beside = adapter->bytes - bytes, added = 0;

	/* Most are too short to be late. */
	if (nanoseconds > LEAST_NS)
		added = cost_added(nanoseconds, cost_expected(adapter, class));
	if (!least || nanoseconds < least)
		adapter->least_ns[class] = nanoseconds | 1;
	/* The expectation for a new length may be a multiple of its time. */
	if (!added)
		return least ? cost_prove(adapter, beside) : COST_UNCHANGED;
	if (adapter->is_steep || beside <= adapter->proven)
		return COST_UNCHANGED;
	return cost_continue_row(adapter, beside, (added << SLOPE_SHIFT) / (beside / GRANULE + 1));
}

static struct cost *cost_of(struct adapter *adapter, unsigned int class)
{
	return &adapter->costs[class % COST_CLASSES];
}

void cost_add_request(struct adapter *adapter, int device, uint64_t bytes, uint64_t nanoseconds)
{
	struct cost *cost = cost_of(adapter, cost_class(bytes));
	struct window *window = &cost->window;

	if (!cost->count)
		cost->device = device;
	if (cost->device != device)
		return;
	if (!cost->count || nanoseconds < cost->least_ns) {
		cost->least_ns = nanoseconds;
		cost->least_bytes = bytes;
	}
	if (cost->count % WINDOW == 0) {
		cost->last = cost->count ? *window : (struct window){ nanoseconds, bytes };
		*window = (struct window){ nanoseconds, bytes };
	}
	cost->count++;
	if (nanoseconds < window->ns)
		window->ns = nanoseconds;
	if (bytes < window->bytes)
		window->bytes = bytes;
}

static bool cost_is_known(const struct cost *cost, int device)
{
	return cost->count >= ENOUGH && cost->device == device;
}

static bool cost_is_of_part(const struct cost *cost, int device, uint64_t bytes)
{
	return cost_is_known(cost, device) && cost->least_bytes <= bytes;
}

static bool cost_is_of_whole(const struct cost *cost, int device, uint64_t bytes)
{
	return cost_is_known(cost, device) && cost->last.bytes >= bytes &&
	       cost->window.bytes >= bytes;
}

static uint64_t cost_lately(const struct cost *cost)
{
	return cost->last.ns < cost->window.ns ? cost->last.ns : cost->window.ns;
}

bool cost_is_equal(struct adapter *adapter, int device, uint64_t bytes, uint64_t more)
{
	const struct cost *part = cost_of(adapter, cost_class(bytes));
	const struct cost *whole = cost_of(adapter, cost_class(more));

	if (!cost_is_of_part(part, device, bytes))
		part = cost_of(adapter, cost_class(bytes) - 1);
	if (!cost_is_known(whole, device))
		whole = cost_of(adapter, cost_class(more) + 1);
	return cost_is_of_part(part, device, bytes) && cost_is_of_whole(whole, device, more) &&
	       !adapter->is_steep && part->least_ns >= LEAST_EQUAL_NS &&
	       cost_lately(whole) <= part->least_ns + part->least_ns / EQUAL_PART &&
	       ++cost_of(adapter, cost_class(bytes))->answers % PART_EVERY;
}

void cost_forget(struct adapter *adapter, uint64_t bytes)
{
	*cost_of(adapter, cost_class(bytes)) = (struct cost){ 0 };
	*cost_of(adapter, cost_class(bytes) + 1) = (struct cost){ 0 };
}
