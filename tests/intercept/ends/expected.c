/* SPDX-License-Identifier: BSD-3-Clause */
/* expected.c -- first requests of known clients (PEERPIN_PREREGISTER=eager): the client and its
 * access flags, from the caller of ibv_alloc_pd
 */
#include "ends.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#define ALL	(ACCESS | IBV_ACCESS_REMOTE_ATOMIC)
#define RELAXED IBV_ACCESS_RELAXED_ORDERING

/* Clients: ../fabric/fabric.c, or this program under another name. */
static const struct {
	char name[20];
	bool is_program;
	int access; /* of its first request; 0: unknown */
} clients[] = {
	{ "libuct_ib.so.1", false, ALL },
	{ "libmpi_ucx.so.1", false, ALL },
	{ "libfabric.so.1", false, ALL },
	{ "libmpi_fabric.so.1", false, ALL },
	{ "libname-fi.so.1", false, ALL },
	{ "ib_write_bw", true, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | RELAXED },
	{ "ib_read_lat", true, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | RELAXED },
	{ "ib_send_bw", true, IBV_ACCESS_LOCAL_WRITE | RELAXED },
	{ "ib_atomic_lat", true, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC | RELAXED },
	{ "ib_other_bw", true, 0 },
	{ "libother.so.1", false, 0 },
	{ "libshim.so.1", false, 0 },
};
enum {
	UCX,
	UCX_INSIDE,
	FABRIC,
	FABRIC_INSIDE,
	PLUGIN,
	WRITE,
	READ,
	SEND,
	ATOMIC,
	PROGRAM,
	LIBRARY,
	SHIM
};

static void set_up_as(unsigned int client)
{
	const char *name = clients[client].name;

	if (clients[client].is_program && strcmp(program_invocation_short_name, name) != 0)
		run_again(name);
	set_up();
}

static struct ibv_pd *pd_of(unsigned int client)
{
	struct ibv_pd *(*alloc)(struct ibv_context *) = ibv_alloc_pd;
	char path[64];
	void *handle;

	if (clients[client].is_program)
		return ibv_alloc_pd(device);
	snprintf(path, sizeof(path), "tests/intercept/fabric/.libs/%s", clients[client].name);
	handle = dlopen(path, RTLD_LAZY);
	require(handle);
	alloc = (struct ibv_pd * (*)(struct ibv_context *)) dlsym(handle, "client_alloc_pd");
	return alloc(device);
}

/* Without the client's request: registered `times` times so far. */
static void first_request(CUdeviceptr memory, int access, unsigned int times)
{
	struct ibv_mr *mr;

	require(sim("live") == times && own("requests") == 0);
	mr = registered_in(pd, memory, UNIT, access);
	require(can_read(mr->rkey, memory) == !!(access & IBV_ACCESS_REMOTE_READ));
	require(own("requests") == 1 && own("hits") == times);
	require(!ibv_dereg_mr(mr));
}

static void it_is_a_hit(unsigned int client)
{
	CUdeviceptr memory;

	set_up_as(client);
	set("strict", 0);
	require(!ibv_dealloc_pd(pd));
	pd = pd_of(client);
	memory = allocate(UNIT);
	first_request(memory, clients[client].access, 1);
	require(sim("registrations") == 1);
	require_cuda(cuMemFree_v2(memory));
	require(sim("live") == 0 && !ibv_dealloc_pd(pd));
}

static void it_is_of_an_unknown_client(unsigned int client)
{
	set_up_as(client);
	pd = pd_of(client);
	first_request(allocate(UNIT), ALL, 0);
}

/* EFA's: a provider of libfabric chooses other flags there. */
static void it_is_of_another_kind_of_adapter(unsigned int client)
{
	set_up_as(client);
	device->device->transport_type = 4;
	pd = pd_of(client);
	first_request(allocate(UNIT), ALL, 0);
}

#define FIRST(test, client, settings)                                                              \
	{                                                                                          \
		test, "first_request_" #test, client, settings, 0, 0                               \
	}
#define ON "PEERPIN_PREREGISTER=eager"

const struct test expected_tests[] = {
	FIRST(it_is_a_hit, UCX, ON),
	FIRST(it_is_a_hit, UCX_INSIDE, ON),
	FIRST(it_is_a_hit, FABRIC, ON),
	FIRST(it_is_a_hit, FABRIC_INSIDE, ON),
	FIRST(it_is_a_hit, PLUGIN, ON),
	FIRST(it_is_a_hit, WRITE, ON),
	FIRST(it_is_a_hit, READ, ON),
	FIRST(it_is_a_hit, SEND, ON),
	FIRST(it_is_a_hit, ATOMIC, ON),
	FIRST(it_is_of_an_unknown_client, PROGRAM, ON),
	FIRST(it_is_of_an_unknown_client, LIBRARY, ON),
	FIRST(it_is_of_an_unknown_client, SHIM, ON),
	FIRST(it_is_of_an_unknown_client, UCX, ""),
	FIRST(it_is_of_an_unknown_client, UCX, "PEERPIN_PREREGISTER=off"),
	FIRST(it_is_of_another_kind_of_adapter, FABRIC, ON),
	{ .name = NULL },
};
