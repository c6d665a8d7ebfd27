/* SPDX-License-Identifier: BSD-3-Clause */
/* uses.c -- accesses by key: each of their errors, and what waits for them */
#include "adapter.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "sim/adapter_access.h"

static int wrong(uint32_t domain, uint32_t key, uint64_t address, uint64_t bytes, int access)
{
	struct adapter_use use;
	int error = adapter_use_begin(device, domain, key, address, bytes, access, &use);

	if (!error)
		adapter_use_end(&use);
	return error;
}

static int try(uint32_t key, uint64_t address)
{
	return wrong(ADAPTER_ANY_DOMAIN, key, address, 1, 0);
}

static struct adapter_use used(uint32_t key, uint64_t address, uint64_t bytes)
{
	struct adapter_use use;

	require(!adapter_use_begin(device, pd->handle, key, address, bytes, 0, &use));
	require(!use.device && use.memory);
	return use;
}

/* ---- errors ---- */

ADAPTER_TEST(errors_are_told_apart)
{
	uint64_t memory = host(SIZE), begin = memory + UNIT;
	struct ibv_mr *mr = ibv_reg_mr_iova(pd, (void *)memory, SIZE, begin,
					    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct ibv_pd *other = ibv_alloc_pd(device);
	uint32_t key = mr->rkey;

	require(other);
	require(!wrong(pd->handle, key, begin, SIZE, IBV_ACCESS_REMOTE_WRITE));
	require(!wrong(ADAPTER_ANY_DOMAIN, key, begin + SIZE - 1, 1, 0));
	require(wrong(other->handle, key, begin, 1, 0) == -EINVAL);
	require(wrong(pd->handle, 0, begin, 1, 0) == -EINVAL);
	require(wrong(pd->handle, 0xffffff00, begin, 1, 0) == -EINVAL);
	require(wrong(pd->handle, key, begin, 1, IBV_ACCESS_REMOTE_READ) == -EACCES);
	require(wrong(pd->handle, key, begin, 1, IBV_ACCESS_REMOTE_ATOMIC) == -EACCES);
	require(wrong(pd->handle, key, memory, 1, 0) == -ERANGE);
	require(wrong(pd->handle, key, begin - 1, 2, 0) == -ERANGE);
	require(wrong(pd->handle, key, begin + SIZE - 1, 2, 0) == -ERANGE);
	require(wrong(pd->handle, key, begin + 1, UINT64_MAX, 0) == -ERANGE);
	require(sim("stale_keys") == 0);
	require(!ibv_dereg_mr(mr));
	/* A peer's key: no mistake of this process. */
	require(wrong(pd->handle, key, begin, 1, 0) == -ESTALE && sim("stale_keys") == 1);
}

/* ---- what waits ---- */

struct call {
	pthread_t thread;
	void (*make)(struct call *call);
	struct ibv_mr *mr;
	CUdeviceptr memory;
	_Atomic pid_t id;
	_Atomic bool done;
};

static void *make_call(void *argument)
{
	struct call *call = argument;

	require_cuda(cuCtxSetCurrent(context));
	call->id = gettid();
	call->make(call);
	call->done = true;
	return NULL;
}

/* Until the call waits for a use: other accesses are refused from then on. */
static void begin_call(struct call *call, uint32_t key, uint64_t address)
{
	require(!pthread_create(&call->thread, NULL, make_call, call));
	until(try(key, address) == -ESTALE);
	until(call->done || is_waiting(call->id));
	require(!call->done);
}

static void deregister(struct call *call)
{
	require(!ibv_dereg_mr(call->mr));
}

static void change(struct call *call)
{
	require(!ibv_rereg_mr(call->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ACCESS));
}

static void free_memory(struct call *call)
{
	require_cuda(cuMemFree_v2(call->memory));
}

ADAPTER_TEST(a_deregistration_waits_for_each_use)
{
	uint64_t memory = host(SIZE);
	struct call call = { .make = deregister, .mr = registered_in(pd, memory, SIZE, ACCESS) };
	uint32_t key = call.mr->rkey;
	struct adapter_use one = used(key, memory, 1), two = used(key, memory + 1, SIZE - 1);

	begin_call(&call, key, memory);
	require(ibv_dereg_mr(call.mr) == EINVAL);
	adapter_use_end(&one);
	until(call.done || is_waiting(call.id));
	require(!call.done && sim("live") == 1);
	adapter_copy_to(&two, 0, "x", 1, true);
	adapter_use_end(&two);
	require(!pthread_join(call.thread, NULL) && sim("live") == 0);
	require(*(char *)(memory + 1) == 'x');
}

/* Registrations meanwhile move the table. */
ADAPTER_TEST(a_deregistration_waits_while_others_come)
{
	uint64_t memory = host(SIZE);
	struct call call = { .make = deregister, .mr = registered_in(pd, memory, SIZE, ACCESS) };
	struct adapter_use use = used(call.mr->rkey, memory, 1);

	begin_call(&call, call.mr->rkey, memory);
	for (int i = 0; i < 1000; i++)
		require(registered_in(pd, memory, SIZE, ACCESS));
	require(!call.done);
	adapter_use_end(&use);
	require(!pthread_join(call.thread, NULL) && sim("live") == 1000);
}

ADAPTER_TEST(a_change_waits_for_a_use)
{
	uint64_t memory = host(SIZE);
	struct call call = { .make = change,
			     .mr = registered_in(pd, memory, SIZE, IBV_ACCESS_LOCAL_WRITE) };
	uint32_t key = call.mr->rkey;
	struct adapter_use use = used(key, memory, SIZE);

	begin_call(&call, key, memory);
	adapter_use_end(&use);
	require(!pthread_join(call.thread, NULL));
	require(try(key, memory) == -ESTALE && !try(call.mr->rkey, memory));
	require(!ibv_dereg_mr(call.mr));
}

ADAPTER_TEST(a_free_waits_for_a_use)
{
	CUdeviceptr memory = allocate(UNIT);
	struct call call = { .make = free_memory, .memory = memory };
	char text[] = "sixteen letters", read[sizeof(text)];
	struct adapter_use use;

	/* Another iova: peerpin forwards the request, and does not end the registration. */
	call.mr = ibv_reg_mr_iova(pd, (void *)memory, UNIT, memory + SIZE, ACCESS);
	require(call.mr);
	set("outlive", 1);
	use = used(call.mr->rkey, memory + SIZE, UNIT);
	begin_call(&call, call.mr->rkey, memory + SIZE);
	adapter_copy_to(&use, SIZE, text, sizeof(text), true);
	adapter_copy_from(&use, SIZE, read, sizeof(read));
	require(!memcmp(text, read, sizeof(text)));
	adapter_use_end(&use);
	require(!pthread_join(call.thread, NULL) && sim("outlived") == 1);
	require(!ibv_dereg_mr(call.mr));
}

ADAPTER_TEST(frees_under_the_preload_wait_for_a_use)
{
	CUdeviceptr memory = allocate(UNIT);
	struct call call = { .make = free_memory, .memory = memory };
	struct adapter_use use;
	char byte = 5;

	if (!is_preloaded())
		return;
	call.mr = registered(memory);
	use = used(call.mr->rkey, memory, UNIT);
	begin_call(&call, call.mr->rkey, memory);
	adapter_copy_to(&use, UNIT - 1, &byte, 1, true);
	adapter_use_end(&use);
	require(!pthread_join(call.thread, NULL) && sim("outlived") == 0 && sim("live") == 0);
}

ADAPTER_TEST(a_child_does_not_wait_for_uses_of_its_parent)
{
	uint64_t memory = host(SIZE);
	struct ibv_mr *mr = registered_in(pd, memory, SIZE, ACCESS);
	struct adapter_use use = used(mr->rkey, memory, SIZE);
	pid_t child;

	set("strict", 0);
	child = fork();
	if (!child)
		_exit(ibv_dereg_mr(mr));
	require(await_child(child) == 0);
	adapter_use_end(&use);
	require(!ibv_dereg_mr(mr));
}

/* ---- bytes ---- */

ADAPTER_TEST(copies_have_each_byte_and_no_more)
{
	uint64_t memory = host(SIZE);
	struct ibv_mr *mr = registered_in(pd, memory, SIZE, ACCESS);
	struct adapter_use use = used(mr->rkey, memory, SIZE);
	char from[512], to[512];

	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (char)(i % 127 + 1);
	for (size_t size = 1; size <= 300; size++) {
		memset((void *)memory, 0, sizeof(from));
		adapter_copy_to(&use, 5, from, size, size % 2);
		require(!*(char *)(memory + 4) && !*(char *)(memory + 5 + size));
		require(!memcmp((void *)(memory + 5), from, size));
		memset(to, 0, sizeof(to));
		adapter_copy_from(&use, 5, to, size);
		require(!memcmp(to, from, size) && !to[size]);
	}
	adapter_use_end(&use);
	require(!ibv_dereg_mr(mr));
}

const struct test use_tests[] = {
	TEST(errors_are_told_apart, 0, NULL),
	TEST(a_deregistration_waits_for_each_use, 0, NULL),
	TEST(a_deregistration_waits_while_others_come, 0, NULL),
	TEST(a_change_waits_for_a_use, 0, NULL),
	TEST(a_free_waits_for_a_use, 0, NULL),
	TEST(frees_under_the_preload_wait_for_a_use, 0, NULL),
	TEST(a_child_does_not_wait_for_uses_of_its_parent, 0, NULL),
	TEST(copies_have_each_byte_and_no_more, 0, NULL),
	{ .name = NULL },
};
