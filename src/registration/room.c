/* SPDX-License-Identifier: BSD-3-Clause */
/* room.c -- room for a registration, by evictions
 *
 * A region without client MRs is idle: it stays registered for the next request, and may be
 * evicted, in the order of eviction.c.
 */
#include "registration/room.h"

#include "base/atomics.h"
#include "base/config.h"
#include "registration/adapter.h"
#include "registration/eviction.h"
#include "registration/holds.h"
#include "registration/lock.h"
#include "registration/pin_limit.h"
#include "registration/region_end.h"
#include "registration/topology.h"
#include "report/statistics.h"

void room_describe(int device)
{
	uint64_t bar1;

	if (pin_limit_is_described(device))
		return;
	registration_unlock();
	bar1 = topology_bar1_bytes(device);
	registration_lock();
	pin_limit_describe(device, bar1);
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
		if (device >= 0 && i != pin_limit_entry(device))
			continue;
		while (removed < bytes &&
		       (one = room_evict_one(pin_limit_order(i), adapter, ending)))
			removed += one;
	}
	return removed;
}

bool room_make_for(const struct region *region, struct region **ending)
{
	struct adapter *adapter = region->owner->adapter;
	struct eviction_order *order = pin_limit_order(region->device);
	uint64_t excess = pin_limit_excess(region->device, region->length), evicted = 0, one = 1;

	registration_assert_held();
	eviction_take_back(order);
	/* PEERPIN_PIN_LIMIT is strict. An estimated limit is no reason to refuse a client, nor to
	 * evict every idle region before an attempt. */
	if (eviction_has_idle(order, excess)) {
		while (evicted < excess && (one = room_evict_one(order, NULL, ending)))
			evicted += one;
	} else {
		one = 0;
	}
	/* Hits may have taken some meanwhile. */
	if (!one && config_get()->pin_limit != CONFIG_AUTO)
		return false;
	if (!pin_limit_adapter_allows(adapter) && !evicted)
		room_evict_from(adapter, -1, 1, ending);
	return true;
}

/* The error does not name the limit: regions and page addresses of the adapter, pinned bytes of the
 * GPU, or locked bytes of the process (any adapter). */
bool room_make(const struct adapter *adapter, int device, uint64_t bytes, struct region **ending)
{
	uint64_t removed = 0;

	registration_assert_held();
	for (int i = 0; i < DEVICES_MAX; i++) {
		if (pin_limit_order(i)->count && (device < 0 || i == pin_limit_entry(device)))
			eviction_take_back(pin_limit_order(i));
	}
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
