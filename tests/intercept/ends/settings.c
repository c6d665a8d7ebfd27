/* SPDX-License-Identifier: BSD-3-Clause */
/* settings.c -- settings of registration, from the environment to the adapter */
#include "ends.h"

#include <dlfcn.h>

#include <errno.h>
#include <stdlib.h>

static struct ibv_context *second;
static struct ibv_pd *second_pd;

static void set_up_two(void)
{
	set_up();
	second = open_device(1);
	second_pd = ibv_alloc_pd(second);
	require(second_pd);
}

/* Background registration covers this domain without a client request. */
#define CHOSEN (ACCESS | IBV_ACCESS_REMOTE_ATOMIC)

static void memory_is_registered_before_the_first_request(unsigned int domains)
{
	CUdeviceptr memory;
	struct ibv_mr *mr;

	set_up_two();
	memory = allocate(UNIT);
	until(own("registrations_background") == domains);
	require(sim("live") == domains && own("requests") == 0);
	mr = registered_in(domains == 1 ? second_pd : pd, memory, UNIT, CHOSEN);
	require(own("hits") == 1 && sim("registrations") == domains && !ibv_dereg_mr(mr));
	require(ibv_alloc_pd(second));
	until(own("registrations_background") == domains + 1);
	require_cuda(cuMemFree_v2(memory));
	require(sim("live") == 0);
	require(!ibv_close_device(second) && !ibv_close_device(device));
}

static void only_the_named_adapter_has_it(unsigned int unused)
{
	struct ibv_mr *mr;

	memory_is_registered_before_the_first_request(1);
	(void)unused;
	/* A request in another domain is served, without background registration there. */
	set_up_two();
	mr = registered(allocate(UNIT));
	allocate(UNIT);
	until(own("registrations_background") == 4);
	require(sim("live") == 3 && !ibv_dereg_mr(mr));
	require(!ibv_dealloc_pd(pd) && sim("live") == 2);
	require(!ibv_dealloc_pd(second_pd) && sim("live") == 0);
}

static void domains_are_learned(unsigned int unused)
{
	CUdeviceptr memory, next;

	(void)unused;
	set_up_two();
	memory = allocate(UNIT);
	require(begun() == 0 && !worker_thread());
	require(registered(memory));
	next = allocate(UNIT);
	until(own("registrations_background") == 1);
	require(sim("live") == 2);
	require(!ibv_dereg_mr(registered(next)) && own("hits") == 1);
	require(!ibv_dealloc_pd(second_pd) && sim("live") == 2);
}

static void domains_are_learned_on_the_named_adapter(unsigned int unused)
{
	CUdeviceptr memory, next;

	(void)unused;
	set_up_two();
	memory = allocate(UNIT);
	require(registered(memory) && registered_in(second_pd, memory, UNIT, CHOSEN));
	next = allocate(UNIT);
	until(own("registrations_background") == 1);
	require(sim("live") == 3);
	require(!ibv_dereg_mr(registered_in(second_pd, next, UNIT, CHOSEN)) && own("hits") == 1);
}

/* ---- PEERPIN_PREREGISTER ---- */

static void sync_registers_in_the_allocation(unsigned int unused)
{
	CUdeviceptr memory;

	(void)unused;
	set_up();
	activate();
	memory = allocate(UNIT);
	require(sim("live") == 2 && own("registrations_background") == 1 &&
		own("background_ns") == 0);
	require(!ibv_dereg_mr(registered(memory)) && own("hits") == 1);
}

static void off_registers_synchronously(unsigned int unused)
{
	CUdeviceptr memory;

	(void)unused;
	set_up();
	activate();
	memory = allocate(UNIT);
	require(sim("live") == 1);
	require(!ibv_dereg_mr(registered(memory)) && own("synchronous") == 2 &&
		own("registrations_background") == 0);
	require(!ibv_dereg_mr(registered(memory)) && own("hits") == 1 && sim("live") == 2);
}

/* Memory that clients never request, repeatedly. */
static void scratch_is_registered_in_the_background(unsigned int always)
{
	enum { ROUNDS = 200 };
	CUdeviceptr memory, mark;
	uint64_t made;

	set_up();
	activate();
	for (int i = 0; i < ROUNDS; i++) {
		made = own("registrations_background");
		memory = allocate(5 * SIZE);
		if (always)
			until(own("registrations_background") == made + 1);
		/* The worker registers it in both modes; when it is done, the other allocation was
		 * skipped. */
		mark = allocate(UNIT);
		require(!ibv_dereg_mr(registered(mark)));
		require_cuda(cuMemFree_v2(mark));
		require_cuda(cuMemFree_v2(memory));
	}
	require(always ? own("never_used") >= ROUNDS : own("never_used") < ROUNDS / 10);
}

/* ---- PEERPIN_ACCESS_MATCH ---- */

static void narrower_access(unsigned int superset)
{
	CUdeviceptr memory;
	struct ibv_mr *wide, *narrow, *chosen;
	char byte = 1;

	set_up();
	memory = allocate(UNIT);
	wide = registered(memory);
	narrow = registered_in(pd, memory, SIZE, IBV_ACCESS_REMOTE_READ);
	require((narrow->rkey == wide->rkey) == superset && sim("live") == (superset ? 1 : 2));
	require(sim_adapter_write(device, narrow->rkey, memory, &byte, 1) ==
		(superset ? 0 : -EACCES));
	/* Access flags that no region has are a new registration in both modes. */
	chosen = registered_in(pd, memory, SIZE, CHOSEN);
	require(chosen->rkey != wide->rkey);
	require(!ibv_dereg_mr(wide) && can_read(narrow->rkey, memory));
	require_cuda(cuMemFree_v2(memory));
	require(cannot_read(narrow->rkey, memory) && sim("live") == 0 && own("revoked") == 2);
	require(!ibv_dereg_mr(narrow) && !ibv_dereg_mr(chosen) && !ibv_dealloc_pd(pd));
}

/* ---- PEERPIN_GRANULARITY ---- */

static void small_allocations_share(unsigned int block)
{
	enum { MANY = 4096, BYTES = 1000 };
	static CUdeviceptr memory[MANY];
	static struct ibv_mr *mr[MANY];
	uint64_t unit = block ? UNIT : 65536, units = 0, last = 0;

	set_up();
	for (int i = 0; i < MANY; i++) {
		memory[i] = allocate(BYTES);
		mr[i] = registered_in(pd, memory[i], BYTES, ACCESS);
		units += memory[i] / unit != last;
		last = memory[i] / unit;
		if ((memory[i] + BYTES - 1) / unit != last && !block)
			units++;
	}
	require(sim("live") <= units && sim("live") > 0);
	require(block ? sim("live_bytes") == sim("live") * UNIT
		      : sim("live") > MANY * BYTES / unit);
	for (int i = 0; i < MANY; i++)
		require(can_read(mr[i]->rkey, memory[i]));
	for (int i = 0; i < MANY - 1; i++)
		require_cuda(cuMemFree_v2(memory[i]));
	require(sim("live") == 1 && can_read(mr[MANY - 1]->rkey, memory[MANY - 1]));
	require(own("revoked") == MANY - 1);
	require_cuda(cuMemFree_v2(memory[MANY - 1]));
	require(sim("live") == 0);
	for (int i = 0; i < MANY; i++)
		require(!ibv_dereg_mr(mr[i]));
}

/* ---- PEERPIN_PIN_LIMIT ---- */

static void the_pin_limit_is_kept(unsigned int unused)
{
	enum { ROOM = 4, MANY = 16 };
	CUdeviceptr memory[MANY];
	struct ibv_mr *held[ROOM], *over;

	(void)unused;
	set_up();
	for (int i = 0; i < MANY; i++) {
		memory[i] = allocate(UNIT);
		require(!ibv_dereg_mr(registered(memory[i])));
		require(sim("live") <= ROOM && own("pinned_bytes") <= ROOM * UNIT);
	}
	require(sim("live") == ROOM && own("evictions") == MANY - ROOM);
	for (int i = 0; i < ROOM; i++)
		held[i] = registered(memory[MANY - ROOM + i]);
	require(own("hits") == ROOM && sim("registrations") == MANY);
	/* Regions with client MRs are never evicted: the next request is forwarded. */
	over = registered(memory[0]);
	require(own("bypassed_pin_limit") == 1 && own("pinned_bytes") == ROOM * UNIT);
	require(sim("live") == ROOM + 1 && !ibv_dereg_mr(over) && sim("live") == ROOM);
	for (int i = 0; i < ROOM; i++)
		require(can_read(held[i]->rkey, memory[MANY - ROOM + i]) && !ibv_dereg_mr(held[i]));
	for (int i = 0; i < MANY; i++)
		require_cuda(cuMemFree_v2(memory[i]));
	require(sim("live") == 0 && own("pinned_bytes") == 0);
}

/* Background registration never evicts used regions. */
static void background_registration_never_evicts(unsigned int unused)
{
	enum { ROOM = 4 };
	CUdeviceptr used[ROOM];

	(void)unused;
	set_up();
	for (int i = 0; i < ROOM; i++) {
		used[i] = allocate(UNIT);
		require(!ibv_dereg_mr(registered(used[i])));
	}
	for (int i = 0; i < ROOM; i++)
		allocate(UNIT);
	until(own("over_pin_limit") >= ROOM);
	require(own("evictions") == 0 && sim("live") == ROOM);
	for (int i = 0; i < ROOM; i++)
		require(!ibv_dereg_mr(registered(used[i])));
	require(sim("registrations") == ROOM);
}

#define TWO "PEERPIN_SIM_ADAPTER_DEVICES=2 "

const struct test setting_tests[] = {
	TEST(memory_is_registered_before_the_first_request, 2, TWO "PEERPIN_DOMAIN_POLICY=all"),
	TEST(memory_is_registered_before_the_first_request, 2, TWO "PEERPIN_DOMAIN_POLICY=near"),
	TEST(memory_is_registered_before_the_first_request, 2,
	     TWO "PEERPIN_DOMAIN_POLICY=all PEERPIN_DEVICES=other,sim1,sim0"),
	TEST(only_the_named_adapter_has_it, 0,
	     TWO "PEERPIN_DOMAIN_POLICY=all PEERPIN_DEVICES=other,sim1"),
	TEST(only_the_named_adapter_has_it, 0,
	     TWO "PEERPIN_DOMAIN_POLICY=near PEERPIN_DEVICES=^other,sim0"),
	TEST(domains_are_learned, 0, TWO "PEERPIN_DOMAIN_POLICY=learned"),
	TEST(domains_are_learned, 1, TWO),
	TEST(domains_are_learned_on_the_named_adapter, 0, TWO "PEERPIN_DEVICES=sim1"),
	TEST(domains_are_learned_on_the_named_adapter, 0, TWO "PEERPIN_DEVICES=^sim0"),
	TEST(domains_are_learned_on_the_named_adapter, 0, TWO "PEERPIN_DEVICES=other,*1"),
	TEST(sync_registers_in_the_allocation, 0, "PEERPIN_PREREGISTER=sync"),
	TEST(off_registers_synchronously, 0, "PEERPIN_PREREGISTER=off"),
	TEST(scratch_is_registered_in_the_background, 0, "PEERPIN_PREREGISTER=auto"),
	TEST(scratch_is_registered_in_the_background, 1, "PEERPIN_PREREGISTER=all"),
	TEST(narrower_access, 0, NULL),
	TEST(narrower_access, 1, "PEERPIN_ACCESS_MATCH=superset"),
	TEST(small_allocations_share, 0, "PEERPIN_PREREGISTER=off"),
	TEST(small_allocations_share, 1, "PEERPIN_PREREGISTER=off PEERPIN_GRANULARITY=2M"),
	TEST(the_pin_limit_is_kept, 0, "PEERPIN_PREREGISTER=off PEERPIN_PIN_LIMIT=8M"),
	TEST(background_registration_never_evicts, 0,
	     "PEERPIN_PREREGISTER=all PEERPIN_PIN_LIMIT=8M"),
	{ .name = NULL },
};

const struct test *const test_files[] = { memory_tests,	 domain_tests, process_tests,
					  exit_tests,	 thread_tests, worker_tests,
					  setting_tests, client_tests, primary_tests,
					  part_tests,	 span_tests,   expected_tests,
					  export_tests,	 NULL };
