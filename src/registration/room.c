/* SPDX-License-Identifier: BSD-3-Clause */
/* room.c -- room for registrations: pinned bytes of each GPU, their limit, and evictions
 *
 * A GPU's pin limit is PEERPIN_PIN_LIMIT, or the size of BAR1. That may be too much: other users
 * share it, and the adapter has limits of its own. So a refusal lowers the pin limit to the bytes
 * that can have been pinned, and each successful synchronous registration raises it again.
 *
 * A region without client MRs is idle: it stays registered for the next request, and may be
 * evicted, about the least recently used first. A hit must not sort a list, so it stores the number
 * of evictions so far as the time of its use (holds.h), and an eviction sorts: it takes the first
 * idle region whose last use is the known one, and moves the others before it towards the end.
 */
#include "registration/room.h"

#include "base/atomics.h"
#include "base/config.h"
#include "registration/adapter.h"
#include "registration/lock.h"
#include "registration/region.h"
#include "registration/topology.h"
#include "report/statistics.h"

/* Registered regions of a GPU. */
struct eviction_order {
	struct region_list regions; /* about by last use */
	unsigned int count;
};

struct gpu {
	uint64_t pinned;    /* bytes of counted regions */
	uint64_t limit;	    /* bytes; 0: unknown */
	uint64_t pin_limit; /* bytes, at most `limit`; 0: none */
	uint64_t bar1;	    /* bytes; 0: unknown */
	bool described;
	struct eviction_order order;
};

static struct gpu gpus[DEVICES_MAX];

/* The GPU's entry; ordinals out of range share the last one. */
static int room_entry(int device)
{
	return device >= 0 && device < DEVICES_MAX ? device : DEVICES_MAX - 1;
}

static struct gpu *room_gpu(int device)
{
	return &gpus[room_entry(device)];
}

static bool room_is_described(int device)
{
	registration_assert_held();
	return room_gpu(device)->described;
}

static void room_set_limit(int device, uint64_t bar1)
{
	struct gpu *gpu = room_gpu(device);
	uint64_t limit = config_get()->pin_limit;

	registration_assert_held();
	if (gpu->described)
		return;
	if (limit == CONFIG_AUTO)
		limit = bar1;
	else if (!limit)
		limit = 1; /* No region fits. 0 means that no limit is known. */
	gpu->bar1 = bar1;
	gpu->described = true;
	TAILQ_INIT(&gpu->order.regions);
	gpu->limit = limit;
	/* A refusal may have set the pin limit first. */
	if (!gpu->pin_limit || (limit && gpu->pin_limit > limit))
		gpu->pin_limit = limit;
}

uint64_t room_bar1(int device)
{
	return room_gpu(device)->bar1;
}

/* `limit`: 0 if there is none. */
static bool room_fits_within(uint64_t limit, uint64_t pinned, uint64_t length)
{
	return !limit || (length <= limit && pinned <= limit - length);
}

static bool room_fits_beside(const struct gpu *gpu, uint64_t pinned, uint64_t length)
{
	return room_fits_within(gpu->pin_limit, pinned, length);
}

static bool room_adapter_allows(const struct adapter *adapter)
{
	/* Leave a quarter of the regions to the client's own registrations. */
	return !adapter->region_limit ||
	       adapter_regions(adapter) < adapter->region_limit - adapter->region_limit / 4;
}

bool room_has(const struct adapter *adapter, int device, uint64_t length)
{
	const struct gpu *gpu = room_gpu(device);

	return room_fits_beside(gpu, gpu->pinned, length) && room_adapter_allows(adapter);
}

bool room_fits(const struct region *region)
{
	return room_has(region->owner->adapter, region->device, region->length);
}

/* Bytes to evict for the region; UINT64_MAX: it does not fit. */
static uint64_t room_excess(uint64_t limit, uint64_t pinned, uint64_t length)
{
	if (room_fits_within(limit, pinned, length))
		return 0;
	return length > limit ? UINT64_MAX : pinned - (limit - length);
}

static struct eviction_order *room_order(int device)
{
	registration_assert_held();
	return &room_gpu(device)->order;
}

uint64_t room_refused(const struct region *region)
{
	struct gpu *gpu = room_gpu(region->device);
	uint64_t others = gpu->pinned - region->length; /* the region itself is counted already */
	/* All regions together do not fit. That no part of the last one fits is likely only if it
	 * is small. */
	uint64_t learnt = region->length <= others ? others : gpu->pinned - 1;

	registration_assert_held();
	/* With no other region of this GPU pinned, the cause is elsewhere: keep the limit. */
	if (!others || (gpu->pin_limit && learnt >= gpu->pin_limit))
		return 0;
	gpu->pin_limit = learnt;
	return learnt;
}

void room_granted(const struct region *region)
{
	struct gpu *gpu = room_gpu(region->device);

	registration_assert_held();
	if (!gpu->pin_limit || gpu->pin_limit == gpu->limit)
		return;
	gpu->pin_limit += region->length / 8 + 1;
	if (gpu->pin_limit < gpu->pinned)
		gpu->pin_limit = gpu->pinned;
	if (gpu->limit && gpu->pin_limit > gpu->limit)
		gpu->pin_limit = gpu->limit;
}

void room_reserve(struct region *region)
{
	registration_assert_held();
	room_gpu(region->device)->pinned += region->length;
	region->owner->adapter->regions++;
	region->counted = true;
}

void room_release(struct region *region)
{
	registration_assert_held();
	if (!region->counted)
		return;
	registration_check(room_gpu(region->device)->pinned >= region->length);
	room_gpu(region->device)->pinned -= region->length;
	region->owner->adapter->regions--;
	region->counted = false;
}

/* ---- the order of evictions ---- */

/* Few steps approximate the order well: within 5 % of the registrations with the exact order
 * (tests/unit/check_registration). */
#define MOVE_STEPS 8

/* Inserts the region near the end, behind regions used before it. */
static void eviction_insert(struct eviction_order *order, struct region *region, uint32_t used_at)
{
	struct region *before = TAILQ_LAST(&order->regions, region_list);

	for (int i = 0; i < MOVE_STEPS && before && (int32_t)(before->used_at - used_at) > 0; i++)
		before = TAILQ_PREV(before, region_list, in_gpu);
	region->used_at = used_at;
	if (before)
		TAILQ_INSERT_AFTER(&order->regions, before, region, in_gpu);
	else
		TAILQ_INSERT_HEAD(&order->regions, region, in_gpu);
}

void room_enter(struct region *region)
{
	struct eviction_order *order = room_order(region->device);

	order->count++;
	eviction_insert(order, region, load_relaxed(&holds_time));
}

void room_leave(struct region *region)
{
	struct eviction_order *order = room_order(region->device);

	order->count--;
	TAILQ_REMOVE(&order->regions, region, in_gpu);
}

static bool eviction_is_on(const struct region *region, const struct adapter *adapter)
{
	return !adapter || adapter_is_same(region->owner->adapter, adapter);
}

/* Two rounds: the first one may only find uses. */
static struct region *eviction_claim(struct eviction_order *order, const struct adapter *adapter)
{
	struct region *region;
	uint32_t used_at;
	bool suits;

	registration_assert_held();
	for (unsigned int i = 2 * order->count; i; i--) {
		region = TAILQ_FIRST(&order->regions);
		used_at = region_used_at(region);
		suits = !region_is_held(region) && eviction_is_on(region, adapter);
		if (suits && used_at == region->used_at && region_claim(region))
			return region;
		TAILQ_REMOVE(&order->regions, region, in_gpu);
		eviction_insert(order, region, suits ? used_at : load_relaxed(&holds_time));
	}
	return NULL;
}

static bool eviction_has_idle(const struct eviction_order *order, uint64_t bytes)
{
	const struct region *region;
	uint64_t idle = 0;

	registration_assert_held();
	TAILQ_FOREACH(region, &order->regions, in_gpu) {
		if (idle >= bytes)
			break;
		idle += region_is_held(region) ? 0 : region->length;
	}
	return idle >= bytes;
}

/* ---- evictions ---- */

void room_describe(int device)
{
	uint64_t bar1;

	if (room_is_described(device))
		return;
	registration_unlock();
	bar1 = topology_bar1_bytes(device);
	registration_lock();
	room_set_limit(device, bar1);
}

/* Evicts one idle region. Returns its bytes; 0: there is none. */
static uint64_t room_evict_one(struct eviction_order *order, const struct adapter *adapter,
			       struct region **ending)
{
	struct region *region = eviction_claim(order, adapter);

	if (!region)
		return 0;
	statistics_count(evictions);
	add_relaxed(&holds_time, 1);
	region->evicted = true;
	region_end(region, ending);
	return region->length;
}

/* Evicts at least `bytes`, or all available, on the adapter (NULL: any) and of the GPU (-1: any).
 * Returns the evicted bytes. */
static uint64_t room_evict_from(const struct adapter *adapter, int device, uint64_t bytes,
				struct region **ending)
{
	uint64_t removed = 0, one;

	for (int i = 0; i < DEVICES_MAX; i++) {
		if (device >= 0 && i != room_entry(device))
			continue;
		while (removed < bytes && (one = room_evict_one(room_order(i), adapter, ending)))
			removed += one;
	}
	return removed;
}

bool room_make_for(const struct region *region, struct region **ending)
{
	struct adapter *adapter = region->owner->adapter;
	struct eviction_order *order = room_order(region->device);
	const struct gpu *gpu = room_gpu(region->device);
	bool strict = config_get()->pin_limit != CONFIG_AUTO;
	uint64_t length = region->length, evicted = 0, one;
	uint64_t excess = room_excess(gpu->pin_limit, gpu->pinned, length);

	registration_assert_held();
	/* PEERPIN_PIN_LIMIT is strict. A limit that was estimated, or learnt, is no reason to
	 * refuse a client, nor to evict every idle region before an attempt. */
	if (!eviction_has_idle(order, excess))
		excess = strict ? room_excess(gpu->limit, gpu->pinned, length) : 0;
	if (!eviction_has_idle(order, excess))
		return false;
	while (evicted < excess && (one = room_evict_one(order, NULL, ending)))
		evicted += one;
	/* Hits may have taken some meanwhile. */
	if (strict && !room_fits_within(gpu->limit, gpu->pinned - evicted, length))
		return false;
	if (!room_adapter_allows(adapter) && !evicted)
		room_evict_from(adapter, -1, 1, ending);
	return true;
}

/* The error does not name the limit: regions and page addresses of the adapter, pinned bytes of the
 * GPU, or locked bytes of the process (any adapter). */
bool room_make(const struct adapter *adapter, int device, uint64_t bytes, struct region **ending)
{
	uint64_t removed = 0;

	registration_assert_held();
	for (unsigned int i = device >= 0 ? 0 : 2; i < 4 && removed < bytes; i++) {
		if (adapter || i % 2)
			removed += room_evict_from(i % 2 ? NULL : adapter, i < 2 ? device : -1,
						   bytes - removed, ending);
	}
	return removed > 0;
}

bool registration_evict(struct ibv_context *context, uint64_t bytes)
{
	struct region *ending = NULL;
	bool evicted;

	registration_lock();
	evicted = room_make(adapter_find(context), -1, bytes, &ending);
	registration_unlock();
	region_unpin_all(&ending);
	return evicted;
}
