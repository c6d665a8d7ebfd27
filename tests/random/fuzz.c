/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz.c -- random programs of one thread, with choices from a fuzzer's bytes
 *
 * Any bytes are a program; each program ends with nothing left. The target of libFuzzer. With
 * PLAIN_MAIN a program that runs the files in its arguments, or generated ones: a fuzzer's finding
 * is a test everywhere.
 *
 * Allocations register synchronously unless PEERPIN_PREREGISTER is set: the same bytes repeat the
 * run. The first byte decides whether frees keep memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "random/program.h"

#define LONGEST 2048

int LLVMFuzzerInitialize(int *count, char ***arguments);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static struct model_totals totals;

int LLVMFuzzerInitialize(int *count, char ***arguments)
{
	(void)count;
	if (!getenv("PEERPIN_PREREGISTER")) {
		setenv("PEERPIN_PREREGISTER", "eager", 1);
		setenv("PEERPIN_LOG_LEVEL", "none", 0);
		setenv("PEERPIN_SUMMARY", "0", 0);
		execv("/proc/self/exe", *arguments);
		perror("fuzz: /proc/self/exe");
	}
	world_repeat = "with the bytes of this run";
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static const uint8_t none;
	struct program program = {
		.threads = 1, .operations = UINT64_MAX, .bytes = size ? bytes : &none, .size = size
	};

	program_run(&program, &totals);
	return 0;
}

#ifdef PLAIN_MAIN

#define GENERATED 500

static uint8_t bytes[LONGEST];

static size_t generate(uint64_t seed, unsigned int number)
{
	struct source source = source_of_seed(seed, number);
	size_t size = 1 + choose(&source, LONGEST);

	for (size_t i = 0; i < size; i++)
		bytes[i] = (uint8_t)choose(&source, 256);
	return size;
}

static int write_generated(const char *folder, uint64_t seed)
{
	char name[4096];
	FILE *file;
	size_t size;

	for (unsigned int i = 0; i < GENERATED; i++) {
		size = generate(seed, i);
		snprintf(name, sizeof(name), "%s/generated-%u", folder, i);
		file = fopen(name, "w");
		if (!file || fwrite(bytes, 1, size, file) != size || fclose(file)) {
			perror(name);
			return 1;
		}
	}
	return 0;
}

static void run_generated(uint64_t seed)
{
	static char repeat[128];

	world_repeat = repeat;
	for (unsigned int i = 0; i < GENERATED; i++) {
		snprintf(repeat, sizeof(repeat),
			 "tests/random/check_fuzz --seed %llu (its program %u)",
			 (unsigned long long)seed, i);
		LLVMFuzzerTestOneInput(bytes, generate(seed, i));
	}
}

static int run_file(const char *name)
{
	FILE *file = fopen(name, "r");
	size_t size;

	if (!file) {
		perror(name);
		return 1;
	}
	size = fread(bytes, 1, sizeof(bytes), file);
	fclose(file);
	world_repeat = name;
	LLVMFuzzerTestOneInput(bytes, size);
	return 0;
}

int main(int count, char **arguments)
{
	int failed = 0, first = 1;
	uint32_t seed = 0;

	LLVMFuzzerInitialize(&count, &arguments);
	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		seed = (uint32_t)getpid();
	if (count > 2 && !strcmp(arguments[1], "--seed")) {
		seed = (uint32_t)strtoul(arguments[2], NULL, 0);
		first = 3;
	}
	if (count > first + 1 && !strcmp(arguments[first], "--write"))
		return write_generated(arguments[first + 1], seed);
	for (int i = first; i < count; i++)
		failed += run_file(arguments[i]);
	if (first == count)
		run_generated(seed);
	printf("seed %u: %llu operations, %llu asked, %llu served\n%d passed, %d failed, 0 "
	       "skipped\n",
	       seed, (unsigned long long)totals.operations, (unsigned long long)totals.requests,
	       (unsigned long long)totals.served,
	       first == count ? GENERATED : count - first - failed, failed);
	return failed != 0;
}

#endif
