/* SPDX-License-Identifier: BSD-3-Clause */
/* calls.c -- registrations, each answer compared with the model */
#include "random/calls.h"

#include <stddef.h>

#include "base/config.h"

static void count_refused(struct model_totals *totals, unsigned int reasons)
{
	totals->forwarded++;
	totals->range += reasons == REASON_RANGE;
	totals->flags += reasons == REASON_FLAGS;
	totals->address += reasons == REASON_ADDRESS;
	totals->capability += reasons == REASON_CAPABILITY;
	totals->domain += reasons == REASON_DOMAIN;
	totals->ended += reasons == REASON_ENDED;
}

static void keep(struct client *client, unsigned int handle,
		 const struct registration_request *request, const struct ibv_pd *pd,
		 const struct registration_keys *keys, enum world_life before)
{
	const struct model_handle *held = &client->handles[handle];
	struct model_memory *memory = model_memory_at(client, request->address);
	bool spans = !model_serves(memory, request->address, request->length);

	if (held->known && held->alive && held->kept)
		call_settle_kept(client, held, before, false);
	client->handles[handle] = (struct model_handle){ .known = true,
							 .alive = true,
							 .memory = memory,
							 .pd = pd,
							 .address = request->address,
							 .length = request->length,
							 .access = request->access,
							 .lkey = keys->lkey,
							 .rkey = keys->rkey,
							 .spans = spans };
	client->totals.served++;
}

/* The provider reused the struct without a deregistration through the library. A forwarded request
 * then leaves it open which one it stands for. */
static void settle_unserved(struct client *client, unsigned int handle, const void *key)
{
	struct model_handle *held = &client->handles[handle];

	if (!held->known)
		return;
	client->totals.perhaps += !held->alive || held->kept;
	held->known = false;
	registration_drop(key);
}

/* Failures of parts end further tries in the memory. */
static bool has_failed(struct client *client, uint64_t address, uint64_t length)
{
	const struct model_memory *memory = model_memory_at(client, address);

	if (!model_serves(memory, address, length) &&
	    has_failed(client, memory->base + memory->size,
		       length - (memory->base + memory->size - address)))
		return true;
	for (uint64_t at = memory->base; at < memory->base + memory->size; at += GRANULE) {
		if (world_has_failed(at))
			return true;
	}
	return world_has_failed(memory->base + memory->size - 1);
}

/* Request, and compare the answer with the model's reasons against it. */
static bool is_served(struct client *client, const struct registration_request *request,
		      unsigned int reasons, bool at_once, struct registration_keys *keys)
{
	client->totals.requests++;
	if (!(at_once && registration_hit(request, keys)) && !registration_request(request, keys)) {
		count_refused(&client->totals, reasons);
		client->totals.failed += !reasons;
		/* With a pin limit from the settings, client MRs may leave no room. */
		if (!reasons && !has_failed(client, request->address, request->length) &&
		    config_get()->pin_limit == CONFIG_AUTO)
			broken("a request at 0x%llx, %llu bytes, access flags 0x%x, is not served, "
			       "though nothing "
			       "has failed there",
			       (unsigned long long)request->address,
			       (unsigned long long)request->length, request->access);
		return false;
	}
	if (reasons)
		broken("a request at 0x%llx, %llu bytes, access flags 0x%x, is served, against "
		       "reasons "
		       "0x%x",
		       (unsigned long long)request->address, (unsigned long long)request->length,
		       request->access, reasons);
	return true;
}

static void forwarded(struct client *client, unsigned int handle)
{
	const void *key = &client->structs[handle];

	settle_unserved(client, handle, key);
	if (registration_holds(key))
		broken("a request is not served, and its handle is known");
}

void call_request(struct client *client, unsigned int handle, bool over, unsigned int which,
		  bool by_parent, uint64_t address, uint64_t length, uint64_t iova, int access)
{
	struct model_pd *model_pd = which < PDS_OF_ONE ? client->pds[which] : NULL;
	struct ibv_pd unknown = { .context = world_device(SHARED_DEVICE), .handle = 9999 };
	struct registration_request request = { .pd = !model_pd	  ? &unknown
						      : by_parent ? &model_pd->parent
								  : &model_pd->pd,
						.address = address,
						.length = length,
						.iova = iova,
						.access = access,
						.client_mr = &client->structs[handle] };
	unsigned int reasons =
		model_refuses(client, model_pd, address, length, iova, access, false);
	struct registration_keys keys = { 0 };

	enum world_life before;

	if (!over)
		call_drop(client, handle);
	before = call_life(&client->handles[handle]);
	/* As the wrappers: at once if possible. */
	if (!is_served(client, &request, reasons, true, &keys)) {
		forwarded(client, handle);
		return;
	}
	keep(client, handle, &request, &model_pd->pd, &keys, before);
	call_use(client, handle);
}

void call_request_by_dma_buf(struct client *client, unsigned int handle, unsigned int which,
			     uint64_t address, uint64_t length, int access, bool stale)
{
	const struct model_pd *model_pd = client->pds[which];
	struct registration_request request = { .pd = (struct ibv_pd *)&model_pd->pd,
						.address = address,
						.length = length,
						.iova = address,
						.access = access,
						.dma_buf = true,
						.client_mr = &client->structs[handle] };
	unsigned int reasons =
		model_refuses(client, model_pd, address, length, address, access, true);
	struct model_memory *memory = model_memory_at(client, address), *next = memory;
	struct registration_keys keys = { 0 };
	enum world_life before = WORLD_GONE; /* dropped */
	struct allocation allocation;

	if (!memory_find(address, &allocation))
		broken("memory at 0x%llx is not found", (unsigned long long)address);
	request.youngest = allocation.id - stale;
	while (!stale && !model_serves(next, address, length) &&
	       (next = model_next_mapping(client, next, true))) {
		if (!memory_find(next->base, &allocation))
			broken("memory at 0x%llx is not found", (unsigned long long)next->base);
		if (allocation.id > request.youngest)
			request.youngest = allocation.id;
	}
	reasons |= stale ? REASON_ENDED : 0;
	call_drop(client, handle);
	if (!is_served(client, &request, reasons, false, &keys)) {
		forwarded(client, handle);
		return;
	}
	keep(client, handle, &request, &model_pd->pd, &keys, before);
	call_use(client, handle);
}

static struct model_pd *pd_of(struct client *client, const struct model_handle *held)
{
	unsigned int which = 0;

	while (&client->pds[which]->pd != held->pd)
		which++;
	return client->pds[which];
}

void call_change(struct client *client, unsigned int handle, unsigned int flags, bool refused,
		 unsigned int which, uint64_t address, uint64_t length, int access)
{
	struct model_handle *held = &client->handles[handle];
	struct model_pd *model_pd;
	struct registration_request request = { .client_mr = &client->structs[handle] };
	struct registration_keys keys = { 0 };
	enum world_life before;
	unsigned int reasons;

	if (!held->known)
		return;
	/* Where memory or protection domain has ended, the client holds nothing. */
	before = call_life(held);
	if (!held->alive || held->kept)
		flags |= IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_TRANSLATION;
	call_use(client, handle);
	model_pd = flags & IBV_REREG_MR_CHANGE_PD ? client->pds[which] : pd_of(client, held);
	request.pd = &model_pd->pd;
	request.address = request.iova =
		flags & IBV_REREG_MR_CHANGE_TRANSLATION ? address : held->address;
	request.length = flags & IBV_REREG_MR_CHANGE_TRANSLATION ? length : held->length;
	request.access = flags & IBV_REREG_MR_CHANGE_ACCESS ? access : held->access;
	reasons = model_refuses(client, model_pd, request.address, request.length, request.iova,
				request.access, false);
	if (is_served(client, &request, reasons, false, &keys))
		keep(client, handle, &request, &model_pd->pd, &keys, before);
	else if (!refused)
		forwarded(client, handle);
	else if (!registration_holds(request.client_mr))
		broken("a change that is refused takes away what there was");
	call_use(client, handle);
}

void call_make_room(struct client *client, unsigned int device, uint64_t bytes)
{
	world_may_evict();
	registration_evict(world_device(device), bytes);
	for (unsigned int i = 0; i < HANDLES; i++)
		call_use(client, i);
}

void call_drop(struct client *client, unsigned int handle)
{
	struct model_handle *held = &client->handles[handle];
	enum world_life before = call_life(held);
	const void *key = &client->structs[handle];

	if (held->known && held->alive)
		call_use(client, handle);
	if (registration_holds(key) != held->known)
		broken("handle %u is %sknown", handle, held->known ? "not " : "");
	if (registration_drop(key) != held->known)
		broken("handle %u was %s, and its end says otherwise", handle,
		       held->known ? "served and not given back" : "not served, or given back");
	if (held->known && held->alive && held->kept)
		call_settle_kept(client, held, before, true);
	client->totals.late += held->known && !held->alive && !held->perhaps;
	held->known = false;
}

static void must_reach(const struct model_handle *held)
{
	const char *why = world_reaches(held->lkey, held->rkey, held->pd, held->access,
					held->address, held->length);

	if (why)
		broken("the key of a handle, for 0x%llx, %llu bytes, access flags 0x%x: %s",
		       (unsigned long long)held->address, (unsigned long long)held->length,
		       held->access, why);
}

/* The memory may be released meanwhile, or have been. */
static void use_kept(const struct model_handle *held)
{
	const char *why = world_reaches(held->lkey, held->rkey, held->pd, held->access,
					held->address, held->length);

	if (why && call_life(held) == WORLD_LIVES)
		broken("the key of a handle, for kept memory at 0x%llx, %llu bytes: %s",
		       (unsigned long long)held->address, (unsigned long long)held->length, why);
}

void call_use(struct client *client, unsigned int handle)
{
	const struct model_handle *held = &client->handles[handle];

	if (!held->known || !held->alive)
		return;
	if (held->kept)
		use_kept(held);
	else
		must_reach(held);
}
