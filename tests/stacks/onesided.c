/* SPDX-License-Identifier: BSD-3-Clause */
/* onesided.c -- MPI one-sided operations on windows over GPU memory, with every byte checked
 *
 * Each round makes a window over a new buffer, which the neighbour puts into, gets from and adds
 * to, and frees it. Standard output is the same in each run. Uses MPI and the CUDA driver alone.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>
#include <mpi.h>

#define ROUNDS 24
#define WORDS  (32 << 10) /* of 8 bytes, in each part of a window */
#define PARTS  3

static int rank, ranks;

static void check(int failed, const char *call)
{
	if (!failed)
		return;
	fprintf(stderr, "onesided: rank %d: %s: %d\n", rank, call, failed);
	MPI_Abort(MPI_COMM_WORLD, 1);
	exit(1);
}

#define CHECK(call) check(call, #call)

static uint64_t word_at(int round, int owner, size_t index)
{
	uint64_t word = ((uint64_t)round << 48 ^ (uint64_t)(owner + 1) << 32 ^ index) *
			0x9e3779b97f4a7c15ULL;

	return word ^ (word >> 31);
}

static void fill(CUdeviceptr buffer, int round, int owner, uint64_t *host)
{
	for (size_t i = 0; i < WORDS; i++)
		host[i] = word_at(round, owner, i);
	CHECK(cuMemcpyHtoD(buffer, host, WORDS * sizeof(*host)));
}

static unsigned long wrong_words(CUdeviceptr buffer, int round, int owner, uint64_t add,
				 uint64_t *host)
{
	unsigned long wrong = 0;

	CHECK(cuMemcpyDtoH(host, buffer, WORDS * sizeof(*host)));
	for (size_t i = 0; i < WORDS; i++)
		wrong += host[i] != word_at(round, owner, i) + add;
	return wrong;
}

static CUdeviceptr part(CUdeviceptr window, int number)
{
	return window + number * WORDS * sizeof(uint64_t);
}

/* Part 0: put, part 1: get, part 2: accumulate. */
static unsigned long one_round(int round, uint64_t *host)
{
	int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
	CUdeviceptr window, mine, theirs;
	unsigned long wrong;
	uint64_t one = 1;
	MPI_Win win;

	CHECK(cuMemAlloc(&window, PARTS * WORDS * sizeof(*host)));
	CHECK(cuMemAlloc(&mine, WORDS * sizeof(*host)));
	CHECK(cuMemAlloc(&theirs, WORDS * sizeof(*host)));
	fill(part(window, 1), round, rank, host);
	fill(part(window, 2), round, rank, host);
	fill(mine, round, rank, host);
	CHECK(MPI_Win_create((void *)(uintptr_t)window, PARTS * WORDS * sizeof(*host),
			     sizeof(*host), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
	CHECK(MPI_Win_fence(0, win));
	CHECK(MPI_Put((void *)(uintptr_t)mine, WORDS, MPI_UINT64_T, right, 0, WORDS, MPI_UINT64_T,
		      win));
	CHECK(MPI_Get((void *)(uintptr_t)theirs, WORDS, MPI_UINT64_T, right, WORDS, WORDS,
		      MPI_UINT64_T, win));
	CHECK(MPI_Win_fence(0, win));
	/* One word shows an addition; the others must not change. */
	CHECK(MPI_Accumulate(&one, 1, MPI_UINT64_T, right, 2 * WORDS, 1, MPI_UINT64_T, MPI_SUM,
			     win));
	CHECK(MPI_Win_fence(0, win));
	wrong = wrong_words(part(window, 0), round, left, 0, host) +
		wrong_words(theirs, round, right, 0, host);
	CHECK(cuMemcpyDtoH(host, part(window, 2), sizeof(*host)));
	wrong += host[0] != word_at(round, rank, 0) + 1;
	host[0] -= 1;
	CHECK(cuMemcpyHtoD(part(window, 2), host, sizeof(*host)));
	wrong += wrong_words(part(window, 2), round, rank, 0, host);
	CHECK(MPI_Win_free(&win));
	CHECK(cuMemFree(theirs));
	CHECK(cuMemFree(mine));
	CHECK(cuMemFree(window));
	return wrong;
}

int main(int argc, char **argv)
{
	unsigned long wrong = 0, all = 0;
	CUcontext context;
	CUdevice device;
	uint64_t *host;

	CHECK(MPI_Init(&argc, &argv));
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	host = malloc(WORDS * sizeof(*host));
	check(!host, "malloc");
	for (int round = 0; round < ROUNDS; round++)
		wrong += one_round(round, host);
	CHECK(MPI_Reduce(&wrong, &all, 1, MPI_UNSIGNED_LONG, MPI_SUM, 0, MPI_COMM_WORLD));
	if (!rank)
		printf("onesided: %d ranks, %d rounds of put, get and accumulate, %lu words "
		       "wrong\n",
		       ranks, ROUNDS, all);
	free(host);
	MPI_Finalize();
	return wrong != 0;
}
