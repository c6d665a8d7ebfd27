/* SPDX-License-Identifier: BSD-3-Clause */
/* clients.c -- keys of protection domains by their client: libfabric and
 * others */
#include "ends.h"

#include <dlfcn.h>

/* ../fabric/fabric.c */
static const char *const libraries[] = { "libfabric.so.1",  "libmpi_fabric.so.1", "libplugin.so.1",
					 "libname-fi.so.1", "libother.so.1",	  "libshim.so.1" };
enum library { FABRIC, MPI_FABRIC, PLUGIN, NAME, OTHER, SHIM };

static void *library(enum library which, int mode)
{
	char path[64];
	void *handle;

	snprintf(path, sizeof(path), "tests/intercept/fabric/.libs/%s", libraries[which]);
	handle = dlopen(path, RTLD_LAZY | mode);
	require(handle);
	return handle;
}

/* A protection domain of that library. */
static struct ibv_pd *pd_of(void *handle)
{
	struct ibv_pd *(*alloc)(struct ibv_context *) =
		(struct ibv_pd * (*)(struct ibv_context *)) dlsym(handle, "client_alloc_pd");

	return alloc(device);
}

/* Two parts of a registered allocation, registered in `where`: with equal keys, unless `alone`. */
static void two_parts_in(struct ibv_pd *where, CUdeviceptr memory, unsigned int alone)
{
	uint64_t hits, made, forwarded = own("forwarded");
	struct ibv_mr *first, *second;

	require(!ibv_dereg_mr(registered_in(where, memory, UNIT, ACCESS)));
	hits = own("hits");
	made = sim("registrations");
	for (int round = 0; round < 3; round++) {
		first = registered_in(where, memory, SIZE, ACCESS);
		second = registered_in(where, memory + SIZE, SIZE, ACCESS);
		require((first->rkey != second->rkey) == alone);
		require(can_read(first->rkey, memory) && can_read(second->rkey, memory + SIZE));
		require(!ibv_dereg_mr(first) && !ibv_dereg_mr(second));
	}
	/* Alone: the first time registers the second part, beside the whole. */
	made = sim("registrations") - made;
	require(made <= alone && own("hits") == hits + 6 - made);
	require(own("forwarded") == forwarded);
}

static void two_parts(unsigned int alone)
{
	two_parts_in(pd, allocate(UNIT), alone);
	require(sim("live") == 1 + alone && !ibv_dealloc_pd(pd) && sim("live") == 0);
}

static void each_key_has_one_holder(unsigned int alone)
{
	set_up();
	two_parts(alone);
}

/* Open MPI loads libfabric in nearly every job. */
static void libfabric_beside_another_client(unsigned int which)
{
	library(FABRIC, RTLD_GLOBAL);
	set_up();
	two_parts(0);
	pd = pd_of(library(OTHER, which ? RTLD_LOCAL : RTLD_GLOBAL));
	two_parts(0);
}

static void libfabric_has_each_key_once(unsigned int which)
{
	set_up();
	require(!ibv_dealloc_pd(pd));
	pd = pd_of(library((enum library)which, RTLD_LOCAL));
	two_parts(1);
}

/* In one allocation; libfabric is loaded after the other client's first requests. */
static void each_client_has_its_own(unsigned int unused)
{
	CUdeviceptr memory;
	struct ibv_pd *fabric;

	(void)unused;
	set_up();
	memory = allocate(UNIT);
	two_parts_in(pd, memory, 0);
	fabric = pd_of(library(FABRIC, RTLD_LOCAL));
	for (int round = 0; round < 3; round++) {
		two_parts_in(fabric, memory, 1);
		two_parts_in(pd, memory, 0);
	}
	/* Other access flags, in either: the keys of an earlier domain included. */
	require(registered_in(fabric, memory, SIZE, IBV_ACCESS_LOCAL_WRITE)->rkey !=
		registered_in(fabric, memory, SIZE, IBV_ACCESS_LOCAL_WRITE)->rkey);
	require(registered_in(pd, memory, SIZE, IBV_ACCESS_LOCAL_WRITE)->rkey ==
		registered_in(pd, memory, SIZE, IBV_ACCESS_LOCAL_WRITE)->rkey);
	two_parts_in(fabric, memory, 1);
}

/* Look-ups of ibv_alloc_pd, beside libfabric. */
static void a_client_may_look_it_up(unsigned int versioned)
{
	void *verbs, *found;

	library(FABRIC, RTLD_LOCAL);
	set_up();
	require(!ibv_dealloc_pd(pd));
	verbs = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
	require(verbs && !dlsym(verbs, "no such symbol"));
	found = versioned ? dlvsym(verbs, "ibv_alloc_pd", "IBVERBS_1.1")
			  : dlsym(verbs, "ibv_alloc_pd");
	/* No error of another look-up is left, and the wrapper is found. */
	require(found && !dlerror() && found == (void *)ibv_alloc_pd);
	require(!dlvsym(verbs, "ibv_alloc_pd", "IBVERBS_1.0") && dlerror());
	pd = ((struct ibv_pd * (*)(struct ibv_context *)) found)(device);
	two_parts(0);
}

/* A caller that is not identified counts as libfabric, if one is loaded. */
static void unidentified_callers_are_cautious(unsigned int loaded)
{
	if (loaded)
		library(FABRIC, RTLD_LOCAL);
	set_up();
	require(!ibv_dealloc_pd(pd));
	pd = pd_of(library(SHIM, RTLD_LOCAL));
	two_parts(loaded);
	pd = pd_of(library(OTHER, RTLD_LOCAL));
	two_parts(0);
}

/* RTLD_DEEPBIND: its own libibverbs precedes the exports of the library. */
static void libfabric_may_bypass_the_wrapper(unsigned int unused)
{
	void *handle;

	(void)unused;
	set_up();
	handle = library(FABRIC, RTLD_LOCAL | RTLD_DEEPBIND);
	two_parts(0);
	pd = pd_of(handle);
	two_parts(1);
}

#define SHARED(name, variant, settings)                                                            \
	{                                                                                          \
		name, #name, variant, "PEERPIN_PREREGISTER=off" settings, 0, 0                     \
	}

const struct test client_tests[] = {
	SHARED(each_key_has_one_holder, 0, ""),
	SHARED(libfabric_beside_another_client, 0, ""),
	SHARED(libfabric_beside_another_client, 1, ""),
	SHARED(libfabric_has_each_key_once, FABRIC, ""),
	SHARED(libfabric_has_each_key_once, MPI_FABRIC, ""),
	SHARED(libfabric_has_each_key_once, PLUGIN, ""),
	SHARED(libfabric_has_each_key_once, NAME, ""),
	SHARED(each_client_has_its_own, 0, ""),
	SHARED(a_client_may_look_it_up, 0, ""),
	SHARED(a_client_may_look_it_up, 1, ""),
	SHARED(unidentified_callers_are_cautious, 0, ""),
	SHARED(unidentified_callers_are_cautious, 1, ""),
	SHARED(libfabric_may_bypass_the_wrapper, 0, ""),
	{ .name = NULL },
};
