/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_witness_result.c -- the file of a process's verbs calls */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "apps/witness.h"
#include "stacks/verbs_witness.h"

/* peerpin_statistic, sim_adapter_statistic */
typedef int statistic_fn(const char *name, uint64_t *value);

/* peerpin's statistics, if loaded: a process without GPU memory leaves no file. */
static void write_statistics(FILE *file)
{
	static const char *const names[] = { "requests", "hits", "registrations", "host_requests" };
	statistic_fn *statistic = (statistic_fn *)dlsym(RTLD_DEFAULT, "peerpin_statistic");
	uint64_t value;

	for (size_t i = 0; statistic && i < sizeof(names) / sizeof(names[0]); i++)
		if (!statistic(names[i], &value))
			fprintf(file, ",\n  \"peerpin_%s\": %llu", names[i],
				(unsigned long long)value);
}

static void write_simulated(FILE *file)
{
	static const char *const names[] = { "stale_keys", "stale_memory", "outlived" };
	statistic_fn *statistic = (statistic_fn *)next_if_any("sim_adapter_statistic");
	uint64_t value;

	for (size_t i = 0; statistic && i < sizeof(names) / sizeof(names[0]); i++)
		if (!statistic(names[i], &value))
			fprintf(file, ",\n  \"sim_%s\": %llu", names[i], (unsigned long long)value);
}

static void write_counts(FILE *file)
{
	bool gpu = counts.asked_gpu;

	fprintf(file, "{\n  \"alloc_pd\": %lu,\n  \"dealloc_pd\": %lu,\n", counts.alloc_pd,
		counts.dealloc_pd);
	fprintf(file, "  \"registered\": %lu,\n  \"deregistered\": %lu,\n", counts.registered,
		counts.deregistered);
	fprintf(file, "  \"reregistered\": %lu,\n  \"failed\": %lu,\n", counts.reregistered,
		counts.failed);
	fprintf(file, "  \"gpu_by_program\": %lu,\n  \"gpu_by_worker\": %lu,\n",
		counts.gpu_by_program, counts.gpu_by_worker);
	fprintf(file, "  \"host\": %lu,\n", counts.host);
	fprintf(file, "  \"send_path\": %lu,\n  \"send_path_gpu\": %lu,\n", counts.send_path,
		counts.send_path_gpu);
	fprintf(file, "  \"send_path_ns\": %lu,\n", counts.send_path_ns);
	fprintf(file, "  \"asked\": %lu,\n  \"asked_gpu\": %lu,\n", counts.asked, counts.asked_gpu);
	fprintf(file, "  \"asked_gpu_beside_libfabric\": %lu,\n",
		counts.asked_gpu_beside_libfabric);
	fprintf(file, "  \"posted\": %lu,\n", counts.posted);
	fprintf(file, "  \"first_send_ns\": %lu",
		gpu ? counts.first_send_gpu_ns : counts.first_send_ns);
	write_statistics(file);
	write_simulated(file);
	fprintf(file, "\n}\n");
}

/* Atomic, even if the process is killed. */
static void write_result(void)
{
	const char *pattern = getenv("VERBS_WITNESS");
	char name[4096], partial[4200];
	FILE *file;

	if (!pattern || !(counts.alloc_pd + counts.registered + counts.asked))
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
