/* SPDX-License-Identifier: BSD-3-Clause */
/* registration_first.c -- first requests: the time of a registration of memory just allocated
 *
 * Each request has an allocation of its own. With background registration the worker competes for
 * it: the client registers it, waits for the worker, or hits. Requests by address are measured
 * where the adapter takes addresses; the client's own export is not part of a time. peerpin sets
 * SYNC_MEMOPS at the first use, unless the client has set it before, as UCX and libfabric do.
 *
 * The simulated adapter takes the same time for each registration. A real one's runs in the
 * driver, which is slower just after a large allocation.
 */
#include "registration.h"

#include <stdio.h>

#define REQUESTS 400
#define QUICK	 8

static const struct first {
	const char *name;
	size_t size, length; /* of the allocation, of the request inside it */
	bool by_dmabuf;
	unsigned int after;    /* microseconds after the allocation */
	unsigned int requests; /* 0: REQUESTS */
	bool sets_sync;	       /* before the request */
} cases[] = {
	{ "first request by dma-buf, 64KiB", 64 * KIB, 64 * KIB, true, 0, 0, false },
	{ "first request by dma-buf, 64KiB, SYNC_MEMOPS set", 64 * KIB, 64 * KIB, true, 0, 0,
	  true },
	{ "first request by dma-buf, 64KiB, 25us later", 64 * KIB, 64 * KIB, true, 25, 0, false },
	{ "first request by dma-buf, 64KiB, 50us later", 64 * KIB, 64 * KIB, true, 50, 0, false },
	{ "first request by dma-buf, 64KiB, 75us later", 64 * KIB, 64 * KIB, true, 75, 0, false },
	{ "first request by dma-buf, 64KiB, 100us later", 64 * KIB, 64 * KIB, true, 100, 0, false },
	{ "first request by dma-buf, 64KiB, 300us later", 64 * KIB, 64 * KIB, true, 300, 0, false },
	{ "first request by dma-buf, 1MiB", MIB, MIB, true, 0, 0, false },
	{ "first request by dma-buf, 64KiB of 256MiB", 256 * MIB, 64 * KIB, true, 0, 0, false },
	/* More memory than most GPUs have; few requests: a free of 16 GiB takes 6 ms (H200). */
	{ "first request by dma-buf, 64KiB of 100GiB", 100 * GIB, 64 * KIB, true, 0, 20, false },
	{ "first request by dma-buf, 64KiB of 100GiB, SYNC_MEMOPS set", 100 * GIB, 64 * KIB, true,
	  0, 20, true },
	{ "first request by address, 64KiB", 64 * KIB, 64 * KIB, false, 0, 0, false },
	{ "first request by address, 1MiB", MIB, MIB, false, 0, 0, false },
	{ "first request by address, 64KiB of 256MiB", 256 * MIB, 64 * KIB, false, 0, 0, false },
};

static bool has_memory(size_t size)
{
	CUdeviceptr address;

	return client.cuMemAlloc_v2(&address, size) == CUDA_SUCCESS &&
	       client.cuMemFree_v2(address) == CUDA_SUCCESS;
}

static double time_request(const struct first *first, struct ibv_pd *pd)
{
	struct buffer buffer = client_allocate(first->size);
	unsigned int on = first->sets_sync;
	double start, end;
	struct ibv_mr *mr;

	bench_require(!on || client.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
							  buffer.address) == CUDA_SUCCESS,
		      "SYNC_MEMOPS could not be set");
	start = end = client_now();
	while (end < start + first->after * 1e3)
		end = client_now();
	start = end;
	mr = client_register(pd, &buffer, first->size / 2 / MIB * MIB, first->length);
	end = client_now();
	bench_require(mr && mr->length == first->length && !client.ibv_dereg_mr(mr),
		      "a registration failed");
	client_free(&buffer);
	return end - start;
}

static void measure(const struct first *first)
{
	struct bench_row row = bench_row(first->name, 0, 1);
	unsigned int count = bench_is_quick()  ? QUICK
			     : first->requests ? first->requests
					       : REQUESTS;
	struct ibv_pd *pd = client_domain();
	double times[REQUESTS];

	time_request(first, pd); /* discard the first of its kind */
	for (unsigned int i = 0; i < count; i++)
		times[i] = time_request(first, pd);
	client_set_times(&row, times, count);
	bench_report(row);
	bench_require(!client.ibv_dealloc_pd(pd), "a protection domain could not be ended");
}

bool first_is_wanted(const char *mode)
{
	bool wanted = false;

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		wanted |= bench_wants_in(cases[i].name, mode);
	return wanted;
}

void run_first_requests(void)
{
	bool only_dmabuf = client.by_dmabuf;

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		client.by_dmabuf = cases[i].by_dmabuf;
		if ((cases[i].by_dmabuf || !only_dmabuf) && has_memory(cases[i].size))
			measure(&cases[i]);
	}
}
