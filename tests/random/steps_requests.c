/* SPDX-License-Identifier: BSD-3-Clause */
/* steps_requests.c -- steps with registrations */
#include <stdatomic.h>

#include "random/calls.h"
#include "random/steps.h"

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

/* As clients do: UCX to 16 bytes, NCCL to pages, the first byte within the memory. */
static void choose_request(struct source *source, const struct model_memory *memory,
			   uint64_t *address, uint64_t *length)
{
	static const uint64_t units[] = { 1, 16, 256, 512, 4096 };
	uint64_t unit = units[choose(source, 5)], end, first;

	choose_range(source, memory, address, length);
	end = (*address + *length + unit - 1) / unit * unit;
	first = *address / unit * unit;
	if (first >= memory->base)
		*address = first;
	*length = end - *address;
}

/* Fewer where many exist: an allocation is registered for the access flags of each protection
 * domain. */
static unsigned int choose_access(struct source *source, unsigned int pd)
{
	if (pd < SHARED_PDS)
		return one_in(source, 4) ? choose(source, RIGHTS_OF_REGIONS) : 0;
	return one_in(source, 8);
}

static unsigned int choose_open_pd(struct client *client)
{
	unsigned int which = choose(&client->source, PDS_OF_ONE);

	return client->pds[which]->open ? which : 0;
}

/* ---- registrations ---- */

void step_request(struct client *client)
{
	struct source *source = &client->source;
	struct model_memory *memory = steps_choose_memory(client);
	unsigned int pd = choose_open_pd(client);
	uint64_t address, length;

	if (!memory)
		return;
	choose_request(source, memory, &address, &length);
	call_request(client, choose(source, HANDLES), one_in(source, 16), pd, one_in(source, 8),
		     address, length, address, model_access[choose_access(source, pd)]);
}

void step_drop(struct client *client)
{
	call_drop(client, choose(&client->source, HANDLES));
}

void step_request_by_dma_buf(struct client *client)
{
	struct source *source = &client->source;
	struct model_memory *memory = steps_choose_memory(client);
	unsigned int pd = choose_open_pd(client);
	uint64_t address, length;

	/* Memory without access is not exported. */
	if (!memory || !memory->accessible)
		return;
	choose_request(source, memory, &address, &length);
	call_request_by_dma_buf(client, choose(source, HANDLES), pd, address, length,
				model_access[choose_access(source, pd)], one_in(source, 8));
}

/* Over several mappings where they are adjacent. */
void step_request_mappings(struct client *client)
{
	struct source *source = &client->source;
	uint64_t at = world_reserved() + choose(source, MAPPED_BLOCKS) * BLOCK, address, length;
	struct model_memory *memory = model_memory_at(client, at);
	unsigned int pd = choose_open_pd(client), handle = choose(source, HANDLES);
	int access = model_access[choose_access(source, pd)];

	if (!memory || !memory->accessible)
		return;
	address = memory->base + one_in(source, 2) * choose(source, (uint32_t)memory->size);
	length = one_in(source, 4) ? 1 + choose(source, 8 * (uint32_t)BLOCK)
				   : memory->base + memory->size - address;
	/* To the end of further mappings. */
	while (one_in(source, 2) && (memory = model_memory_at(client, memory->base + memory->size)))
		length = memory->base + memory->size - address;
	if (one_in(source, 2))
		call_request(client, handle, false, pd, false, address, length, address, access);
	else
		call_request_by_dma_buf(client, handle, pd, address, length, access,
					one_in(source, 8));
}

void step_change(struct client *client)
{
	struct source *source = &client->source;
	struct model_memory *memory = steps_choose_memory(client);
	unsigned int pd = choose_open_pd(client), flags = 1 + choose(source, 7);
	uint64_t address, length;

	if (!memory)
		return;
	choose_request(source, memory, &address, &length);
	if (one_in(source, 8))
		length += memory->size;
	call_change(client, choose(source, HANDLES), flags, one_in(source, 2), pd, address, length,
		    model_access[choose_access(source, pd)]);
}

void step_make_room(struct client *client)
{
	unsigned int device = one_in(&client->source, 2) ? SHARED_DEVICE : 1 + client->number;

	if (!world_has_faults())
		return;
	call_make_room(client, device,
		       choose(&client->source, 1 << 30) >> choose(&client->source, 30));
}

/* Requests that must not be served, for one reason each. */
void step_request_in_vain(struct client *client)
{
	static const int private_flags[] = { IBV_ACCESS_ON_DEMAND, IBV_ACCESS_ZERO_BASED,
					     IBV_ACCESS_MW_BIND };
	struct source *source = &client->source;
	struct model_memory *memory = steps_choose_memory(client);
	unsigned int pd = choose_open_pd(client), handle = choose(source, HANDLES);
	int access = model_access[choose_access(source, pd)];
	uint64_t address, length, iova;

	if (!memory)
		return;
	choose_request(source, memory, &address, &length);
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

void step_see_end(struct client *client)
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

void step_ask_anywhere(struct client *client)
{
	uint64_t address = choose_anywhere(&client->source);
	unsigned int pd = choose_open_pd(client);

	if (one_in(&client->source, 4))
		call_take_offer(choose(&client->source, WORLD_THREADS));
	if (one_in(&client->source, 2))
		call_find_anywhere(address);
	else
		call_request_anywhere(client, pd, address, 1 + choose(&client->source, 100));
}

void step_use(struct client *client)
{
	call_use(client, choose(&client->source, HANDLES));
}

void step_change_fault(struct client *client)
{
	struct source *source = &client->source;

	if (!world_has_faults())
		return;
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
