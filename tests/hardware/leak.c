/* SPDX-License-Identifier: BSD-3-Clause */
/* leak.c -- GPU memory that was registered with the adapter that is there comes back when it is
 * freed
 *
 * Runs under the preload with PEERPIN_PREREGISTER=all, since sizes that nobody asks for are
 * otherwise no longer registered ahead; on the driver and the adapter that are found. Free memory
 * and the kernel's regions are compared before and after many cycles of allocation, registration
 * and free. Other programs on the same GPU disturb the measure: what differs is measured again, and
 * a leak differs each time. The last row shows that the measure would tell.
 */
#include <stdbool.h>

#include "gpu/statistic.h"
#include "rdma/gpu.h"
#include "rdma/loopback.h"

#define KIB   ((size_t)1 << 10)
#define MIB   ((size_t)1 << 20)
#define TRIES 3
#define RIGHTS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

static struct loopback loopback;
static int passed, failed;

static struct ibv_mr *registered(uint64_t address, size_t size)
{
	struct ibv_mr *mr = ibv_reg_mr(loopback.pd, (void *)address, size, RIGHTS);

	must(mr);
	return mr;
}

/* ---- one cycle of each kind ---- */

static void give_back_before(size_t size)
{
	uint64_t address = gpu_allocate(size);

	must(!ibv_dereg_mr(registered(address, size)));
	gpu_free(address);
}

/* As MPI libraries do: their caches hear of the free later. */
static void give_back_after(size_t size)
{
	uint64_t address = gpu_allocate(size);
	struct ibv_mr *mr = registered(address, size);

	gpu_free(address);
	must(!ibv_dereg_mr(mr));
}

static void leave_to_worker(size_t size)
{
	uint64_t before = statistic("registrations_background");
	uint64_t address = gpu_allocate(size);

	await_background(before);
	gpu_free(address);
}

/* ---- rows ---- */

static void tell(bool good, const char *name, size_t size, int cycles, size_t before, size_t after)
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

	/* What the driver keeps for itself it keeps from the first cycle on. */
	cycle(size);
	for (int i = 0; i < TRIES && before != after; i++) {
		before = gpu_free_memory();
		for (int j = 0; j < cycles; j++)
			cycle(size);
		after = gpu_free_memory();
	}
	tell(before == after && !loopback_kernel_regions(), name, size, cycles, before, after);
}

/* What is not freed is missed. */
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
	printf("%s the measure tells: of what is not freed %zu of %zu bytes are missed, and %d "
	       "regions "
	       "seen\n",
	       good ? "ok" : "not ok", held, size, regions);
	passed += good;
	failed += !good;
}

int main(int argc, char **argv)
{
	/* The largest takes a tenth of the cycles. */
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
		row("given back before the free", give_back_before, sizes[i], often);
		row("given back after the free", give_back_after, sizes[i], often);
		row("registered in the background", leave_to_worker, sizes[i], often);
	}
	control(64 * MIB);
	loopback_close(&loopback);
	printf("registrations by dma-buf: %llu\nregistrations by peer memory: %llu\n",
	       (unsigned long long)statistic("registrations_dma_buf"),
	       (unsigned long long)statistic("registrations_peer_memory"));
	printf("%d passed, %d failed, 0 skipped\n", passed, failed);
	return failed != 0;
}
