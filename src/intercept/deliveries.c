/* SPDX-License-Identifier: BSD-3-Clause */
/* deliveries.c -- for each allocation, its state of delivery to each subscriber */
#include "intercept/deliveries.h"

#include "base/arena.h"
#include "base/pool.h"
#include "report/statistics.h"

#define ALLOCATIONS_MAX (1u << 22)

/* Deliveries at one slot. The slot may be reused before the old allocation's free is reported to
 * all subscribers. */
struct deliveries {
	struct delivery *first;
};

static struct arena deliveries = ARENA_INITIALIZER(struct deliveries, ALLOCATIONS_MAX);
static struct pool delivery_pool = POOL_INITIALIZER(struct delivery);

static struct delivery **deliveries_at(uint32_t slot)
{
	return slot < deliveries.ready ? &((struct deliveries *)deliveries.base)[slot].first : NULL;
}

struct delivery *delivery_find(uint32_t slot, uint64_t id)
{
	struct delivery **first = deliveries_at(slot), *delivery = first ? *first : NULL;

	while (delivery && delivery->allocation.id != id)
		delivery = delivery->next;
	return delivery;
}

struct delivery *delivery_find_owed(uint32_t *slot, unsigned int index)
{
	struct delivery *delivery;

	for (; *slot < deliveries.ready; ++*slot) {
		for (delivery = *deliveries_at(*slot); delivery; delivery = delivery->next) {
			if (delivery->pending & 1u << index)
				return delivery;
		}
	}
	return NULL;
}

static struct delivery *deliveries_make(const struct allocation *allocation)
{
	struct delivery **first, *delivery;

	if (arena_grow(&deliveries, allocation->slot + 1))
		return NULL;
	delivery = pool_get(&delivery_pool);
	if (!delivery)
		return NULL;
	first = deliveries_at(allocation->slot);
	*delivery = (struct delivery){ .next = *first,
				       .allocation = { .struct_size = sizeof(delivery->allocation),
						       .id = allocation->event_id,
						       .base = allocation->base,
						       .size = allocation->size,
						       .device = allocation->device,
						       .kind = (int32_t)allocation->kind } };
	*first = delivery;
	return delivery;
}

void delivery_forget(uint32_t slot, uint64_t id)
{
	struct delivery **link = deliveries_at(slot), *delivery;

	while (link && *link && (*link)->allocation.id != id)
		link = &(*link)->next;
	if (!link || !*link)
		return;
	delivery = *link;
	*link = delivery->next;
	pool_put(&delivery_pool, delivery);
}

uint8_t delivery_owe(const struct allocation *allocation, uint8_t receivers)
{
	struct delivery *delivery = delivery_find(allocation->slot, allocation->event_id);

	if (!delivery && receivers)
		delivery = deliveries_make(allocation);
	if (!delivery) {
		if (receivers)
			statistics_count(undelivered);
		return 0;
	}
	receivers &= (uint8_t) ~(delivery->pending | delivery->delivering | delivery->delivered);
	delivery->pending |= receivers;
	return receivers;
}

void deliveries_release(unsigned int index)
{
	uint8_t others = (uint8_t) ~(1u << index);
	struct delivery **link, *delivery;

	for (uint32_t slot = 0; slot < deliveries.ready; slot++) {
		for (link = deliveries_at(slot); (delivery = *link);) {
			delivery->pending &= others;
			delivery->delivering &= others;
			delivery->delivered &= others;
			if (delivery->pending | delivery->delivering | delivery->delivered) {
				link = &delivery->next;
				continue;
			}
			*link = delivery->next;
			pool_put(&delivery_pool, delivery);
		}
	}
}
