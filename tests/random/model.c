/* SPDX-License-Identifier: BSD-3-Clause */
/* model.c -- expected answers to one thread's calls */
#include "random/model.h"

#include <string.h>

const int model_access[RIGHTS_OF_REGIONS] = {
	IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		IBV_ACCESS_REMOTE_ATOMIC,
	IBV_ACCESS_LOCAL_WRITE,
	IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		IBV_ACCESS_RELAXED_ORDERING,
	IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
	0,
};

void model_begin(struct client *client, unsigned int number, struct source source,
		 struct model_pd *shared)
{
	memset(client, 0, sizeof(*client));
	client->number = number;
	client->source = source;
	for (unsigned int i = 0; i < SHARED_PDS; i++)
		client->pds[i] = &shared[i];
	for (unsigned int i = 0; i < OWN_PDS; i++)
		client->pds[SHARED_PDS + i] = &client->own_pds[i];
}

struct model_memory *model_memory_at(struct client *client, uint64_t address)
{
	for (unsigned int i = 0; i < ALLOCATIONS; i++) {
		if (address - client->memories[i].base < client->memories[i].size)
			return &client->memories[i];
	}
	return NULL;
}

struct model_memory *model_unused_memory(struct client *client)
{
	for (unsigned int i = 0; i < ALLOCATIONS; i++) {
		if (!client->memories[i].size)
			return &client->memories[i];
	}
	return NULL;
}

bool model_overlaps(struct client *client, uint64_t base, uint64_t size)
{
	for (unsigned int i = 0; i < ALLOCATIONS; i++) {
		const struct model_memory *memory = &client->memories[i];

		if (memory->size && memory->base < base + size &&
		    base < memory->base + memory->size)
			return true;
	}
	return false;
}

bool model_serves(const struct model_memory *memory, uint64_t address, uint64_t length)
{
	bool has_last_page = memory->size > BLOCK && memory->kind != ALLOCATION_POOL;
	uint64_t unit = has_last_page ? 4096 : 256, end = memory->base + memory->size;

	return address + length <= (end + unit - 1) / unit * unit;
}

struct model_memory *model_next_mapping(struct client *client, const struct model_memory *memory,
					bool dma_buf)
{
	struct model_memory *next = model_memory_at(client, memory->base + memory->size);

	return next && memory->kind == ALLOCATION_MAPPED && next->kind == ALLOCATION_MAPPED &&
			       next->accessible && (next->rdma_capable || dma_buf)
		       ? next
		       : NULL;
}

unsigned int model_refuses(struct client *client, const struct model_pd *pd, uint64_t address,
			   uint64_t length, uint64_t iova, int access, bool dma_buf)
{
	const struct model_memory *memory = model_memory_at(client, address), *last = memory;
	unsigned int reasons = 0;
	bool shared = false;

	while (last && !model_serves(last, address, length))
		last = model_next_mapping(client, last, dma_buf);

	for (unsigned int i = 0; i < RIGHTS_OF_REGIONS; i++)
		shared |= model_access[i] == access;
	if (!last)
		reasons |= REASON_RANGE;
	if (!shared)
		reasons |= REASON_FLAGS;
	if (iova != address)
		reasons |= REASON_ADDRESS;
	if (memory && !((memory->rdma_capable || dma_buf) && memory->accessible))
		reasons |= REASON_CAPABILITY;
	if (!pd || !pd->open)
		reasons |= REASON_DOMAIN;
	return reasons;
}

static bool has_mapping(const struct model_handle *handle, const struct model_memory *memory)
{
	return handle->spans && memory->base < handle->address + handle->length &&
	       handle->address < memory->base + memory->size;
}

bool model_may_share(const struct model_handle *handle)
{
	return handle->address / GRANULE == (handle->address + handle->length - 1) / GRANULE;
}

void model_memory_ending(struct client *client, struct model_memory *memory)
{
	for (unsigned int i = 0; i < HANDLES; i++) {
		struct model_handle *handle = &client->handles[i];

		if (!handle->known || !handle->alive || handle->kept ||
		    (handle->memory != memory && !has_mapping(handle, memory)))
			continue;
		handle->alive = false;
		handle->perhaps = model_may_share(handle);
		if (handle->perhaps)
			client->totals.perhaps++;
		else
			client->totals.revoked++;
	}
}

void model_memory_kept(struct client *client, const struct model_memory *memory,
		       const struct allocation *record)
{
	for (unsigned int i = 0; i < HANDLES; i++) {
		struct model_handle *handle = &client->handles[i];

		if (!handle->known || !handle->alive || handle->kept || handle->memory != memory)
			continue;
		handle->kept = true;
		handle->memory = NULL;
		handle->record = *record;
	}
}

void model_memory_freed(struct client *client, struct model_memory *memory)
{
	if (memory->own) {
		client->freed[client->freed_next].base = memory->base;
		client->freed[client->freed_next].size = memory->size;
		client->freed_next = (client->freed_next + 1) % REMEMBERED;
	}
	memory->size = 0;
	if (memory->kind == ALLOCATION_HOST)
		client->totals.host_frees++;
	else
		client->totals.frees++;
}

unsigned int model_held_in(const struct client *client, const struct ibv_pd *pd)
{
	unsigned int held = 0;

	for (unsigned int i = 0; i < HANDLES; i++)
		held += client->handles[i].known && client->handles[i].pd == pd;
	return held;
}

void model_pd_ended(struct client *client, unsigned int which)
{
	const struct ibv_pd *pd = &client->pds[which]->pd;

	for (unsigned int i = 0; i < HANDLES; i++) {
		struct model_handle *handle = &client->handles[i];

		if (!handle->known || handle->pd != pd)
			continue;
		client->totals.revoked += handle->alive;
		handle->alive = false;
		handle->pd = NULL;
	}
	client->pds[which]->open = false;
}

void model_add(struct model_totals *to, const struct model_totals *totals)
{
	const uint64_t *from = (const uint64_t *)totals;

	for (size_t i = 0; i < sizeof(*to) / sizeof(*from); i++)
		((uint64_t *)to)[i] += from[i];
}
