/* SPDX-License-Identifier: BSD-3-Clause */
/* eviction.c -- the order in which idle regions of a GPU end to make room
 *
 * Least recently used first. A hit must not sort a list, so it stores the number of evictions so
 * far as the time of its use (holds.h), and an eviction sorts: it takes the first idle region whose
 * last use is the known one, and moves the others before it towards the end. Regions of a domain
 * with look-ups, which need no client MR, are never idle.
 *
 * A program that uses more buffers in turn than fit would never hit: each is evicted just before
 * its next use. So the order turns round for regions that return, when as many of them as there are
 * regions needed room and there were hardly any hits: the most recently used region, whose next use
 * is the farthest, goes first, and the others hit in each turn. Once the least recently used region
 * has not been used for many evictions, the program has changed to other buffers, and the order is
 * as before. Buffers that are new say nothing.
 */
#include "registration/eviction.h"

#include "base/atomics.h"
#include "registration/holds.h"
#include "registration/internal.h"
#include "registration/session.h"
#include "report/statistics.h"

void eviction_begin(struct eviction_order *order)
{
	TAILQ_INIT(&order->regions);
}

void eviction_add(struct eviction_order *order, struct region *region)
{
	session_assert();
	order->count++;
	region->used_at = load_relaxed(&holds_time);
	TAILQ_INSERT_TAIL(&order->regions, region, in_gpu);
}

void eviction_remove(struct eviction_order *order, struct region *region)
{
	session_assert();
	order->count--;
	TAILQ_REMOVE(&order->regions, region, in_gpu);
}

/* Moves the region near the end, behind regions used before it. Few steps approximate the order
 * well: within 2 % of the registrations with the exact order (tests/unit/check_pin_limit). */
#define STEPS 8

static void eviction_move(struct eviction_order *order, struct region *region, uint32_t used_at)
{
	struct region *before;

	TAILQ_REMOVE(&order->regions, region, in_gpu);
	before = TAILQ_LAST(&order->regions, eviction_list);
	for (int i = 0; i < STEPS && before && (int32_t)(before->used_at - used_at) > 0; i++)
		before = TAILQ_PREV(before, eviction_list, in_gpu);
	region->used_at = used_at;
	if (before)
		TAILQ_INSERT_AFTER(&order->regions, before, region, in_gpu);
	else
		TAILQ_INSERT_HEAD(&order->regions, region, in_gpu);
}

static bool eviction_may_take(const struct region *region, const struct adapter *adapter)
{
	return (!adapter || adapter_is_same(region->owner->adapter, adapter)) &&
	       region_may_end(region);
}

/* Two rounds: the first one may only find uses. */
static struct region *eviction_claim_first(struct eviction_order *order,
					   const struct adapter *adapter)
{
	struct region *region;
	uint32_t used_at;

	for (unsigned int i = 2 * order->count; i; i--) {
		region = TAILQ_FIRST(&order->regions);
		used_at = region_used_at(region);
		if (!eviction_may_take(region, adapter))
			used_at = load_relaxed(&holds_time);
		else if ((int32_t)(used_at - region->used_at) <= 0 && region_claim(region))
			return region;
		eviction_move(order, region, used_at);
	}
	return NULL;
}

static struct region *eviction_claim_last(struct eviction_order *order,
					  const struct adapter *adapter)
{
	struct region *region;

	TAILQ_FOREACH_REVERSE(region, &order->regions, eviction_list, in_gpu) {
		if (eviction_may_take(region, adapter) && region_claim(region))
			break;
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

/* Hits of less than this share of the misses are hardly any. */
#define HITS_SHARE 4u

/* After evictions of so many times the regions, one that was not used since is no longer used:
 * turns through up to so many times the buffers that fit keep their share of hits. */
#define STALE 4u

/* True if the first region is no longer used. One that was used moves: each miss looks at another.
 */
static bool eviction_is_stale(struct eviction_order *order)
{
	struct region *first = TAILQ_FIRST(&order->regions);
	uint32_t used_at = first ? region_used_at(first) : 0;

	if (!first || load_relaxed(&holds_time) - used_at > STALE * order->count)
		return first;
	eviction_move(order, first, used_at);
	return false;
}

static void eviction_begin_turn(struct eviction_order *order, uint64_t hits)
{
	order->misses = 0;
	order->hits = hits;
}

void eviction_miss(struct eviction_order *order, bool returns)
{
	uint64_t hits;

	session_assert();
	order->misses += returns;
	if (order->backwards ? !eviction_is_stale(order) : order->misses < order->count)
		return;
	hits = statistics_tallied(TALLY_hits);
	order->backwards = !order->backwards && (hits - order->hits) * HITS_SHARE < order->misses;
	eviction_begin_turn(order, hits);
}

/* ---- evicted ranges ---- */

/* Tags of as many evicted ranges, at most: a later one may replace another. */
#define EVICTED 16384u

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
