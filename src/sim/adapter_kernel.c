/* SPDX-License-Identifier: BSD-3-Clause */
/* adapter_kernel.c -- protection domains and memory regions as the kernel has them
 *
 * Places, and so the upper 24 bits of keys, and handles are used again, the last freed first; the variant
 * byte of a place's key is counted up, as by real adapters.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/adapter.h"

#define PLACES_MAX (1u << 24)

pthread_mutex_t adapter_lock = PTHREAD_MUTEX_INITIALIZER;

struct protection_domain {
	struct ibv_context *context; /* NULL: free */
	unsigned int regions;
};

static struct protection_domain *domains;
static uint32_t domain_count; /* a handle is its place and 1 */
static struct region *regions;
static uint32_t place_count, place_room;
static uint32_t free_place; /* 0: none; place 0 is not used, so that no key is 0 */

static struct {
	uint64_t regions, bytes;
} taken[ADAPTERS_MAX];

struct region *kernel_region(uint32_t place)
{
	return place && place < place_count ? &regions[place] : NULL;
}

uint32_t kernel_places(void)
{
	return place_count;
}

/* ---- protection domains ---- */

static struct protection_domain *find_domain(const struct ibv_pd *pd)
{
	struct protection_domain *domain;

	if (!pd->handle || pd->handle > domain_count)
		return NULL;
	domain = &domains[pd->handle - 1];
	return domain->context == pd->context ? domain : NULL;
}

static uint32_t make_domain(struct ibv_context *context)
{
	struct protection_domain *more;
	uint32_t place = 0;

	while (place < domain_count && domains[place].context)
		place++;
	if (place == domain_count) {
		more = realloc(domains, (domain_count + 1) * sizeof(*domains));
		if (!more)
			return 0;
		domains = more;
		domain_count++;
	}
	domains[place] = (struct protection_domain){ .context = context };
	return place + 1;
}

uint32_t kernel_make_domain(struct ibv_context *context)
{
	uint32_t handle;

	pthread_mutex_lock(&adapter_lock);
	handle = make_domain(context);
	pthread_mutex_unlock(&adapter_lock);
	if (handle)
		adapter_count(pds);
	return handle;
}

int kernel_end_domain(const struct ibv_pd *pd)
{
	struct protection_domain *domain;
	unsigned int left = 0;
	int error = 0;

	pthread_mutex_lock(&adapter_lock);
	domain = find_domain(pd);
	if (domain)
		left = domain->regions;
	if (!domain)
		error = EINVAL;
	else if (left)
		error = EBUSY;
	else
		domain->context = NULL;
	pthread_mutex_unlock(&adapter_lock);
	if (error == EBUSY) {
		adapter_count(pds_busy);
		if (!adapter_setting(busy))
			adapter_die("a protection domain is closed with %u registrations in it", left);
	} else if (!error) {
		adapter_remove(pds, 1);
	}
	return error;
}

/* ---- regions ---- */

static uint32_t take_place(void)
{
	uint32_t place = free_place, room;
	struct region *more;

	if (place) {
		free_place = regions[place].next_free;
		return place;
	}
	if (place_count == place_room) {
		room = place_room ? 2 * place_room : 64;
		more = place_room < PLACES_MAX ? realloc(regions, room * sizeof(*regions)) : NULL;
		if (!more)
			return 0;
		memset(more + place_room, 0, (room - place_room) * sizeof(*regions));
		regions = more;
		place_room = room;
	}
	place_count += place_count ? 1 : 2;
	return place_count - 1;
}

static bool has_room(unsigned int adapter, uint64_t bytes)
{
	uint64_t most_regions = adapter_setting(regions), most_bytes = adapter_setting(memory);

	return (!most_regions || taken[adapter].regions < most_regions) &&
	       (!most_bytes ||
		(taken[adapter].bytes < most_bytes && bytes <= most_bytes - taken[adapter].bytes));
}

int kernel_enter(const struct ibv_pd *pd, const struct region *wanted, uint32_t *place)
{
	unsigned int adapter = adapter_number(pd->context);
	struct protection_domain *domain;
	int error = 0;
	uint32_t key;

	pthread_mutex_lock(&adapter_lock);
	domain = find_domain(pd);
	if (!domain)
		error = EINVAL;
	else if (adapter_fails_now() || !has_room(adapter, wanted->length) || !(*place = take_place()))
		error = ENOMEM;
	if (!error) {
		key = regions[*place].key;
		regions[*place] = *wanted;
		regions[*place].state = REGION_MAKING;
		regions[*place].context = pd->context;
		regions[*place].pd = pd->handle;
		regions[*place].key = key;
		regions[*place].process = getpid();
		domain->regions++;
		taken[adapter].regions++;
		taken[adapter].bytes += wanted->length;
	}
	pthread_mutex_unlock(&adapter_lock);
	return error;
}

/* adapter_lock is held. */
static void leave(uint32_t place)
{
	struct region *region = &regions[place];
	unsigned int adapter = adapter_number(region->context);

	domains[region->pd - 1].regions--;
	taken[adapter].regions--;
	taken[adapter].bytes -= region->length;
	region->state = REGION_NONE;
	region->next_free = free_place;
	free_place = place;
}

static uint32_t next_key(uint32_t place, uint32_t key)
{
	return place << 8 | ((key + 1) & 0xff);
}

static void count_living(int64_t regions_more, int64_t bytes_more)
{
	uint64_t living = adapter_add(living, (uint64_t)regions_more);

	adapter_add(living_bytes, (uint64_t)bytes_more);
	/* With adapter_lock held, so that nobody else is at it. */
	if (living > adapter_statistics.living_peak)
		__atomic_store_n(&adapter_statistics.living_peak, living, __ATOMIC_RELAXED);
}

void kernel_complete(uint32_t place, const struct ibv_pd *pd, enum ibv_mr_type type, struct verbs_mr *vmr)
{
	struct region *region;

	pthread_mutex_lock(&adapter_lock);
	region = &regions[place];
	region->state = REGION_ALIVE;
	region->key = next_key(place, region->key);
	count_living(1, (int64_t)region->length);
	adapter_count(registrations);
	adapter_add(bytes, region->length);
	if (region->dmabuf >= 0)
		adapter_count(by_dmabuf);
	vmr->ibv_mr.context = pd->context;
	vmr->ibv_mr.handle = place;
	vmr->ibv_mr.lkey = region->key;
	vmr->ibv_mr.rkey = region->key;
	vmr->mr_type = type;
	vmr->access = region->access;
	pthread_mutex_unlock(&adapter_lock);
}

void kernel_give_up(uint32_t place)
{
	pthread_mutex_lock(&adapter_lock);
	leave(place);
	pthread_mutex_unlock(&adapter_lock);
}

/* adapter_lock is held. */
static void check_process(const struct region *region)
{
	if (region->process == getpid() || !adapter_setting(strict))
		return;
	pthread_mutex_unlock(&adapter_lock);
	adapter_die("a forked child ends or changes a registration of its parent");
}

/* The living region behind a handle of the client's; NULL: none. adapter_lock is held. */
static struct region *region_of(const struct verbs_mr *vmr)
{
	struct region *region = kernel_region(vmr->ibv_mr.handle);

	if (!region || region->context != vmr->ibv_mr.context ||
	    (region->state != REGION_ALIVE && region->state != REGION_OUTLIVED))
		return NULL;
	check_process(region);
	return region;
}

/* adapter_lock is held. */
static int change(struct region *region, uint32_t flags, const struct region *wanted, const struct ibv_pd *pd)
{
	struct protection_domain *domain = flags & IBV_REREG_MR_CHANGE_PD ? find_domain(pd) : NULL;
	unsigned int adapter = adapter_number(region->context);

	if (flags & IBV_REREG_MR_CHANGE_PD && (!domain || pd->context != region->context))
		return EINVAL;
	if (domain) {
		domains[region->pd - 1].regions--;
		domain->regions++;
		region->pd = pd->handle;
	}
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		region->access = wanted->access;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		count_living(0, (int64_t)(wanted->length - region->length));
		taken[adapter].bytes += wanted->length - region->length;
		region->start = wanted->start;
		region->length = wanted->length;
		region->iova = wanted->iova;
	}
	region->key = next_key(region->key >> 8, region->key);
	return 0;
}

int kernel_remove(const struct verbs_mr *vmr, int *dmabuf)
{
	struct region *region;

	pthread_mutex_lock(&adapter_lock);
	region = region_of(vmr);
	if (region) {
		*dmabuf = region->dmabuf;
		if (region->state == REGION_ALIVE)
			count_living(-1, -(int64_t)region->length);
		leave(vmr->ibv_mr.handle);
		adapter_count(deregistrations);
	}
	pthread_mutex_unlock(&adapter_lock);
	return region ? 0 : EINVAL;
}

int kernel_change(struct verbs_mr *vmr, uint32_t flags, const struct region *wanted, const struct ibv_pd *pd)
{
	struct region *region;
	int error;

	pthread_mutex_lock(&adapter_lock);
	region = region_of(vmr);
	if (!region || region->state != REGION_ALIVE)
		error = EINVAL;
	else if (adapter_fails_now())
		error = ENOMEM;
	else
		error = change(region, flags, wanted, pd);
	if (!error) {
		vmr->ibv_mr.lkey = vmr->ibv_mr.rkey = region->key;
		vmr->access = region->access;
	}
	pthread_mutex_unlock(&adapter_lock);
	return error;
}

int kernel_query(const struct ibv_pd *pd, uint32_t handle, struct region *found)
{
	const struct region *region;
	int error = ENOENT;

	pthread_mutex_lock(&adapter_lock);
	region = kernel_region(handle);
	if (region && region->state == REGION_ALIVE && region->context == pd->context) {
		*found = *region;
		error = 0;
	}
	pthread_mutex_unlock(&adapter_lock);
	return error;
}

void kernel_outlived(struct region *region)
{
	if (region->state == REGION_ALIVE)
		count_living(-1, -(int64_t)region->length);
	region->state = REGION_OUTLIVED;
	adapter_count(outlived);
}

uint32_t kernel_end_context(const struct ibv_context *context, uint32_t *key)
{
	uint32_t count = 0;

	pthread_mutex_lock(&adapter_lock);
	for (uint32_t place = 1; place < place_count; place++) {
		if (regions[place].state != REGION_NONE && regions[place].context == context) {
			*key = regions[place].key;
			count++;
		}
	}
	for (uint32_t i = 0; i < domain_count && !count; i++) {
		if (domains[i].context == context) {
			domains[i].context = NULL;
			adapter_remove(pds, 1);
		}
	}
	pthread_mutex_unlock(&adapter_lock);
	return count;
}
