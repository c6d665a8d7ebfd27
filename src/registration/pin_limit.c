/* SPDX-License-Identifier: BSD-3-Clause */
/* pin_limit.c -- pinned bytes of each GPU, and their limit
 *
 * A GPU's pin limit is PEERPIN_PIN_LIMIT, or the size of BAR1. That may be too much: other users
 * share it, and the adapter has limits of its own. So a refusal lowers the pin limit to the bytes
 * that can have been pinned, and each successful synchronous registration raises it again.
 */
#include "registration/pin_limit.h"

#include "base/config.h"
#include "registration/adapter.h"
#include "registration/eviction.h"
#include "registration/lock.h"

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
	return &gpus[pin_limit_entry(device)];
}

bool pin_limit_is_described(int device)
{
	registration_assert_held();
	return pin_limit_gpu(device)->described;
}

void pin_limit_describe(int device, uint64_t bar1)
{
	struct gpu *gpu = pin_limit_gpu(device);
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

bool pin_limit_adapter_allows(const struct adapter *adapter)
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

uint64_t pin_limit_excess(int device, uint64_t length)
{
	const struct gpu *gpu = pin_limit_gpu(device);

	registration_assert_held();
	if (pin_limit_fits_beside(gpu, gpu->pinned, length))
		return 0;
	return length > gpu->pin_limit ? UINT64_MAX : gpu->pinned - (gpu->pin_limit - length);
}

struct eviction_order *pin_limit_order(int device)
{
	registration_assert_held();
	return &pin_limit_gpu(device)->order;
}

uint64_t pin_limit_refused(const struct region *region)
{
	struct gpu *gpu = pin_limit_gpu(region->device);
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

void pin_limit_granted(const struct region *region)
{
	struct gpu *gpu = pin_limit_gpu(region->device);

	registration_assert_held();
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
	registration_assert_held();
	pin_limit_gpu(region->device)->pinned += region->length;
	region->owner->adapter->regions++;
	region->counted = true;
}

void pin_limit_remove(struct region *region)
{
	registration_assert_held();
	if (!region->counted)
		return;
	registration_check(pin_limit_gpu(region->device)->pinned >= region->length);
	pin_limit_gpu(region->device)->pinned -= region->length;
	region->owner->adapter->regions--;
	region->counted = false;
}

void pin_limit_set_evictable(struct region *region, bool evictable)
{
	struct gpu *gpu = pin_limit_gpu(region->device);

	registration_assert_held();
	if (region->evictable == evictable)
		return;
	region->evictable = evictable;
	if (evictable)
		eviction_add(&gpu->order, region);
	else
		eviction_remove(&gpu->order, region);
}
