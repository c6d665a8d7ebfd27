/* SPDX-License-Identifier: BSD-3-Clause */
/* exchange.c -- MPI ranks, two by two, exchange GPU buffers and check every byte
 *
 * Each round allocates a send and a receive buffer of every size, as a phase of an application,
 * computes, exchanges them twice and frees them: the next round gets the same addresses for new
 * memory. Round 0 warms up the MPI library, outside of the times. Uses MPI and the CUDA driver
 * alone; MPI_Pcontrol marks the start of the measurement.
 */
#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cuda.h>
#include <mpi.h>

#define SIZES	   5
#define MAX_ROUNDS 64

static const size_t sizes[SIZES] = { 40000, 99992, 1000004, 4000000, 16000000 };

enum pass { FIRST, AGAIN, PASSES };

struct buffers {
	CUdeviceptr send[SIZES];
	CUdeviceptr receive[SIZES];
};

struct result {
	double us[PASSES][SIZES][MAX_ROUNDS];
	uint64_t bytes_verified;
	uint64_t bytes_wrong;
	uint64_t addresses;
	uint64_t addresses_reused;
};

static int rank;
static int peer;
static int compute_ms;

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "exchange: rank %d: %s: %s\n", rank, what, why);
	MPI_Abort(MPI_COMM_WORLD, 1);
	exit(1);
}

static void check_cuda(CUresult result, const char *call)
{
	const char *name = NULL;

	if (result == CUDA_SUCCESS)
		return;
	cuGetErrorName(result, &name);
	fail(call, name ? name : "unknown CUDA error");
}

static void check_mpi(int result, const char *call)
{
	char text[MPI_MAX_ERROR_STRING] = "";
	int length;

	if (result == MPI_SUCCESS)
		return;
	MPI_Error_string(result, text, &length);
	fail(call, text);
}

#define CUDA(call) check_cuda(call, #call)
#define MPI(call)  check_mpi(call, #call)

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

/* The bytes of a message are those of this sequence, unique to it. */
static uint64_t first_word(int round, enum pass pass, int size_index, int sender)
{
	return ((uint64_t)(round + 1) << 48) ^ ((uint64_t)(pass + 1) << 40) ^
	       ((uint64_t)(size_index + 1) << 32) ^ ((uint64_t)(sender + 1) << 56);
}

static uint64_t word_at(uint64_t seed, size_t index)
{
	uint64_t word = (seed + index) * 0x9e3779b97f4a7c15ULL;

	word ^= word >> 29;
	word *= 0xbf58476d1ce4e5b9ULL;
	return word ^ (word >> 32);
}

static size_t words_of(size_t size)
{
	return (size + sizeof(uint64_t) - 1) / sizeof(uint64_t);
}

static void fill(CUdeviceptr buffer, uint64_t *host, size_t size, uint64_t seed)
{
	for (size_t i = 0; i < words_of(size); i++)
		host[i] = word_at(seed, i);
	CUDA(cuMemcpyHtoD(buffer, host, size));
}

static uint64_t wrong_bytes(CUdeviceptr buffer, uint64_t *host, size_t size, uint64_t seed)
{
	uint64_t wrong = 0;

	/* Behind the buffer's end. */
	host[words_of(size) - 1] = word_at(seed, words_of(size) - 1);
	CUDA(cuMemcpyDtoH(host, buffer, size));
	for (size_t i = 0; i < words_of(size); i++) {
		uint64_t difference = host[i] ^ word_at(seed, i);

		for (; difference; difference >>= 8)
			wrong += (difference & 0xff) != 0;
	}
	return wrong;
}

static void allocate(struct buffers *buffers, const struct buffers *previous, struct result *result)
{
	for (int i = 0; i < SIZES; i++) {
		CUDA(cuMemAlloc(&buffers->send[i], sizes[i]));
		CUDA(cuMemAlloc(&buffers->receive[i], sizes[i]));
	}
	if (!previous->send[0])
		return;
	for (int i = 0; i < SIZES; i++) {
		result->addresses += 2;
		for (int j = 0; j < SIZES; j++) {
			result->addresses_reused += buffers->send[i] == previous->send[j] ||
						    buffers->send[i] == previous->receive[j];
			result->addresses_reused += buffers->receive[i] == previous->send[j] ||
						    buffers->receive[i] == previous->receive[j];
		}
	}
}

static void release(const struct buffers *buffers)
{
	for (int i = 0; i < SIZES; i++) {
		CUDA(cuMemFree(buffers->send[i]));
		CUDA(cuMemFree(buffers->receive[i]));
	}
}

static double exchange_one(CUdeviceptr send, CUdeviceptr receive, size_t size, int tag)
{
	MPI_Request requests[2];
	double start;

	MPI(MPI_Barrier(MPI_COMM_WORLD));
	start = now_us();
	MPI(MPI_Irecv((void *)(uintptr_t)receive, (int)size, MPI_BYTE, peer, tag, MPI_COMM_WORLD,
		      &requests[0]));
	MPI(MPI_Isend((void *)(uintptr_t)send, (int)size, MPI_BYTE, peer, tag, MPI_COMM_WORLD,
		      &requests[1]));
	MPI(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
	return now_us() - start;
}

static void exchange_all(const struct buffers *buffers, uint64_t *host, int round, enum pass pass,
			 struct result *result)
{
	for (int i = 0; i < SIZES; i++) {
		fill(buffers->send[i], host, sizes[i], first_word(round, pass, i, rank));
		CUDA(cuMemsetD8(buffers->receive[i], 0, sizes[i]));
	}
	for (int i = 0; i < SIZES; i++)
		result->us[pass][i][round] =
			exchange_one(buffers->send[i], buffers->receive[i], sizes[i], i);
	for (int i = 0; i < SIZES; i++) {
		result->bytes_wrong += wrong_bytes(buffers->receive[i], host, sizes[i],
						   first_word(round, pass, i, peer));
		result->bytes_verified += sizes[i];
	}
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Of the measured rounds, from 1 on. */
static double median_us(const double *us, int rounds)
{
	double sorted[MAX_ROUNDS];

	memcpy(sorted, us + 1, rounds * sizeof(*us));
	qsort(sorted, rounds, sizeof(*sorted), compare_doubles);
	return (sorted[(rounds - 1) / 2] + sorted[rounds / 2]) / 2;
}

static void print_text(const struct result *result, int rounds)
{
	printf("exchange: %d rounds after one to warm up; medians as rank 0 sees them\n", rounds);
	printf("  %14s  %14s  %14s\n", "size", "first exchange", "same buffers");
	for (int i = 0; i < SIZES; i++)
		printf("  %8zu bytes  %11.0f us  %11.0f us\n", sizes[i],
		       median_us(result->us[FIRST][i], rounds),
		       median_us(result->us[AGAIN][i], rounds));
	printf("  %llu of %llu buffers stood where one of the round before had stood\n",
	       (unsigned long long)result->addresses_reused, (unsigned long long)result->addresses);
	printf("  %llu bytes checked on all ranks, %llu wrong\n",
	       (unsigned long long)result->bytes_verified, (unsigned long long)result->bytes_wrong);
}

static void print_json(const char *name, const struct result *result, int rounds)
{
	FILE *file = fopen(name, "w");

	if (!file)
		fail(name, "cannot be written");
	fprintf(file, "{\n  \"program\": \"exchange\",\n  \"rounds\": %d,\n", rounds);
	fprintf(file, "  \"sizes\": \"");
	for (int i = 0; i < SIZES; i++)
		fprintf(file, "%s%zu", i ? " " : "", sizes[i]);
	fprintf(file, "\",\n");
	for (int i = 0; i < SIZES; i++) {
		fprintf(file, "  \"first_us_%zu\": %.1f,\n", sizes[i],
			median_us(result->us[FIRST][i], rounds));
		fprintf(file, "  \"again_us_%zu\": %.1f,\n", sizes[i],
			median_us(result->us[AGAIN][i], rounds));
	}
	fprintf(file, "  \"addresses\": %llu,\n  \"addresses_reused\": %llu,\n",
		(unsigned long long)result->addresses,
		(unsigned long long)result->addresses_reused);
	fprintf(file, "  \"bytes_verified\": %llu,\n  \"bytes_wrong\": %llu\n}\n",
		(unsigned long long)result->bytes_verified,
		(unsigned long long)result->bytes_wrong);
	if (fclose(file))
		fail(name, "cannot be written");
}

/* Times are rank 0's; counts are summed, so that no rank's error is lost. */
static void sum_ranks(struct result *result)
{
	uint64_t mine[] = { result->bytes_verified, result->bytes_wrong, result->addresses,
			    result->addresses_reused };
	uint64_t all[4];

	MPI(MPI_Allreduce(mine, all, 4, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD));
	result->bytes_verified = all[0];
	result->bytes_wrong = all[1];
	result->addresses = all[2];
	result->addresses_reused = all[3];
}

/* As a GPU does, and the program waits for it. */
static void compute(void)
{
	struct timespec time = { .tv_sec = compute_ms / 1000,
				 .tv_nsec = compute_ms % 1000 * 1000000L };

	while (nanosleep(&time, &time))
		;
}

static void run_rounds(int rounds, struct result *result)
{
	struct buffers buffers, previous = { { 0 }, { 0 } };
	uint64_t *host = malloc(words_of(sizes[SIZES - 1]) * sizeof(*host));

	if (!host)
		fail("malloc", "no memory");
	for (int round = 0; round <= rounds; round++) {
		if (round == 1)
			MPI_Pcontrol(1);
		if (rank == 0)
			fprintf(stderr, "exchange: round %d of %d\n", round, rounds);
		allocate(&buffers, &previous, result);
		compute();
		for (enum pass pass = FIRST; pass < PASSES; pass++)
			exchange_all(&buffers, host, round, pass, result);
		release(&buffers);
		previous = buffers;
	}
	free(host);
}

static void usage(void)
{
	printf("usage: exchange [--rounds N] [--compute-ms N] [--json FILE]\n"
	       "Run it with an even number of MPI ranks.\n"
	       "  --rounds N      measured rounds (default 4, at most %d)\n"
	       "  --compute-ms N  milliseconds in each round for which its GPU would compute (0)\n",
	       MAX_ROUNDS - 1);
}

static bool read_options(int argc, char **argv, int *rounds, const char **json)
{
	static const struct option options[] = {
		{ "rounds", required_argument, NULL, 'r' },
		{ "compute-ms", required_argument, NULL, 'c' },
		{ "json", required_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'r':
			*rounds = atoi(optarg);
			break;
		case 'c':
			compute_ms = atoi(optarg);
			break;
		case 'j':
			*json = optarg;
			break;
		case 'h':
			usage();
			exit(0);
		default:
			return false;
		}
	}
	return optind == argc && *rounds >= 1 && *rounds < MAX_ROUNDS && compute_ms >= 0;
}

static CUdevice open_gpu(void)
{
	CUdevice device;
	CUcontext context;
	int count;

	CUDA(cuInit(0));
	CUDA(cuDeviceGetCount(&count));
	if (count < 1)
		fail("cuDeviceGetCount", "no GPU");
	CUDA(cuDeviceGet(&device, rank % count));
	CUDA(cuDevicePrimaryCtxRetain(&context, device));
	CUDA(cuCtxSetCurrent(context));
	return device;
}

int main(int argc, char **argv)
{
	static struct result result;
	const char *json = NULL;
	int rounds = 4, ranks;
	CUdevice device;

	if (!read_options(argc, argv, &rounds, &json)) {
		fprintf(stderr, "exchange: wrong usage, see --help\n");
		return 2;
	}
	MPI_Init(&argc, &argv);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (ranks % 2)
		fail("start", "this program wants an even number of ranks");
	peer = rank ^ 1;

	device = open_gpu();
	run_rounds(rounds, &result);
	sum_ranks(&result);
	if (rank == 0) {
		print_text(&result, rounds);
		if (json)
			print_json(json, &result, rounds);
	}
	CUDA(cuDevicePrimaryCtxRelease(device));
	MPI_Finalize();
	return result.bytes_wrong ? 1 : 0;
}
