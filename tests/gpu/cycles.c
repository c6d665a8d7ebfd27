/* SPDX-License-Identifier: BSD-3-Clause */
/* cycles.c -- a verbs client that uses GPU memory as MPI programs, some thousand times
 *
 * Each pattern names the registrations that must be hits; peerpin's statistics must agree. Free
 * memory is equal before and after, and SYNC_MEMOPS, read from the driver itself, is set on
 * registered memory only. Runs under the preload, with the simulated adapter, on the real driver or
 * the simulated one.
 */
#include "cycles.h"

#include <string.h>
#include <unistd.h>

#define WARM_UP 40
#define TRIES                                                                                      \
	3 /* measurements of free memory: other processes use the GPU too, and a leak shows each   \
	     time */

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
	       (pattern->any_way || (after.dma_buf > 0 && after.peer_memory == before.peer_memory));
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
	if (count > 1 && !strcmp(arguments[1], "--die"))
		crash_child();
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
