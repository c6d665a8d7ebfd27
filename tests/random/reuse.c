/* SPDX-License-Identifier: BSD-3-Clause */
/* reuse.c -- frees that keep memory, allocations that reuse it, and memory hidden meanwhile */
#include <stddef.h>

#include "base/config.h"
#include "memory/memory.h"
#include "memory/driver.h"
#include "memory/queries.h"
#include "random/calls.h"

/* ---- registrations of kept memory ---- */

/* The next allocation of the record's slot ends the regions, maybe before the event of the release
 * does: the record has ended before both. */
enum world_life call_life(const struct model_handle *held)
{
	const struct allocation *record = &held->record;
	enum world_life life = held->known && held->alive && held->kept
				       ? world_life(held->address, record->buffer_id, record->id)
				       : WORLD_GONE;

	return life == WORLD_LIVES && !memory_is_live(record) ? WORLD_ENDING : life;
}

void call_settle_kept(struct client *client, const struct model_handle *held,
		      enum world_life before, bool dropped)
{
	if (before == WORLD_GONE && model_may_share(held)) {
		client->totals.perhaps++;
	} else if (before == WORLD_GONE) {
		client->totals.revoked++;
		client->totals.late += dropped;
	} else if (call_life(held) != WORLD_LIVES) {
		client->totals.perhaps++;
	}
}

/* A region of the memory in a protection domain of all threads, which stays open. */
static struct world_region region_of(struct client *client, const struct model_memory *memory)
{
	const struct model_handle *held = client->handles;

	for (unsigned int i = 0; i < HANDLES; i++, held++) {
		if (held->known && held->alive && held->memory == memory && !held->kept &&
		    (held->pd == &client->pds[0]->pd || held->pd == &client->pds[1]->pd))
			return (struct world_region){ held->pd, held->access, held->address,
						      held->length };
	}
	return (struct world_region){ 0 };
}

/* Idle regions end only by an eviction. */
static bool is_never_evicted(void)
{
	return config_get()->pin_limit == CONFIG_AUTO && !world_region_limit();
}

/* A request of the range that is registered needs no registration, unless a failure in another
 * thread, which may evict, came in between. The keys may be others: the worker may have registered
 * the whole in place of a part. */
static void request_again(struct client *client, const struct world_reused *reused)
{
	const struct world_region *region = &reused->region;
	unsigned int pd = region->pd != &client->pds[0]->pd;
	uint64_t pins = world_watched_pins;

	world_watched = region;
	call_request(client, 0, false, pd, false, region->address, region->length, region->address,
		     region->access);
	world_watched = NULL;
	if (world_watched_pins != pins && world_failures() == reused->failures)
		broken("reused memory at 0x%llx, %llu bytes, is registered again",
		       (unsigned long long)region->address, (unsigned long long)region->length);
}

/* ---- events ---- */

static void must_have_events(const char *call, unsigned int freeing, unsigned int allocated,
			     const struct world_events *before)
{
	if (world_events.freeing - before->freeing != freeing ||
	    world_events.allocated - before->allocated != allocated)
		broken("%s: the program's subscribers receive %u frees and %u allocations", call,
		       world_events.freeing - before->freeing,
		       world_events.allocated - before->allocated);
}

static bool has_events(const struct model_memory *memory)
{
	return memory->kind != ALLOCATION_HOST;
}

/* ---- frees ---- */

static bool may_be_kept(const struct model_memory *memory, bool unwanted)
{
	return !unwanted && memory->context &&
	       (memory->kind == ALLOCATION_DEVICE || memory->kind == ALLOCATION_HOST);
}

/* Host memory always: for device memory, what the library has learned counts, too (its unit tests).
 * Reasons that another thread gives are not known. */
static bool must_be_kept(const struct model_memory *memory, bool fails)
{
	unsigned int version;

	return world_threads == 1 && memory->kind == ALLOCATION_HOST && !fails &&
	       !captures_may_be_open() &&
	       world_driver.cuCtxGetApiVersion(NULL, &version) != CUDA_ERROR_CONTEXT_IS_DESTROYED &&
	       world_is_keepable(memory->base);
}

static void see_kept(struct client *client, struct model_memory *memory, uint64_t number,
		     const struct world_events *before, const struct allocation *found)
{
	uint64_t base = memory->base, size = memory->size;
	bool own = memory->own;

	must_have_events("a free that keeps", has_events(memory), 0, before);
	if (has_events(memory) &&
	    (world_events.base != base ||
	     world_events.freeing_id != (memory->event_id ? memory->event_id : found->id)))
		broken("a free that keeps 0x%llx is reported as that of event id %llu",
		       (unsigned long long)base, (unsigned long long)world_events.freeing_id);
	if (world_waited != memory->context)
		broken("memory at 0x%llx is kept without a wait for its context",
		       (unsigned long long)base);
	world_has_kept(base, number);
	model_memory_kept(client, memory, found);
	model_memory_freed(client, memory);
	client->totals.kept++;
	if (own)
		call_see_end(client, base, size);
}

bool call_keep(struct client *client, struct model_memory *memory)
{
	bool is_host = memory->kind == ALLOCATION_HOST, fails = one_in(&client->source, 32);
	struct world_region region = region_of(client, memory);
	struct world_events before = world_events;
	struct allocation found;
	bool must, keeps, unwanted, ended = world_keeps_no_more;
	uint64_t number, refused = world_refused;

	if (!memory_find(memory->base, &found) || found.base != memory->base)
		broken("memory at 0x%llx is not known at its free",
		       (unsigned long long)memory->base);
	for (unsigned int i = 0; i < HANDLES; i++) {
		if (client->handles[i].memory == memory)
			call_use(client, i);
	}
	/* The limit may depend on the current context's GPU. */
	if (memory->context && !one_in(&client->source, 4))
		world_enter(memory->context);
	must = !ended && refused == world_settled && must_be_kept(memory, fails);
	world_fail_waits(fails);
	world_waited = NULL;
	world_keep_begin();
	number = world_give_up(memory->base, &region);
	keeps = keep_free(is_host ? FREE_HOST : FREE_DEVICE, memory->base);
	unwanted = ended || refused > world_settled;
	if (keeps && !may_be_kept(memory, unwanted))
		broken("a free keeps 0x%llx, against reasons", (unsigned long long)memory->base);
	if (keeps)
		see_kept(client, memory, number, &before, &found);
	else
		world_take_back(memory->base);
	world_keep_end();
	if (keeps)
		return true;
	if (must)
		broken("a free of 0x%llx keeps nothing, for no reason",
		       (unsigned long long)memory->base);
	if (world_threads == 1 && !captures_may_be_open() && unwanted && may_be_kept(memory, false))
		world_must_have_released(memory->base);
	if (keep_visible(memory->base) != memory->base)
		broken("memory at 0x%llx, which is not kept, is hidden",
		       (unsigned long long)memory->base);
	if (world_events.allocated != before.allocated)
		memory->event_id = world_events.allocated_id;
	must_have_events("a free that keeps nothing", world_events.allocated - before.allocated,
			 world_events.allocated - before.allocated, &before);
	return false;
}

_Atomic uint64_t world_refused, world_settled;

bool call_release(struct keep_refusal *refusal, int device, uint64_t bytes)
{
	uint64_t kept = world_kept_at(device), left = kept;
	bool first = !refusal->tries, must = kept, releases;
	size_t unused, total;

	if (bytes && device == KEEP_CURRENT &&
	    world_driver.cuMemGetInfo_v2(&unused, &total) == CUDA_SUCCESS)
		/* This driver counts sizes, of which blocks are at most twice. */
		must = must && unused + kept / 2 >= bytes;
	world_keep_begin();
	releases = keep_retry(refusal, device, bytes);
	world_keep_end();
	world_refused += first;
	/* Pools have memory that may come back, too. */
	if (must || releases)
		left = 0;
	/* Other threads release, and keep, meanwhile. */
	if (world_threads == 1 &&
	    (releases < must || releases > (kept != 0) || world_kept_at(device) != left))
		broken("%llu bytes are wanted, and of %llu kept ones %llu stay",
		       (unsigned long long)bytes, (unsigned long long)kept,
		       (unsigned long long)world_kept_at(device));
	return releases;
}

void call_release_idle(void)
{
	uint64_t kept = world_kept_at(KEEP_DEVICES) + world_kept_at(KEEP_HOST), left;
	bool releases;

	world_keep_begin();
	releases = keep_release_idle();
	world_keep_end();
	left = world_kept_at(KEEP_DEVICES) + world_kept_at(KEEP_HOST);
	/* Other threads release, and keep, meanwhile; a capture may be open, and a wait may fail.
	 */
	if (world_threads == 1 && releases != (left < kept))
		broken("%s is released of %llu kept bytes, and %llu stay",
		       releases ? "some" : "nothing", (unsigned long long)kept,
		       (unsigned long long)left);
}

void call_settled(const struct keep_refusal *refusal)
{
	world_settled += refusal->tries != 0;
	keep_settled(refusal);
}

_Atomic bool world_keeps_no_more;

void call_end_keeping(void)
{
	keep_end();
	world_keeps_no_more = true;
}

/* ---- reuse ---- */

/* A client that has seen no free keeps the size of the first use. */
static void must_be_whole(const struct keep_request *request, uint64_t base, uint64_t whole)
{
	CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_RANGE_SIZE;
	uint64_t size = 0;
	void *data = &size;

	if (request->kind != ALLOCATION_DEVICE)
		return;
	if (queries_get_list(world_driver.cuPointerGetAttributes, 1, &attribute, &data, base) !=
		    CUDA_SUCCESS ||
	    size != whole || keep_visible(base + whole - 1) != base + whole - 1)
		broken("reused memory at 0x%llx has %llu bytes, of %llu", (unsigned long long)base,
		       (unsigned long long)size, (unsigned long long)whole);
}

static void see_reused(struct client *client, struct model_memory *memory,
		       const struct keep_request *request, CUcontext context, uint64_t base,
		       const struct world_events *before)
{
	struct world_reused reused = world_reuse(base, context, request);
	struct allocation found;

	*memory = (struct model_memory){ .base = base,
					 .size = reused.size,
					 .context = context,
					 .kind = request->kind,
					 .own = reused.own,
					 .rdma_capable = reused.rdma_capable,
					 .accessible = true };
	must_have_events("an allocation that reuses", 0, has_events(memory), before);
	if (has_events(memory)) {
		memory->event_id = world_events.allocated_id;
		if (world_events.base != base || memory->event_id <= before->allocated_id)
			broken("a reuse of 0x%llx is reported with event id %llu, after %llu",
			       (unsigned long long)base, (unsigned long long)memory->event_id,
			       (unsigned long long)before->allocated_id);
	}
	if (!memory_find(base, &found) || found.base != base || found.size != reused.size ||
	    found.kind != request->kind || found.context != context || found.hidden)
		broken("reused memory at 0x%llx is not known", (unsigned long long)base);
	client->totals.reused++;
	if (request->kind == ALLOCATION_HOST)
		client->totals.host_allocations++;
	else
		client->totals.allocations++;
	must_be_whole(request, base, reused.size);
	if (reused.region.pd && is_never_evicted())
		request_again(client, &reused);
}

bool call_reuse(struct client *client, struct model_memory *memory,
		const struct keep_request *request, CUcontext context)
{
	struct world_events before = world_events;
	uint64_t pins = world_own_pins, releases = world_own_releases, expected;
	CUdeviceptr base = 0;
	bool reuses, ended = world_keeps_no_more;

	world_waited = NULL;
	expected = world_reuse_begins(context, request);
	reuses = keep_allocate(request, &base);
	if (world_own_pins != pins)
		broken("an allocation that reuses 0x%llx registers", (unsigned long long)base);
	if (world_waited || world_own_releases != releases)
		broken("an allocation waits, or releases kept memory");
	if (ended || captures_may_be_open())
		expected = 0;
	if (world_threads == 1 && base != expected && expected != WORLD_UNKNOWN)
		broken("an allocation gets kept memory at 0x%llx, and the last equal is at 0x%llx",
		       (unsigned long long)base, (unsigned long long)expected);
	if (reuses && ended)
		broken("kept memory at 0x%llx is reused after keep_end()",
		       (unsigned long long)base);
	if (reuses)
		see_reused(client, memory, request, context, base, &before);
	world_reuse_ends(context);
	return reuses;
}

void call_see_end(struct client *client, uint64_t base, uint64_t size)
{
	struct registration_request request = { .address = base, .length = size };
	struct allocation allocation;

	if (model_overlaps(client, base, size))
		return;
	if (memory_find(base, &allocation) || memory_find(base + size - 1, &allocation))
		broken("memory at 0x%llx is found after its end", (unsigned long long)base);
	if (registration_concerns(&request))
		broken("memory at 0x%llx is a concern after its end", (unsigned long long)base);
}

/* ---- queries ---- */

/* The driver refuses a single query of unknown memory. */
static CUresult get_forwarded(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
	void *list[] = { data };
	CUresult result;

	world_must_not_be_kept(address);
	result = world_driver.cuPointerGetAttributes(1, &attribute, list, address);
	return *(uint64_t *)data ? result : CUDA_ERROR_INVALID_VALUE;
}

void call_query_freed(struct client *client, uint64_t address)
{
	uint64_t buffer_id = 0;

	if (model_memory_at(client, address) || !queries_are_on())
		return;
	/* What the other calls are forwarded with. */
	world_must_not_be_kept(keep_visible(address));
	if (queries_get(get_forwarded, &buffer_id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address) !=
		    CUDA_ERROR_INVALID_VALUE ||
	    buffer_id)
		broken("a query finds freed memory at 0x%llx", (unsigned long long)address);
}
