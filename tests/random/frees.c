/* SPDX-License-Identifier: BSD-3-Clause */
/* frees.c -- frees, ends of contexts, captures */
#include <stdatomic.h>
#include <stddef.h>

#include "memory/memory.h"
#include "random/calls.h"

static enum memory_free call_of(const struct model_memory *memory)
{
	return memory->kind == ALLOCATION_HOST ? FREE_HOST : FREE_DEVICE;
}

/* The driver refused to end it. */
static void see_refused(struct model_memory *memory, uint64_t record)
{
	struct allocation found;

	if (!memory_find(memory->base, &found) || found.base != memory->base)
		broken("memory at 0x%llx is not known after the driver refused its end",
		       (unsigned long long)memory->base);
	world_record_ended(memory->base, record);
	memory->event_id = 0;
}

void call_free(struct client *client, struct model_memory *memory, bool refused)
{
	uint64_t base = memory->base, size = memory->size;
	struct allocation ended;
	bool own = memory->own;

	atomic_store_explicit(&world_recent[client->number], base, memory_order_relaxed);
	if (client->keeps && call_keep(client, memory))
		return;
	model_memory_ending(client, memory);
	world_keep_begin();
	if (!memory_freeing(call_of(memory), base, &ended))
		broken("memory at 0x%llx is not known at its end", (unsigned long long)base);
	if (ended.base != base || ended.size != size)
		broken("memory at 0x%llx, %llu bytes, ends as that at 0x%llx, %llu bytes",
		       (unsigned long long)base, (unsigned long long)size,
		       (unsigned long long)ended.base, (unsigned long long)ended.size);
	let_others_go_first(client, 8);
	if (refused) {
		memory_free_refused(&ended);
		world_keep_end();
		see_refused(memory, ended.id);
		client->totals.refused_ends++;
		return;
	}
	world_free(base);
	world_keep_end();
	model_memory_freed(client, memory);
	if (own)
		call_see_end(client, base, size);
}

void call_free_in_vain(struct client *client, enum memory_free call, uint64_t address)
{
	struct allocation ended;
	uint64_t visible;

	world_keep_begin();
	if (keep_free(call, address))
		broken("a free of 0x%llx, which the driver refuses, keeps memory",
		       (unsigned long long)address);
	world_keep_end();
	visible = keep_visible(address);
	if (memory_freeing(call, visible, &ended))
		broken("a free of 0x%llx, which the driver refuses, ends memory at 0x%llx",
		       (unsigned long long)address, (unsigned long long)ended.base);
	client->totals.untracked_frees++;
	world_must_not_be_kept(visible);
}

/* ---- contexts ---- */

static bool is_of(const struct model_memory *memory, CUcontext context)
{
	return memory->size && memory->context == context;
}

/* A refusal is possible of a call that peerpin intercepts only. */
static void end_seen(struct client *client, CUcontext context, bool refused)
{
	struct pending_frees *frees;

	if (client->keeps) {
		keep_release_context(context);
		world_must_keep_nothing(context);
	}
	frees = memory_context_freeing(context);
	let_others_go_first(client, 8);
	if (!refused) {
		world_context_ended(context, true);
		memory_context_released(context);
	}
	memory_frees_settled(frees, refused);
}

/* One at a time: each ends the records of all contexts. */
static void end_by_query(struct client *client, CUcontext context)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&lock);
	world_context_ended(context, false);
	let_others_go_first(client, 8);
	memory_end_unreported();
	if (client->keeps) {
		keep_forget_ended();
		/* Another thread's release may have the last regions. */
		keep_release_context(context);
	}
	world_context_settled(context);
	pthread_mutex_unlock(&lock);
}

void call_end_context(struct client *client, CUcontext context, bool refused, bool by_query)
{
	uint64_t records[ALLOCATIONS];
	struct allocation found;

	for (unsigned int i = 0; i < ALLOCATIONS; i++) {
		if (!is_of(&client->memories[i], context))
			continue;
		memory_find(client->memories[i].base, &found);
		records[i] = found.id;
		model_memory_ending(client, &client->memories[i]);
	}
	world_keep_begin();
	if (by_query)
		end_by_query(client, context);
	else
		end_seen(client, context, refused);
	world_keep_end();
	refused &= !by_query;
	client->totals.refused_ends += refused;
	for (unsigned int i = 0; i < ALLOCATIONS; i++) {
		if (!is_of(&client->memories[i], context))
			continue;
		if (refused)
			see_refused(&client->memories[i], records[i]);
		else
			model_memory_freed(client, &client->memories[i]);
	}
}

/* ---- captures ---- */

void call_capture(struct client *client, struct model_memory *memory)
{
	const struct keep_request request = { .kind = ALLOCATION_DEVICE, .size = memory->size };
	CUcontext context = memory->context;
	uint64_t kept = client->totals.kept, reused = client->totals.reused;
	bool counted = captures_begin();

	world_captures++;
	captures_begun(counted, CUDA_SUCCESS);
	call_free(client, memory, false);
	call_allocate(client, false, &request, context, true);
	if (client->totals.kept != kept || client->totals.reused != reused)
		broken("memory is kept or reused during a capture");
	world_captures--;
	captures_ended();
}
