/* SPDX-License-Identifier: BSD-3-Clause */
/* exchange.c -- MPI ranks, two by two, exchange GPU buffers and check every byte
 *
 * Each round allocates a send and a receive buffer of every size, as a phase of an application,
 * computes, exchanges them twice and frees them: the next round gets the same addresses for new
 * memory. Round 0 warms up the MPI library, outside of the times. Uses MPI and the CUDA driver
 * alone; MPI_Pcontrol marks the start of the measurement.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "patterns.h"

#define SIZES	   5
#define ROUNDS_MAX 64

static const size_t sizes[SIZES] = { 40000, 99992, 1000004, 4000000, 16000000 };

enum pass { FIRST, AGAIN, PASSES };

struct job job = { .program = "exchange", .pattern = "exchange", .rounds = 4 };

static int compute_ms;
static uint64_t ns[PASSES][SIZES][ROUNDS_MAX];

static void exchange_all(const struct channel *channels, int round, enum pass pass)
{
	int number = PASSES * round + pass;

	prepare_channels(channels, SIZES, number);
	for (int i = 0; i < SIZES; i++) {
		uint64_t start;

		MPI(MPI_Barrier(MPI_COMM_WORLD));
		start = now_ns();
		use_channels(&channels[i], 1);
		ns[pass][i][round] = now_ns() - start;
	}
	check_channels(channels, SIZES, number);
}

/* As a GPU does, and the program waits for it. */
static void compute(void)
{
	struct timespec time = { .tv_sec = compute_ms / 1000,
				 .tv_nsec = compute_ms % 1000 * 1000000L };

	while (nanosleep(&time, &time))
		;
}

static void run_rounds(void)
{
	struct channel channels[SIZES];

	for (int i = 0; i < SIZES; i++)
		channels[i] = pair_channel(sizes[i], i);
	for (int round = 0; round <= job.rounds; round++) {
		begin_round(round);
		if (job.rank == 0)
			fprintf(stderr, "exchange: round %d of %d\n", round, job.rounds);
		allocate_channels(channels, SIZES);
		compute();
		for (enum pass pass = FIRST; pass < PASSES; pass++)
			exchange_all(channels, round, pass);
		release_channels(channels, SIZES);
	}
}

/* Of the measured rounds, from 1 on. */
static double median_us(enum pass pass, int size)
{
	return median_ns(ns[pass][size] + 1, job.rounds) / 1e3;
}

/* Times are rank 0's; counts are of all ranks, so that no rank's error is lost. */
enum { VERIFIED, WRONG, REUSED, COUNTS };

static void print_text(const uint64_t *all)
{
	printf("exchange: %d rounds after one to warm up; medians as rank 0 sees them\n",
	       job.rounds);
	printf("  %14s  %14s  %14s\n", "size", "first exchange", "same buffers");
	for (int i = 0; i < SIZES; i++)
		printf("  %8zu bytes  %11.0f us  %11.0f us\n", sizes[i], median_us(FIRST, i),
		       median_us(AGAIN, i));
	printf("  %" PRIu64 " buffers stood where an earlier one had stood\n", all[REUSED]);
	printf("  %" PRIu64 " bytes checked on all ranks, %" PRIu64 " wrong\n", all[VERIFIED],
	       all[WRONG]);
}

static void print_json(const uint64_t *all)
{
	FILE *file = fopen(job.json, "w");

	if (!file)
		fail(job.json, "cannot be written");
	fprintf(file, "{\n  \"program\": \"exchange\",\n  \"rounds\": %d,\n  \"sizes\": \"",
		job.rounds);
	for (int i = 0; i < SIZES; i++)
		fprintf(file, "%s%zu", i ? " " : "", sizes[i]);
	fprintf(file, "\",\n");
	for (int i = 0; i < SIZES; i++)
		fprintf(file, "  \"first_us_%zu\": %.1f,\n  \"again_us_%zu\": %.1f,\n", sizes[i],
			median_us(FIRST, i), sizes[i], median_us(AGAIN, i));
	fprintf(file, "  \"addresses_reused\": %" PRIu64 ",\n", all[REUSED]);
	fprintf(file, "  \"bytes_verified\": %" PRIu64 ",\n  \"bytes_wrong\": %" PRIu64 "\n}\n",
		all[VERIFIED], all[WRONG]);
	if (fclose(file))
		fail(job.json, "cannot be written");
}

static void read_options(int argc, char **argv)
{
	static const struct option options[] = {
		{ "rounds", required_argument, NULL, 'r' },
		{ "compute-ms", required_argument, NULL, 'c' },
		{ "json", required_argument, NULL, 'j' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'r')
			job.rounds = atoi(optarg);
		else if (option == 'c')
			compute_ms = atoi(optarg);
		else if (option == 'j')
			job.json = optarg;
		else
			optind = argc + 1;
	}
	if (optind == argc && job.rounds >= 1 && job.rounds < ROUNDS_MAX && compute_ms >= 0)
		return;
	fprintf(stderr,
		"usage: exchange [--rounds N] [--compute-ms N] [--json FILE]\n"
		"Run it with an even number of MPI ranks.\n"
		"  --rounds N      measured rounds (default 4, at most %d)\n"
		"  --compute-ms N  milliseconds in each round for which its GPU would compute "
		"(0)\n",
		ROUNDS_MAX - 1);
	exit(2);
}

int main(int argc, char **argv)
{
	uint64_t mine[COUNTS], all[COUNTS];

	read_options(argc, argv);
	MPI_Init(&argc, &argv);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
	if (job.ranks % 2)
		fail("start", "this program wants an even number of ranks");
	open_gpu();
	run_rounds();
	mine[VERIFIED] = counts()->checked_bytes;
	mine[WRONG] = counts()->wrong;
	mine[REUSED] = counts()->addresses_reused;
	MPI(MPI_Allreduce(mine, all, COUNTS, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD));
	if (job.rank == 0) {
		print_text(all);
		if (job.json)
			print_json(all);
	}
	close_gpu();
	MPI_Finalize();
	return all[WRONG] ? 1 : 0;
}
