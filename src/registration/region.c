/* SPDX-License-Identifier: BSD-3-Clause */
/* region.c -- regions: how they come to be, are registered once, and end */
#include "registration/internal.h"

#include <string.h>

#include "base/log.h"
#include "base/pool.h"
#include "base/statistics.h"
#include "base/system.h"

/* What the GPU's pages are pinned by (GPUDirect RDMA guide 3.2). It divides the 2 MiB block that the driver
 * carves allocations from, so rounding never leaves the block. */
#define GRANULE	   ((uint64_t)64 << 10)
#define RANGES	   (1u << 20)
#define LIVING_MAX (1u << 22)

/* By the allocation's place. Usually one chain is one allocation's; while one that has ended still has tenancies, its
 * place may be another's already. */
struct tenancies {
	struct tenancy *first;
};

static struct arena tenancies = ARENA_INITIALIZER(struct tenancies, LIVING_MAX);
static struct region *ranges[RANGES]; /* by base */
static struct region *retiring;	      /* ended, but perhaps still registered */
static struct pool region_pool = POOL_INITIALIZER(struct region);
static struct pool tenancy_pool = POOL_INITIALIZER(struct tenancy);

/* NULL: nobody at this place has ever had one. */
static struct tenancy **tenancies_of(uint32_t place)
{
	return place < tenancies.ready ? &((struct tenancies *)tenancies.base)[place].first : NULL;
}

/* What lies side by side, in granules or in blocks of 2 MiB, comes side by side: as much of the table is touched as
 * there are regions. */
static struct region **range_bucket_of(uint64_t base)
{
	uint64_t granule = base / GRANULE;

	return &ranges[(granule / 32 + granule % 32 * (RANGES / 32 + 1)) % RANGES];
}

static uint64_t round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) & ~(unit - 1);
}

void region_range(const struct allocation *allocation, uint64_t *base, uint64_t *length)
{
	*base = allocation->base & ~(GRANULE - 1);
	*length = round_up(allocation->base + allocation->size, GRANULE) - *base;
}

static struct region *find_by_range(struct domain *domain, uint64_t base, uint64_t length)
{
	struct region *region = *range_bucket_of(base);

	while (region && (region->base != base || region->length != length || region->domain != domain))
		region = region->range_next;
	return region;
}

static struct region *make(struct domain *domain, uint64_t base, uint64_t length)
{
	struct region *region = pool_get(&region_pool);

	if (!region)
		return NULL;
	*region = (struct region){ .domain = domain, .owner = domain->owner, .base = base, .length = length };
	region->domain_next = domain->regions;
	if (domain->regions)
		domain->regions->domain_previous = region;
	domain->regions = region;
	region->range_next = *range_bucket_of(base);
	*range_bucket_of(base) = region;
	return region;
}

struct region *region_for(const struct allocation *allocation, struct domain *domain, bool *made)
{
	struct tenancy **bucket, *tenancy;
	struct region *region;
	uint64_t base, length;

	*made = false;
	if (arena_grow(&tenancies, allocation->place + 1))
		return NULL;
	bucket = tenancies_of(allocation->place);
	for (tenancy = *bucket; tenancy; tenancy = tenancy->bucket_next) {
		if (tenancy->allocation == allocation->id && tenancy->region->domain == domain) {
			keys_publish(tenancy->region, tenancy);
			return tenancy->region;
		}
	}
	tenancy = pool_get(&tenancy_pool);
	if (!tenancy)
		return NULL;
	region_range(allocation, &base, &length);
	region = find_by_range(domain, base, length);
	if (!region) {
		region = make(domain, base, length);
		*made = region != NULL;
	}
	if (!region) {
		pool_put(&tenancy_pool, tenancy);
		return NULL;
	}
	*tenancy = (struct tenancy){ .allocation = allocation->id,
				     .place = allocation->place,
				     .region = region,
				     .bucket_next = *bucket,
				     .region_next = region->tenancies };
	*bucket = tenancy;
	region->tenancies = tenancy;
	keys_publish(region, tenancy);
	return region;
}

static void settle(struct region *region, int error, struct ibv_mr *mr)
{
	if (error) {
		region->state = REGION_FAILED;
		statistics_count(registrations_failed);
	} else {
		region->state = REGION_READY;
		region->mr = mr;
		region->keys = (struct registration_keys){ .kernel_handle = mr->handle,
							   .lkey = mr->lkey,
							   .rkey = mr->rkey };
		keys_publish_all(region);
		statistics_add(registered_bytes, region->length);
		statistics_pinned((int64_t)region->length);
	}
	system_wake(&region_settled);
}

/* Without the lock: what strerror and write do is their own affair. */
static void tell(uint64_t base, uint64_t length, int access, int error)
{
	log_message(LOG_DEBUG, "register 0x%llx, %llu bytes, rights 0x%x: %s", (unsigned long long)base,
		    (unsigned long long)length, access, error ? system_error_text(-error) : "done");
	if (error)
		log_once(LOG_WARN,
			 "GPU memory at 0x%llx, %llu bytes, could not be registered: %s. The program's own "
			 "registrations go to the adapter directly. Is nvidia-peermem loaded?",
			 (unsigned long long)base, (unsigned long long)length, system_error_text(-error));
}

uint64_t region_register(struct region *region)
{
	struct pin_request request = { .pd = region->owner->pd,
				       .base = region->base,
				       .length = region->length,
				       .access = region->domain->access };
	struct ibv_mr *mr = NULL;
	uint64_t start;
	int error;

	pthread_mutex_unlock(&registration_lock);
	start = statistics_clock();
	error = registration_backend->pin(&request, &mr);
	start = statistics_clock() - start;
	tell(request.base, request.length, request.access, error);
	pthread_mutex_lock(&registration_lock);
	settle(region, error, mr);
	return start;
}

void region_release_user(struct region *region)
{
	if (!--region->users && region->ended)
		pool_put(&region_pool, region);
}

static void leave_indexes(struct region *region)
{
	struct region **range = range_bucket_of(region->base);
	struct tenancy *tenancy, **place;

	while (*range != region)
		range = &(*range)->range_next;
	*range = region->range_next;
	if (region->domain_previous)
		region->domain_previous->domain_next = region->domain_next;
	else
		region->domain->regions = region->domain_next;
	if (region->domain_next)
		region->domain_next->domain_previous = region->domain_previous;
	while ((tenancy = region->tenancies)) {
		keys_withdraw(region, tenancy);
		region->tenancies = tenancy->region_next;
		place = tenancies_of(tenancy->place);
		while (*place != tenancy)
			place = &(*place)->bucket_next;
		*place = tenancy->bucket_next;
		pool_put(&tenancy_pool, tenancy);
	}
}

void region_await_settled(struct region *region)
{
	while (region->state == REGION_REGISTERING)
		system_wait(&region_settled, &registration_lock);
}

static void retired(struct region *region)
{
	struct region **place = &retiring;

	while (*place != region)
		place = &(*place)->domain_next;
	*place = region->domain_next;
	region_release_user(region);
	system_wake(&region_settled);
}

void region_end(struct region *region, struct region **ending)
{
	region->users++;
	region->ended = true;
	leave_indexes(region);
	region->domain_next = retiring;
	retiring = region;
	if (region->state == REGION_QUEUED) {
		worker_dequeue(region);
		region->state = REGION_IDLE;
		statistics_count(cancelled);
	}
	/* Whoever is registering it is in the kernel with memory and domain that must stay until it is out. */
	region_await_settled(region);
	handle_revoke(region, 0);
	if (region->state == REGION_READY) {
		region->queue_next = *ending;
		*ending = region;
	} else {
		retired(region);
	}
}

static void leave_region(struct tenancy *tenancy)
{
	struct tenancy **place = &tenancy->region->tenancies;

	while (*place != tenancy)
		place = &(*place)->region_next;
	*place = tenancy->region_next;
}

void region_end_tenancies(const struct allocation *allocation, struct region **ending)
{
	struct tenancy **place = tenancies_of(allocation->place);
	struct tenancy *tenancy;
	struct region *region;

	while (place && (tenancy = *place)) {
		if (tenancy->allocation != allocation->id) {
			place = &tenancy->bucket_next;
			continue;
		}
		*place = tenancy->bucket_next;
		region = tenancy->region;
		keys_withdraw(region, tenancy);
		leave_region(tenancy);
		pool_put(&tenancy_pool, tenancy);
		if (region->tenancies) {
			handle_revoke(region, allocation->id);
			continue;
		}
		region_end(region, ending);
		place = tenancies_of(allocation->place); /* the lock may have been dropped */
	}
}

static void unpin(struct region *region)
{
	int error = registration_backend->unpin(region->mr);

	log_message(LOG_DEBUG, "deregister 0x%llx, %llu bytes: %s", (unsigned long long)region->base,
		    (unsigned long long)region->length, error ? system_error_text(-error) : "done");
	if (error) {
		statistics_count(deregistrations_failed);
		log_once(LOG_ERROR, "a registration of GPU memory at 0x%llx could not be ended: %s",
			 (unsigned long long)region->base, system_error_text(-error));
	}
	statistics_count(deregistrations);
	statistics_pinned(-(int64_t)region->length);
	if (!region->used)
		statistics_count(never_used);
}

void region_unpin_all(struct region *ending)
{
	struct region *region;

	while ((region = ending)) {
		ending = region->queue_next;
		unpin(region);
		pthread_mutex_lock(&registration_lock);
		retired(region);
		pthread_mutex_unlock(&registration_lock);
	}
}

static bool overlaps(const struct region *region, uint64_t base, uint64_t size)
{
	return region->base < base + size && base < region->base + region->length;
}

void region_await_range(uint64_t base, uint64_t size)
{
	struct region *region;

	do {
		for (region = retiring; region; region = region->domain_next) {
			if (overlaps(region, base, size))
				break;
		}
		if (region)
			system_wait(&region_settled, &registration_lock);
	} while (region);
}

void region_await_owner(const struct protection_domain *owner)
{
	struct region *region;

	do {
		for (region = retiring; region && region->owner != owner; region = region->domain_next)
			;
		if (region)
			system_wait(&region_settled, &registration_lock);
	} while (region);
}
