/* SPDX-License-Identifier: BSD-3-Clause */
/* leak.c -- freed GPU memory that was registered by dma-buf comes back
 *
 * An open dma-buf keeps its memory (measured), and a registration keeps its dma-buf: the simulated
 * adapter holds it as the kernel does. A registration that outlives its memory thus shows in the
 * driver's free memory. Runs under the preload, on the real driver or the simulated one. Other
 * programs disturb the measurement: differences are measured again, and a leak differs each time.
 * The last row proves the measurement.
 */
#include "statistic.h"

#include <stdbool.h>
#include <unistd.h>

#include "memory/cuda_abi.h"
#include "sim/adapter_verbs.h"
#include "sim/sim_adapter.h"
#include "../vmm.h"

#define CYCLES 50
#define TRIES  3
#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

#define must_cuda(call) must((call) == CUDA_SUCCESS)

static struct ibv_context *device;
static struct ibv_pd *pd;
static CUmemoryPool pool;
static int passed, failed, skipped;

static size_t free_memory(void)
{
	size_t available, total;

	must_cuda(cuCtxSynchronize());
	must_cuda(cuMemPoolTrimTo(pool, 0));
	must_cuda(cuMemGetInfo_v2(&available, &total));
	return available;
}

static struct ibv_mr *registered(CUdeviceptr address, size_t size)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, (void *)address, size, ACCESS);

	must(mr);
	return mr;
}

/* ---- one cycle of each kind ---- */

static void allocate(size_t size)
{
	CUdeviceptr address;

	must_cuda(cuMemAlloc_v2(&address, size));
	must(!ibv_dereg_mr(registered(address, size)));
	must_cuda(cuMemFree_v2(address));
}

/* As caches of MPI libraries, which deregister later or never. */
static void hold_beyond(size_t size)
{
	CUdeviceptr address;
	struct ibv_mr *mr;

	must_cuda(cuMemAlloc_v2(&address, size));
	mr = registered(address, size);
	must_cuda(cuMemFree_v2(address));
	must(!ibv_dereg_mr(mr));
}

static void leave_to_worker(size_t size)
{
	uint64_t before = statistic("registrations_background");
	CUdeviceptr address;

	must_cuda(cuMemAlloc_v2(&address, size));
	await_background(before);
	must_cuda(cuMemFree_v2(address));
}

static void map(size_t size)
{
	static const size_t unit = (size_t)2 << 20;
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;
	struct ibv_mr *mr;

	size = (size + unit - 1) / unit * unit;
	must_cuda(cuMemAddressReserve(&address, size, 0, 0, 0));
	must_cuda(cuMemCreate(&handle, size, &vmm_rdma, 0));
	must_cuda(cuMemMap(address, size, 0, handle, 0));
	must_cuda(cuMemRelease(handle));
	must_cuda(cuMemSetAccess(address, size, &vmm_access, 1));
	mr = registered(address, size);
	must_cuda(cuMemUnmap(address, size));
	must_cuda(cuMemAddressFree(address, size));
	must(!ibv_dereg_mr(mr));
}

/* Pool memory is registered only by the client's own dma-buf. */
static void take_from_pool(size_t size)
{
	size_t length = (size + 65535) / 65536 * 65536;
	CUdeviceptr address;
	struct ibv_mr *mr;
	int fd;

	must_cuda(cuMemAllocAsync(&address, length, NULL));
	must_cuda(cuCtxSynchronize());
	must_cuda(cuMemGetHandleForAddressRange(&fd, address, length,
						CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	mr = ibv_reg_dmabuf_mr(pd, 0, length, address, fd, ACCESS);
	must(mr);
	must(!close(fd));
	must_cuda(cuMemFreeAsync(address, NULL));
	must(!ibv_dereg_mr(mr));
}

static void end_context(size_t size)
{
	CUdeviceptr address;
	CUcontext other;
	struct ibv_mr *mr;

	must_cuda(cuCtxCreate_v2(&other, 0, 0));
	must_cuda(cuMemAlloc_v2(&address, size));
	mr = registered(address, size);
	must_cuda(cuCtxDestroy_v2(other));
	must(!ibv_dereg_mr(mr));
}

/* ---- rows ---- */

static void row(const char *name, void (*cycle)(size_t size), size_t size, int cycles)
{
	uint64_t made = statistic("registrations_dma_buf");
	size_t before = 0, after = 1;
	uint64_t run = 1;
	bool good;

	/* The driver keeps memory for itself from the first cycle on. */
	cycle(size);
	for (int i = 0; i < TRIES && before != after; i++) {
		before = free_memory();
		for (int j = 0; j < cycles; j++)
			cycle(size);
		after = free_memory();
		run += (uint64_t)cycles;
	}
	made = statistic("registrations_dma_buf") - made;
	/* Without dma-bufs nothing could leak. */
	good = before == after && made >= run;
	printf("%s %s, %zu bytes, %d cycles: %llu registrations by dma-buf, free memory %zu "
	       "before, %zu "
	       "after\n",
	       good ? "ok" : "not ok", name, size, cycles, (unsigned long long)made, before, after);
	if (good)
		passed++;
	else
		failed++;
}

/* Proof: free memory with an open descriptor. */
static void control(size_t size)
{
	size_t before = free_memory(), held, after;
	CUdeviceptr address;
	int fd;

	if (access("/dev/nvidiactl", F_OK)) {
		printf("skipped: the simulated driver's dma-bufs keep no memory\n");
		skipped++;
		return;
	}
	must_cuda(cuMemAlloc_v2(&address, size));
	must_cuda(cuMemGetHandleForAddressRange(&fd, address, size,
						CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	must_cuda(cuMemFree_v2(address));
	held = free_memory();
	must(!close(fd));
	after = free_memory();
	printf("%s a descriptor left open holds %zu of %zu bytes, closed it holds %zu\n",
	       before - held >= size && after == before ? "ok" : "not ok", before - held, size,
	       before - after);
	if (before - held >= size && after == before)
		passed++;
	else
		failed++;
}

int main(void)
{
	static const size_t sizes[] = { 1000, 300000, (size_t)3 << 20, (size_t)64 << 20 };
	struct ibv_device **devices = ibv_get_device_list(NULL);
	CUcontext context;
	uint64_t outlived, living;

	must_cuda(cuInit(0));
	/* The CUDA runtime's context, for exports of memory without one. */
	must_cuda(cuDevicePrimaryCtxRetain(&context, 0));
	must_cuda(cuCtxSetCurrent(context));
	must_cuda(cuDeviceGetDefaultMemPool(&pool, 0));
	must(devices && devices[0]);
	device = ibv_open_device(devices[0]);
	must(device);
	pd = ibv_alloc_pd(device);
	must(pd);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		row("allocated", allocate, sizes[i], CYCLES);
		row("held beyond the free", hold_beyond, sizes[i], CYCLES);
		row("registered in the background", leave_to_worker, sizes[i], CYCLES);
		row("mapped", map, sizes[i], CYCLES);
		row("of a pool", take_from_pool, sizes[i], CYCLES);
	}
	row("ended with its context", end_context, (size_t)3 << 20, 5);
	control((size_t)64 << 20);
	must(!sim_adapter_statistic("outlived", &outlived) && !outlived);
	must(!ibv_dealloc_pd(pd) && !sim_adapter_statistic("live", &living) && !living);
	must(!ibv_close_device(device));
	printf("by peer memory: %llu, failed: %llu\n",
	       (unsigned long long)statistic("registrations_peer_memory"),
	       (unsigned long long)statistic("registrations_failed"));
	if (!statistic("registrations_dma_buf")) {
		printf("not ok: nothing was registered by dma-buf\n");
		failed++;
	}
	printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
	return failed != 0;
}
