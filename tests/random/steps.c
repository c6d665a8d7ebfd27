/* SPDX-License-Identifier: BSD-3-Clause */
/* steps.c -- the next step of a client of a random program */
#include "random/steps.h"

#include <stdatomic.h>

#include "base/config.h"
#include "random/calls.h"

#define PHASE	   256 /* allocations and frees until the target changes */
#define TARGET_MAX (ALLOCATIONS - 8)

/* ---- operands ---- */

/* NULL: the client has none. */
static struct model_memory *choose_memory(struct client *client, bool of_gpu)
{
	unsigned int start = choose(&client->source, ALLOCATIONS);

	for (unsigned int i = 0; i < ALLOCATIONS; i++) {
		struct model_memory *memory = &client->memories[(start + i) % ALLOCATIONS];

		if (memory->size && !(of_gpu && memory->kind == ALLOCATION_HOST))
			return memory;
	}
	return NULL;
}

struct model_memory *steps_choose_memory(struct client *client)
{
	return choose_memory(client, true);
}

static unsigned int count_memory(const struct client *client)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < ALLOCATIONS; i++)
		count += client->memories[i].size != 0;
	return count;
}

static uint64_t choose_size(struct source *source)
{
	uint32_t kind = choose(source, 128);

	if (kind < 60)
		return 1 + choose(source, 2000);
	if (kind < 96)
		return 1 + choose(source, 200000);
	if (kind < 112)
		return (1 + choose(source, 16)) * GRANULE;
	if (kind < 122)
		return BLOCK;
	return 1 + choose(source, (uint32_t)(kind < 127 ? 3 * BLOCK : 8 * BLOCK));
}

/* Often equal to another's, so that kept memory is reused, or a little smaller. */
static uint64_t choose_kept_size(struct source *source)
{
	static const uint32_t sizes[] = {
		512,	 4096,		65536,		 80000,
		1 << 20, (1 << 20) + 1, (uint32_t)BLOCK, 3 * (uint32_t)BLOCK
	};

	return one_in(source, 16) ? choose_size(source) : sizes[choose(source, 8)];
}

static CUcontext choose_own_context(struct client *client)
{
	return world_context(client->number, choose(&client->source, CONTEXTS));
}

/* ---- memory ---- */

static struct keep_request choose_request(struct client *client)
{
	struct source *source = &client->source;

	if (!client->keeps)
		return (struct keep_request){ .kind = ALLOCATION_DEVICE,
					      .size = choose_size(source) };
	switch (choose(source, 8)) {
	case 0:
		/* Never kept. */
		return (struct keep_request){ .kind = ALLOCATION_PITCHED,
					      .size = choose_kept_size(source) };
	case 1:
		return (struct keep_request){ .kind = ALLOCATION_HOST,
					      .flags = one_in(source, 2) ? KEEP_ALLOC_HOST
									 : choose(source, 8),
					      .size = choose_kept_size(source) };
	default:
		return (struct keep_request){ .kind = ALLOCATION_DEVICE,
					      .size = choose_kept_size(source) };
	}
}

static void allocate(struct client *client)
{
	struct source *source = &client->source;
	struct keep_request request = choose_request(client);
	bool own = one_in(source, 4), capable = !one_in(source, 32);
	CUcontext context = choose_own_context(client);

	if (one_in(source, 8)) {
		request = (struct keep_request){ .kind = ALLOCATION_POOL,
						 .size = choose_size(source) };
		context = NULL;
	} else if (client->keeps && one_in(source, 2)) {
		/* All threads reuse its memory. */
		context = world_shared_context(choose(source, SHARED_CONTEXTS));
		own = false;
	}
	call_allocate(client, own, &request, context, capable && request.kind != ALLOCATION_HOST);
}

static void end_one(struct client *client)
{
	struct model_memory *memory = choose_memory(client, false);

	if (memory && memory->kind != ALLOCATION_MAPPED)
		call_free(client, memory, one_in(&client->source, 32));
}

static void begin_or_end(struct client *client)
{
	if (one_in(&client->source, PHASE))
		client->target = choose(&client->source, TARGET_MAX);
	if (one_in(&client->source, 4) ? one_in(&client->source, 2)
				       : count_memory(client) < client->target)
		allocate(client);
	else
		end_one(client);
}

static void map(struct client *client)
{
	struct source *source = &client->source;
	unsigned int first = choose(source, MAPPED_BLOCKS - 2);
	struct model_memory *memory;

	call_map(client, first, 1 + choose(source, 3), !one_in(source, 16));
	memory = model_memory_at(client, world_reserved() + first * BLOCK);
	if (memory && one_in(source, 2))
		call_set_access(client, memory, true);
}

static void change_mapping(struct client *client)
{
	struct source *source = &client->source;
	unsigned int first = choose(source, MAPPED_BLOCKS - 3);
	uint64_t base = world_reserved() + first * BLOCK;
	struct model_memory *memory = model_memory_at(client, base);

	if (memory && one_in(source, 2))
		call_set_access(client, memory, !one_in(source, 3));
	else
		call_unmap(client, base, (1 + choose(source, 4)) * BLOCK, one_in(source, 16));
}

static void end_context(struct client *client)
{
	/* Other threads' requests would find the memory missing. */
	bool by_query = !config_get()->verify && one_in(&client->source, 2);

	/* Rare: little is left afterwards. */
	if (one_in(&client->source, 8))
		call_end_context(client, choose_own_context(client), one_in(&client->source, 4),
				 by_query);
}

/* ---- kept memory ---- */

static void free_in_vain(struct client *client)
{
	struct model_memory *memory = choose_memory(client, false);
	unsigned int which = choose(&client->source, REMEMBERED);
	uint64_t base = client->freed[which].base, size = client->freed[which].size;

	if (!client->keeps)
		return;
	if (size && !model_overlaps(client, base, size)) {
		call_query_freed(client, base + choose(&client->source, (uint32_t)size));
		call_free_in_vain(client, one_in(&client->source, 2) ? FREE_DEVICE : FREE_HOST,
				  base);
	}
	if (memory && memory->size > 1)
		call_free_in_vain(client, FREE_DEVICE, memory->base + 1);
	if (memory && memory->kind == ALLOCATION_DEVICE)
		call_free_in_vain(client, FREE_HOST, memory->base);
}

static void capture(struct client *client)
{
	struct model_memory *memory = steps_choose_memory(client);

	if (client->keeps && memory && memory->kind == ALLOCATION_DEVICE)
		call_capture(client, memory);
}

/* The driver, or an adapter, lacks memory. Until a refused call is settled, frees keep nothing. */
static void release(struct client *client)
{
	static const int devices[] = { KEEP_HOST, KEEP_DEVICES, KEEP_CURRENT };
	struct source *source = &client->source;
	struct keep_refusal refusal = { .ended = keep_releases_ended };

	/* Rare: little is kept afterwards. */
	if (!client->keeps || !one_in(source, 4))
		return;
	world_enter(choose_own_context(client));
	if (one_in(source, 4)) {
		call_release_idle();
		return;
	}
	call_release(&refusal, devices[choose(source, 3)], choose(source, 8 * (uint32_t)BLOCK));
	for (uint32_t frees = choose(source, 4); frees; frees--)
		end_one(client);
	call_settled(&refusal);
}

/* ---- protection domains ---- */

static void open_or_close(struct client *client)
{
	unsigned int which = SHARED_PDS + choose(&client->source, OWN_PDS);

	if (!client->pds[which]->open)
		call_open_pd(client, which, one_in(&client->source, 2));
	else if (one_in(&client->source, 4))
		call_close_pd(client, which, one_in(&client->source, 4));
}

static void close_device(struct client *client)
{
	if (one_in(&client->source, 4))
		call_close_device(client);
}

void steps_begin(struct client *client)
{
	client->keeps = keep_is_on() && (!client->source.bytes || one_in(&client->source, 2));
	client->target = choose(&client->source, TARGET_MAX);
}

/* ---- programs ---- */

static const struct {
	unsigned int weight; /* of 256 */
	void (*act)(struct client *client);
} steps[] = {
	{ 70, begin_or_end },
	{ 8, map },
	{ 6, change_mapping },
	{ 1, end_context },
	{ 4, open_or_close },
	{ 1, close_device },
	{ 71, step_request },
	{ 10, step_request_mappings },
	{ 26, step_drop },
	{ 14, step_request_in_vain },
	{ 4, step_see_end },
	{ 10, step_ask_anywhere },
	{ 11, step_use },
	{ 1, step_change_fault },
	{ 6, step_request_by_dma_buf },
	{ 7, step_change },
	{ 1, step_make_room },
	{ 3, free_in_vain },
	{ 1, capture },
	{ 1, release },
};

void steps_take_one(struct client *client)
{
	uint32_t chosen = choose(&client->source, 256);
	unsigned int i = 0;

	if (world_operation == world_keep_end_at())
		call_end_keeping();
	while (chosen >= steps[i].weight)
		chosen -= steps[i++].weight;
	steps[i].act(client);
}

void steps_finish(struct client *client)
{
	for (unsigned int i = 0; i < HANDLES; i++)
		call_drop(client, i);
	for (unsigned int i = 0; i < ALLOCATIONS; i++) {
		struct model_memory *memory = &client->memories[i];

		if (!memory->size)
			continue;
		if (memory->kind == ALLOCATION_MAPPED)
			call_unmap(client, memory->base, memory->size, false);
		else
			call_free(client, memory, false);
	}
	for (unsigned int i = SHARED_PDS; i < PDS_OF_ONE; i++) {
		if (!client->pds[i]->open)
			continue;
		call_close_pd(client, i, false);
		if (client->pds[i]->open)
			broken("a protection domain cannot be closed, with no registration in a "
			       "client's "
			       "hands");
	}
}
