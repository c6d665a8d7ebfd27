/* SPDX-License-Identifier: BSD-3-Clause */
/* access.c -- the simulated adapter moves GPU memory of a real driver
 *
 * On the simulated driver the adapter treats that as a real one
 * (PEERPIN_SIM_ADAPTER_REAL_DRIVER=1). Without the preload, memory freed under its registration is
 * what hardware makes of it: counted, read as a pattern, written nowhere. Under the preload no such
 * access exists.
 */
#include "statistic.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "memory/cuda_abi.h"
#include "sim/adapter_access.h"
#include "sim/adapter_verbs.h"
#include "sim/sim_adapter.h"
#include "../vmm.h"

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define UNIT   ((size_t)2 << 20)
#define LARGE  ((size_t)4 << 20)
#define SIZE   ((size_t)300000)
#define ROUNDS 2000

static struct ibv_context *device;
static struct ibv_pd *pd;
static CUcontext context;
static bool preloaded;
static unsigned char sent[SIZE], received[SIZE];

static uint64_t adapter(const char *name)
{
	uint64_t value;

	must(!sim_adapter_statistic(name, &value));
	return value;
}

static CUdeviceptr allocate(size_t size)
{
	CUdeviceptr address;

	must_cuda(cuMemAlloc_v2(&address, size));
	return address;
}

static int export_dmabuf(CUdeviceptr address, size_t size)
{
	int fd;

	must_cuda(cuMemGetHandleForAddressRange(&fd, address, size,
						CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	return fd;
}

static struct ibv_mr *registered(CUdeviceptr address, size_t size, bool dmabuf)
{
	int fd = dmabuf ? export_dmabuf(address, size) : -1;
	struct ibv_mr *mr = dmabuf ? ibv_reg_dmabuf_mr(pd, 0, size, address, fd, ACCESS)
				   : ibv_reg_mr(pd, (void *)address, size, ACCESS);

	must(mr);
	must(!dmabuf || !close(fd));
	return mr;
}

static struct adapter_use used(const struct ibv_mr *mr, CUdeviceptr address, size_t size)
{
	struct adapter_use use;

	must(!adapter_use_begin(device, pd->handle, mr->rkey, address, size, 0, &use));
	must(use.device && use.memory == address);
	return use;
}

static void send(const struct ibv_mr *mr, CUdeviceptr address, size_t size)
{
	struct adapter_use use = used(mr, address, size);

	adapter_copy_to(&use, 0, sent, size, true);
	adapter_use_end(&use);
}

static void receive(const struct ibv_mr *mr, CUdeviceptr address, size_t size)
{
	struct adapter_use use = used(mr, address, size);

	memset(received, 0, size);
	adapter_copy_from(&use, 0, received, size);
	adapter_use_end(&use);
}

/* Bytes differ from call to call. */
static void prepare(size_t size)
{
	static unsigned int calls;

	calls++;
	for (size_t i = 0; i < size; i++)
		sent[i] = (unsigned char)(i * 7 + i / 251 + calls * 31);
}

static bool has(CUdeviceptr address, const void *bytes, size_t size)
{
	static unsigned char content[SIZE];

	must_cuda(cuMemcpyDtoH_v2(content, address, size));
	return !memcmp(content, bytes, size);
}

static bool is_poison(size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (received[i] != 0xdb)
			return false;
	}
	return true;
}

/* ---- rows ---- */

static void moves(CUdeviceptr memory, size_t size, bool dmabuf)
{
	static const size_t sizes[] = { 1, 8, 12, 63, 64, 65, 1000, 99992, SIZE };
	struct ibv_mr *mr = registered(memory, size, dmabuf);

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		prepare(sizes[i]);
		send(mr, memory + size - sizes[i], sizes[i]);
		must(has(memory + size - sizes[i], sent, sizes[i]));
		receive(mr, memory + size - sizes[i], sizes[i]);
		must(!memcmp(received, sent, sizes[i]));
	}
	must(!ibv_dereg_mr(mr));
}

/* The worker of a library has no context. */
static void *register_without_context(void *memory)
{
	must_cuda(cuCtxSetCurrent(NULL));
	must(!ibv_dereg_mr(registered((uintptr_t)memory, LARGE, false)));
	return NULL;
}

static void device_memory_is_moved(void)
{
	CUdeviceptr memory = allocate(LARGE);
	uint64_t before = adapter("page_requests");
	pthread_t thread;

	moves(memory, LARGE, false);
	moves(memory, LARGE, true);
	must(preloaded || adapter("page_requests") == before + 1);
	must(!pthread_create(&thread, NULL, register_without_context, (void *)memory));
	must(!pthread_join(thread, NULL));
	must(preloaded || adapter("page_requests") == before + 2);
	must_cuda(cuMemFree_v2(memory));
}

static void host_memory_is_not_device_memory(void)
{
	struct adapter_use use;
	struct ibv_mr *mr;
	CUdeviceptr managed;
	void *pinned;

	must_cuda(cuMemHostAlloc(&pinned, UNIT, 0));
	mr = ibv_reg_mr(pd, pinned, UNIT, ACCESS);
	must(mr && !adapter_use_begin(device, pd->handle, mr->rkey, (uintptr_t)pinned, 1, 0, &use));
	must(!use.device);
	adapter_use_end(&use);
	must(!ibv_dereg_mr(mr));
	must_cuda(cuMemFreeHost(pinned));
	must_cuda(cuMemAllocManaged(&managed, UNIT, 1));
	mr = ibv_reg_mr(pd, (void *)managed, UNIT, ACCESS);
	must(mr && !adapter_use_begin(device, pd->handle, mr->rkey, managed, 1, 0, &use));
	must(!use.device);
	adapter_use_end(&use);
	must(!ibv_dereg_mr(mr));
	must_cuda(cuMemFree_v2(managed));
}

static void peer_memory_can_be_missing(void)
{
	CUdeviceptr memory = allocate(UNIT);

	/* With another iova, so that peerpin forwards it. */
	must(!sim_adapter_set("peer", 0));
	must(!ibv_reg_mr_iova(pd, (void *)memory, UNIT, memory + UNIT, ACCESS) && errno == EFAULT);
	must(!sim_adapter_set("peer", 1));
	must_cuda(cuMemFree_v2(memory));
}

static void one_freed(size_t size)
{
	CUdeviceptr memory = allocate(size), again;
	/* Another iova: peerpin does not end the registration. */
	struct ibv_mr *mr = ibv_reg_mr_iova(pd, (void *)memory, size, memory + UNIT, ACCESS);
	uint64_t before = adapter("stale_memory");

	must(mr);
	prepare(1000);
	must_cuda(cuMemFree_v2(memory));
	must(!sim_adapter_write(device, mr->rkey, memory + UNIT, sent, 1000));
	must(!sim_adapter_read(device, mr->rkey, memory + UNIT, received, 1000));
	must(is_poison(1000) && adapter("stale_memory") == before + 2);
	again = allocate(size);
	if (again == memory) {
		must_cuda(cuMemsetD8_v2(again, 0x11, size));
		must(!sim_adapter_write(device, mr->rkey, memory + UNIT, sent, 1000));
		must(!has(again, sent, 1000));
		must(!sim_adapter_read(device, mr->rkey, memory + UNIT, received, 1000));
		must(is_poison(1000) && adapter("stale_memory") == before + 4);
	} else {
		printf("# the address was not handed out again\n");
	}
	must_cuda(cuMemFree_v2(again));
	must(!ibv_dereg_mr(mr));
}

static void memory_freed_under_its_registration_is_counted(void)
{
	one_freed(UNIT);
	one_freed(3 * UNIT + 4096);
}

/* The block, and so its pages, stays with the neighbour. */
static void a_neighbour_keeps_the_block(void)
{
	CUdeviceptr one = allocate(5000), other = allocate(5000), again;
	CUdeviceptr granule = one & ~(CUdeviceptr)0xffff;
	uint64_t before = adapter("stale_memory");
	struct ibv_mr *mr;
	int fd;

	if (other >> 16 != one >> 16) {
		printf("# no neighbour\n");
	} else {
		fd = export_dmabuf(granule, 0x10000);
		mr = ibv_reg_dmabuf_mr(pd, 0, 0x10000, granule, fd, ACCESS);
		must(mr && !close(fd));
		must_cuda(cuMemFree_v2(one));
		again = allocate(5000);
		must(again == one || preloaded);
		if (again == one && !preloaded) {
			prepare(5000);
			send(mr, again, 5000);
			must(has(again, sent, 5000));
		}
		one = again;
		must(!ibv_dereg_mr(mr));
	}
	must(adapter("stale_memory") == before);
	must_cuda(cuMemFree_v2(one));
	must_cuda(cuMemFree_v2(other));
}

/* Registrations are rounded: what begins them may belong to nothing. */
static void a_granule_without_a_head_is_device_memory(void)
{
	CUdeviceptr head = allocate(20000), memory = allocate(3000), granule;
	struct ibv_mr *mr;
	int fd;

	granule = memory & ~(CUdeviceptr)0xffff;
	must_cuda(cuMemFree_v2(head));
	fd = export_dmabuf(granule, 0x10000);
	mr = ibv_reg_dmabuf_mr(pd, 0, 0x10000, granule, fd, ACCESS);
	must(mr && !close(fd));
	prepare(3000);
	send(mr, memory, 3000);
	must(has(memory, sent, 3000));
	must(!ibv_dereg_mr(mr));
	must_cuda(cuMemFree_v2(memory));
}

static void map(CUdeviceptr address)
{
	CUmemGenericAllocationHandle handle;

	must_cuda(cuMemCreate(&handle, UNIT, &vmm_rdma, 0));
	must_cuda(cuMemMap(address, UNIT, 0, handle, 0));
	must_cuda(cuMemRelease(handle));
	must_cuda(cuMemSetAccess(address, UNIT, &vmm_access, 1));
}

static void adjacent_mappings_are_one_range(void)
{
	uint64_t before = adapter("stale_memory");
	CUdeviceptr memory;
	struct ibv_mr *mr;

	must_cuda(cuMemAddressReserve(&memory, 2 * UNIT, 0, 0, 0));
	map(memory);
	map(memory + UNIT);
	mr = registered(memory, 2 * UNIT, true);
	prepare(1000);
	send(mr, memory + UNIT - 500, 1000);
	must(has(memory + UNIT - 500, sent, 500) && has(memory + UNIT, sent + 500, 500));
	receive(mr, memory + UNIT - 500, 1000);
	must(!memcmp(received, sent, 1000) && adapter("stale_memory") == before);
	must_cuda(cuMemUnmap(memory + UNIT, UNIT));
	map(memory + UNIT);
	if (preloaded) {
		must(sim_adapter_set("strict", 0) == 0);
		must(sim_adapter_read(device, mr->rkey, memory, received, 1) == -ESTALE);
	} else {
		receive(mr, memory + UNIT - 500, 1000);
		must(is_poison(1000) && adapter("stale_memory") == before + 1);
		receive(mr, memory, 1000);
		must(!is_poison(1000) && adapter("stale_memory") == before + 1);
	}
	must(!ibv_dereg_mr(mr));
	must_cuda(cuMemUnmap(memory, 2 * UNIT));
	must_cuda(cuMemAddressFree(memory, 2 * UNIT));
}

static void contexts_and_captures_stay(void)
{
	CUdeviceptr memory = allocate(UNIT);
	struct ibv_mr *mr = registered(memory, UNIT, true);
	CUcontext current;
	CUstream stream;
	CUgraph graph;

	must_cuda(cuStreamCreate(&stream, 0));
	must_cuda(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	prepare(1000);
	send(mr, memory, 1000);
	receive(mr, memory, 1000);
	must(!memcmp(received, sent, 1000));
	must_cuda(cuStreamEndCapture(stream, &graph));
	must_cuda(cuCtxGetCurrent(&current));
	must(current == context);
	must_cuda(cuGraphDestroy(graph));
	must_cuda(cuStreamDestroy_v2(stream));
	must(!ibv_dereg_mr(mr));
	must_cuda(cuMemFree_v2(memory));
}

/* As a program that exchanges what it has just allocated. */
static void rounds_of_fresh_buffers_are_right(void)
{
	static const size_t sizes[] = { 8, 1000, 65536, 99992, SIZE };
	uint64_t memory_before = adapter("stale_memory"), keys = adapter("stale_keys");
	double start = seconds();

	for (int i = 0; i < ROUNDS; i++) {
		size_t size = sizes[i % 5];
		CUdeviceptr memory = allocate(size);
		struct ibv_mr *mr = ibv_reg_mr(pd, (void *)memory, size, ACCESS);

		must(mr);
		prepare(size);
		send(mr, memory, size);
		receive(mr, memory, size);
		must(!memcmp(received, sent, size));
		/* Under the preload the client may keep it longer than the memory. */
		if (!preloaded)
			must(!ibv_dereg_mr(mr));
		must_cuda(cuMemFree_v2(memory));
		if (preloaded)
			must(!ibv_dereg_mr(mr));
	}
	must(adapter("stale_memory") == memory_before && adapter("stale_keys") == keys);
	printf("# %d rounds: %.1f us each\n", ROUNDS, (seconds() - start) * 1e6 / ROUNDS);
}

static const struct {
	const char *name;
	void (*run)(void);
} rows[] = {
#define ROW(name)                                                                                  \
	{                                                                                          \
#name, name                                                                        \
	}
	ROW(contexts_and_captures_stay), /* with the first copy, which makes a context */
	ROW(device_memory_is_moved),
	ROW(host_memory_is_not_device_memory),
	ROW(peer_memory_can_be_missing),
	ROW(memory_freed_under_its_registration_is_counted),
	ROW(a_neighbour_keeps_the_block),
	ROW(a_granule_without_a_head_is_device_memory),
	ROW(adjacent_mappings_are_one_range),
	ROW(rounds_of_fresh_buffers_are_right),
};

int main(void)
{
	size_t count = sizeof(rows) / sizeof(rows[0]);
	struct ibv_device **devices = ibv_get_device_list(NULL);

	preloaded = dlsym(RTLD_DEFAULT, "peerpin_statistic") != NULL;
	setvbuf(stdout, NULL, _IOLBF, 0);
	must_cuda(cuInit(0));
	must_cuda(cuDevicePrimaryCtxRetain(&context, 0));
	must_cuda(cuCtxSetCurrent(context));
	must(devices && devices[0]);
	device = ibv_open_device(devices[0]);
	pd = ibv_alloc_pd(device);
	must(pd);
	for (size_t i = 0; i < count; i++) {
		rows[i].run();
		printf("ok %s\n", rows[i].name);
	}
	must(!adapter("failed_copies") && !adapter("outlived"));
	must(!ibv_dealloc_pd(pd) && !adapter("live") && !ibv_close_device(device));
	printf("%zu passed, 0 failed, 0 skipped\n", count);
	return 0;
}
