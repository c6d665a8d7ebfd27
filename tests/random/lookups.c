/* SPDX-License-Identifier: BSD-3-Clause */
/* lookups.c -- look-ups, requests on memory of other threads, forks */
#include <sched.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"
#include "random/calls.h"

/* `hidden`: of the address before the call, which found memory there. */
static void must_not_be_hidden(const char *call, uint64_t address, uint64_t hidden)
{
	if (hidden && world_hidden(address) == hidden)
		broken("%s finds kept memory at 0x%llx", call, (unsigned long long)address);
}

void call_find_anywhere(uint64_t address)
{
	uint64_t hidden = world_hidden(address);
	struct allocation allocation;

	if (memory_find(address, &allocation)) {
		must_not_be_hidden("memory_find", address, hidden);
		allocation.event_id = allocation.id;
		if (memory_is_visible(&allocation))
			must_not_be_hidden("memory_is_visible", address, hidden);
		if (address - allocation.base >= allocation.size)
			broken("memory found at 0x%llx does not hold it",
			       (unsigned long long)address);
	}
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
