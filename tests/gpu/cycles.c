/* SPDX-License-Identifier: BSD-3-Clause */
/* cycles.c -- a verbs client that uses GPU memory as MPI programs, some thousand times
 *
 * Each pattern names the registrations that must be hits; peerpin's statistics must agree. Free
 * memory is equal before and after, and SYNC_MEMOPS, read from the driver itself, is set on
 * registered memory only. Runs under the preload, with the simulated adapter, on the real driver or
 * the simulated one.
 */
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/loaded.h"
#include "memory/cuda_abi.h"
#include "sim/adapter_verbs.h"
#include "sim/sim_adapter.h"
#include "statistic.h"
#include "../vmm.h"

#define MIB ((size_t)1 << 20)

#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

#define WARM_UP 40
#define TRIES                                                                                      \
	3 /* measurements of free memory: other processes use the GPU too, and a leak shows each   \
	     time */
#define THREADS	 4
#define CONTEXTS 5 /* a context takes as long as a thousand cycles */

/* ---- the client ---- */

static struct ibv_pd *client_pd;
static CUcontext client_context;
/* The driver sets SYNC_MEMOPS on a whole block: the neighbours of used memory cannot be judged. */
static bool client_neighbours_share;
/* A pattern's requests, its required hits, and the observed SYNC_MEMOPS. */
static struct client_counts {
	atomic_ullong requests, due, looked, wrong;
} seen;

static struct ibv_context *device;
static CUmemoryPool pool;

static uint64_t client_adapter_statistic(const char *name)
{
	uint64_t value;

	must(!sim_adapter_statistic(name, &value));
	return value;
}

static size_t client_free_memory(void)
{
	size_t available, total;

	must_cuda(cuCtxSynchronize());
	must_cuda(cuMemPoolTrimTo(pool, 0));
	must_cuda(cuMemGetInfo_v2(&available, &total));
	return available;
}

/* ---- the driver itself, out of its symbol table ---- */

static struct {
	__typeof__(cuPointerGetAttribute) *cuPointerGetAttribute;
	__typeof__(cuPointerSetAttribute) *cuPointerSetAttribute;
	__typeof__(cuMemAlloc_v2) *cuMemAlloc_v2;
	__typeof__(cuMemFree_v2) *cuMemFree_v2;
} driver;

static int find_driver(struct dl_phdr_info *object, size_t size, void *unused)
{
	const char *name = strrchr(object->dlpi_name, '/');
	struct object_tables tables;

	(void)size;
	(void)unused;
	if (!name || strncmp(name, "/libcuda.so", 11) || !object_read(object, &tables))
		return 0;
#define FIND(function)                                                                             \
	driver.function = (__typeof__(driver.function))object_find(&tables, #function)
	FIND(cuPointerGetAttribute);
	FIND(cuPointerSetAttribute);
	FIND(cuMemAlloc_v2);
	FIND(cuMemFree_v2);
#undef FIND
	return 1;
}

static bool client_is_set(CUdeviceptr address)
{
	uint64_t value = 0;

	must_cuda(driver.cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
	return (uint32_t)value != 0;
}

static void client_look(CUdeviceptr address, bool expected)
{
	seen.looked++;
	seen.wrong += client_is_set(address) != expected;
}

/* Whether small allocations of a block share the attribute: then only used ones can be judged. */
static void find_out_about_neighbours(void)
{
	CUdeviceptr one, other;
	unsigned int on = 1;

	must_cuda(driver.cuMemAlloc_v2(&one, 1000));
	must_cuda(driver.cuMemAlloc_v2(&other, 1000));
	must(!client_is_set(one) && !client_is_set(other));
	must_cuda(driver.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, one));
	must(client_is_set(one));
	client_neighbours_share = client_is_set(other);
	must_cuda(driver.cuMemFree_v2(one));
	must_cuda(driver.cuMemFree_v2(other));
	printf("# the driver %s SYNC_MEMOPS for small allocations beside each other\n",
	       client_neighbours_share ? "shares" : "keeps apart");
}

/* ---- client calls ---- */

static CUdeviceptr client_obtain(size_t size)
{
	CUdeviceptr address;

	must_cuda(cuMemAlloc_v2(&address, size));
	return address;
}

static void client_free(CUdeviceptr address)
{
	must_cuda(cuMemFree_v2(address));
}

/* surely: registered before, also in the background, so it must be a hit. */
static struct ibv_mr *client_register(struct ibv_pd *domain, CUdeviceptr address, size_t size,
				      bool surely)
{
	size_t rounded = (size + 15) & ~(size_t)15; /* as UCX does */
	struct ibv_mr *mr = ibv_reg_mr(domain, (void *)address, rounded, ACCESS);

	must(mr && mr->addr == (void *)address && mr->length == rounded);
	seen.requests++;
	seen.due += surely;
	return mr;
}

static void client_use(CUdeviceptr address, size_t size, bool surely)
{
	must(!ibv_dereg_mr(client_register(client_pd, address, size, surely)));
}

/* The adapter writes and reads back; only the simulated driver's memory can be read. */
static void client_reach(const struct ibv_mr *mr)
{
	uint64_t word = mr->rkey, read = 0;
	int result = sim_adapter_write(device, mr->rkey, (uintptr_t)mr->addr, &word, sizeof(word));

	if (result == -EOPNOTSUPP)
		return;
	must(!result &&
	     !sim_adapter_read(device, mr->rkey, (uintptr_t)mr->addr, &read, sizeof(read)));
	must(read == word);
}

static void client_begin(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);

	must_cuda(cuInit(0));
	/* The CUDA runtime's context, for exports of memory without one. */
	must_cuda(cuDevicePrimaryCtxRetain(&client_context, 0));
	must_cuda(cuCtxSetCurrent(client_context));
	must_cuda(cuDeviceGetDefaultMemPool(&pool, 0));
	must(devices && devices[0]);
	device = ibv_open_device(devices[0]);
	must(device);
	client_pd = ibv_alloc_pd(device);
	must(client_pd);
	dl_iterate_phdr(find_driver, NULL);
	must(driver.cuPointerGetAttribute && driver.cuPointerSetAttribute && driver.cuMemAlloc_v2 &&
	     driver.cuMemFree_v2);
	must((void *)driver.cuPointerGetAttribute != dlsym(RTLD_DEFAULT, "cuPointerGetAttribute"));
	find_out_about_neighbours();
}

static void client_end(void)
{
	const char *verified = getenv("PEERPIN_VERIFY");

	must(!client_adapter_statistic("outlived"));
	must(!ibv_dealloc_pd(client_pd));
	must(!client_adapter_statistic("live"));
	must(!ibv_close_device(device));
	must(!verified || strcmp(verified, "1") || statistic("verify_checks"));
	must(!statistic("missed_frees") && !statistic("verify_disagreements") &&
	     !statistic("internal_errors"));
}

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

/* Each runs its cycles and frees everything; the last has no name. */
static const struct pattern {
	const char *name;
	void (*run)(int cycles);
	bool by_name; /* left out where it is not named */
} patterns[] = {
	{ .name = "fixed", .run = fixed },
	{ .name = "reallocated", .run = reallocated },
	{ .name = "freed-beside-another", .run = freed_beside_another },
	{ .name = "mapped", .run = mapped },
	{ .name = "pooled", .run = pooled },
	{ .name = "ended-contexts", .run = ended_contexts },
	{ .name = "unrequested", .run = unrequested, .by_name = true },
	{ .name = "threads", .run = threads },
	{ .name = NULL },
};

/* Other processes take and free memory of this GPU meanwhile: free memory says nothing. */
static bool beside_others;

/* ---- rows ---- */

struct counts {
	uint64_t requests, hits, waited, synchronous_queued, synchronous, forwarded, failed,
		dma_buf, peer_memory;
};

static struct counts counted(void)
{
	return (struct counts){ .requests = statistic("requests"),
				.hits = statistic("hits"),
				.waited = statistic("waited"),
				.synchronous_queued = statistic("synchronous_queued"),
				.synchronous = statistic("synchronous"),
				.forwarded = statistic("forwarded"),
				.failed = statistic("registrations_failed"),
				.dma_buf = statistic("registrations_dma_buf"),
				.peer_memory = statistic("registrations_peer_memory") };
}

static bool row(const struct pattern *pattern, int cycles)
{
	struct counts before, after;
	size_t free_before = 0, free_after = 1;
	uint64_t others;
	double start;
	bool good;

	/* The driver keeps memory for itself from the first cycles on. */
	pattern->run(cycles < WARM_UP ? cycles : WARM_UP);
	seen.requests = seen.due = seen.looked = seen.wrong = 0;
	before = counted();
	start = seconds();
	for (int i = 0; i < TRIES && free_before != free_after; i++) {
		free_before = client_free_memory();
		pattern->run(cycles);
		free_after = beside_others ? free_before : client_free_memory();
	}
	start = seconds() - start;
	after = counted();
	after.requests -= before.requests;
	after.hits -= before.hits;
	after.dma_buf -= before.dma_buf;
	others = after.waited + after.synchronous_queued + after.synchronous - before.waited -
		 before.synchronous_queued - before.synchronous;
	good = free_before == free_after && after.requests == seen.requests &&
	       after.hits >= seen.due && after.hits + others == seen.requests &&
	       after.forwarded == before.forwarded && after.failed == before.failed &&
	       !seen.wrong &&
	       /* Registered by another method it holds no memory, and could not leak it. */
	       after.dma_buf > 0 && after.peer_memory == before.peer_memory;
	printf("%s %s: %d cycles, %.2f s: %llu requests of %llu, %llu hits of at least %llu, %llu "
	       "others, "
	       "%llu not served, %llu registrations by dma-buf, %llu by peer memory; free memory "
	       "%zu before, "
	       "%zu after; SYNC_MEMOPS wrong %llu times of %llu\n",
	       good ? "ok" : "not ok", pattern->name, cycles, start,
	       (unsigned long long)after.requests, (unsigned long long)seen.requests,
	       (unsigned long long)after.hits, (unsigned long long)seen.due,
	       (unsigned long long)others, (unsigned long long)(after.forwarded - before.forwarded),
	       (unsigned long long)after.dma_buf,
	       (unsigned long long)(after.peer_memory - before.peer_memory), free_before,
	       free_after, (unsigned long long)seen.wrong, (unsigned long long)seen.looked);
	fflush(stdout);
	return good;
}

/* Only an adapter's use sets the attribute. */
static bool unused_kinds(void)
{
	CUdeviceptr plain, pitched, pooled;
	size_t pitch;
	bool good;

	plain = client_obtain(2 * MIB);
	must_cuda(cuMemAllocPitch_v2(&pitched, &pitch, 1000, 1000, 4));
	must_cuda(cuMemAllocAsync(&pooled, 2 * MIB, NULL));
	must_cuda(cuCtxSynchronize());
	good = !client_is_set(plain) && !client_is_set(pitched) && !client_is_set(pooled);
	client_use(plain, 2 * MIB, false);
	good = good && client_is_set(plain) && !client_is_set(pitched) && !client_is_set(pooled);
	client_use(pitched, pitch, false);
	good = good && client_is_set(pitched) && !client_is_set(pooled);
	must_cuda(cuMemFreeAsync(pooled, NULL));
	client_free(pitched);
	client_free(plain);
	printf("%s kinds: SYNC_MEMOPS stands on what was used alone\n", good ? "ok" : "not ok");
	return good;
}

/* Proof of the measurement: an open dma-buf keeps its memory. */
static bool control(void)
{
	static const size_t size = 64 * MIB;
	size_t before = client_free_memory(), held, after;
	CUdeviceptr address = client_obtain(size);
	bool good;
	int fd;

	must_cuda(cuMemGetHandleForAddressRange(&fd, address, size,
						CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	client_free(address);
	held = client_free_memory();
	must(!close(fd));
	after = client_free_memory();
	good = before - held >= size && after == before;
	printf("%s a descriptor left open holds %zu of %zu bytes, closed it holds %zu\n",
	       good ? "ok" : "not ok", before - held, size, before - after);
	return good;
}

static int usage(FILE *to)
{
	fputs("usage: cycles [--beside-others] [--cycles N] [PATTERN...]\npatterns:", to);
	for (size_t i = 0; patterns[i].name; i++)
		fprintf(to, " %s", patterns[i].name);
	fputs("\n", to);
	return to == stdout ? 0 : 2;
}

static bool is_known(const char *name)
{
	size_t i = 0;

	while (patterns[i].name && strcmp(patterns[i].name, name))
		i++;
	return patterns[i].name;
}

int main(int count, char **arguments)
{
	int cycles = 200, first = 1, passed = 0, failed = 0;

	if (count > 1 && !strcmp(arguments[1], "--help"))
		return usage(stdout);
	if (count > first && !strcmp(arguments[first], "--beside-others")) {
		beside_others = true;
		first++;
	}
	if (count > first + 1 && !strcmp(arguments[first], "--cycles")) {
		cycles = atoi(arguments[first + 1]);
		first += 2;
	}
	for (int i = first; i < count; i++) {
		if (!is_known(arguments[i]))
			return usage(stderr);
	}
	if (cycles <= 0)
		return usage(stderr);
	client_begin();
	for (size_t i = 0; patterns[i].name; i++) {
		bool wanted = count == first && !patterns[i].by_name;

		for (int j = first; j < count; j++)
			wanted = wanted || !strcmp(arguments[j], patterns[i].name);
		if (wanted && row(&patterns[i], cycles))
			passed++;
		else
			failed += wanted;
	}
	if (unused_kinds())
		passed++;
	else
		failed++;
	if (beside_others)
		printf("skipped: free memory is not compared beside others\n");
	else if (access("/dev/nvidiactl", F_OK))
		printf("skipped: the simulated driver's dma-bufs keep no memory\n");
	else if (control())
		passed++;
	else
		failed++;
	client_end();
	printf("%d passed, %d failed, 0 skipped\n", passed, failed);
	return failed != 0;
}
