/* SPDX-License-Identifier: BSD-3-Clause */
/* cost.c -- times of registrations on an adapter, by their length
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
 */
#include "registration/cost.h"

#define SHIFT_MAX    20u
#define USUAL_MAX_NS 1000000u

/* Equal times: at most a 32nd apart. Shorter ones than LEAST_EQUAL_NS vary more. */
#define EQUAL_PART	    32u
#define LEAST_EQUAL_NS	    100000u
#define LEAST_REGISTRATIONS 4u /* of each length */
#define WINDOW		    16u
#define PART_EVERY	    8u

static unsigned int cost_class(uint64_t bytes)
{
	return 63u - (unsigned int)__builtin_clzll(bytes);
}

void cost_add(struct adapter *adapter, uint64_t bytes, uint64_t nanoseconds)
{
	uint64_t *least = &adapter->least_ns[cost_class(bytes)];

	if (!*least || nanoseconds < *least)
		*least = nanoseconds | 1;
}

/* A range takes at most as long as a longer one, and as a shorter one in proportion to the length.
 * Lengths of one class differ by up to 2. */
uint64_t cost_usual(const struct adapter *adapter, uint64_t bytes)
{
	unsigned int class = cost_class(bytes);
	uint64_t usual = USUAL_MAX_NS, least;

	for (unsigned int i = 0; i < COST_CLASSES; i++) {
		least = adapter->least_ns[i];
		if (!least || i + SHIFT_MAX <= class)
			continue;
		if (i < class)
			least <<= class - i + 1;
		if (least < usual)
			usual = least;
	}
	return usual;
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
	return cost->count >= LEAST_REGISTRATIONS && cost->device == device;
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
	       part->least_ns >= LEAST_EQUAL_NS &&
	       cost_lately(whole) <= part->least_ns + part->least_ns / EQUAL_PART &&
	       ++cost_of(adapter, cost_class(bytes))->answers % PART_EVERY;
}

void cost_forget(struct adapter *adapter, uint64_t bytes)
{
	*cost_of(adapter, cost_class(bytes)) = (struct cost){ 0 };
	*cost_of(adapter, cost_class(bytes) + 1) = (struct cost){ 0 };
}
