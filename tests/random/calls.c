/* SPDX-License-Identifier: BSD-3-Clause */
/* calls.c -- registrations and look-ups, each answer compared with the model */
#include "random/calls.h"

#include <sched.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/config.h"
#include "base/process.h"

static void count_refused(struct model_totals *totals, unsigned int reasons)
{
	totals->bypassed++;
	totals->range += reasons == REASON_RANGE;
	totals->flags += reasons == REASON_FLAGS;
	totals->address += reasons == REASON_ADDRESS;
	totals->capability += reasons == REASON_CAPABILITY;
	totals->domain += reasons == REASON_DOMAIN;
	totals->ended += reasons == REASON_ENDED;
}

static void keep(struct client *client, unsigned int handle,
		 const struct registration_request *request, const struct ibv_pd *pd,
		 const struct registration_keys *keys)
{
	client->handles[handle] =
		(struct model_handle){ .known = true,
				       .alive = true,
				       .memory = model_memory_at(client, request->address),
				       .pd = pd,
				       .address = request->address,
				       .length = request->length,
				       .access = request->access,
				       .lkey = keys->lkey,
				       .rkey = keys->rkey };
	client->totals.served++;
}

/* The provider reused the struct without a deregistration through the library. A bypassed request
 * then leaves it open which one it stands for. */
static void settle_unserved(struct client *client, unsigned int handle, const void *key)
{
	struct model_handle *held = &client->handles[handle];

	if (!held->known)
		return;
	client->totals.perhaps += !held->alive;
	held->known = false;
	registration_drop(key);
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
		if (!reasons && !world_has_failed(request->address) &&
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

static void bypassed(struct client *client, unsigned int handle)
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

	if (!over)
		call_drop(client, handle);
	/* As the wrappers: at once if possible. */
	if (!is_served(client, &request, reasons, true, &keys)) {
		bypassed(client, handle);
		return;
	}
	keep(client, handle, &request, &model_pd->pd, &keys);
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
	struct model_memory *memory = model_memory_at(client, address);
	struct registration_keys keys = { 0 };
	struct allocation allocation;

	if (!memory_find(address, &allocation))
		broken("memory at 0x%llx is not found", (unsigned long long)address);
	request.youngest = allocation.id - stale;
	reasons |= stale ? REASON_ENDED : 0;
	call_drop(client, handle);
	if (!is_served(client, &request, reasons, false, &keys)) {
		bypassed(client, handle);
		return;
	}
	memory->exported = true;
	keep(client, handle, &request, &model_pd->pd, &keys);
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
	unsigned int reasons;

	if (!held->known)
		return;
	/* Where memory or protection domain has ended, the client holds nothing. */
	if (!held->alive)
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
		keep(client, handle, &request, &model_pd->pd, &keys);
	else if (!refused)
		bypassed(client, handle);
	else if (!registration_holds(request.client_mr))
		broken("a change that is refused takes away what there was");
	call_use(client, handle);
}

void call_make_room(struct client *client, unsigned int device, uint64_t bytes)
{
	registration_evict(world_device(device), bytes);
	for (unsigned int i = 0; i < HANDLES; i++)
		call_use(client, i);
	for (unsigned int i = 0; i < ALLOCATIONS; i++)
		call_use_found(client, &client->memories[i]);
}

void call_drop(struct client *client, unsigned int handle)
{
	struct model_handle *held = &client->handles[handle];
	const void *key = &client->structs[handle];

	if (held->known && held->alive)
		call_use(client, handle);
	if (registration_holds(key) != held->known)
		broken("handle %u is %sknown", handle, held->known ? "not " : "");
	if (registration_drop(key) != held->known)
		broken("handle %u was %s, and its end says otherwise", handle,
		       held->known ? "served and not given back" : "not served, or given back");
	client->totals.late += held->known && !held->alive;
	held->known = false;
}

static void must_reach(const char *what, const struct ibv_pd *pd, uint32_t lkey, uint32_t rkey,
		       int access, uint64_t address, uint64_t length)
{
	const char *why = world_reaches(lkey, rkey, pd, access, address, length);

	if (why)
		broken("%s, for 0x%llx, %llu bytes, access flags 0x%x: %s", what,
		       (unsigned long long)address, (unsigned long long)length, access, why);
}

void call_use(struct client *client, unsigned int handle)
{
	const struct model_handle *held = &client->handles[handle];

	if (held->known && held->alive)
		must_reach("the key of a handle", held->pd, held->lkey, held->rkey, held->access,
			   held->address, held->length);
}

void call_use_found(struct client *client, const struct model_memory *memory)
{
	const struct model_found *found = &memory->found;

	(void)client;
	if (found->pd)
		must_reach("the key of a look-up", found->pd, found->lkey, found->rkey,
			   found->access, found->address, found->length);
}

/* Looked up once and kept; now and then looked up again. */
static struct domain *domain_of(struct client *client, unsigned int which,
				unsigned int access_index)
{
	struct domain **kept = &client->domains[which][access_index], *domain = *kept;
	const struct model_pd *pd = client->pds[which];

	if (!domain || one_in(&client->source, 8)) {
		domain = registration_domain(&pd->pd, model_access[access_index]);
		if (!domain != !pd->open)
			broken("a protection domain that is %s has %s domain",
			       pd->open ? "open" : "closed", domain ? "a" : "no");
		if (*kept && domain != *kept)
			broken("a protection domain has two domains of the access flags 0x%x",
			       model_access[access_index]);
		*kept = domain;
	}
	return domain;
}

void call_find(struct client *client, unsigned int which, unsigned int access_index, int requested,
	       uint64_t address, uint64_t length)
{
	struct model_pd *pd = client->pds[which];
	struct domain *domain;
	struct model_memory *memory;
	uint32_t lkey, rkey;
	bool must_not;

	/* The number of a closed domain may be another thread's. Looked-up regions are never
	 * evicted. */
	if (!pd->open || world_region_limit())
		return;
	domain = domain_of(client, which, access_index);
	memory = model_memory_at(client, address);
	must_not = requested != model_access[access_index] ||
		   model_refuses(client, pd, address, length, address, requested,
				 memory && memory->exported);
	if (!registration_find(domain, address, length, requested, &lkey, &rkey)) {
		client->totals.not_found++;
		if (!must_not && config_get()->access_match == ACCESS_MATCH_EXACT &&
		    model_must_find(client, &pd->pd, requested, address, length))
			broken("a look-up of 0x%llx, %llu bytes, access flags 0x%x, finds nothing, "
			       "and a "
			       "client "
			       "holds a registration there",
			       (unsigned long long)address, (unsigned long long)length, requested);
		return;
	}
	if (must_not)
		broken("a look-up finds keys of 0x%llx, %llu bytes, access flags 0x%x of a domain "
		       "with "
		       "0x%x",
		       (unsigned long long)address, (unsigned long long)length, requested,
		       model_access[access_index]);
	client->totals.found++;
	memory->found = (struct model_found){ .pd = &pd->pd,
					      .access = requested,
					      .address = address,
					      .length = length,
					      .lkey = lkey,
					      .rkey = rkey };
	call_use_found(client, memory);
}

void call_find_anywhere(struct client *client, unsigned int which, uint64_t address)
{
	struct allocation allocation;
	uint32_t lkey, rkey;

	if (memory_find(address, &allocation) && address - allocation.base >= allocation.size)
		broken("memory found at 0x%llx does not hold it", (unsigned long long)address);
	if (client->pds[which]->open && client->domains[which][0])
		(void)registration_find(client->domains[which][0], address, 1, model_access[0],
					&lkey, &rkey);
}

void call_request_anywhere(struct client *client, unsigned int which, uint64_t address,
			   uint64_t length)
{
	const void *key = &client->structs[HANDLES];
	struct registration_request request = { .pd = &client->pds[which]->pd,
						.address = address,
						.length = length,
						.iova = address,
						.access = model_access[0],
						.client_mr = key };
	struct registration_keys keys;

	client->totals.requests++;
	if (!registration_request(&request, &keys)) {
		client->totals.bypassed++;
		return;
	}
	client->totals.served++;
	client->totals.perhaps++;
	sched_yield();
	if (!registration_drop(key))
		broken("a handle is not known, whatever became of its memory");
}

void call_see_end(struct client *client, uint64_t base, uint64_t size)
{
	struct registration_request request = { .address = base, .length = size };
	struct allocation allocation;
	uint32_t lkey, rkey;

	if (model_overlaps(client, base, size))
		return;
	if (memory_find(base, &allocation) || memory_find(base + size - 1, &allocation))
		broken("memory at 0x%llx is found after its end", (unsigned long long)base);
	if (registration_concerns(&request))
		broken("memory at 0x%llx is a concern after its end", (unsigned long long)base);
	for (unsigned int i = 0; i < PDS_OF_ONE; i++) {
		for (unsigned int j = 0; j < RIGHTS_OF_REGIONS; j++) {
			if (client->domains[i][j] &&
			    registration_find(client->domains[i][j], base, 1, model_access[j],
					      &lkey, &rkey))
				broken("keys of memory at 0x%llx are found after its end",
				       (unsigned long long)base);
		}
	}
}

/* Number of the broken promise; 0: none. */
static int see_child(struct client *client)
{
	char strange;

	world_in_child();
	alarm(300); /* seconds until a hang ends */
	if (!process_is_passive() || !process_is_forked())
		return 11;
	for (unsigned int i = 0; i < HANDLES; i++) {
		const void *key = &client->structs[i];

		if (registration_holds(key) != client->handles[i].known)
			return 12;
		if (registration_drop(key) != client->handles[i].known)
			return 13;
		if (registration_holds(key) || registration_drop(key))
			return 14;
	}
	return registration_holds(&strange) || registration_drop(&strange) ? 15 : 0;
}

void call_fork(struct client *client)
{
	pid_t child;
	int status;

	/* Before the first allocation the process is not forked for the library. */
	if (!client->totals.allocations)
		return;
	child = fork();
	if (!child)
		_exit(see_child(client));
	if (child < 0)
		return;
	client->totals.forks++;
	if (waitpid(child, &status, 0) != child || status)
		broken("a forked child is not inert: wait status 0x%x", status);
	for (unsigned int i = 0; i < HANDLES; i++)
		call_use(client, i);
}
