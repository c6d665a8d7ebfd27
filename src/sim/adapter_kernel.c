/* SPDX-License-Identifier: BSD-3-Clause */
/* adapter_kernel.c -- memory regions in the kernel
 *
 * Slots are reused, the last freed first; so are handles and the upper 24 bits of keys. Each new
 * key of a slot increments the variant byte, as real adapters do.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sim/adapter.h"

#define SLOTS_MAX (1u << 24)

pthread_mutex_t adapter_lock = PTHREAD_MUTEX_INITIALIZER;

static struct adapter_region *regions;
static uint32_t slot_count, slot_capacity;
/* 0: none. Slot 0 stays unused: no key is 0. */
static uint32_t free_slot;

static struct {
	uint64_t regions, bytes;
} used[ADAPTERS_MAX];

struct adapter_region *kernel_region(uint32_t slot)
{
	return slot && slot < slot_count ? &regions[slot] : NULL;
}

uint32_t kernel_slots(void)
{
	return slot_count;
}

/* ---- regions ---- */

static uint32_t kernel_take_slot(void)
{
	uint32_t slot = free_slot, capacity;
	struct adapter_region *more;

	if (slot) {
		free_slot = regions[slot].next_free;
		return slot;
	}
	if (slot_count == slot_capacity) {
		capacity = slot_capacity ? 2 * slot_capacity : 64;
		more = slot_capacity < SLOTS_MAX ? realloc(regions, capacity * sizeof(*regions))
						 : NULL;
		if (!more)
			return 0;
		memset(more + slot_capacity, 0, (capacity - slot_capacity) * sizeof(*regions));
		regions = more;
		slot_capacity = capacity;
	}
	slot_count += slot_count ? 1 : 2;
	return slot_count - 1;
}

static bool kernel_has_capacity(unsigned int adapter, uint64_t bytes)
{
	uint64_t most_regions = adapter_setting(regions), most_bytes = adapter_setting(memory);

	return (!most_regions || used[adapter].regions < most_regions) &&
	       (!most_bytes ||
		(used[adapter].bytes < most_bytes && bytes <= most_bytes - used[adapter].bytes));
}

int kernel_enter(const struct ibv_pd *pd, const struct adapter_region *wanted, uint32_t *slot)
{
	unsigned int adapter = adapter_number(pd->context);
	int error = 0;
	uint32_t key;

	pthread_mutex_lock(&adapter_lock);
	if (!domain_is_live(pd))
		error = EINVAL;
	else if ((!wanted->uncounted &&
		  (adapter_fails_now() || !kernel_has_capacity(adapter, wanted->length))) ||
		 !(*slot = kernel_take_slot()))
		error = ENOMEM;
	if (!error) {
		key = regions[*slot].key;
		regions[*slot] = *wanted;
		regions[*slot].state = ADAPTER_REGION_IN_FLIGHT;
		regions[*slot].context = pd->context;
		regions[*slot].pd = pd->handle;
		regions[*slot].key = key;
		regions[*slot].process = getpid();
		domain_count_region(pd->handle, 1);
		used[adapter].regions += !wanted->uncounted;
		used[adapter].bytes += wanted->uncounted ? 0 : wanted->length;
	}
	pthread_mutex_unlock(&adapter_lock);
	return error;
}

/* The caller holds adapter_lock. */
static void kernel_leave(uint32_t slot)
{
	struct adapter_region *region = &regions[slot];
	unsigned int adapter = adapter_number(region->context);

	domain_count_region(region->pd, -1);
	used[adapter].regions -= !region->uncounted;
	used[adapter].bytes -= region->uncounted ? 0 : region->length;
	region->state = ADAPTER_REGION_NONE;
	region->next_free = free_slot;
	free_slot = slot;
}

static uint32_t kernel_next_key(uint32_t slot, uint32_t key)
{
	return slot << 8 | ((key + 1) & 0xff);
}

static void kernel_count_made(const struct adapter_region *region)
{
	adapter_count(registrations);
	if (syscall(SYS_gettid) == getpid())
		adapter_count(main_thread);
	adapter_add(bytes, region->length);
	if (region->dmabuf >= 0)
		adapter_count(by_dmabuf);
}

static void kernel_count_live(int64_t regions_more, int64_t bytes_more)
{
	uint64_t live = adapter_add(live, (uint64_t)regions_more);

	adapter_add(live_bytes, (uint64_t)bytes_more);
	/* Single writer: the caller holds adapter_lock. */
	if (live > adapter_statistics.live_peak)
		__atomic_store_n(&adapter_statistics.live_peak, live, __ATOMIC_RELAXED);
}

void kernel_complete(uint32_t slot, const struct adapter_region *wanted, const struct ibv_pd *pd,
		     enum ibv_mr_type type, struct verbs_mr *vmr)
{
	struct adapter_region *region;

	pthread_mutex_lock(&adapter_lock);
	region = &regions[slot];
	region->state = ADAPTER_REGION_LIVE;
	region->start = wanted->start;
	region->memory = wanted->memory;
	region->key = kernel_next_key(slot, region->key);
	if (!region->uncounted) {
		kernel_count_live(1, (int64_t)region->length);
		kernel_count_made(region);
	}
	vmr->ibv_mr.context = pd->context;
	vmr->ibv_mr.handle = slot;
	vmr->ibv_mr.lkey = region->key;
	vmr->ibv_mr.rkey = region->key;
	vmr->mr_type = type;
	vmr->access = region->access;
	pthread_mutex_unlock(&adapter_lock);
}

void kernel_give_up(uint32_t slot)
{
	pthread_mutex_lock(&adapter_lock);
	kernel_leave(slot);
	pthread_mutex_unlock(&adapter_lock);
}

/* The caller holds adapter_lock. */
static void kernel_check_process(const struct adapter_region *region)
{
	if (region->process == getpid() || !adapter_setting(strict))
		return;
	pthread_mutex_unlock(&adapter_lock);
	adapter_die("a forked child deregisters or changes a registration of its parent");
}

/* Live or outlived region of a client MR, once no access is under way; NULL: none. No other begins
 * until the caller clears `ending`. The caller holds adapter_lock. */
static struct adapter_region *kernel_client_region(const struct verbs_mr *vmr)
{
	struct adapter_region *region = kernel_region(vmr->ibv_mr.handle);

	if (!region || region->context != vmr->ibv_mr.context || region->ending ||
	    (region->state != ADAPTER_REGION_LIVE && region->state != ADAPTER_REGION_OUTLIVED))
		return NULL;
	kernel_check_process(region);
	region->ending = true;
	access_wait(vmr->ibv_mr.handle);
	return kernel_region(vmr->ibv_mr.handle); /* the table may have moved */
}

/* The caller holds adapter_lock. */
static int kernel_apply_change(struct adapter_region *region, uint32_t flags,
			       struct adapter_region *wanted, const struct ibv_pd *pd)
{
	struct adapter_memory memory = region->memory;
	unsigned int adapter = adapter_number(region->context);

	if (flags & IBV_REREG_MR_CHANGE_PD) {
		if (!domain_is_live(pd) || pd->context != region->context)
			return EINVAL;
		domain_count_region(region->pd, -1);
		domain_count_region(pd->handle, 1);
		region->pd = pd->handle;
	}
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		region->access = wanted->access;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		kernel_count_live(0, (int64_t)(wanted->length - region->length));
		used[adapter].bytes += wanted->length - region->length;
		region->start = wanted->start;
		region->length = wanted->length;
		region->iova = wanted->iova;
		region->memory = wanted->memory;
		wanted->memory = memory;
	}
	region->key = kernel_next_key(region->key >> 8, region->key);
	return 0;
}

int kernel_remove(const struct verbs_mr *vmr, struct adapter_region *removed)
{
	struct adapter_region *region;

	pthread_mutex_lock(&adapter_lock);
	region = kernel_client_region(vmr);
	if (!region || !region->uncounted)
		adapter_count(dereg_mr);
	if (region && !region->uncounted) {
		if (region->state == ADAPTER_REGION_LIVE)
			kernel_count_live(-1, -(int64_t)region->length);
		adapter_count(deregistrations);
	}
	if (region) {
		*removed = *region;
		kernel_leave(vmr->ibv_mr.handle);
	}
	pthread_mutex_unlock(&adapter_lock);
	return region ? 0 : EINVAL;
}

int kernel_change(struct verbs_mr *vmr, uint32_t flags, struct adapter_region *wanted,
		  const struct ibv_pd *pd)
{
	struct adapter_region *region;
	int error;

	pthread_mutex_lock(&adapter_lock);
	region = kernel_client_region(vmr);
	if (region)
		region->ending = false;
	if (!region || region->state != ADAPTER_REGION_LIVE)
		error = EINVAL;
	else if (adapter_fails_now())
		error = ENOMEM;
	else
		error = kernel_apply_change(region, flags, wanted, pd);
	if (!error) {
		vmr->ibv_mr.lkey = vmr->ibv_mr.rkey = region->key;
		vmr->access = region->access;
	}
	pthread_mutex_unlock(&adapter_lock);
	return error;
}

int kernel_query(const struct ibv_pd *pd, uint32_t handle, struct adapter_region *found)
{
	const struct adapter_region *region;
	int error = ENOENT;

	pthread_mutex_lock(&adapter_lock);
	region = kernel_region(handle);
	if (region && region->state == ADAPTER_REGION_LIVE && region->context == pd->context) {
		*found = *region;
		error = 0;
	}
	pthread_mutex_unlock(&adapter_lock);
	return error;
}

void kernel_outlived(struct adapter_region *region)
{
	if (region->state == ADAPTER_REGION_LIVE)
		kernel_count_live(-1, -(int64_t)region->length);
	region->state = ADAPTER_REGION_OUTLIVED;
	adapter_count(outlived);
}

uint32_t kernel_end_context(const struct ibv_context *context, uint32_t *key)
{
	uint32_t count = 0;

	pthread_mutex_lock(&adapter_lock);
	for (uint32_t slot = 1; slot < slot_count; slot++) {
		if (regions[slot].state != ADAPTER_REGION_NONE &&
		    regions[slot].context == context) {
			*key = regions[slot].key;
			count++;
		}
	}
	if (!count)
		domain_end_all(context);
	pthread_mutex_unlock(&adapter_lock);
	return count;
}
