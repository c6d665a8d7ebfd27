/* SPDX-License-Identifier: BSD-3-Clause */
/* adapter.c -- open devices */
#include "registration/adapter.h"

#include "base/pool.h"
#include "registration/lock.h"

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
