/* SPDX-License-Identifier: BSD-3-Clause */
/* check_random.c -- random programs with many settings, each in a process of its own, against the
 * model
 *
 * A failure prints its seed and the command that repeats it. With one thread and
 * PEERPIN_PREREGISTER=off a seed repeats the run; with more threads, or the worker, scheduling
 * differs, and a seed is a hint.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "random/program.h"

#define MARK "CHECK_RANDOM_SETTINGS" /* set in the environment of a child with its settings */

/* Settings of the library, read at the start of a process. */
static const char *const settings[] = {
	"PEERPIN_PREREGISTER=auto",
	"PEERPIN_PREREGISTER=eager",
	"PEERPIN_PREREGISTER=off",
	"PEERPIN_PREREGISTER=auto,PEERPIN_PIN_LIMIT=16M",
	"PEERPIN_PREREGISTER=off,PEERPIN_PIN_LIMIT=1M",
	"PEERPIN_PREREGISTER=auto,PEERPIN_VERIFY=1",
	"PEERPIN_PREREGISTER=auto,CHECK_RANDOM_REGIONS=128,CHECK_RANDOM_ADAPTERS=1",
	"PEERPIN_PREREGISTER=off,CHECK_RANDOM_REGIONS=88,CHECK_RANDOM_ADAPTERS=1",
	"PEERPIN_PREREGISTER=auto,PEERPIN_DEVICES=world0,CHECK_RANDOM_ADAPTERS=2",
	"PEERPIN_PREREGISTER=auto,PEERPIN_KEEP=16M,PEERPIN_KEEP_HOST=1M",
	"PEERPIN_PREREGISTER=eager,PEERPIN_KEEP=25%,PEERPIN_KEEP_HOST=4M,CHECK_RANDOM_GPU=50331648",
	"PEERPIN_PREREGISTER=off,PEERPIN_KEEP=inf,CHECK_RANDOM_GPU=33554432,CHECK_RANDOM_FAULTS=0",
	"PEERPIN_PREREGISTER=eager,PEERPIN_KEEP=4M,PEERPIN_PIN_LIMIT=16M",
	"PEERPIN_PREREGISTER=auto,PEERPIN_KEEP=8M,PEERPIN_VERIFY=1",
	"PEERPIN_PREREGISTER=auto,PEERPIN_KEEP=24M,CHECK_RANDOM_FAULTS=0",
	"PEERPIN_PREREGISTER=off,PEERPIN_KEEP=8M,CHECK_RANDOM_REGIONS=88,CHECK_RANDOM_ADAPTERS=1",
	"PEERPIN_PREREGISTER=eager,PEERPIN_KEEP=16M,PEERPIN_KEEP_HOST=16M,CHECK_RANDOM_KEEP_END="
	"3000",
	"PEERPIN_PREREGISTER=auto,PEERPIN_KEEP=16M,CHECK_RANDOM_DELAYS=64",
	"PEERPIN_PREREGISTER=auto,PEERPIN_VERIFY=1,CHECK_RANDOM_DELAYS=64",
};
static const unsigned int thread_counts[] = { 1, 2, 4, 8 };
/* Seeds of every run; each run adds a new one. */
static const uint64_t fixed_seeds[] = { 1, 2, 3, 5, 8, 13, 21, 34 };

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ThreadSanitizer takes 20 times as long, and a race needs to come once. */
#ifdef __SANITIZE_THREAD__
#define OPERATIONS 250000
#else
#define OPERATIONS 600000
#endif

static struct program program = { .threads = 1, .operations = OPERATIONS, .forks = true };
static char repeat[512];

static uint64_t new_seed(void)
{
	uint32_t seed;

	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		seed = (uint32_t)time(NULL);
	return seed;
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void set(const char *list)
{
	char *copy = strdup(list), *name, *value, *rest = copy;

	while ((name = strsep(&rest, ","))) {
		value = strchr(name, '=');
		if (!value)
			continue;
		*value++ = '\0';
		setenv(name, value, 1);
	}
	free(copy);
	/* The faults cause one log line each. */
	setenv("PEERPIN_LOG_LEVEL", "none", 0);
	setenv("PEERPIN_SUMMARY", "0", 0);
	setenv("TSAN_OPTIONS", "atexit_sleep_ms=0", 0); /* one second of each process */
	setenv(MARK, list, 1);
}

static void run_here(const char *list)
{
	struct model_totals totals = { 0 };
	struct world_counts counts;
	double start = seconds();

	snprintf(repeat, sizeof(repeat),
		 "tests/random/check_random --operations %llu --threads %u --seed %llu --settings "
		 "%s",
		 (unsigned long long)program.operations, program.threads,
		 (unsigned long long)program.seed, list);
	world_repeat = repeat;
	delays_begin(world_from_environment("CHECK_RANDOM_DELAYS", 0));
	program_run(&program, &totals);
	counts = world_counts();
	printf("ok %s: %u threads, seed %llu, %llu operations in %.2f s: "
	       "%llu allocated, %llu ends refused, %llu asked, %llu served, %llu failed, %llu "
	       "revoked, %llu "
	       "late, "
	       "%llu kept, %llu reused, %llu released, "
	       "%llu forks; adapter: %llu registered, %llu failed, at most %llu at once\n",
	       list, program.threads, (unsigned long long)program.seed,
	       (unsigned long long)totals.operations, seconds() - start,
	       (unsigned long long)totals.allocations, (unsigned long long)totals.refused_ends,
	       (unsigned long long)totals.requests, (unsigned long long)totals.served,
	       (unsigned long long)totals.failed, (unsigned long long)totals.revoked,
	       (unsigned long long)totals.late, (unsigned long long)totals.kept,
	       (unsigned long long)totals.reused, (unsigned long long)world_released,
	       (unsigned long long)totals.forks, (unsigned long long)counts.pins,
	       (unsigned long long)counts.failures, (unsigned long long)counts.most_regions);
}

/* Run this program in a process with these settings; true: passed. */
static bool run_with(const char *list, uint64_t operations, unsigned int threads, uint64_t seed)
{
	char numbers[3][32];
	int status = -1;
	pid_t child;

	snprintf(numbers[0], sizeof(numbers[0]), "%llu", (unsigned long long)operations);
	snprintf(numbers[1], sizeof(numbers[1]), "%u", threads);
	snprintf(numbers[2], sizeof(numbers[2]), "%llu", (unsigned long long)seed);
	fflush(stdout);
	child = fork();
	if (!child) {
		set(list);
		execl("/proc/self/exe", "check_random", "--operations", numbers[0], "--threads",
		      numbers[1], "--seed", numbers[2], "--settings", list, NULL);
		_exit(127);
	}
	if (child > 0 && waitpid(child, &status, 0) == child && !status)
		return true;
	printf("not ok %s: %u threads, seed %llu, %llu operations: status 0x%x\n", list, threads,
	       (unsigned long long)seed, (unsigned long long)operations, status);
	return false;
}

/* Distribute `operations` over settings, thread counts and seeds. */
static int run_all(uint64_t operations, uint64_t seed)
{
	unsigned int runs = COUNT(settings) * COUNT(thread_counts) + COUNT(fixed_seeds);
	unsigned int passed = 0, failed = 0, run = 0;
	double start = seconds();
	uint64_t each = (operations + runs - 1) / runs;

	for (size_t i = 0; i < COUNT(settings); i++) {
		for (size_t j = 0; j < COUNT(thread_counts); j++) {
			if (run_with(settings[i], each, thread_counts[j], seed + run++))
				passed++;
			else
				failed++;
		}
	}
	for (size_t i = 0; i < COUNT(fixed_seeds); i++) {
		if (run_with(settings[i % COUNT(settings)], each, 1 + i % 2, fixed_seeds[i]))
			passed++;
		else
			failed++;
	}
	printf("%llu operations in %.1f s\n", (unsigned long long)(each * (passed + failed)),
	       seconds() - start);
	printf("%u passed, %u failed, 0 skipped\n", passed, failed);
	return failed != 0;
}

static void usage(void)
{
	puts("usage: check_random [--operations N] [--threads N] [--seed N] [--settings "
	     "NAME=VALUE,...]\n"
	     "\n"
	     "Without --threads and --settings: N operations in all, over all settings and 1 to 8 "
	     "threads.\n"
	     "With one of them: one program.");
}

int main(int count, char **arguments)
{
	static const struct option options[] = {
		{ "operations", required_argument, NULL, 'o' },
		{ "threads", required_argument, NULL, 't' },
		{ "seed", required_argument, NULL, 's' },
		{ "settings", required_argument, NULL, 'e' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	const char *list = NULL;
	bool one = false;
	int option;

	program.seed = new_seed();
	while ((option = getopt_long(count, arguments, "", options, NULL)) != -1) {
		switch (option) {
		case 'o':
			program.operations = strtoull(optarg, NULL, 0);
			break;
		case 't':
			program.threads = (unsigned int)strtoul(optarg, NULL, 0);
			one = true;
			break;
		case 's':
			program.seed = strtoull(optarg, NULL, 0);
			break;
		case 'e':
			list = optarg;
			one = true;
			break;
		case 'h':
			usage();
			return 0;
		default:
			usage();
			return 2;
		}
	}
	if (!program.threads || program.threads > WORLD_THREADS) {
		usage();
		return 2;
	}
	if (!one)
		return run_all(program.operations, program.seed);
	if (list && !getenv(MARK)) {
		set(list);
		execv("/proc/self/exe", arguments);
		perror("check_random: /proc/self/exe");
		return 1;
	}
	run_here(list ? list : "PEERPIN_PREREGISTER=auto");
	return 0;
}
