/* SPDX-License-Identifier: BSD-3-Clause */
/* leak.c -- registered GPU memory is free again after its free
 *
 * Runs under the preload. Compares free memory and the kernel's regions before and after
 * many cycles of allocation, registration and free. Other programs on the GPU disturb the
 * measurement: the program repeats a measurement that differs, and a leak differs each time. The
 * last row shows that the measurement detects a leak.
 */
#include <stdbool.h>

#include "gpu/statistic.h"
#include "rdma/gpu.h"
#include "rdma/loopback.h"

#define KIB   ((size_t)1 << 10)
#define MIB   ((size_t)1 << 20)
#define TRIES 3
#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

static struct loopback loopback;
static int passed, failed;

static struct ibv_mr *registered(uint64_t address, size_t size)
{
	struct ibv_mr *mr = ibv_reg_mr(loopback.pd, (void *)address, size, ACCESS);

	must(mr);
	return mr;
}

/* ---- one cycle of each kind ---- */

static void deregister_before(size_t size)
{
	uint64_t address = gpu_allocate(size);

	must(!ibv_dereg_mr(registered(address, size)));
	gpu_free(address);
}

/* As MPI libraries: their caches are notified of the free later. */
static void deregister_after(size_t size)
{
	uint64_t address = gpu_allocate(size);
	struct ibv_mr *mr = registered(address, size);

	gpu_free(address);
	must(!ibv_dereg_mr(mr));
}

static void register_in_background(size_t size)
{
	uint64_t before = statistic("registrations_background");
	uint64_t address = gpu_allocate(size);

	await_background(before);
	/* Without any request background registration of its class of sizes would end. */
	must(!ibv_dereg_mr(registered(address, size)));
	gpu_free(address);
}

/* ---- rows ---- */

static void report(bool good, const char *name, size_t size, int cycles, size_t before,
		   size_t after)
{
	printf("%s %s, %zu bytes, %d cycles: free memory %zu before, %zu after, %d regions in the "
	       "kernel\n",
	       good ? "ok" : "not ok", name, size, cycles, before, after,
	       loopback_kernel_regions());
	passed += good;
	failed += !good;
}

static void row(const char *name, void (*cycle)(size_t size), size_t size, int cycles)
{
	size_t before = 0, after = 1;

	/* The driver allocates memory of its own in the first cycle. */
	cycle(size);
	for (int i = 0; i < TRIES && before != after; i++) {
		before = gpu_free_memory();
		for (int j = 0; j < cycles; j++)
			cycle(size);
		after = gpu_free_memory();
	}
	report(before == after && !loopback_kernel_regions(), name, size, cycles, before, after);
}

/* The measurement detects memory that is not freed. */
static void control(size_t size)
{
	size_t before = gpu_free_memory(), held;
	uint64_t address = gpu_allocate(size);
	struct ibv_mr *mr = registered(address, size);
	int regions = loopback_kernel_regions();
	bool good;

	held = before - gpu_free_memory();
	must(!ibv_dereg_mr(mr));
	gpu_free(address);
	good = held >= size && regions == 1;
	printf("%s the measurement detects a leak: %zu of %zu bytes missing, %d regions\n",
	       good ? "ok" : "not ok", held, size, regions);
	passed += good;
	failed += !good;
}

int main(int argc, char **argv)
{
	/* The largest has 1/10 of the cycles. */
	static const size_t sizes[] = { 64 * KIB, 3 * MIB, 64 * MIB };
	int cycles = argc == 2 ? atoi(argv[1]) : 0, often;
	char name[128];

	if (cycles < 1) {
		fprintf(stderr, "usage: leak CYCLES\n");
		return 2;
	}
	gpu_open();
	gpu_name(name, sizeof(name));
	loopback_open(&loopback);
	printf("GPU: %s\nadapter: %s\n", name, ibv_get_device_name(loopback.context->device));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		often = sizes[i] < 64 * MIB ? cycles : (cycles + 9) / 10;
		row("deregistered before the free", deregister_before, sizes[i], often);
		row("deregistered after the free", deregister_after, sizes[i], often);
		row("registered in the background", register_in_background, sizes[i], often);
	}
	control(64 * MIB);
	loopback_close(&loopback);
	printf("registrations by dma-buf: %llu\nregistrations by peer memory: %llu\n",
	       (unsigned long long)statistic("registrations_dma_buf"),
	       (unsigned long long)statistic("registrations_peer_memory"));
	printf("%d passed, %d failed, 0 skipped\n", passed, failed);
	return failed != 0;
}
