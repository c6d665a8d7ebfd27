/* SPDX-License-Identifier: BSD-3-Clause */
/* cycles_patterns.c -- how MPI programs use their buffers */
#include "cycles.h"
#include "../vmm.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#define THREADS	 4
#define CONTEXTS 5 /* a context takes as long as a thousand cycles */
#define FEW	 3 /* allocations that the background may reach too late; it waits for none of more */

/* ---- patterns: each does its cycles and leaves nothing ---- */

static void fixed(int cycles)
{
	static const size_t sizes[] = { 65536, 1000004, 3000004, 16 * MIB };
	enum { COUNT = sizeof(sizes) / sizeof(sizes[0]) };
	CUdeviceptr buffers[COUNT], beside[COUNT];

	for (int i = 0; i < COUNT; i++) {
		buffers[i] = client_obtain(sizes[i]);
		beside[i] = client_obtain(sizes[i]);
		client_look(buffers[i], false);
		client_use(buffers[i], sizes[i], false);
	}
	for (int cycle = 0; cycle < cycles; cycle++) {
		for (int i = 0; i < COUNT; i++) {
			struct ibv_mr *mr = client_register(client_pd, buffers[i], sizes[i], true);

			if (!cycle)
				client_reach(mr);
			must(!ibv_dereg_mr(mr));
			client_look(buffers[i], true);
			client_look(beside[i], client_neighbours_share && sizes[i] < 2 * MIB &&
						       client_is_set(beside[i]));
		}
	}
	for (int i = 0; i < COUNT; i++) {
		client_free(buffers[i]);
		client_free(beside[i]);
	}
}

/* The address comes back without its attribute. */
static void reallocated(int cycles)
{
	for (int cycle = 0; cycle < cycles; cycle++) {
		CUdeviceptr buffer = client_obtain(2 * MIB), beside = client_obtain(2 * MIB);

		client_look(buffer, false);
		client_use(buffer, 2 * MIB, false);
		client_use(buffer, 2 * MIB, true);
		client_look(buffer, true);
		client_look(beside, false);
		client_free(buffer);
		client_free(beside);
	}
}

/* As a program that computes before it sends: registered in the background by then. */
static void computed_first(int cycles)
{
	int late = 0;

	/* First a request: background registration needs its size. */
	for (int cycle = -1; cycle < cycles; cycle++) {
		uint64_t before = statistic("registrations_background");
		CUdeviceptr buffer = client_obtain(3 * MIB);
		double end = seconds() + 10;
		bool ready = false;

		while (cycle >= 0 && late <= FEW && !ready && seconds() < end) {
			ready = statistic("registrations_background") != before;
			if (!ready)
				sched_yield();
		}
		late += cycle >= 0 && !ready;
		client_look(buffer, false);
		client_use(buffer, 3 * MIB, ready);
		client_look(buffer, true);
		client_free(buffer);
	}
	if (late * 20 > cycles) {
		printf("# of %d allocations %d or more were not registered in the background\n",
		       cycles, late);
		seen.wrong++;
	}
}

/* Growing buffers, all in use, until the pool is freed and starts again. */
static void growing(int cycles)
{
	enum { MOST = 12 };
	CUdeviceptr buffers[MOST];
	int count = 0;

	for (int cycle = 0; cycle < cycles; cycle++) {
		size_t size = 2 * MIB + (size_t)count * 65536;

		buffers[count] = client_obtain(size);
		client_look(buffers[count], false);
		client_use(buffers[count], size, false);
		count++;
		for (int i = 0; i < count; i++) {
			client_use(buffers[i], 2 * MIB + (size_t)i * 65536, true);
			client_look(buffers[i], true);
		}
		while ((count == MOST || cycle == cycles - 1) && count)
			client_free(buffers[--count]);
	}
}

/* Every other allocation of a block is used. */
static void many_small(int cycles)
{
	enum { COUNT = 16 };
	CUdeviceptr buffers[COUNT];
	struct ibv_mr *handles[COUNT];

	for (int cycle = 0; cycle < cycles; cycle++) {
		for (int i = 0; i < COUNT; i++)
			buffers[i] = client_obtain(1000 + 100 * (size_t)i);
		for (int i = 0; i < COUNT; i += 2)
			handles[i] = client_register(client_pd, buffers[i], 1000 + 100 * (size_t)i,
						     false);
		for (int i = 0; i < COUNT; i++)
			client_look(buffers[i], !(i % 2) || (client_neighbours_share &&
							     client_is_set(buffers[i])));
		for (int i = 0; i < COUNT; i += 2)
			must(!ibv_dereg_mr(handles[i]));
		for (int i = 0; i < COUNT; i += 2)
			client_use(buffers[i], 1000 + 100 * (size_t)i, true);
		for (int i = 0; i < COUNT; i++)
			client_free(buffers[(i * 5) % COUNT]);
	}
}

/* A buffer is freed, its MR still held, while the adapter works on another. */
static void freed_beside_another(int cycles)
{
	CUdeviceptr kept = client_obtain(4 * MIB);

	for (int cycle = 0; cycle < cycles; cycle++) {
		struct ibv_mr *busy = client_register(client_pd, kept, 4 * MIB, cycle > 0), *ended;
		CUdeviceptr buffer = client_obtain(2 * MIB);
		uint64_t living, late = statistic("late_deregistrations");

		ended = client_register(client_pd, buffer, 2 * MIB, false);
		living = client_adapter_statistic("live");
		client_free(buffer);
		must(client_adapter_statistic("live") == living - 1);
		client_look(kept, true);
		client_reach(busy);
		must(!ibv_dereg_mr(ended));
		must(statistic("late_deregistrations") == late + 1);
		must(!ibv_dereg_mr(busy));
	}
	client_free(kept);
}

/* A persistent request's buffer is registered once, and stays while others change. */
static void persistent(int cycles)
{
	CUdeviceptr kept = client_obtain(8 * MIB);
	struct ibv_mr *mr = client_register(client_pd, kept, 8 * MIB, false);
	uint32_t lkey = mr->lkey, rkey = mr->rkey;

	for (int cycle = 0; cycle < cycles; cycle++) {
		CUdeviceptr buffer = client_obtain(2 * MIB);

		client_use(buffer, 2 * MIB, false);
		client_free(buffer);
		must(mr->lkey == lkey && mr->rkey == rkey);
		client_look(kept, true);
	}
	client_reach(mr);
	must(!ibv_dereg_mr(mr));
	client_free(kept);
}

/* Two communicators with a protection domain each. */
static void two_domains(int cycles)
{
	CUdeviceptr kept = client_obtain(4 * MIB);

	for (int cycle = 0; cycle < cycles; cycle++) {
		CUdeviceptr buffer = client_obtain(2 * MIB);
		struct ibv_mr *here = client_register(client_pd, buffer, 2 * MIB, false);
		struct ibv_mr *there = client_register(client_other_pd, buffer, 2 * MIB, false);

		must(here->lkey != there->lkey);
		client_use(kept, 4 * MIB, cycle > 0);
		must(!ibv_dereg_mr(client_register(client_other_pd, kept, 4 * MIB, cycle > 0)));
		must(!ibv_dereg_mr(here) && !ibv_dereg_mr(there));
		client_look(buffer, true);
		client_free(buffer);
	}
	client_free(kept);
}

/* The driver refuses SYNC_MEMOPS on VMM memory; the client sees no error. */
static void mapped(int cycles)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;
	struct ibv_mr *mr;

	must_cuda(cuMemAddressReserve(&address, 4 * MIB, 0, 0, 0));
	must_cuda(cuMemCreate(&handle, 4 * MIB, &vmm_rdma, 0));
	for (int cycle = 0; cycle < cycles; cycle++) {
		must_cuda(cuMemMap(address, 4 * MIB, 0, handle, 0));
		must_cuda(cuMemSetAccess(address, 4 * MIB, &vmm_access, 1));
		client_use(address, 4 * MIB, false);
		mr = client_register(client_pd, address, 4 * MIB, true);
		client_look(address, false);
		must_cuda(cuMemUnmap(address, 4 * MIB));
		must(!ibv_dereg_mr(mr));
	}
	must_cuda(cuMemRelease(handle));
	must_cuda(cuMemAddressFree(address, 4 * MIB));
}

/* Pool memory is registered only by the client's own dma-buf. */
static void pooled(int cycles)
{
	for (int cycle = 0; cycle < cycles; cycle++) {
		CUdeviceptr address;
		struct ibv_mr *mr;
		int fd;

		must_cuda(cuMemAllocAsync(&address, 4 * MIB, NULL));
		must_cuda(cuCtxSynchronize());
		must_cuda(cuMemGetHandleForAddressRange(&fd, address, 4 * MIB,
							CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
		mr = ibv_reg_dmabuf_mr(client_pd, 0, 4 * MIB, address, fd, ACCESS);
		must(mr && !close(fd));
		seen.requests++;
		must_cuda(cuMemFreeAsync(address, NULL));
		must(!ibv_dereg_mr(mr));
	}
}

static void ended_contexts(int cycles)
{
	for (int cycle = 0; cycle < cycles && cycle < CONTEXTS; cycle++) {
		CUcontext other;
		struct ibv_mr *mr;

		must_cuda(cuCtxCreate_v2(&other, 0, 0));
		mr = client_register(client_pd, client_obtain(3 * MIB), 3 * MIB, false);
		must_cuda(cuCtxDestroy_v2(other));
		must(!ibv_dereg_mr(mr));
	}
}

/* Registered by the worker alone, but for one request of each size in 4: without any, background
 * registration of that class of sizes would end. */
static void unrequested(int cycles)
{
	static const size_t sizes[] = { 1000, 300000, 3 * MIB, 64 * MIB };
	CUdeviceptr buffer = client_obtain(2 * MIB);

	client_use(buffer, 2 * MIB, false);
	client_free(buffer);
	for (int cycle = 0; cycle < cycles; cycle++) {
		uint64_t before = statistic("registrations_background");

		buffer = client_obtain(sizes[cycle % 4]);
		await_background(before);
		if (cycle / 4 % 4 == 3)
			client_use(buffer, sizes[cycle % 4], true);
		client_free(buffer);
	}
}

/* Each window is new: registered as a whole, also for remote atomics, and used in parts. */
static void windows(int cycles)
{
	enum { PARTS = 4 };
	static const size_t size = 16 * MIB, part = size / PARTS;
	struct ibv_mr *whole, *parts[PARTS];

	for (int cycle = 0; cycle < cycles; cycle++) {
		CUdeviceptr window = client_obtain(size);

		client_look(window, false);
		whole = client_register(client_pd, window, size, false);
		for (size_t i = 0; i < PARTS; i++)
			parts[i] = client_register(client_pd, window + i * part, part, true);
		if (!cycle)
			client_reach(parts[PARTS - 1]);
		client_look(window + size - 1, true);
		/* The parts last as long as the window, or longer. */
		if (cycle % 2)
			must(!ibv_dereg_mr(whole));
		for (size_t i = 0; i < PARTS; i++)
			must(!ibv_dereg_mr(parts[i]));
		if (!(cycle % 2))
			must(!ibv_dereg_mr(whole));
		client_free(window);
	}
}

struct thread {
	pthread_t id;
	int number, cycles;
	CUdeviceptr common;
};

static void *run_thread(void *argument)
{
	const struct thread *thread = argument;
	size_t size = 2 * MIB * (size_t)(thread->number + 1);

	must_cuda(cuCtxSetCurrent(client_context));
	for (int cycle = 0; cycle < thread->cycles; cycle++) {
		CUdeviceptr buffer = client_obtain(size);

		client_look(buffer, false);
		client_use(buffer, size, false);
		client_use(buffer, size, true);
		client_look(buffer, true);
		client_use(thread->common, 4 * MIB, true);
		client_look(thread->common, true);
		client_free(buffer);
	}
	return NULL;
}

static void threads(int cycles)
{
	struct thread all[THREADS];
	CUdeviceptr common = client_obtain(4 * MIB);

	client_use(common, 4 * MIB, false);
	for (int i = 0; i < THREADS; i++) {
		all[i] = (struct thread){ .number = i,
					  .cycles = (cycles + THREADS - 1) / THREADS,
					  .common = common };
		must(!pthread_create(&all[i].id, NULL, run_thread, &all[i]));
	}
	for (int i = 0; i < THREADS; i++)
		must(!pthread_join(all[i].id, NULL));
	client_free(common);
}

/* ---- all ---- */

/* The simulated driver does not export a granule after its first allocation is freed (unknown for
 * the real one): registered by peer memory. */
const struct pattern patterns[] = {
	{ .name = "fixed", .run = fixed },
	{ .name = "reallocated", .run = reallocated },
	{ .name = "computed-first", .run = computed_first },
	{ .name = "growing", .run = growing },
	{ .name = "freed-beside-another", .run = freed_beside_another },
	{ .name = "persistent", .run = persistent },
	{ .name = "two-domains", .run = two_domains },
	{ .name = "mapped", .run = mapped },
	{ .name = "pooled", .run = pooled },
	{ .name = "ended-contexts", .run = ended_contexts },
	{ .name = "unrequested", .run = unrequested, .by_name = true },
	{ .name = "windows", .run = windows },
	{ .name = "threads", .run = threads },
	{ .name = "crash", .run = crash },
	{ .name = "many-small", .run = many_small, .any_way = true },
	{ .name = NULL },
};
