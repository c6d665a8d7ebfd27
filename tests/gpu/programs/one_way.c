/* SPDX-License-Identifier: BSD-3-Clause */
/* one_way.c -- pairs of MPI ranks send GPU memory to and fro: fixed buffers, and fresh ones each time
 *
 * A fresh buffer is allocated, sent or received into, and freed: all of that counts. For each size
 * a line with the first pair's least of the medians of several turns, one way. Each message is
 * checked in untimed exchanges of both kinds.
 *
 * one_way [EXCHANGES [host | devices]]: to and fro, of each turn (default and limit: 60)
 * host: memory of malloc; devices: the ranks of a pair on two GPUs, and status 77 where there is one.
 * Each rank is on GPU 0 otherwise.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cuda.h>
#include <mpi.h>

#define LARGEST	  ((size_t)4 << 20)
#define EXCHANGES 60
#define TURNS	  5
#define CHECKED	  6

static int rank, partner, exchanges = EXCHANGES;
static bool is_host;

#define must(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "one_way: rank %d, line %d: not so: %s\n", rank, __LINE__, \
				#condition);                                                       \
			MPI_Abort(MPI_COMM_WORLD, 1);                                              \
		}                                                                                  \
	} while (0)

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void transfer(bool sends, CUdeviceptr buffer, size_t size)
{
	void *address = (void *)(size_t)buffer;

	if (sends)
		must(!MPI_Send(address, (int)size, MPI_BYTE, partner, 0, MPI_COMM_WORLD));
	else
		must(!MPI_Recv(address, (int)size, MPI_BYTE, partner, 0, MPI_COMM_WORLD,
			       MPI_STATUS_IGNORE));
}

static CUdeviceptr allocate(size_t size)
{
	CUdeviceptr buffer = is_host ? (CUdeviceptr)(size_t)malloc(size) : 0;

	must(is_host ? buffer != 0 : !cuMemAlloc(&buffer, size));
	return buffer;
}

static void release(CUdeviceptr buffer)
{
	if (is_host)
		free((void *)(size_t)buffer);
	else
		must(!cuMemFree(buffer));
}

static void fill(CUdeviceptr buffer, unsigned char value, size_t size)
{
	if (is_host)
		memset((void *)(size_t)buffer, value, size);
	else
		must(!cuMemsetD8(buffer, value, size) && !cuCtxSynchronize());
}

/* One message of an exchange. fixed: 0, or the buffer. value: 0, or the bytes of the message. */
static void message(bool sends, CUdeviceptr fixed, size_t size, unsigned char value)
{
	static unsigned char bytes[LARGEST];
	CUdeviceptr buffer = fixed;

	if (!fixed)
		buffer = allocate(size);
	if (value)
		fill(buffer, sends ? value : 0, size);
	transfer(sends, buffer, size);
	if (value && !sends) {
		if (is_host)
			memcpy(bytes, (void *)(size_t)buffer, size);
		else
			must(!cuMemcpyDtoH(bytes, buffer, size));
		for (size_t i = 0; i < size; i++)
			must(bytes[i] == value);
	}
	if (!fixed)
		release(buffer);
}

static int by_value(const void *left, const void *right)
{
	double one = *(const double *)left, other = *(const double *)right;

	return (one > other) - (one < other);
}

/* us of one message, the median */
static double turn(CUdeviceptr fixed, size_t size)
{
	double times[EXCHANGES], start;

	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; i < exchanges; i++) {
		start = now_us();
		message(!(rank % 2), fixed, size, 0);
		message(rank % 2, fixed, size, 0);
		times[i] = (now_us() - start) / 2;
	}
	qsort(times, (size_t)exchanges, sizeof(times[0]), by_value);
	return times[exchanges / 2];
}

static void measure(CUdeviceptr fixed, size_t size)
{
	double least[2] = { 1e9, 1e9 }, us;

	for (int i = 0; i < CHECKED; i++) {
		message(!(rank % 2), i % 2 ? fixed : 0, size, (unsigned char)(i + 1));
		message(rank % 2, i % 2 ? fixed : 0, size, (unsigned char)(i + 101));
	}
	/* Alternating; the first turns warm up. */
	for (int i = 0; i < 2 * TURNS; i++) {
		us = turn(i % 2 ? 0 : fixed, size);
		if (i > 1 && us < least[i % 2])
			least[i % 2] = us;
	}
	if (rank == 0)
		printf("%zu bytes: fixed %.1f us, fresh %.1f us\n", size, least[0], least[1]);
}

/* The GPU of this rank, current before MPI_Init. */
static void use_gpu(bool spread)
{
	const char *local = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
	CUcontext context;
	int gpus, gpu = 0;

	must(!cuInit(0) && !cuDeviceGetCount(&gpus));
	if (spread) {
		must(local);
		if (gpus < 2)
			exit(77);
		gpu = atoi(local) % 2;
	}
	must(!cuDevicePrimaryCtxRetain(&context, gpu) && !cuCtxSetCurrent(context));
}

int main(int argc, char **argv)
{
	static const size_t sizes[] = { 8, 64 << 10, 1 << 20, LARGEST };
	CUdeviceptr fixed;
	int ranks;

	use_gpu(argc > 2 && !strcmp(argv[2], "devices"));
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (argc > 1)
		exchanges = atoi(argv[1]);
	is_host = argc > 2 && !strcmp(argv[2], "host");
	partner = rank ^ 1;
	must(ranks % 2 == 0 && exchanges > 0 && exchanges <= EXCHANGES);
	fixed = allocate(LARGEST);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		measure(fixed, sizes[i]);
	release(fixed);
	MPI_Finalize();
	return 0;
}
