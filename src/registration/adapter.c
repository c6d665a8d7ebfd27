/* SPDX-License-Identifier: BSD-3-Clause */
/* adapter.c -- open devices, and which the settings select
 *
 * PEERPIN_DEVICES and PEERPIN_PREREGISTER=eager select adapters for background registration, by
 * name and by distance to the GPU. Both are queried without the lock, once.
 */
#include "registration/adapter.h"

#include <stdio.h>

#include "base/config.h"
#include "base/log.h"
#include "base/pool.h"
#include "base/system.h"
#include "registration/lock.h"
#include "registration/topology.h"
#include "report/statistics.h"

static struct pool adapter_pool = POOL_INITIALIZER(struct adapter);
struct adapter *adapters;

struct adapter *adapter_find(const struct ibv_context *context)
{
	struct adapter *adapter = adapters;

	registration_assert_held();
	while (adapter && adapter->context != context)
		adapter = adapter->next;
	return adapter;
}

struct adapter *adapter_of(struct ibv_context *context)
{
	struct adapter *adapter = adapter_find(context);

	registration_assert_held();
	if (adapter)
		return adapter;
	adapter = pool_get(&adapter_pool);
	if (adapter) {
		*adapter = (struct adapter){ .context = context, .next = adapters };
		adapters = adapter;
	}
	return adapter;
}

void adapter_forget(struct adapter *adapter)
{
	struct adapter **link = &adapters;

	registration_assert_held();
	while (*link != adapter)
		link = &(*link)->next;
	*link = adapter->next;
	pool_put(&adapter_pool, adapter);
}

void adapters_renew(void)
{
	adapters = NULL;
	adapter_pool = (struct pool)POOL_INITIALIZER(struct adapter);
}

/* A device opened twice has two contexts and one region limit. The name gives its index in the
 * statistics. */
bool adapter_is_same(const struct adapter *one, const struct adapter *other)
{
	return one == other || (one->described && other->described && one->counted_as >= 0 &&
				one->counted_as == other->counted_as);
}

uint64_t adapter_regions(const struct adapter *adapter)
{
	uint64_t regions = 0;

	registration_assert_held();
	for (const struct adapter *other = adapters; other; other = other->next) {
		if (adapter_is_same(adapter, other))
			regions += other->regions;
	}
	return regions;
}

/* ---- selection ---- */

bool adapter_needs_description(void)
{
	return config_get()->preregister == PREREGISTER_EAGER || config_get()->devices;
}

/* True if an adapter was described, and if PEERPIN_DEVICES names one. Read at exit, when the lock
 * may be held for ever. */
static _Atomic bool any_described, any_named;

void registration_log_selection(void)
{
	const char *devices = config_get()->devices;
	char opened[128] = "";
	size_t used = 0;

	if (!devices || *devices == '^' || !any_described || any_named)
		return;
	for (int i = 0; i < STATISTICS_ADAPTERS && statistics.adapters[i].named &&
			used < sizeof(opened) - STATISTICS_NAME - 2;
	     i++)
		used += (size_t)snprintf(opened + used, sizeof(opened) - used, "%s%s",
					 i ? ", " : "", statistics.adapters[i].name);
	log_message(LOG_WARN,
		    "PEERPIN_DEVICES=%.80s names no adapter that the program has opened (%s): no "
		    "memory was registered in the background. Name adapters as ibv_devices lists "
		    "them, separated by commas.",
		    devices, opened);
}

static uint64_t adapter_gpu_bit(int device)
{
	return device >= 0 && device < DEVICES_MAX ? (uint64_t)1 << device : 0;
}

void adapter_await(const struct adapter *adapter)
{
	registration_assert_held();
	while (adapter->users)
		registration_sleep();
}

bool adapter_describe(struct adapter *adapter, int device)
{
	bool query_distance = config_get()->preregister == PREREGISTER_EAGER &&
			      (adapter_gpu_bit(device) & ~adapter->near_known);
	const char *devices = config_get()->devices, *name;
	bool describe = !adapter->described, excludes = devices && *devices == '^';
	bool near = true, named = false;
	uint64_t limit = 0;
	int held, counted_as = -1;

	registration_assert_held();
	if (!describe && !query_distance)
		return false;
	held = system_hold_cancellation();
	adapter->users++;
	registration_unlock();
	if (describe) {
		name = topology_adapter_name(adapter->context);
		counted_as = statistics_adapter(name);
		limit = topology_region_limit(adapter->context);
		named = devices && *name && config_is_listed(name, devices + excludes);
	}
	if (query_distance)
		near = topology_is_near(adapter->context, device);
	registration_lock();
	/* Others read these without the lock once set, so the first of two threads sets them. */
	if (!adapter->described) {
		adapter->counted_as = counted_as;
		adapter->region_limit = limit;
		adapter->selected = !devices || named != excludes;
		any_described = true;
		any_named |= named;
		adapter->described = true;
	}
	if (query_distance) {
		adapter->near |= near ? adapter_gpu_bit(device) : 0;
		adapter->near_known |= adapter_gpu_bit(device);
	}
	adapter->users--;
	registration_wake();
	system_release_cancellation(held);
	return true;
}

/* The program may be closing a device without another protection domain. */
static bool adapter_is_used(const struct adapter *adapter)
{
	const struct protection_domain *owner = LIST_FIRST(&adapter->owners);

	while (owner && owner->closing)
		owner = LIST_NEXT(owner, in_adapter);
	return owner;
}

void adapters_describe(int device)
{
	struct adapter *adapter = adapters;

	registration_assert_held();
	while (adapter)
		adapter = adapter_is_used(adapter) && adapter_describe(adapter, device)
				  ? adapters
				  : adapter->next;
}

bool adapter_selects(const struct domain *domain, int device)
{
	const struct adapter *adapter = domain->owner->adapter;
	bool near = !adapter_gpu_bit(device) || (adapter->near & adapter_gpu_bit(device));

	if (config_get()->devices && !adapter->selected)
		return false;
	/* A domain that is not enabled is an expected one. */
	return domain->enabled || near;
}
