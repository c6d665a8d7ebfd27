/* SPDX-License-Identifier: BSD-3-Clause */
/* process.c -- rank, host and name of this process; fork and exit */
#include "base/process.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/kernel.h"
#include "base/system.h"
#include "base/text.h"

/* In the order of trust: what srun says is inherited through mpirun, so it comes last (measured sheet
 * user-experience 2), and only inside a step. */
static const char *const rank_variables[] = {
	"OMPI_COMM_WORLD_RANK", "PMIX_RANK",	      "PMI_RANK",    "MV2_COMM_WORLD_RANK", "PALS_RANKID",
	"FLUX_TASK_RANK",	"JSM_NAMESPACE_RANK", "ALPS_APP_PE", "SLURM_PROCID",
};

static _Atomic bool active, forked, exiting;
_Atomic bool process_done;

bool process_is_passive(void)
{
	return atomic_load_explicit(&forked, memory_order_relaxed) || config_get()->disable;
}

bool process_is_passive_early(void)
{
	return atomic_load_explicit(&forked, memory_order_relaxed) || config_early()->disable;
}

bool process_is_forked(void)
{
	return atomic_load_explicit(&forked, memory_order_relaxed);
}

static void in_child(void)
{
	atomic_store_explicit(&forked, true, memory_order_relaxed);
	atomic_store_explicit(&process_done, true, memory_order_relaxed);
}

static void at_exit(void *unused)
{
	(void)unused;
	process_begin_exit();
}

void process_activate(void)
{
	if (__builtin_expect(atomic_load_explicit(&active, memory_order_relaxed), 1))
		return;
	if (atomic_exchange_explicit(&active, true, memory_order_relaxed))
		return;
	pthread_atfork(NULL, NULL, in_child);
	system_at_exit(at_exit);
	config_report();
}

bool process_is_active(void)
{
	return atomic_load_explicit(&active, memory_order_relaxed);
}

void process_begin_exit(void)
{
	atomic_store_explicit(&exiting, true, memory_order_relaxed);
	atomic_store_explicit(&process_done, true, memory_order_relaxed);
}

bool process_is_exiting(void)
{
	return atomic_load_explicit(&exiting, memory_order_relaxed);
}

/* A decimal number up to 999999999; -1 for anything else. Not strtol: built against a new glibc that refers to a
 * name which older ones lack. */
static int number(const char *text)
{
	int value = 0;

	if (text_length(text) > 9)
		return -1;
	for (; *text; text++) {
		if (!text_is_digit(*text))
			return -1;
		value = value * 10 + (*text - '0');
	}
	return value;
}

int process_rank(void)
{
	for (size_t i = 0; i < sizeof(rank_variables) / sizeof(rank_variables[0]); i++) {
		const char *value = system_environment(rank_variables[i]);
		int rank;

		if (!value || !*value)
			continue;
		if (text_equals(rank_variables[i], "SLURM_PROCID") && !system_environment("SLURM_STEP_ID"))
			continue;
		rank = number(value);
		if (rank >= 0)
			return rank;
	}
	return -1;
}

const char *process_host(void)
{
	static __thread char host[64] __attribute__((tls_model("initial-exec")));

	struct utsname names;
	size_t length = 0;

	if (!host[0]) {
		if (kernel_host(&names) || !names.nodename[0])
			memcpy(names.nodename, "localhost", sizeof("localhost"));
		while (length < sizeof(host) - 1 && names.nodename[length] && names.nodename[length] != '.')
			length++;
		memcpy(host, names.nodename, length);
	}
	return host;
}

const char *process_program(void)
{
	return system_program();
}

/* One conversion of a pattern: its text, or NULL for an unknown one, which then stands for itself. */
static const char *convert(char conversion, char *number, size_t size)
{
	switch (conversion) {
	case 'r':
		system_format(number, size, "%d", process_rank() >= 0 ? process_rank() : 0);
		return number;
	case 'p':
		system_format(number, size, "%d", kernel_process());
		return number;
	case 'h':
		return process_host();
	case '%':
		return "%";
	default:
		return NULL;
	}
}

int process_file_name(const char *pattern, char *name, size_t size)
{
	bool distinct = text_contains(pattern, "%r") || text_contains(pattern, "%p");
	size_t used = 0;
	char number[16];

	for (; *pattern; pattern++) {
		char plain[2] = { *pattern, '\0' };
		const char *text = NULL;

		if (*pattern == '%')
			text = convert(pattern[1], number, sizeof(number));
		if (text)
			pattern++;
		else
			text = plain;
		if (used + text_length(text) >= size)
			return -ENAMETOOLONG;
		memcpy(name + used, text, text_length(text));
		used += text_length(text);
	}
	name[used] = '\0';
	if (!distinct && process_rank() >= 0 &&
	    (size_t)system_format(name + used, size - used, ".%d", process_rank()) >= size - used)
		return -ENAMETOOLONG;
	return 0;
}
