/* SPDX-License-Identifier: BSD-3-Clause */
/* pin_limit.c -- pinned bytes of each GPU, their limit, and evictions
 *
 * A region without client MRs is idle: it stays registered for the next request, and may be
 * evicted, least recently used first. Each GPU's idle list is in order of last use: each request,
 * and each deregistration of a last client MR, moves the region to the end. Uses by leases
 * (leases.h) enter the list later, in each thread's order, and before any eviction. Regions of a
 * domain with look-ups, which need no client MR, are never idle.
 *
 * A GPU's pin limit is PEERPIN_PIN_LIMIT, or the size of BAR1. That may be too much: other users
 * share it, and the adapter has limits of its own. So a refusal lowers the pin limit to the bytes
 * that can have been pinned, and each successful synchronous registration raises it again.
 */
#include "registration/internal.h"

#include "base/config.h"
#include "registration/leases.h"
#include "registration/topology.h"
#include "report/statistics.h"

#define UNKNOWN_DEVICE (DEVICES_MAX - 1) /* entry for ordinals out of range */

struct gpu {
	uint64_t pinned;    /* bytes of counted regions */
	uint64_t idle;	    /* bytes that may be evicted, part of `pinned` */
	uint64_t limit;	    /* bytes; 0: unknown */
	uint64_t pin_limit; /* bytes, at most `limit`; 0: none */
	uint64_t bar1;	    /* bytes; 0: unknown */
	bool described;
	TAILQ_HEAD(, region) regions; /* idle; least recently used first */
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

	if (gpu->described)
		return;
	pthread_mutex_unlock(&registration_lock);
	bar1 = topology_bar1_bytes(device);
	pthread_mutex_lock(&registration_lock);
	if (gpu->described)
		return;
	if (limit == CONFIG_AUTO)
		limit = bar1;
	else if (!limit)
		limit = 1; /* No region fits. 0 means that no limit is known. */
	gpu->bar1 = bar1;
	gpu->described = true;
	TAILQ_INIT(&gpu->regions);
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

static bool pin_limit_adapter_allows(const struct adapter *adapter)
{
	/* Leave a quarter of the regions to the client's own registrations. */
	return !adapter->region_limit ||
	       adapter_regions(adapter) < adapter->region_limit - adapter->region_limit / 4;
}

bool pin_limit_allows(const struct region *region)
{
	const struct gpu *gpu = pin_limit_gpu(region->device);

	return pin_limit_fits_beside(gpu, gpu->pinned, region->length) &&
	       pin_limit_adapter_allows(region->owner->adapter);
}

static void pin_limit_evict_region(struct region *region, struct region **ending)
{
	statistics_count(evictions);
	region->evicted = true;
	region_end(region, ending);
}

/* Evicts at least `bytes`, or all available, on the adapter (NULL: any) and of the GPU (-1: any).
 * Returns the evicted bytes. Hits are stopped meanwhile, so one walk suffices: only evicted regions
 * leave the list. */
static uint64_t pin_limit_evict_from(const struct adapter *adapter, int device, uint64_t bytes,
				     struct region **ending)
{
	uint64_t removed = 0;
	struct region *region, *next;

	for (unsigned int i = 0; i < DEVICES_MAX; i++) {
		if (device >= 0 && &gpus[i] != pin_limit_gpu(device))
			continue;
		for (region = TAILQ_FIRST(&gpus[i].regions); region && removed < bytes;
		     region = next) {
			next = TAILQ_NEXT(region, in_idle);
			if (adapter && !adapter_is_same(region->owner->adapter, adapter))
				continue;
			removed += region->length;
			pin_limit_evict_region(region, ending);
		}
	}
	return removed;
}

static bool pin_limit_evict_stopped(const struct region *region, struct region **ending)
{
	struct adapter *adapter = region->owner->adapter;
	const struct gpu *gpu = pin_limit_gpu(region->device);
	uint64_t evicting = 0;
	struct region *victim;

	/* PEERPIN_PIN_LIMIT is strict. An estimated limit is no reason to refuse a client, nor to
	 * evict every idle region before an attempt. */
	if (!pin_limit_fits_beside(gpu, gpu->pinned - gpu->idle, region->length)) {
		if (config_get()->pin_limit != CONFIG_AUTO)
			return false;
	} else {
		while (!pin_limit_fits_beside(gpu, gpu->pinned - evicting, region->length) &&
		       (victim = TAILQ_FIRST(&gpu->regions))) {
			evicting += victim->length;
			pin_limit_evict_region(victim, ending);
		}
	}
	if (!pin_limit_adapter_allows(adapter) && !*ending)
		pin_limit_evict_from(adapter, -1, 1, ending);
	return true;
}

/* Stop leases: the idle list is exact only meanwhile, and no lease may be taken between choice and
 * end of a region. */
bool pin_limit_evict_for(const struct region *region, struct region **ending)
{
	bool fits;

	leases_stop();
	fits = pin_limit_evict_stopped(region, ending);
	leases_go();
	return fits;
}

/* The error does not name the limit: regions and page addresses of the adapter, pinned bytes of the
 * GPU, or locked bytes of the process (any adapter). */
bool pin_limit_evict(const struct adapter *adapter, int device, uint64_t bytes,
		     struct region **ending)
{
	uint64_t removed = 0;

	leases_stop();
	if (adapter && device >= 0)
		removed = pin_limit_evict_from(adapter, device, bytes, ending);
	if (device >= 0 && removed < bytes)
		removed += pin_limit_evict_from(NULL, device, bytes - removed, ending);
	if (adapter && removed < bytes)
		removed += pin_limit_evict_from(adapter, -1, bytes - removed, ending);
	if (removed < bytes)
		removed += pin_limit_evict_from(NULL, -1, bytes - removed, ending);
	leases_go();
	return removed > 0;
}

uint64_t pin_limit_refused(const struct region *region)
{
	struct gpu *gpu = pin_limit_gpu(region->device);
	uint64_t others = gpu->pinned - region->length; /* the region itself is counted already */
	/* All regions together do not fit. That no part of the last one fits is likely only if it
	 * is small. */
	uint64_t learnt = region->length <= others ? others : gpu->pinned - 1;

	/* With no other region of this GPU pinned, the cause is elsewhere: keep the limit. */
	if (!others || (gpu->pin_limit && learnt >= gpu->pin_limit))
		return 0;
	gpu->pin_limit = learnt;
	return learnt;
}

void pin_limit_granted(const struct region *region)
{
	struct gpu *gpu = pin_limit_gpu(region->device);

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
	pin_limit_gpu(region->device)->pinned += region->length;
	region->owner->adapter->regions++;
	region->counted = true;
}

void pin_limit_remove(struct region *region)
{
	if (!region->counted)
		return;
	pin_limit_gpu(region->device)->pinned -= region->length;
	region->owner->adapter->regions--;
	region->counted = false;
}

void pin_limit_set_busy(struct region *region)
{
	struct gpu *gpu = pin_limit_gpu(region->device);

	if (!region->idle)
		return;
	region->idle = false;
	gpu->idle -= region->length;
	TAILQ_REMOVE(&gpu->regions, region, in_idle);
}

void pin_limit_set_idle(struct region *region)
{
	struct gpu *gpu = pin_limit_gpu(region->device);

	if (region->idle && !TAILQ_NEXT(region, in_idle))
		return;
	pin_limit_set_busy(region);
	if (region->client_mrs || region->state != REGION_READY || region->ended ||
	    region->domain->looked_up)
		return;
	region->idle = true;
	gpu->idle += region->length;
	TAILQ_INSERT_TAIL(&gpu->regions, region, in_idle);
}

bool registration_evict(struct ibv_context *context, uint64_t bytes)
{
	struct region *ending = NULL;
	bool evicted;

	pthread_mutex_lock(&registration_lock);
	evicted = pin_limit_evict(adapter_find(context), -1, bytes, &ending);
	pthread_mutex_unlock(&registration_lock);
	region_unpin_all(ending);
	return evicted;
}
