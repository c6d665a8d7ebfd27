/* SPDX-License-Identifier: BSD-3-Clause */
/* lookups.c -- look-ups of keys, requests on memory of other threads, forks */
#include <sched.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/config.h"
#include "base/process.h"
#include "random/calls.h"

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

/* After requests by dma-buf a look-up finds the keys of memory that only these reach. */
static bool is_exportable(const struct model_memory *memory)
{
	return memory && memory->kind != ALLOCATION_HOST;
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
				 is_exportable(memory)) ||
		   !model_holds(memory, address, length);
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
		       "with 0x%x, against reasons 0x%x",
		       (unsigned long long)address, (unsigned long long)length, requested,
		       model_access[access_index],
		       model_refuses(client, pd, address, length, address, requested,
				     is_exportable(memory)));
	client->totals.found++;
	memory->found = (struct model_found){ .pd = &pd->pd,
					      .access = requested,
					      .address = address,
					      .length = length,
					      .lkey = lkey,
					      .rkey = rkey };
	call_use_found(client, memory);
}

/* `hidden`: of the address before the call, which found memory there. */
static void must_not_be_hidden(const char *call, uint64_t address, uint64_t hidden)
{
	if (hidden && world_hidden(address) == hidden)
		broken("%s finds kept memory at 0x%llx", call, (unsigned long long)address);
}

void call_find_anywhere(struct client *client, unsigned int which, uint64_t address)
{
	uint64_t hidden = world_hidden(address);
	struct allocation allocation;
	uint32_t lkey, rkey;

	if (memory_find(address, &allocation)) {
		must_not_be_hidden("memory_find", address, hidden);
		allocation.event_id = allocation.id;
		if (memory_is_visible(&allocation))
			must_not_be_hidden("memory_is_visible", address, hidden);
		if (address - allocation.base >= allocation.size)
			broken("memory found at 0x%llx does not hold it",
			       (unsigned long long)address);
	}
	if (client->pds[which]->open && client->domains[which][0] &&
	    registration_find(client->domains[which][0], address, 1, model_access[0], &lkey, &rkey))
		must_not_be_hidden("registration_find", address, hidden);
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
	uint64_t hidden = world_hidden(address);
	struct registration_keys keys;

	client->totals.requests++;
	if (!registration_request(&request, &keys)) {
		client->totals.forwarded++;
		return;
	}
	must_not_be_hidden("a request", address, hidden);
	client->totals.served++;
	client->totals.perhaps++;
	sched_yield();
	if (!registration_drop(key))
		broken("a handle is not known, whatever became of its memory");
}

/* Number of the broken promise; 0: none. */
static int see_child(struct client *client)
{
	char strange;

	world_in_child();
	alarm(300); /* seconds until a hang ends */
	if (!process_is_passive() || !process_is_forked() || keep_is_on())
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
