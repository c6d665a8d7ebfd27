/* SPDX-License-Identifier: BSD-3-Clause */
/* pin_limit.c -- pinned bytes of each GPU, their limit, and evictions
 *
 * A region without client MRs is idle: it stays registered for the next request, and may be
 * evicted, in the order of eviction.c.
 *
 * A GPU's pin limit is PEERPIN_PIN_LIMIT, or the size of BAR1. That may be too much: other users
 * share it, and the adapter has limits of its own. So a refusal lowers the pin limit to the bytes
 * that can have been pinned, and each successful synchronous registration raises it again.
 */
#include "registration/pin_limit.h"

#include "base/atomics.h"
#include "base/config.h"
#include "registration/eviction.h"
#include "registration/holds.h"
#include "registration/internal.h"
#include "registration/session.h"
#include "registration/topology.h"
#include "report/statistics.h"

#define UNKNOWN_DEVICE (DEVICES_MAX - 1) /* entry for ordinals out of range */

struct gpu {
	uint64_t pinned;    /* bytes of counted regions */
	uint64_t limit;	    /* bytes; 0: unknown */
	uint64_t pin_limit; /* bytes, at most `limit`; 0: none */
	uint64_t bar1;	    /* bytes; 0: unknown */
	bool described;
	struct eviction_order order;
};

static struct gpu gpus[DEVICES_MAX];

static struct gpu *pin_limit_gpu(int device)
{
	return &gpus[device >= 0 && device < DEVICES_MAX ? device : UNKNOWN_DEVICE];
}

void pin_limit_describe(int device)
{
	struct gpu *gpu = pin_limit_gpu(device);
	uint64_t limit = config_get()->pin_limit, bar1;

	session_assert();
	if (gpu->described)
		return;
	session_end();
	bar1 = topology_bar1_bytes(device);
	session_begin();
	if (gpu->described)
		return;
	if (limit == CONFIG_AUTO)
		limit = bar1;
	else if (!limit)
		limit = 1; /* No region fits. 0 means that no limit is known. */
	gpu->bar1 = bar1;
	gpu->described = true;
	eviction_begin(&gpu->order);
	gpu->limit = limit;
	/* A refusal may have set the pin limit first. */
	if (!gpu->pin_limit || (limit && gpu->pin_limit > limit))
		gpu->pin_limit = limit;
}

uint64_t pin_limit_bar1(int device)
{
	return pin_limit_gpu(device)->bar1;
}

static bool pin_limit_fits_beside(const struct gpu *gpu, uint64_t pinned, uint64_t length)
{
	return !gpu->pin_limit || (length <= gpu->pin_limit && pinned <= gpu->pin_limit - length);
}

bool pin_limit_may_hold(int device, uint64_t length)
{
	const struct gpu *gpu = pin_limit_gpu(device);

	return !gpu->limit || length <= gpu->limit;
}

static bool pin_limit_adapter_allows(const struct adapter *adapter)
{
	/* Leave a quarter of the regions to the client's own registrations. */
	return !adapter->region_limit ||
	       adapter_regions(adapter) < adapter->region_limit - adapter->region_limit / 4;
}

bool pin_limit_has_room(const struct adapter *adapter, int device, uint64_t length)
{
	const struct gpu *gpu = pin_limit_gpu(device);

	return pin_limit_fits_beside(gpu, gpu->pinned, length) && pin_limit_adapter_allows(adapter);
}

bool pin_limit_allows(const struct region *region)
{
	return pin_limit_has_room(region->owner->adapter, region->device, region->length);
}

void pin_limit_evict_region(struct region *region)
{
	eviction_evicted(region);
	statistics_count(evictions);
	add_relaxed(&holds_time, 1);
	region->evicted = true;
	region_end(region);
}

/* Evicts one idle region. Returns its bytes; 0: there is none. */
static uint64_t pin_limit_evict_one(struct gpu *gpu, const struct adapter *adapter, bool returns)
{
	struct region *region = eviction_claim(&gpu->order, adapter, returns);

	if (!region)
		return 0;
	pin_limit_evict_region(region);
	return region->length;
}

/* Evicts at least `bytes`, or all available, on the adapter (NULL: any) and of the GPU (-1: any).
 * Returns the evicted bytes. */
static uint64_t pin_limit_evict_from(const struct adapter *adapter, int device, uint64_t bytes,
				     bool returns)
{
	uint64_t removed = 0, one;

	for (unsigned int i = 0; i < DEVICES_MAX; i++) {
		if (device >= 0 && &gpus[i] != pin_limit_gpu(device))
			continue;
		while (removed < bytes && (one = pin_limit_evict_one(&gpus[i], adapter, returns)))
			removed += one;
	}
	return removed;
}

/* Bytes to evict before `length` fits; UINT64_MAX: it never fits. */
static uint64_t pin_limit_excess(const struct gpu *gpu, uint64_t length)
{
	if (pin_limit_fits_beside(gpu, gpu->pinned, length))
		return 0;
	return length > gpu->pin_limit ? UINT64_MAX : gpu->pinned - (gpu->pin_limit - length);
}

bool pin_limit_evict_for(const struct region *region)
{
	struct adapter *adapter = region->owner->adapter;
	struct gpu *gpu = pin_limit_gpu(region->device);
	uint64_t excess = pin_limit_excess(gpu, region->length), evicted = 0, one = 1;

	session_assert();
	eviction_miss(&gpu->order, region->returns);
	/* PEERPIN_PIN_LIMIT is strict. An estimated limit is no reason to refuse a client, nor to
	 * evict every idle region before an attempt. */
	if (eviction_has_idle(&gpu->order, excess)) {
		while (evicted < excess && (one = pin_limit_evict_one(gpu, NULL, region->returns)))
			evicted += one;
	} else {
		one = 0;
	}
	/* Hits may have taken some meanwhile. */
	if (!one && config_get()->pin_limit != CONFIG_AUTO)
		return false;
	if (!pin_limit_adapter_allows(adapter) && !evicted)
		pin_limit_evict_from(adapter, -1, 1, region->returns);
	return true;
}

/* The error does not name the limit: regions and page addresses of the adapter, pinned bytes of the
 * GPU, or locked bytes of the process (any adapter). */
bool pin_limit_evict(const struct adapter *adapter, int device, uint64_t bytes, bool returns)
{
	uint64_t removed = 0;

	session_assert();
	for (unsigned int i = 0; i < DEVICES_MAX; i++) {
		if (gpus[i].order.count && (device < 0 || &gpus[i] == pin_limit_gpu(device)))
			eviction_miss(&gpus[i].order, returns);
	}
	for (unsigned int i = device >= 0 ? 0 : 2; i < 4 && removed < bytes; i++) {
		if (adapter || i % 2)
			removed += pin_limit_evict_from(i % 2 ? NULL : adapter, i < 2 ? device : -1,
							bytes - removed, returns);
	}
	return removed > 0;
}

uint64_t pin_limit_refused(const struct region *region)
{
	struct gpu *gpu = pin_limit_gpu(region->device);
	uint64_t others = gpu->pinned - region->length; /* the region itself is counted already */
	/* All regions together do not fit. That no part of the last one fits is likely only if it
	 * is small. */
	uint64_t learnt = region->length <= others ? others : gpu->pinned - 1;

	session_assert();
	/* With no other region of this GPU pinned, the cause is elsewhere: keep the limit. */
	if (!others || (gpu->pin_limit && learnt >= gpu->pin_limit))
		return 0;
	gpu->pin_limit = learnt;
	return learnt;
}

void pin_limit_granted(const struct region *region)
{
	struct gpu *gpu = pin_limit_gpu(region->device);

	session_assert();
	if (!gpu->pin_limit || gpu->pin_limit == gpu->limit)
		return;
	gpu->pin_limit += region->length / 8 + 1;
	if (gpu->pin_limit < gpu->pinned)
		gpu->pin_limit = gpu->pinned;
	if (gpu->limit && gpu->pin_limit > gpu->limit)
		gpu->pin_limit = gpu->limit;
}

void pin_limit_add(struct region *region)
{
	session_assert();
	pin_limit_gpu(region->device)->pinned += region->length;
	region->owner->adapter->regions++;
	region->counted = true;
}

void pin_limit_remove(struct region *region)
{
	session_assert();
	if (!region->counted)
		return;
	session_check(pin_limit_gpu(region->device)->pinned >= region->length);
	pin_limit_gpu(region->device)->pinned -= region->length;
	region->owner->adapter->regions--;
	region->counted = false;
}

void pin_limit_set_evictable(struct region *region, bool evictable)
{
	struct gpu *gpu = pin_limit_gpu(region->device);

	session_assert();
	if (region->evictable == evictable)
		return;
	region->evictable = evictable;
	if (evictable)
		eviction_add(&gpu->order, region);
	else
		eviction_remove(&gpu->order, region);
}

bool registration_evict(struct ibv_context *context, uint64_t bytes)
{
	bool evicted;

	session_begin();
	evicted = pin_limit_evict(adapter_find(context), -1, bytes, false);
	session_end();
	return evicted;
}
