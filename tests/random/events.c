/* SPDX-License-Identifier: BSD-3-Clause */
/* events.c -- allocations, mappings, protection domains, devices */
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>

#include "random/calls.h"

void let_others_go_first(struct client *client, uint32_t one_time_in)
{
	if (!one_in(&client->source, one_time_in))
		return;
	for (uint32_t times = 1 + choose(&client->source, one_time_in == 1 ? 64 : 8); times;
	     times--)
		sched_yield();
}

/* An allocation in progress, which another thread may free once the library records it, as the end
 * of a context does. */
#define OFFER_TAKEN    ((uint64_t)1)
#define OFFER_FREED    ((uint64_t)2)
#define OFFER_DECLINED ((uint64_t)3)
static _Atomic uint64_t offers[WORLD_THREADS];

void call_take_offer(unsigned int thread)
{
	uint64_t base = offers[thread], result = OFFER_DECLINED;
	struct allocation ended;

	if (base <= OFFER_DECLINED ||
	    !atomic_compare_exchange_strong(&offers[thread], &base, OFFER_TAKEN))
		return;
	for (unsigned int i = 0; i < 1000 && result == OFFER_DECLINED; i++) {
		if (!memory_find(base, &ended) || ended.base != base)
			continue;
		if (!memory_freeing(FREE_DEVICE, base, &ended))
			broken("memory at 0x%llx is found, and not known at its end",
			       (unsigned long long)base);
		world_free(base);
		result = OFFER_FREED;
	}
	offers[thread] = result;
}

/* True: another thread freed it. */
static bool withdraw_offer(unsigned int thread, uint64_t base)
{
	bool freed;

	if (atomic_compare_exchange_strong(&offers[thread], &base, 0))
		return false;
	while (offers[thread] == OFFER_TAKEN)
		sched_yield();
	freed = offers[thread] == OFFER_FREED;
	offers[thread] = 0;
	return freed;
}

/* As the wrappers of the driver's allocations. 0: no room. */
static uint64_t allocate(struct client *client, bool own, const struct keep_request *request,
			 CUcontext context, bool rdma_capable)
{
	int device = request->kind == ALLOCATION_HOST ? KEEP_HOST : KEEP_CURRENT;
	struct keep_refusal refusal = { 0 };
	uint64_t base;

	do {
		refusal.ended = keep_releases_ended;
		base = world_allocate(own, request, context, rdma_capable);
	} while (!base && client->keeps && context &&
		 call_release(&refusal, device, request->size));
	call_settled(&refusal);
	return base;
}

static void record(const struct client *client, const struct keep_request *request, uint64_t base)
{
	memory_allocated(request->kind, base, request->size);
	if (request->kind == ALLOCATION_HOST && client->keeps)
		keep_allocated_host(request, base);
}

void call_allocate(struct client *client, bool own, const struct keep_request *request,
		   CUcontext context, bool rdma_capable)
{
	struct model_memory *memory = model_unused_memory(client);
	bool is_offered =
		!own && (request->kind == ALLOCATION_DEVICE || request->kind == ALLOCATION_POOL);
	uint64_t base;

	if (!memory)
		return;
	if (context)
		world_enter(context);
	if (context && client->keeps && call_reuse(client, memory, request, context))
		return;
	base = allocate(client, own, request, context, rdma_capable);
	if (!base)
		return;
	*memory = (struct model_memory){ .base = base,
					 .size = request->size,
					 .context = context,
					 .kind = request->kind,
					 .own = own,
					 .rdma_capable = rdma_capable,
					 .accessible = true };
	if (request->kind == ALLOCATION_HOST)
		client->totals.host_allocations++;
	else
		client->totals.allocations++;
	atomic_store_explicit(&world_recent[client->number], base, memory_order_relaxed);
	if (is_offered)
		offers[client->number] = base;
	let_others_go_first(client, 8);
	record(client, request, base);
	if (is_offered && withdraw_offer(client->number, base))
		model_memory_freed(client, memory);
}

void call_map(struct client *client, unsigned int first, unsigned int blocks, bool rdma_capable)
{
	struct model_memory *memory = model_unused_memory(client);
	uint64_t base = world_reserved() + first * BLOCK, size = blocks * BLOCK;

	if (!memory || model_overlaps(client, base, size))
		return;
	world_map(base, size, rdma_capable);
	*memory = (struct model_memory){ .base = base,
					 .size = size,
					 .kind = ALLOCATION_MAPPED,
					 .own = true,
					 .rdma_capable = rdma_capable };
	client->totals.allocations++;
	memory_allocated(ALLOCATION_MAPPED, base, size);
}

/* The driver unmaps whole mappings only: here all at once. */
static bool is_cut(struct client *client, uint64_t base, uint64_t size)
{
	const struct model_memory *at_base = model_memory_at(client, base);
	const struct model_memory *at_end = model_memory_at(client, base + size - 1);

	return (at_base && at_base->base < base) ||
	       (at_end && at_end->base + at_end->size > base + size);
}

void call_unmap(struct client *client, uint64_t base, uint64_t size, bool refused)
{
	bool cut = is_cut(client, base, size);
	struct pending_frees *frees;

	for (unsigned int i = 0; !cut && i < ALLOCATIONS; i++) {
		if (client->memories[i].size && client->memories[i].base - base < size)
			model_memory_ending(client, &client->memories[i]);
	}
	frees = memory_range_freeing(base, size);
	let_others_go_first(client, 8);
	if (cut && frees)
		broken("a part of a mapping is unmapped, which the driver refuses, and memory "
		       "ended for it");
	refused |= cut;
	client->totals.refused_ends += refused;
	for (unsigned int i = 0; !refused && i < ALLOCATIONS; i++) {
		if (!client->memories[i].size || client->memories[i].base - base >= size)
			continue;
		world_free(client->memories[i].base);
		model_memory_freed(client, &client->memories[i]);
	}
	memory_frees_settled(frees, refused);
	if (!refused)
		call_see_end(client, base, size);
}

void call_set_access(struct client *client, struct model_memory *memory, bool accessible)
{
	if (!accessible) {
		if (memory->accessible)
			model_memory_ending(client, memory);
		memory_access_ending(memory->base, memory->size, 0);
		let_others_go_first(client, 8);
	}
	world_set_access(memory->base, accessible);
	memory->accessible = accessible;
	memory_access_settled(memory->base, memory->size);
}

void call_open_pd(struct client *client, unsigned int which, bool own_device)
{
	struct model_pd *pd = client->pds[which];

	pd->device = own_device ? 1 + client->number : SHARED_DEVICE;
	world_pd_open(pd->device, &pd->pd);
	pd->parent = pd->pd;
	pd->open = true;
	registration_pd_opened(&pd->pd, false);
}

/* `used`: the client has another object there, so the kernel refuses. */
void call_close_pd(struct client *client, unsigned int which, bool used)
{
	struct model_pd *pd = client->pds[which];
	struct model_memory *memory = &client->memories[0];
	unsigned int held;

	call_drop(client, 0); /* used below */
	held = model_held_in(client, &pd->pd);
	if (registration_pd_closing(&pd->pd) != !held)
		broken("a protection domain with %u client MRs is %sbusy", held,
		       held ? "not " : "");
	if (held)
		return;
	pd->open = false;
	if (memory->size)
		call_request(client, 0, false, which, false, memory->base, memory->size,
			     memory->base, model_access[0]);
	let_others_go_first(client, 1);
	if (!used)
		world_pd_end(&pd->pd);
	let_others_go_first(client, 1);
	registration_pd_closed(&pd->pd, !used);
	if (used)
		pd->open = true;
	else
		model_pd_ended(client, which);
}

void call_close_device(struct client *client)
{
	unsigned int number = 1 + client->number;

	registration_context_closing(world_device(number));
	let_others_go_first(client, 1);
	world_device_close(number);
	for (unsigned int i = SHARED_PDS; i < PDS_OF_ONE; i++) {
		if (client->pds[i]->open && client->pds[i]->device == number)
			model_pd_ended(client, i);
	}
}
