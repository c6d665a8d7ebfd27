/* SPDX-License-Identifier: BSD-3-Clause */
/* eviction.c -- the order in which idle regions of a GPU end to make room
 *
 * Least recently used first. A hit must not sort a list, so it stores the number of evictions so
 * far as the time of its use (holds.h), and an eviction sorts: it takes the first idle region whose
 * last use is the known one, and moves the others before it towards the end.
 *
 * With that order a program that uses more buffers in turn than fit would never hit: each is
 * evicted just before its next use. Therefore the order is reversed for regions that return after
 * an eviction, when scans find hardly any region used again: the most recently registered region,
 * whose next use is the farthest, goes first, and the others hit in each turn. Once the least
 * recently used region has not been used for many evictions, the program has changed to other
 * buffers, and the reversal ends. Misses of new buffers reverse nothing.
 *
 * Regions with client MRs are kept aside, so that no scan passes them each time. A deregistration
 * takes no lock, so it leaves the region there, and each miss looks at some.
 */
#include "registration/eviction.h"

#include "base/atomics.h"
#include "registration/adapter.h"
#include "registration/holds.h"
#include "registration/policy.h"
#include "registration/region_use.h"
#include "registration/session_lock.h"
#include "report/statistics.h"

void eviction_begin(struct eviction_order *order)
{
	TAILQ_INIT(&order->regions);
	TAILQ_INIT(&order->held);
}

void eviction_add(struct eviction_order *order, struct region *region)
{
	session_assert();
	order->count++;
	region->aside = false;
	region->used_at = load_relaxed(&holds_time);
	TAILQ_INSERT_TAIL(&order->regions, region, in_gpu);
}

static void eviction_unlink(struct eviction_order *order, struct region *region)
{
	TAILQ_REMOVE(region->aside ? &order->held : &order->regions, region, in_gpu);
}

void eviction_remove(struct eviction_order *order, struct region *region)
{
	session_assert();
	order->count--;
	eviction_unlink(order, region);
}

/* Few steps approximate the order well: within 2 % of the registrations with the exact order
 * (tests/unit/check_pin_limit). */
#define MOVE_STEPS 8

/* Moves the region near the end, behind regions used before it. */
static void eviction_move(struct eviction_order *order, struct region *region, uint32_t used_at)
{
	struct region *before;

	eviction_unlink(order, region);
	before = TAILQ_LAST(&order->regions, eviction_list);
	for (int i = 0; i < MOVE_STEPS && before && (int32_t)(before->used_at - used_at) > 0; i++)
		before = TAILQ_PREV(before, eviction_list, in_gpu);
	region->aside = false;
	region->used_at = used_at;
	if (before)
		TAILQ_INSERT_AFTER(&order->regions, before, region, in_gpu);
	else
		TAILQ_INSERT_HEAD(&order->regions, region, in_gpu);
}

static void eviction_set_aside(struct eviction_order *order, struct region *region)
{
	eviction_unlink(order, region);
	region->aside = true;
	TAILQ_INSERT_TAIL(&order->held, region, in_gpu);
}

/* Regions that a miss looks at, of those aside. */
#define LOOKS 64

static void eviction_take_back(struct eviction_order *order)
{
	struct region *region;

	for (int i = 0; i < LOOKS && (region = TAILQ_FIRST(&order->held)); i++) {
		if (region_may_end(region))
			eviction_move(order, region, region_used_at(region));
		else
			eviction_set_aside(order, region);
	}
}

/* The first region that is idle; NULL: none. */
static struct region *eviction_first(struct eviction_order *order)
{
	struct region *region;

	while ((region = TAILQ_FIRST(&order->regions)) && !region_may_end(region))
		eviction_set_aside(order, region);
	return region;
}

static bool eviction_is_on(const struct region *region, const struct adapter *adapter)
{
	return !adapter || adapter_is_same(region->owner->adapter, adapter);
}

/* Two rounds: the first one may only find uses. */
static struct region *eviction_claim_first(struct eviction_order *order,
					   const struct adapter *adapter)
{
	struct region *region;
	uint32_t used_at;

	for (unsigned int i = 2 * order->count; i && (region = eviction_first(order)); i--) {
		used_at = region_used_at(region);
		if (!eviction_is_on(region, adapter)) {
			eviction_move(order, region, load_relaxed(&holds_time));
		} else if ((int32_t)(used_at - region->used_at) > 0) {
			eviction_move(order, region, used_at);
			order->used++;
		} else if (region_claim(region)) {
			return region;
		} else {
			eviction_set_aside(order, region);
		}
	}
	return NULL;
}

static struct region *eviction_claim_last(struct eviction_order *order,
					  const struct adapter *adapter)
{
	struct region *region = TAILQ_LAST(&order->regions, eviction_list), *before;

	for (; region; region = before) {
		before = TAILQ_PREV(region, eviction_list, in_gpu);
		if (!eviction_is_on(region, adapter))
			continue;
		if (region_may_end(region) && region_claim(region))
			break;
		eviction_set_aside(order, region);
	}
	return region;
}

struct region *eviction_claim(struct eviction_order *order, const struct adapter *adapter,
			      bool returns)
{
	session_assert();
	return order->backwards && returns ? eviction_claim_last(order, adapter)
					   : eviction_claim_first(order, adapter);
}

bool eviction_has_idle(struct eviction_order *order, uint64_t bytes)
{
	struct region *region, *next;
	uint64_t idle = 0;

	session_assert();
	for (region = TAILQ_FIRST(&order->regions); region && idle < bytes; region = next) {
		next = TAILQ_NEXT(region, in_gpu);
		if (region_may_end(region))
			idle += region->length;
		else
			eviction_set_aside(order, region);
	}
	return idle >= bytes;
}

/* True if the first region is no longer used. Each miss looks at another: one that was used moves
 * behind all but the last one, which is the next to go. */
static bool eviction_is_stale(struct eviction_order *order)
{
	struct region *first = eviction_first(order), *last;
	uint32_t used_at = first ? region_used_at(first) : 0;

	if (!first || load_relaxed(&holds_time) - used_at > POLICY_TURNS * order->count)
		return first;
	first->used_at = used_at;
	last = TAILQ_LAST(&order->regions, eviction_list);
	if (first == last)
		return false;
	eviction_unlink(order, first);
	TAILQ_INSERT_BEFORE(last, first, in_gpu);
	return false;
}

void eviction_miss(struct eviction_order *order, bool returns)
{
	session_assert();
	eviction_take_back(order);
	order->misses += returns;
	if (order->backwards ? !eviction_is_stale(order) : order->misses < order->count)
		return;
	order->backwards = !order->backwards && order->used * POLICY_TURNS < order->misses;
	order->misses = order->used = 0;
}

/* ---- evicted ranges ---- */

/* Tags of as many evicted ranges, at most: a later one may replace another. */
#define EVICTED 65536u

static uint32_t evicted[EVICTED];

/* Returns the tag, never 0. */
static uint32_t eviction_tag(const struct region *region, uint32_t **at)
{
	uint64_t mixed =
		(region->base / PAGE ^ region->length << 20 ^ region->domain->number << 50) *
		0x9e3779b97f4a7c15u;

	*at = &evicted[mixed >> 8 & (EVICTED - 1)];
	return (uint32_t)(mixed >> 32) | 1;
}

void eviction_evicted(const struct region *region)
{
	uint32_t *at, tag = eviction_tag(region, &at);

	*at = tag;
}

bool eviction_returns(const struct region *region)
{
	uint32_t *at, tag = eviction_tag(region, &at);
	bool returns = *at == tag;

	if (returns)
		*at = 0;
	return returns;
}
