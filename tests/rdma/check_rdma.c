/* SPDX-License-Identifier: BSD-3-Clause */
/* check_rdma.c -- peerpin between a verbs client and a real adapter, with GPU memory of the present
 * driver
 *
 * Runs under the preload. Each test is a process of its own.
 */
#include <check.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu.h"
#include "loopback.h"
#include "unit/preload.h"
#include "unit/suite.h"

#define MIB ((size_t)1 << 20)
#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

static struct ibv_mr *must_register(struct ibv_pd *pd, uint64_t address, size_t length)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, (void *)address, length, ACCESS);

	ck_assert_msg(mr, "ibv_reg_mr: %s", strerror(errno));
	ck_assert_ptr_eq(mr->addr, (void *)address);
	ck_assert_uint_eq(mr->length, length);
	ck_assert_ptr_eq(mr->pd, pd);
	ck_assert_ptr_eq(mr->context, pd->context);
	return mr;
}

/* Chosen by tests/rdma/run: host, or Soft-RoCE (its keys differ each time). */
static const char *kind_of_adapter(void)
{
	const char *kind = getenv("RDMA_TEST_KIND");

	return kind ? kind : "host";
}

/* Memory at the same address again: freed and allocated, or unmapped and mapped. */
static const struct memory {
	uint64_t (*begin)(size_t size);
	void (*end)(uint64_t address);
} memories[] = { { gpu_allocate, gpu_free }, { gpu_map, gpu_unmap } };

static struct loopback loopback;

static void open_all(void)
{
	gpu_open();
	loopback_open(&loopback);
}

static void close_all(void)
{
	loopback_close(&loopback);
}

CASE(clients, .set_up = open_all, .tear_down = close_all);
/* Tests that open the device themselves. */
CASE(devices, .set_up = gpu_open);

LOOP_TEST(clients, a_stale_address_gets_a_new_registration_and_the_old_key_is_dead, 0, 2)
{
	static char message[4096] = "written by the adapter";
	char readback[sizeof(message)];
	struct ibv_mr *first, *second, *source;
	uint64_t address, again;
	const struct memory *memory = &memories[_i];
	uint32_t old_key;

	source = ibv_reg_mr(loopback.pd, message, sizeof(message), IBV_ACCESS_LOCAL_WRITE);
	ck_assert_ptr_nonnull(source);

	address = memory->begin(4 * MIB);
	first = must_register(loopback.pd, address, 4 * MIB);
	old_key = first->rkey;
	loopback_connect(&loopback);
	ck_assert_int_eq(loopback_write(&loopback, message, source->lkey, address + MIB, old_key,
					sizeof(message)),
			 IBV_WC_SUCCESS);
	gpu_read(readback, address + MIB, sizeof(readback));
	ck_assert_mem_eq(readback, message, sizeof(message));

	memory->end(address);
	loopback_connect(&loopback);
	ck_assert_int_eq(
		loopback_write(&loopback, message, source->lkey, address, old_key, sizeof(message)),
		IBV_WC_REM_ACCESS_ERR);
	again = memory->begin(4 * MIB);
	ck_assert_uint_eq(again, address); /* otherwise this test shows nothing */
	gpu_fill(again, 0x5a, 4 * MIB);
	second = must_register(loopback.pd, again, 4 * MIB);
	ck_assert_ptr_ne(second, first);
	ck_assert_uint_eq(statistic("deregistrations"), 1);
	/* An adapter's driver may reuse a key (mlx5 has a cache): then it is the new region's. */
	if (second->rkey != old_key) {
		loopback_connect(&loopback);
		ck_assert_int_eq(loopback_write(&loopback, message, source->lkey, again, old_key,
						sizeof(message)),
				 IBV_WC_REM_ACCESS_ERR);
	} else {
		ck_assert_str_eq(kind_of_adapter(), "host");
		printf("the adapter gave the key of freed memory out again\n");
	}
	gpu_read(readback, again, sizeof(readback));
	for (size_t i = 0; i < sizeof(readback); i++)
		ck_assert_int_eq(readback[i], 0x5a);
	loopback_connect(&loopback);
	ck_assert_int_eq(loopback_write(&loopback, message, source->lkey, again, second->rkey,
					sizeof(message)),
			 IBV_WC_SUCCESS);
	gpu_read(readback, again, sizeof(readback));
	ck_assert_mem_eq(readback, message, sizeof(message));

	ck_assert_int_eq(ibv_dereg_mr(first), 0);
	ck_assert_uint_eq(statistic("late_deregistrations"), 1);
	ck_assert_int_eq(ibv_dereg_mr(second), 0);
	memory->end(again);
	ck_assert_int_eq(ibv_dereg_mr(source), 0);
	ck_assert_int_eq(loopback_kernel_regions(), 0);
}

/* Sizes of arrays, rounded as UCX does to 16 bytes, and the last one as NCCL does to pages. */
LOOP_TEST(clients, a_rounded_range_is_a_hit_and_its_key_is_dead_after_the_free, 0, 4)
{
	static const size_t sizes[] = { 8, 1000, 1000004, 3515624 };
	size_t unit = _i == 3 ? 4096 : 16, length = (sizes[_i] + unit - 1) / unit * unit;
	char message[8] = "rounded", readback[sizeof(message)];
	struct ibv_mr *first, *second, *source;
	uint64_t address = gpu_allocate(sizes[_i]), last = address + sizes[_i] - sizeof(message);
	uint32_t key;

	source = ibv_reg_mr(loopback.pd, message, sizeof(message), IBV_ACCESS_LOCAL_WRITE);
	ck_assert_ptr_nonnull(source);
	first = must_register(loopback.pd, address, length);
	second = must_register(loopback.pd, address, length);
	key = first->rkey;
	ck_assert_uint_eq(second->rkey, key);
	ck_assert_uint_eq(statistic("hits"), 1);
	loopback_connect(&loopback);
	ck_assert_int_eq(loopback_write(&loopback, message, source->lkey, last, key,
					sizeof(message)),
			 IBV_WC_SUCCESS);
	gpu_read(readback, last, sizeof(readback));
	ck_assert_mem_eq(readback, message, sizeof(message));
	gpu_free(address);
	ck_assert_uint_eq(statistic("revoked"), 2);
	ck_assert_int_eq(loopback_kernel_regions(), 1);
	loopback_connect(&loopback);
	ck_assert_int_eq(loopback_write(&loopback, message, source->lkey, last, key,
					sizeof(message)),
			 IBV_WC_REM_ACCESS_ERR);
	ck_assert_int_eq(ibv_dereg_mr(first), 0);
	ck_assert_int_eq(ibv_dereg_mr(second), 0);
	ck_assert_int_eq(ibv_dereg_mr(source), 0);
}

TEST(clients, registered_memory_does_not_keep_a_protection_domain_busy)
{
	struct ibv_mr *held;
	struct ibv_pd *pd;
	uint64_t address;

	pd = ibv_alloc_pd(loopback.context);
	ck_assert_ptr_nonnull(pd);
	address = gpu_allocate(MIB);
	held = must_register(pd, address, MIB);
	/* EBUSY while the client holds a registration, as without peerpin. */
	ck_assert_int_eq(ibv_dealloc_pd(pd), EBUSY);
	ck_assert_int_eq(loopback_kernel_regions(), 1);
	ck_assert_int_eq(ibv_dereg_mr(held), 0);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
	ck_assert_int_eq(loopback_kernel_regions(), 0);
	/* The kernel reuses the handle: the new domain serves nothing of the old one. */
	pd = ibv_alloc_pd(loopback.context);
	ck_assert_ptr_nonnull(pd);
	held = must_register(pd, address, MIB);
	ck_assert_uint_eq(statistic("synchronous"), 2);
	ck_assert_int_eq(ibv_dereg_mr(held), 0);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
}

/* As without peerpin, where the kernel's memory region stays until its deregistration. */
TEST(clients, a_registration_of_freed_memory_keeps_its_protection_domain_busy)
{
	struct ibv_mr *one, *other;
	struct ibv_pd *pd;
	uint64_t address;

	pd = ibv_alloc_pd(loopback.context);
	ck_assert_ptr_nonnull(pd);
	address = gpu_allocate(MIB);
	one = must_register(pd, address, MIB);
	other = must_register(pd, address, MIB);
	gpu_free(address);
	ck_assert_int_eq(loopback_kernel_regions(), 0);
	ck_assert_int_eq(ibv_dealloc_pd(pd), EBUSY);
	ck_assert_int_ne(ibv_rereg_mr(one, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				      IBV_ACCESS_LOCAL_WRITE),
			 0);
	ck_assert_int_eq(ibv_dereg_mr(one), 0);
	ck_assert_int_eq(ibv_dealloc_pd(pd), EBUSY);
	ck_assert_int_eq(ibv_dereg_mr(other), 0);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
}

TEST(devices, a_device_can_be_closed_with_everything_on_it)
{
	struct ibv_context *context;
	struct ibv_pd *pd;
	uint64_t address;

	context = loopback_open_device();
	pd = ibv_alloc_pd(context);
	ck_assert_ptr_nonnull(pd);
	address = gpu_allocate(MIB);
	must_register(pd, address, MIB);
	ck_assert_int_eq(ibv_close_device(context), 0);
	ck_assert_int_eq(loopback_kernel_regions(), 0);
	ck_assert_uint_eq(statistic("deregistrations_failed"), 0);
	gpu_free(address);
	ck_assert_uint_eq(statistic("deregistrations"), 1);
}

TEST(clients, the_end_of_a_context_ends_the_registrations_of_its_memory)
{
	struct ibv_mr *mr;

	mr = must_register(loopback.pd, gpu_allocate(MIB), MIB);
	ck_assert_int_eq(loopback_kernel_regions(), 1);
	gpu_close();
	ck_assert_int_eq(loopback_kernel_regions(), 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
}

TEST(clients, host_memory_is_registered_as_ever)
{
	struct ibv_mr *mr;
	char *memory = malloc(MIB);

	gpu_allocate(MIB);
	mr = must_register(loopback.pd, (uint64_t)(uintptr_t)memory, MIB);
	ck_assert_int_eq(loopback_kernel_regions(), 1);
	ck_assert_uint_eq(statistic("requests"), 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_int_eq(loopback_kernel_regions(), 0);
	/* An unmapped address fails as without peerpin, with the kernel's errno. */
	errno = 0;
	ck_assert_ptr_null(ibv_reg_mr(loopback.pd, (void *)4096, 4096, ACCESS));
	ck_assert_int_eq(errno, EFAULT);
	free(memory);
}

TEST(clients, a_forked_child_leaves_its_parent_s_registrations_alone)
{
	struct ibv_mr *mr;
	uint64_t address;
	int status;
	pid_t child;

	address = gpu_allocate(MIB);
	mr = must_register(loopback.pd, address, MIB);
	child = fork();
	if (!child)
		_exit(ibv_dereg_mr(mr) ? 1 : 0);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(loopback_kernel_regions(), 1);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
}

/* ---- a client that takes verbs by dlopen: as NCCL does, with the version of each symbol, or as
 * NVSHMEM, without ---- */

struct client {
	struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
	int (*dealloc_pd)(struct ibv_pd *pd);
	struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t length, int access);
	struct ibv_mr *(*reg_mr_iova2)(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				       unsigned int access);
	int (*dereg_mr)(struct ibv_mr *mr);
};

static bool without_versions;

static void *must_find(void *handle, const char *symbol, const char *version)
{
	void *found = without_versions ? dlsym(handle, symbol) : dlvsym(handle, symbol, version);

	ck_assert_msg(found, "%s: %s", symbol, dlerror());
	return found;
}

LOOP_TEST(devices, a_client_by_dlopen_hits_like_a_linked_one, 0, 3)
{
	int flags = _i == 1 ? RTLD_NOW | RTLD_DEEPBIND : RTLD_NOW;
	struct ibv_context *context;
	struct ibv_mr *handles[8];
	struct client client;
	struct ibv_pd *pd;
	uint64_t address;
	void *library;

	without_versions = _i == 2;
	library = dlopen("libibverbs.so.1", flags);
	ck_assert_ptr_nonnull(library);
	client.alloc_pd = must_find(library, "ibv_alloc_pd", "IBVERBS_1.1");
	client.dealloc_pd = must_find(library, "ibv_dealloc_pd", "IBVERBS_1.1");
	client.reg_mr = must_find(library, "ibv_reg_mr", "IBVERBS_1.1");
	client.reg_mr_iova2 = must_find(library, "ibv_reg_mr_iova2", "IBVERBS_1.8");
	client.dereg_mr = must_find(library, "ibv_dereg_mr", "IBVERBS_1.1");

	context = loopback_open_device();
	pd = client.alloc_pd(context);
	ck_assert_ptr_nonnull(pd);
	address = gpu_allocate(4 * MIB);
	for (size_t i = 0; i < 8; i++) {
		void *from = (void *)(address + i * 4096);

		handles[i] = i % 2 ? client.reg_mr(pd, from, 4096, ACCESS)
				   : client.reg_mr_iova2(pd, from, 4096, (uintptr_t)from, ACCESS);
		ck_assert_ptr_nonnull(handles[i]);
		ck_assert_ptr_eq(handles[i]->addr, from);
		for (size_t j = 0; j < i; j++)
			ck_assert_ptr_ne(handles[i], handles[j]);
		ck_assert_uint_eq(handles[i]->length, 4096);
		ck_assert_uint_eq(handles[i]->lkey, handles[0]->lkey);
	}
	ck_assert_uint_eq(statistic("synchronous"), 1);
	ck_assert_uint_eq(statistic("hits"), 7);
	ck_assert_int_eq(loopback_kernel_regions(), 1);
	for (int i = 0; i < 8; i++)
		ck_assert_int_eq(client.dereg_mr(handles[i]), 0);
	ck_assert_int_eq(client.dealloc_pd(pd), 0);
	ck_assert_int_eq(ibv_close_device(context), 0);
}

SUITE("verbs on a real adapter")
