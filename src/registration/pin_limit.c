/* SPDX-License-Identifier: BSD-3-Clause */
/* pin_limit.c -- how much is pinned of each GPU, how much may be, and what goes first
 *
 * What no client holds is idle, and stays registered for the next request; it may be evicted, the least recently used first.
 * The idle regions of a GPU are in the order of their last use: each request and each deregistration that leaves nobody
 * puts its region at the end; what threads use by leases (leases.h) they tell later, each in its own order, and before anything
 * is evicted. Regions whose keys are handed out on each use, without a client MR, are never idle.
 *
 * A GPU's pin limit is PEERPIN_PIN_LIMIT, or what the PCI bus reaches of it. That may be too much: others use it, too, and the
 * adapter has limits of its own. So a refusal sets the pin limit to what can have been pinned at the most, and each registration
 * that succeeds on request raises it again.
 */
#include "registration/internal.h"

#include "base/config.h"
#include "base/statistics.h"
#include "registration/leases.h"
#include "registration/topology.h"

#define UNKNOWN_DEVICE (DEVICES_MAX - 1) /* where what has no number of its own is counted */

struct gpu {
	uint64_t pinned;    /* bytes of counted regions */
	uint64_t idle;	    /* of these, what may be evicted */
	uint64_t limit;	    /* 0: none is known */
	uint64_t pin_limit; /* at most `limit`; 0: none */
	bool described;
	struct region *first, *last; /* idle */
};

static struct gpu gpus[DEVICES_MAX];

static struct gpu *gpu_of(int device)
{
	return &gpus[device >= 0 && device < DEVICES_MAX ? device : UNKNOWN_DEVICE];
}

void pin_limit_describe(int device)
{
	struct gpu *gpu = gpu_of(device);
	uint64_t limit = config_get()->pin_limit;

	if (gpu->described)
		return;
	if (limit == CONFIG_AUTO) {
		pthread_mutex_unlock(&registration_lock);
		limit = topology_bar1_bytes(device);
		pthread_mutex_lock(&registration_lock);
	} else if (!limit) {
		limit = 1; /* No region fits. 0 means that no limit is known. */
	}
	if (gpu->described)
		return;
	gpu->described = true;
	gpu->limit = limit;
	/* A refusal may have come first. */
	if (!gpu->pin_limit || (limit && gpu->pin_limit > limit))
		gpu->pin_limit = limit;
}

static bool fits_beside(const struct gpu *gpu, uint64_t pinned, uint64_t length)
{
	return !gpu->pin_limit || (length <= gpu->pin_limit && pinned <= gpu->pin_limit - length);
}

static bool fits(const struct gpu *gpu, uint64_t length)
{
	return fits_beside(gpu, gpu->pinned, length);
}

/* Whether it would if everything idle went. */
static bool can_fit(const struct gpu *gpu, uint64_t length)
{
	return fits_beside(gpu, gpu->pinned - gpu->idle, length);
}

static bool adapter_has_room(const struct adapter *adapter)
{
	/* The client's own registrations need some, too. */
	return !adapter->region_limit ||
	       adapter_regions(adapter) < adapter->region_limit - adapter->region_limit / 4;
}

bool pin_limit_has_room(const struct region *region)
{
	return fits(gpu_of(region->device), region->length) && adapter_has_room(region->owner->adapter);
}

static void evict(struct region *region, struct region **ending)
{
	statistics_count(evictions);
	region->evicted = true;
	region_end(region, ending);
}

/* Evicts at least `bytes`, or all there is, on the adapter (NULL: on any) and of the GPU (-1: of any). How much it was. What
 * others have registered is passed by once, since all hits are stopped meanwhile; only its victim leaves the list. */
static uint64_t evict_of(const struct adapter *adapter, int device, uint64_t bytes, struct region **ending)
{
	uint64_t gone = 0;
	struct region *region, *next;

	for (unsigned int i = 0; i < DEVICES_MAX; i++) {
		if (device >= 0 && &gpus[i] != gpu_of(device))
			continue;
		for (region = gpus[i].first; region && gone < bytes; region = next) {
			next = region->idle_next;
			if (adapter && !adapter_is_same(region->owner->adapter, adapter))
				continue;
			gone += region->length;
			evict(region, ending);
		}
	}
	return gone;
}

static bool make_room(const struct region *region, struct region **ending)
{
	struct adapter *adapter = region->owner->adapter;
	const struct gpu *gpu = gpu_of(region->device);
	uint64_t going = 0;
	struct region *victim;

	/* What the user has set is kept to. What is only believed of the GPU is no reason to refuse a client, nor to end
	 * what others use before it has been tried. */
	if (!can_fit(gpu, region->length)) {
		if (config_get()->pin_limit != CONFIG_AUTO)
			return false;
	} else {
		while (!fits_beside(gpu, gpu->pinned - going, region->length) && (victim = gpu->first)) {
			going += victim->length;
			evict(victim, ending);
		}
	}
	if (!adapter_has_room(adapter) && !*ending)
		evict_of(adapter, -1, 1, ending);
	return true;
}

/* What is idle is only known while nobody takes a lease; nor may one be taken between the choice and the end. */
bool pin_limit_make_room(const struct region *region, struct region **ending)
{
	bool room;

	leases_stop();
	room = make_room(region, ending);
	leases_go();
	return room;
}

/* An adapter has room for so many regions and page addresses, a GPU for so many pinned bytes, and a process for so many that
 * are locked, on whichever adapter: which of them it is is not told. */
bool pin_limit_evict(const struct adapter *adapter, int device, uint64_t bytes, struct region **ending)
{
	uint64_t gone = 0;

	leases_stop();
	if (adapter && device >= 0)
		gone = evict_of(adapter, device, bytes, ending);
	if (device >= 0 && gone < bytes)
		gone += evict_of(NULL, device, bytes - gone, ending);
	if (adapter && gone < bytes)
		gone += evict_of(adapter, -1, bytes - gone, ending);
	if (gone < bytes)
		gone += evict_of(NULL, -1, bytes - gone, ending);
	leases_go();
	return gone > 0;
}

uint64_t pin_limit_refused(const struct region *region)
{
	struct gpu *gpu = gpu_of(region->device);
	uint64_t others = gpu->pinned - region->length; /* the region itself is counted already */
	/* There is no room for all of them; that there is none for a part of the last one is likely only where that is small. */
	uint64_t learnt = region->length <= others ? others : gpu->pinned - 1;

	/* Nothing is learned of the GPU where nothing else is pinned: the cause is elsewhere. */
	if (!others || (gpu->pin_limit && learnt >= gpu->pin_limit))
		return 0;
	gpu->pin_limit = learnt;
	return learnt;
}

void pin_limit_granted(const struct region *region)
{
	struct gpu *gpu = gpu_of(region->device);

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
	gpu_of(region->device)->pinned += region->length;
	region->owner->adapter->regions++;
	region->counted = true;
}

void pin_limit_remove(struct region *region)
{
	if (!region->counted)
		return;
	gpu_of(region->device)->pinned -= region->length;
	region->owner->adapter->regions--;
	region->counted = false;
}

void pin_limit_set_busy(struct region *region)
{
	struct gpu *gpu = gpu_of(region->device);

	if (!region->idle)
		return;
	region->idle = false;
	gpu->idle -= region->length;
	if (region->idle_previous)
		region->idle_previous->idle_next = region->idle_next;
	else
		gpu->first = region->idle_next;
	if (region->idle_next)
		region->idle_next->idle_previous = region->idle_previous;
	else
		gpu->last = region->idle_previous;
}

void pin_limit_set_idle(struct region *region)
{
	struct gpu *gpu = gpu_of(region->device);

	if (region->idle && gpu->last == region)
		return;
	pin_limit_set_busy(region);
	if (region->client_mrs || region->state != REGION_READY || region->ended || region->domain->looked_up)
		return;
	region->idle = true;
	gpu->idle += region->length;
	region->idle_next = NULL;
	region->idle_previous = gpu->last;
	if (gpu->last)
		gpu->last->idle_next = region;
	else
		gpu->first = region;
	gpu->last = region;
}
