/* SPDX-License-Identifier: BSD-3-Clause */
/* domains.c -- ends of protection domains and devices with regions in each state */
#include "ends.h"

#include <errno.h>
#include <stdlib.h>

enum stage { QUEUED, MAKING, READY };

static void bring_about(unsigned int stage)
{
	set_up();
	if (stage == READY) {
		activate();
		allocate(UNIT);
		until(own("registrations_background") == 1);
		return;
	}
	occupy_worker("delay", WHILE);
	if (stage == QUEUED)
		allocate(UNIT);
	set("delay", 0);
}

static void a_device_with_everything_on_it(unsigned int stage)
{
	CUdeviceptr memory;
	struct ibv_mr *mr;

	bring_about(stage);
	memory = allocate(UNIT);
	mr = registered(memory);
	require(can_read(mr->rkey, memory));
	require(!ibv_close_device(device));
	require(sim("live") == 0 && sim("pds") == 0 && own("pinned_bytes") == 0 &&
		own("revoked") == 1);
	/* The memory and the client MR are unusable but safe. */
	require_cuda(cuMemFree_v2(memory));
	require(!ibv_dereg_mr(mr) && own("late_deregistrations") == 1 &&
		own("internal_errors") == 0);
	device = open_device(0);
	pd = ibv_alloc_pd(device);
	memory = allocate(UNIT);
	mr = registered(memory);
	require(can_read(mr->rkey, memory) && !ibv_dereg_mr(mr));
	require(!ibv_dealloc_pd(pd) && !ibv_close_device(device) && sim("live") == 0);
}

static void a_domain_with_a_clients_handle(unsigned int stage)
{
	CUdeviceptr memory;
	struct ibv_mr *mr, *other;

	bring_about(stage);
	memory = allocate(UNIT);
	mr = registered(memory);
	errno = 0;
	require(ibv_dealloc_pd(pd) == EBUSY && errno == EBUSY);
	require(can_read(mr->rkey, memory) && sim("deregistrations") == 0);
	other = registered(memory);
	require(other->rkey == mr->rkey);
	require(!ibv_dereg_mr(mr) && ibv_dealloc_pd(pd) == EBUSY && can_read(other->rkey, memory));
	require(!ibv_dereg_mr(other) && !ibv_dealloc_pd(pd));
	require(sim("live") == 0 && sim("pds") == 0 && sim("pds_busy") == 0);
	require_cuda(cuMemFree_v2(memory));
	require(!ibv_close_device(device) && own("revoked") == 0);
}

/* The kernel counts a memory region until its deregistration, whatever became of its memory. */
static void a_domain_with_a_clients_handle_of_freed_memory(unsigned int hits)
{
	CUdeviceptr memory;
	struct ibv_mr *mrs[3];

	set_up();
	memory = allocate(UNIT);
	for (unsigned int i = 0; i <= hits; i++)
		mrs[i] = registered(memory);
	require_cuda(cuMemFree_v2(memory));
	require(sim("live") == 0);
	for (unsigned int i = 0; i <= hits; i++) {
		require(ibv_dealloc_pd(pd) == EBUSY && sim("pds") == 1 && mrs[i]->pd == pd);
		/* There is no memory: the change fails, and changes nothing. */
		require(ibv_rereg_mr(mrs[i], IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				     IBV_ACCESS_LOCAL_WRITE) == IBV_REREG_MR_ERR_CMD);
		require(ibv_dealloc_pd(pd) == EBUSY);
		require(!ibv_dereg_mr(mrs[i]));
	}
	require(!ibv_dealloc_pd(pd) && sim("pds") == 0);
	require(!ibv_close_device(device) && own("late_deregistrations") == 1 + hits);
}

/* A change leads a client MR of freed memory to another protection domain. */
static void a_changed_handle_keeps_its_new_domain_busy(unsigned int unused)
{
	struct ibv_pd *other;
	CUdeviceptr memory;
	struct ibv_mr *mr;

	(void)unused;
	set_up();
	other = ibv_alloc_pd(device);
	memory = allocate(UNIT);
	mr = registered(memory);
	require_cuda(cuMemFree_v2(memory));
	memory = allocate(UNIT);
	require(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_TRANSLATION, other,
			      (void *)memory, UNIT, 0));
	require(can_read(mr->rkey, memory) && !ibv_dealloc_pd(pd));
	require_cuda(cuMemFree_v2(memory));
	require(ibv_dealloc_pd(other) == EBUSY && !ibv_dereg_mr(mr) && !ibv_dealloc_pd(other));
	require(!ibv_close_device(device) && sim("pds") == 0);
}

/* A parent domain counts no memory regions, and has no part in what they do later. */
static void a_parent_domain_ends_before_its_clients_handle(unsigned int unused)
{
	struct ibv_pd *parent;
	CUdeviceptr memory;
	struct ibv_mr *mr;
	uint32_t key;

	(void)unused;
	set_up();
	parent = sim_adapter_parent_domain(pd);
	memory = allocate(UNIT);
	mr = registered_in(parent, memory, UNIT, ACCESS);
	key = mr->rkey;
	require(ibv_dealloc_pd(pd) == EBUSY && !ibv_dealloc_pd(parent));
	require(ibv_dealloc_pd(pd) == EBUSY && can_read(key, memory));
	require(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ));
	require(mr->rkey != key && can_read(mr->rkey, memory) && sim("live") == 2);
	require_cuda(cuMemFree_v2(memory));
	require(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ACCESS) ==
		IBV_REREG_MR_ERR_CMD);
	require(ibv_dealloc_pd(pd) == EBUSY && !ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd));
	require(!ibv_close_device(device));
}

/* A deregistration too many, of the provider's struct: it must not reach the region. */
static void a_handle_deregistered_twice(unsigned int memory_first)
{
	struct ibv_mr *mr, *other;
	CUdeviceptr memory;

	set_up();
	memory = allocate(UNIT);
	mr = registered(memory);
	other = registered(memory);
	if (memory_first)
		require_cuda(cuMemFree_v2(memory));
	require(!ibv_cmd_dereg_mr((struct verbs_mr *)mr));
	for (int i = 0; i < 2; i++)
		require(ibv_cmd_dereg_mr((struct verbs_mr *)mr));
	require(memory_first || can_read(other->rkey, memory));
	require(sim("deregistrations") == memory_first && ibv_dealloc_pd(pd) == EBUSY);
	require(!ibv_dereg_mr(other) && !ibv_dealloc_pd(pd) && !ibv_close_device(device));
	free(mr);
}

/* A process that imports a client MR may end it (ibv_import_mr(3)), but not the region's other
 * client MRs. */
static void an_import_of_a_clients_handle(unsigned int memory_first)
{
	char byte = 0, *host = calloc(1, SIZE);
	struct ibv_mr *mr, *other, *imported, *later;
	CUdeviceptr memory;

	set_up();
	memory = allocate(UNIT);
	mr = registered(memory);
	other = registered(memory);
	imported = ibv_import_mr(pd, mr->handle);
	require(imported && imported->rkey == mr->rkey);
	if (memory_first)
		require_cuda(cuMemFree_v2(memory));
	later = ibv_reg_mr(pd, host, SIZE, ACCESS);
	require(later && (later->handle == imported->handle) == memory_first);
	require(!ibv_dereg_mr(imported));
	require(!sim_adapter_read(device, later->rkey, (uint64_t)host, &byte, 1));
	if (!memory_first)
		require(can_read(other->rkey, memory) && registered(memory)->rkey == other->rkey);
	require(!ibv_dereg_mr(mr) && !ibv_dereg_mr(other) && !ibv_dereg_mr(later));
	require(own("deregistrations_failed") == 0 && sim("live") == !memory_first);
	free(host);
}

#define ALL "PEERPIN_PREREGISTER=auto"

#define EACH_STAGE(test) TEST(test, QUEUED, ALL), TEST(test, MAKING, ALL), TEST(test, READY, ALL)

const struct test domain_tests[] = {
	EACH_STAGE(a_device_with_everything_on_it),
	EACH_STAGE(a_domain_with_a_clients_handle),
	TEST(a_domain_with_a_clients_handle_of_freed_memory, 0, NULL),
	{ a_domain_with_a_clients_handle_of_freed_memory,
	  "a_domain_with_clients_handles_of_freed_memory", 2, NULL, 0, 0 },
	TEST(a_changed_handle_keeps_its_new_domain_busy, 0, NULL),
	TEST(a_parent_domain_ends_before_its_clients_handle, 0, NULL),
	TEST(a_handle_deregistered_twice, 0, NULL),
	{ a_handle_deregistered_twice, "a_handle_of_freed_memory_deregistered_twice", 1, NULL, 0,
	  0 },
	TEST(an_import_of_a_clients_handle, 0, NULL),
	{ an_import_of_a_clients_handle, "an_import_whose_memory_is_freed", 1, NULL, 0, 0 },
	{ .name = NULL },
};
