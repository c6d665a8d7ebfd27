/* SPDX-License-Identifier: BSD-3-Clause */
/* demo.c -- `peerpin demo`: times of a small client on the simulated driver and adapter, without
 * and with the library
 *
 * usage: peerpin-demo LIBRARY   runs itself 4 times, twice with LIBRARY preloaded
 *
 * Status 1: a result was wrong. Few hits on busy CPUs are correct: the demo states the reason.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/demo.h"

#define DELAY	"PEERPIN_SIM_ADAPTER_DELAY"
#define RUNS	2 /* of each side */
#define SAMPLES (RUNS * DEMO_SAMPLES)

typedef unsigned long long ull;

/* Runs without the library, or with it: sums, and all samples. */
struct side {
	struct demo_result sum;
	uint64_t request_ns[SAMPLES], cycle_ns[SAMPLES]; /* sorted */
	char summary[8192];				 /* of the last run */
};

/* ---- runs ---- */

static void demo_execute(const char *library, const int out[2], const int err[2])
{
	dup2(out[1], STDOUT_FILENO);
	dup2(err[1], STDERR_FILENO);
	close(out[0]);
	close(out[1]);
	close(err[0]);
	close(err[1]);
	if (*library)
		setenv("LD_PRELOAD", library, 1);
	else
		unsetenv("LD_PRELOAD");
	setenv("PEERPIN_SUMMARY", "table", 1);
	execl("/proc/self/exe", "peerpin-demo", "--client", (char *)NULL);
	_exit(127);
}

static void demo_read(int fd, char *to, size_t size)
{
	size_t used = 0;
	ssize_t length;

	while ((length = read(fd, to + used, size - 1 - used)) > 0 ||
	       (length < 0 && errno == EINTR))
		used += length > 0 ? (size_t)length : 0;
	to[used] = '\0';
	close(fd);
}

static bool demo_parse(const char *text, struct demo_result *result)
{
	uint64_t *numbers = (uint64_t *)result;
	char *end;

	for (size_t i = 0; i < DEMO_NUMBERS; i++, text = end) {
		numbers[i] = strtoull(text, &end, 10);
		if (end == text)
			return false;
	}
	return true;
}

/* The text of the client fits into the pipes: it ends without a reader. */
static bool demo_run(const char *library, struct demo_result *result, char *summary, size_t size)
{
	static char text[DEMO_NUMBERS * sizeof("18446744073709551615\n")];
	int out[2], err[2], status = 0;
	pid_t child;

	if (pipe(out) || pipe(err))
		return false;
	child = fork();
	if (!child)
		demo_execute(library, out, err);
	close(out[1]);
	close(err[1]);
	demo_read(out[0], text, sizeof(text));
	demo_read(err[0], summary, size);
	if (child < 0 || waitpid(child, &status, 0) != child || status ||
	    !demo_parse(text, result)) {
		fprintf(stderr, "%speerpin demo: the client ended with status 0x%x\n", summary,
			(unsigned int)status);
		return false;
	}
	return true;
}

static int demo_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void demo_add(struct side *side, unsigned int run, const struct demo_result *result)
{
	memcpy(side->request_ns + (size_t)run * DEMO_SAMPLES, result->request_ns,
	       sizeof(result->request_ns));
	memcpy(side->cycle_ns + (size_t)run * DEMO_SAMPLES, result->cycle_ns,
	       sizeof(result->cycle_ns));
	for (size_t i = 0; i < DEMO_NUMBERS; i++)
		((uint64_t *)&side->sum)[i] += ((const uint64_t *)result)[i];
}

/* Both orders: the machine may become slower or faster meanwhile. */
static bool demo_measure(const char *library, struct side sides[2])
{
	static const unsigned int order[2 * RUNS] = { 0, 1, 1, 0 };
	static struct demo_result result;

	memset(sides, 0, 2 * sizeof(*sides));
	for (unsigned int run = 0; run < 2 * RUNS; run++) {
		struct side *side = &sides[order[run]];

		if (!demo_run(order[run] ? library : "", &result, side->summary,
			      sizeof(side->summary)))
			return false;
		demo_add(side, run / 2, &result);
	}
	for (struct side *side = sides; side < sides + 2; side++) {
		qsort(side->request_ns, SAMPLES, sizeof(uint64_t), demo_compare);
		qsort(side->cycle_ns, SAMPLES, sizeof(uint64_t), demo_compare);
	}
	return true;
}

/* ---- output ---- */

static bool demo_has_few_hits(const struct demo_result *with)
{
	return with->hits * 10 < with->requests * 9;
}

static void demo_print_cause(const struct demo_result *with)
{
	printf("%llu hits in %llu requests: ", (ull)with->hits, (ull)with->requests);
	if (with->background_delays)
		printf("no CPU was idle (background_delays: %llu). While no CPU is\n"
		       "idle, peerpin leaves the registration to the request, as without "
		       "peerpin.\n",
		       (ull)with->background_delays);
	else
		printf("the others preceded the end of their background registration.\n");
}

static void demo_print_times(const char *what, const uint64_t *without, const uint64_t *with)
{
	printf("%-43s%12.1f%15.1f\n", what, (double)without[SAMPLES / 2] / 1e3,
	       (double)with[SAMPLES / 2] / 1e3);
	printf("%-43s%12.1f%15.1f\n", "  90th percentile", (double)without[SAMPLES * 9 / 10] / 1e3,
	       (double)with[SAMPLES * 9 / 10] / 1e3);
}

static void demo_print_count(const char *what, uint64_t without, uint64_t with)
{
	printf("%-43s%12llu%15llu\n", what, (ull)without, (ull)with);
}

static void demo_print(const struct side sides[2], const char *delay)
{
	const struct side *without = &sides[0], *with = &sides[1];

	printf("GPU and adapter are simulated. A registration takes %s us, a setting "
	       "(" DELAY ").\n"
	       "A program allocates %u buffers of 1 MiB, computes, requests a registration of "
	       "each,\n"
	       "receives data, deregisters all but one, and frees them: %u rounds, after a first\n"
	       "round in which peerpin learns which memory the program sends; each side runs "
	       "twice.\n\n",
	       delay, DEMO_BUFFERS, DEMO_ROUNDS);
	printf("%-43s%12s%15s\n", "time, us", "without", "with peerpin");
	demo_print_times("a request for a registration, median", without->request_ns,
			 with->request_ns);
	demo_print_times("allocate, register, deregister and free", without->cycle_ns,
			 with->cycle_ns);
	printf("\n%-43s%12s%15s\n", "count", "without", "with peerpin");
	demo_print_count("requests", SAMPLES, with->sum.requests);
	demo_print_count("  hits: the registration was ready", 0, with->sum.hits);
	demo_print_count("memory freed while registered", RUNS * DEMO_ROUNDS, RUNS * DEMO_ROUNDS);
	demo_print_count("  registrations that outlived the memory", without->sum.outlived,
			 with->sum.outlived);
	demo_print_count("bytes wrong", without->sum.wrong_bytes, with->sum.wrong_bytes);
	printf("\nBefore each free peerpin ends the registrations of the memory: old keys are "
	       "invalid, "
	       "and\nno page stays pinned.\n\n");
	if (demo_has_few_hits(&with->sum)) {
		demo_print_cause(&with->sum);
		printf("Run the demo again when a CPU is idle.\n\n");
	}
}

static void demo_explain(const char *summary)
{
	printf("The summary that peerpin prints when such a program exits. It is of one of the two runs,\n"
	       "and counts the first round, too:\n\n%s\n"
	       "GPUDirect RDMA  whether GPU memory was registered with an adapter, and how\n"
	       "requests        registrations that the program requested: a hit took none, "
	       "\"waited\" "
	       "is\n"
	       "                for one that had begun\n"
	       "registrations   those that peerpin made: before a request, or inside one (the "
	       "first\n"
	       "                request shows peerpin which memory the program sends)\n"
	       "frees           each ends the registrations of its memory first, and then frees\n"
	       "                it; missed must be 0\n\n"
	       "Next: peerpin doctor    whether GPUDirect RDMA works on this host\n"
	       "      peerpin mpirun -n 4 ./app\n",
	       summary);
}

/* Reports the first fault. */
static bool demo_is_right(const struct side sides[2])
{
	const struct demo_result *without = &sides[0].sum, *with = &sides[1].sum;
	uint64_t wrong_bytes = without->wrong_bytes + with->wrong_bytes;

	if (wrong_bytes)
		fprintf(stderr, "peerpin demo: %llu bytes are wrong\n", (ull)wrong_bytes);
	else if (with->requests != SAMPLES || with->forwarded)
		fprintf(stderr,
			"peerpin demo: peerpin forwarded %llu of %d requests (peerpin config: its "
			"settings)\n",
			(ull)(SAMPLES - with->requests + with->forwarded), SAMPLES);
	else if (with->outlived)
		fprintf(stderr, "peerpin demo: %llu registrations outlived their memory\n",
			(ull)with->outlived);
	else if (with->live_keys)
		fprintf(stderr, "peerpin demo: %llu keys were valid after the free\n",
			(ull)with->live_keys);
	else if (!with->hits && !with->background_delays)
		fprintf(stderr, "peerpin demo: no hit, though a CPU was idle (peerpin config: its "
				"settings)\n");
	else if (!sides[1].summary[0])
		fprintf(stderr, "peerpin demo: peerpin printed no summary\n");
	else
		return true;
	return false;
}

/* False: not allowed. */
static bool demo_read_delay(const char *text, unsigned long *delay)
{
	char *end;

	*delay = strtoul(text, &end, 10);
	return end != text && !*end && *text != '-' && *delay <= DEMO_MAX_DELAY;
}

int main(int count, char **arguments)
{
	static struct side sides[2];
	const char *text = getenv(DELAY);
	unsigned long delay;

	if (count != 2) {
		fprintf(stderr, "peerpin demo: it takes no arguments\n");
		return 2;
	}
	text = text ? text : "0";
	if (!demo_read_delay(text, &delay)) {
		fprintf(stderr, "peerpin demo: " DELAY "=%s is not allowed (0 to %d us)\n", text,
			DEMO_MAX_DELAY);
		return 2;
	}
	if (!strcmp(arguments[1], "--client"))
		return demo_client(delay);
	if (!demo_measure(arguments[1], sides))
		return 1;
	if (demo_has_few_hits(&sides[1].sum)) {
		demo_print_cause(&sides[1].sum);
		printf("The demo measures once more.\n\n");
		fflush(stdout);
		if (!demo_measure(arguments[1], sides))
			return 1;
	}
	demo_print(sides, text);
	demo_explain(sides[1].summary);
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "peerpin demo: standard output: %s\n", strerror(errno));
		return 1;
	}
	return !demo_is_right(sides);
}
