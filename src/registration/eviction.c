/* SPDX-License-Identifier: BSD-3-Clause */
/* eviction.c -- the order in which idle regions of a GPU end to make room
 *
 * Least recently used first. A hit must not sort a list, so it stores the number of evictions so
 * far as the time of its use (holds.h), and an eviction sorts: it takes the first idle region whose
 * last use is the known one, and moves the others before it towards the end.
 *
 * Regions with client MRs are kept aside, so that no scan passes them each time. A deregistration
 * takes no lock, so it leaves the region there, and each miss looks at some.
 */
#include "registration/eviction.h"

#include "base/atomics.h"
#include "registration/adapter.h"
#include "registration/holds.h"
#include "registration/lock.h"
#include "registration/region.h"
#include "report/statistics.h"

void eviction_begin(struct eviction_order *order)
{
	TAILQ_INIT(&order->regions);
	TAILQ_INIT(&order->held);
}

void eviction_add(struct eviction_order *order, struct region *region)
{
	registration_assert_held();
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
	registration_assert_held();
	order->count--;
	eviction_unlink(order, region);
}

/* Few steps approximate the order well (tests/unit/check_pin_limit). */
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

void eviction_take_back(struct eviction_order *order)
{
	struct region *region;

	registration_assert_held();
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
struct region *eviction_claim(struct eviction_order *order, const struct adapter *adapter)
{
	struct region *region;
	uint32_t used_at;

	registration_assert_held();
	for (unsigned int i = 2 * order->count; i && (region = eviction_first(order)); i--) {
		used_at = region_used_at(region);
		if (!eviction_is_on(region, adapter)) {
			eviction_move(order, region, load_relaxed(&holds_time));
		} else if ((int32_t)(used_at - region->used_at) > 0) {
			eviction_move(order, region, used_at);
		} else if (region_claim(region)) {
			return region;
		} else {
			eviction_set_aside(order, region);
		}
	}
	return NULL;
}

bool eviction_has_idle(struct eviction_order *order, uint64_t bytes)
{
	struct region *region, *next;
	uint64_t idle = 0;

	registration_assert_held();
	for (region = TAILQ_FIRST(&order->regions); region && idle < bytes; region = next) {
		next = TAILQ_NEXT(region, in_gpu);
		if (region_may_end(region))
			idle += region->length;
		else
			eviction_set_aside(order, region);
	}
	return idle >= bytes;
}
