/* SPDX-License-Identifier: BSD-3-Clause */
/* inert_cost.c -- cost of a preload in a program that never uses CUDA: "bash -c true"
 *
 * usage: inert_cost LIBRARY EMPTY [ROUNDS]
 * Runs alternate: without a preload, with LIBRARY, with EMPTY (a library without functions).
 * Prints the median time of a whole process of each, and the ratios to the run without.
 */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

#define ROUNDS_MAX 10000

static int compare(const void *one, const void *other)
{
	double a = *(const double *)one, b = *(const double *)other;

	return (a > b) - (a < b);
}

/* Seconds of one process; negative: the run failed. */
static double run(const char *preload)
{
	static char variable[4096];
	char *const command[] = { "/bin/bash", "-c", "true", NULL };
	char *without[] = { "PATH=/usr/bin:/bin", NULL, NULL };
	struct timespec start, end;
	pid_t child;
	int status;

	if (preload) {
		snprintf(variable, sizeof(variable), "LD_PRELOAD=%s", preload);
		without[1] = variable;
	}
	clock_gettime(CLOCK_MONOTONIC, &start);
	if (posix_spawn(&child, command[0], NULL, NULL, command, without) ||
	    waitpid(child, &status, 0) != child || status)
		return -1;
	clock_gettime(CLOCK_MONOTONIC, &end);
	return (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9;
}

int main(int count, char **arguments)
{
	static double times[3][ROUNDS_MAX];
	int rounds = count > 3 ? atoi(arguments[3]) : 200;
	const char *preloads[3];
	double medians[3];

	if (count < 3 || rounds < 1 || rounds > ROUNDS_MAX)
		return 2;
	preloads[0] = NULL;
	preloads[1] = arguments[1];
	preloads[2] = arguments[2];
	for (int i = -5; i < rounds; i++) {
		for (int kind = 0; kind < 3; kind++) {
			double took = run(preloads[kind]);

			if (took < 0)
				return 1;
			if (i >= 0)
				times[kind][i] = took;
		}
	}
	for (int kind = 0; kind < 3; kind++) {
		qsort(times[kind], (size_t)rounds, sizeof(double), compare);
		medians[kind] = times[kind][rounds / 2];
	}
	printf("without %.3f ms, with the library %.3f (ratio %.3f), with an empty one %.3f (ratio "
	       "%.3f)\n",
	       medians[0] * 1e3, medians[1] * 1e3, medians[1] / medians[0], medians[2] * 1e3,
	       medians[2] / medians[0]);
	return 0;
}
