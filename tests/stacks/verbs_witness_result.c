/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_witness_result.c -- the phases of a process's verbs calls, and their file */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "stacks/verbs_witness.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* peerpin_statistic, sim_adapter_statistic */
typedef int statistic_fn(const char *name, uint64_t *value);

static const char *const names[] = {
#define X(name) #name,
	WITNESS_COUNTS(X)
#undef X
};

/* A process without GPU memory leaves no file of peerpin's. */
static const char *const peerpin_names[] = { "requests",      "hits",	"registrations",
					     "host_requests", "waited", "synchronous_queued" };
static const char *const sim_names[] = { "stale_keys", "stale_memory", "outlived" };

int phase;
static int last_phase;
/* peerpin's, at the end of the phase */
static uint64_t noted[PHASES][COUNT(peerpin_names)];
static bool has_noted[PHASES];

static void write_number(FILE *file, const char *of, const char *name, uint64_t value)
{
	fprintf(file, ",\n  \"%s%s\": %llu", of, name, (unsigned long long)value);
}

__attribute__((visibility("default"))) int MPI_Pcontrol(const int level, ...)
{
	statistic_fn *statistic = (statistic_fn *)dlsym(RTLD_DEFAULT, "peerpin_statistic");

	if (level >= PHASES) {
		/* Later counts would belong to another phase. */
		fprintf(stderr,
			"verbs_witness: there is room for %d phases, and none for phase %d\n",
			PHASES, level);
		abort();
	}
	if (level <= 0)
		return 0;
	has_noted[phase] = statistic != NULL;
	for (size_t i = 0; statistic && i < COUNT(peerpin_names); i++)
		if (statistic(peerpin_names[i], &noted[phase][i]))
			fprintf(stderr, "verbs_witness: peerpin counts no %s\n", peerpin_names[i]);
	__atomic_store_n(&phase, level, __ATOMIC_RELAXED);
	last_phase = level > last_phase ? level : last_phase;
	return 0;
}

static unsigned long count_of(int number, size_t i)
{
	return ((const unsigned long *)&counts[number])[i];
}

static unsigned long total_of(size_t i)
{
	unsigned long total = 0;

	for (int number = 0; number <= last_phase; number++)
		total += count_of(number, i);
	return total;
}

static void write_phase(FILE *file, int number)
{
	char of[24];

	snprintf(of, sizeof(of), "phase%d_", number);
	for (size_t i = 0; i < PHASE_COUNTS; i++)
		write_number(file, of, names[i], count_of(number, i));
	snprintf(of, sizeof(of), "phase%d_peerpin_", number);
	for (size_t i = 0; has_noted[number] && i < COUNT(peerpin_names); i++)
		write_number(file, of, peerpin_names[i], noted[number][i]);
}

static void write_statistics(FILE *file, statistic_fn *statistic, const char *of,
			     const char *const *wanted, size_t count)
{
	uint64_t value;

	for (size_t i = 0; statistic && i < count; i++)
		if (!statistic(wanted[i], &value))
			write_number(file, of, wanted[i], value);
}

static void write_counts(FILE *file)
{
	fprintf(file, "{\n  \"pid\": %d", (int)getpid());
	for (size_t i = 0; i < COUNT(names); i++)
		write_number(file, "", names[i], total_of(i));
	write_statistics(file, (statistic_fn *)dlsym(RTLD_DEFAULT, "peerpin_statistic"), "peerpin_",
			 peerpin_names, COUNT(peerpin_names));
	write_statistics(file, (statistic_fn *)next_if_any("sim_adapter_statistic"), "sim_",
			 sim_names, COUNT(sim_names));
	for (int number = 0; last_phase && number <= last_phase; number++)
		write_phase(file, number);
	fprintf(file, "\n}\n");
}

static bool has_counts(void)
{
	for (int number = 0; number <= last_phase; number++)
		if (counts[number].alloc_pd + counts[number].registered + counts[number].asked)
			return true;
	return false;
}

/* Atomic, even if the process is killed. */
static void write_result(void)
{
	const char *pattern = getenv("VERBS_WITNESS");
	char name[4096], partial[4200];
	FILE *file;

	if (!pattern || !has_counts())
		return;
	snprintf(name, sizeof(name), "%s.%d", pattern, (int)getpid());
	snprintf(partial, sizeof(partial), "%s-partial", name);
	file = fopen(partial, "w");
	if (!file) {
		perror(partial);
		return;
	}
	write_counts(file);
	fclose(file);
	if (rename(partial, name))
		perror(name);
}

void write_live(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	if (!getenv("VERBS_WITNESS_LIVE"))
		return;
	pthread_mutex_lock(&lock);
	write_result();
	pthread_mutex_unlock(&lock);
}

static __attribute__((destructor)) void write_at_exit(void)
{
	write_result();
}
