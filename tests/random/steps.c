/* SPDX-License-Identifier: BSD-3-Clause */
/* steps.c -- the next step of a client of a random program */
#include "random/steps.h"

#include <stdatomic.h>

#include "random/calls.h"

#define PHASE	   256 /* allocations and frees until the target changes */
#define TARGET_MAX (ALLOCATIONS - 8)

/* ---- operands ---- */

static struct model_memory *choose_memory(struct client *client)
{
	unsigned int start = choose(&client->source, ALLOCATIONS);

	for (unsigned int i = 0; i < ALLOCATIONS; i++) {
		struct model_memory *memory = &client->memories[(start + i) % ALLOCATIONS];

		if (memory->size)
			return memory;
	}
	return NULL;
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

/* A part of it, or all. */
static void choose_range(struct source *source, const struct model_memory *memory,
			 uint64_t *address, uint64_t *length)
{
	uint64_t offset = one_in(source, 2) ? choose(source, (uint32_t)memory->size) : 0;

	*address = memory->base + offset;
	*length = memory->size - offset;
	if (one_in(source, 2))
		*length = 1 + choose(source, (uint32_t)*length);
}

/* Fewer where many exist: an allocation is registered for the access flags of each protection
 * domain. */
static unsigned int choose_access(struct source *source, unsigned int pd)
{
	if (pd < SHARED_PDS)
		return one_in(source, 4) ? choose(source, RIGHTS_OF_REGIONS) : 0;
	return one_in(source, 8);
}

static CUcontext choose_context(struct client *client)
{
	return (CUcontext)&client->contexts[choose(&client->source, CONTEXTS)];
}

/* ---- memory ---- */

static void allocate(struct client *client)
{
	struct source *source = &client->source;
	uint64_t size = choose_size(source);
	bool own = one_in(source, 4), capable = !one_in(source, 32);

	if (one_in(source, 8))
		call_allocate(client, own, size, ALLOCATION_POOL, NULL, capable);
	else
		call_allocate(client, own, size, ALLOCATION_DEVICE, choose_context(client),
			      capable);
}

static void end_one(struct client *client)
{
	struct model_memory *memory = choose_memory(client);

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
	/* Rare: little is left afterwards. */
	if (one_in(&client->source, 8))
		call_end_context(client, choose_context(client), one_in(&client->source, 4));
}

/* ---- protection domains ---- */

static unsigned int choose_open_pd(struct client *client)
{
	unsigned int which = choose(&client->source, PDS_OF_ONE);

	return client->pds[which]->open ? which : 0;
}

static void open_or_close(struct client *client)
{
	unsigned int which = SHARED_PDS + choose(&client->source, OWN_PDS);

	if (!client->pds[which]->open)
		call_open_pd(client, which, one_in(&client->source, 2));
	else if (one_in(&client->source, 4))
		call_close_pd(client, which);
}

static void close_device(struct client *client)
{
	if (one_in(&client->source, 4))
		call_close_device(client);
}

/* ---- registrations ---- */

static void request(struct client *client)
{
	struct source *source = &client->source;
	struct model_memory *memory = choose_memory(client);
	unsigned int pd = choose_open_pd(client);
	uint64_t address, length;

	if (!memory)
		return;
	choose_range(source, memory, &address, &length);
	call_request(client, choose(source, HANDLES), one_in(source, 16), pd, one_in(source, 8),
		     address, length, address, model_access[choose_access(source, pd)]);
}

static void drop(struct client *client)
{
	call_drop(client, choose(&client->source, HANDLES));
}

static void request_by_dma_buf(struct client *client)
{
	struct source *source = &client->source;
	struct model_memory *memory = choose_memory(client);
	unsigned int pd = choose_open_pd(client);
	uint64_t address, length;

	/* Memory without access is not exported. */
	if (!memory || !memory->accessible)
		return;
	choose_range(source, memory, &address, &length);
	call_request_by_dma_buf(client, choose(source, HANDLES), pd, address, length,
				model_access[choose_access(source, pd)], one_in(source, 8));
}

static void change(struct client *client)
{
	struct source *source = &client->source;
	struct model_memory *memory = choose_memory(client);
	unsigned int pd = choose_open_pd(client), flags = 1 + choose(source, 7);
	uint64_t address, length;

	if (!memory)
		return;
	choose_range(source, memory, &address, &length);
	if (one_in(source, 8))
		length += memory->size;
	call_change(client, choose(source, HANDLES), flags, one_in(source, 2), pd, address, length,
		    model_access[choose_access(source, pd)]);
}

static void make_room(struct client *client)
{
	unsigned int device = one_in(&client->source, 2) ? SHARED_DEVICE : 1 + client->number;

	call_make_room(client, device,
		       choose(&client->source, 1 << 30) >> choose(&client->source, 30));
}

/* Requests that must not be served, for one reason each. */
static void request_in_vain(struct client *client)
{
	static const int private_flags[] = { IBV_ACCESS_ON_DEMAND, IBV_ACCESS_ZERO_BASED,
					     IBV_ACCESS_MW_BIND };
	struct source *source = &client->source;
	struct model_memory *memory = choose_memory(client);
	unsigned int pd = choose_open_pd(client), handle = choose(source, HANDLES);
	int access = model_access[choose_access(source, pd)];
	uint64_t address, length, iova;

	if (!memory)
		return;
	choose_range(source, memory, &address, &length);
	iova = address;
	switch (choose(source, 5)) {
	case 0:
		length = memory->base + memory->size - address + 1 + choose(source, 1 << 20);
		break;
	case 1:
		access |= private_flags[choose(source, 3)];
		break;
	case 2:
		iova += 1 + choose(source, 1 << 20);
		break;
	case 3:
		pd = PDS_OF_ONE;
		break;
	default:
		/* From this memory into the next. */
		address = iova = memory->base - 1;
		length = 2;
		if (model_memory_at(client, address))
			return;
	}
	call_request(client, handle, false, pd, false, address, length, iova, access);
}

static void see_end(struct client *client)
{
	unsigned int which = choose(&client->source, REMEMBERED);
	uint64_t base = client->freed[which].base, size = client->freed[which].size;

	if (!size)
		return;
	call_see_end(client, base, size);
	if (!model_overlaps(client, base, size))
		call_request(client, choose(&client->source, HANDLES), false,
			     choose_open_pd(client), false, base, size, base, model_access[0]);
}

static void find(struct client *client)
{
	struct source *source = &client->source;
	struct model_memory *memory = choose_memory(client);
	unsigned int pd = choose_open_pd(client), access_index = choose_access(source, pd);
	int requested = model_access[one_in(source, 16) ? choose_access(source, pd) : access_index];
	uint64_t address, length;

	if (!memory)
		return;
	choose_range(source, memory, &address, &length);
	if (one_in(source, 16))
		length = memory->base + memory->size - address + 1 + choose(source, 1 << 20);
	call_find(client, pd, access_index, requested, address, length);
}

static void find_held(struct client *client)
{
	const struct model_handle *held = &client->handles[choose(&client->source, HANDLES)];
	unsigned int access_index = 0, which = 0;

	if (!held->known || !held->alive)
		return;
	while (model_access[access_index] != held->access)
		access_index++;
	while (&client->pds[which]->pd != held->pd)
		which++;
	call_find(client, which, access_index, held->access, held->address, held->length);
}

/* Near a current event, or in the heap of all threads. */
static uint64_t choose_anywhere(struct source *source)
{
	uint64_t recent = atomic_load_explicit(&world_recent[choose(source, WORLD_THREADS)],
					       memory_order_relaxed);
	uint64_t block = one_in(source, 4) ? choose(source, SHARED_BLOCKS / 2) : choose(source, 8);

	if (recent && !one_in(source, 4))
		return recent;
	return HOME + block * BLOCK + choose(source, (uint32_t)(BLOCK / 512)) * 512;
}

static void ask_anywhere(struct client *client)
{
	uint64_t address = choose_anywhere(&client->source);
	unsigned int pd = choose_open_pd(client);

	if (one_in(&client->source, 4))
		call_take_offer(choose(&client->source, WORLD_THREADS));
	if (one_in(&client->source, 2))
		call_find_anywhere(client, pd, address);
	else
		call_request_anywhere(client, pd, address, 1 + choose(&client->source, 100));
}

static void use(struct client *client)
{
	struct model_memory *memory = choose_memory(client);

	call_use(client, choose(&client->source, HANDLES));
	if (memory)
		call_use_found(client, memory);
}

static void change_fault(struct client *client)
{
	struct source *source = &client->source;

	switch (choose(source, 8)) {
	case 0:
		world_set_fault(FAULT_CALL, choose(source, 8));
		break;
	case 1:
		world_set_fault(FAULT_BYTES, choose(source, 1 << 30) >> choose(source, 16));
		break;
	case 2:
		world_set_fault(FAULT_RANDOM, 2 + choose(source, 16));
		break;
	case 3:
		world_set_fault(FAULT_DELAY, 1 + choose(source, 3));
		break;
	default:
		world_set_fault(FAULT_NONE, 0);
	}
}

void steps_begin(struct client *client)
{
	client->target = choose(&client->source, TARGET_MAX);
}

/* ---- programs ---- */

static const struct {
	unsigned int weight; /* of 256 */
	void (*act)(struct client *client);
} steps[] = {
	{ 72, begin_or_end },
	{ 6, map },
	{ 6, change_mapping },
	{ 1, end_context },
	{ 4, open_or_close },
	{ 1, close_device },
	{ 44, request },
	{ 26, drop },
	{ 14, request_in_vain },
	{ 4, see_end },
	{ 22, find },
	{ 18, find_held },
	{ 10, ask_anywhere },
	{ 13, use },
	{ 1, change_fault },
	{ 6, request_by_dma_buf },
	{ 7, change },
	{ 1, make_room },
};

void steps_take_one(struct client *client)
{
	uint32_t chosen = choose(&client->source, 256);
	unsigned int i = 0;

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
		call_close_pd(client, i);
		if (client->pds[i]->open)
			broken("a protection domain cannot be closed, with no registration in a "
			       "client's "
			       "hands");
	}
}
