/* SPDX-License-Identifier: BSD-3-Clause */
/* adapter_selection.c -- adapters for background registration, by settings and the GPU's place
 *
 * PEERPIN_DOMAIN_POLICY, PEERPIN_DEVICES and PEERPIN_EAGER select adapters by name and by distance
 * to the GPU. Both are queried without the lock, once.
 */
#include "registration/adapter.h"

#include "base/config.h"
#include "base/log.h"
#include "base/system.h"
#include "registration/session.h"
#include "registration/topology.h"
#include "report/statistics.h"

bool adapter_has_selection(void)
{
	return config_get()->domain_policy != DOMAIN_POLICY_LEARNED;
}

bool adapter_needs_description(void)
{
	return adapter_has_selection() || config_get()->eager || config_get()->devices;
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
		used += (size_t)system_format(opened + used, sizeof(opened) - used, "%s%s",
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
	session_assert();
	while (adapter->users)
		session_sleep(true);
}

bool adapter_describe(struct adapter *adapter, int device)
{
	bool query_distance =
		(config_get()->domain_policy == DOMAIN_POLICY_NEAR || config_get()->eager) &&
		(adapter_gpu_bit(device) & ~adapter->near_known);
	const char *devices = config_get()->devices, *name;
	bool describe = !adapter->described, excludes = devices && *devices == '^';
	bool near = true, named = false;
	uint64_t limit = 0;
	int held, counted_as = -1;

	session_assert();
	if (!describe && !query_distance)
		return false;
	held = system_hold_cancellation();
	adapter->users++;
	session_end();
	if (describe) {
		name = topology_adapter_name(adapter->context);
		counted_as = statistics_adapter(name);
		limit = topology_region_limit(adapter->context);
		named = devices && *name && config_is_listed(name, devices + excludes);
	}
	if (query_distance)
		near = topology_is_near(adapter->context, device);
	session_begin();
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
	session_wake();
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

	session_assert();
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
	switch (config_get()->domain_policy) {
	case DOMAIN_POLICY_ALL:
		return true;
	case DOMAIN_POLICY_NEAR:
		return near;
	case DOMAIN_POLICY_LEARNED:
		break;
	}
	/* A domain that is not enabled is an expected one. */
	return domain->enabled || near;
}
