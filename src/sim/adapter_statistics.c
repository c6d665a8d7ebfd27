/* SPDX-License-Identifier: BSD-3-Clause */
/* adapter_statistics.c -- the simulated adapter's counters, written to a file at the end on request
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/adapter.h"

#define FILE_SETTING "PEERPIN_SIM_ADAPTER_STATS"

struct adapter_statistics adapter_statistics;

static const struct {
	const char *name;
	const uint64_t *value;
} statistics[] = {
#define STATISTIC(name, meaning) { #name, &adapter_statistics.name },
	SIM_ADAPTER_STATISTICS(STATISTIC)
#undef STATISTIC
};

#define STATISTICS (sizeof(statistics) / sizeof(statistics[0]))

/* The process that loaded the library: a forked child has its parent's counts. */
static pid_t process;
static char *pattern; /* of the file's name; NULL: no file */

int sim_adapter_statistic(const char *name, uint64_t *value)
{
	for (size_t i = 0; i < STATISTICS; i++) {
		if (!strcmp(statistics[i].name, name)) {
			*value = __atomic_load_n(statistics[i].value, __ATOMIC_RELAXED);
			return 0;
		}
	}
	return -ENOENT;
}

/* ---- the file ---- */

static bool statistics_are_empty(void)
{
	uint64_t value;

	for (size_t i = 0; i < STATISTICS; i++) {
		if (!sim_adapter_statistic(statistics[i].name, &value) && value)
			return false;
	}
	return true;
}

/* JSON in one line, for one write(): processes may share a file. */
static size_t statistics_print(char *line, size_t size)
{
	char program[64];
	uint64_t value;
	size_t used;

	snprintf(program, sizeof(program), "%s", program_invocation_short_name);
	for (char *c = program; *c; c++) {
		if (*c < ' ' || *c == '"' || *c == '\\' || *c == 127)
			*c = '_';
	}
	used = (size_t)snprintf(line, size, "{\"program\": \"%s\", \"pid\": %d", program, process);
	for (size_t i = 0; i < STATISTICS && used < size; i++) {
		sim_adapter_statistic(statistics[i].name, &value);
		used += (size_t)snprintf(line + used, size - used, ", \"%s\": %llu",
					 statistics[i].name, (unsigned long long)value);
	}
	if (used < size)
		used += (size_t)snprintf(line + used, size - used, "}\n");
	return used < size ? used : 0;
}

/* The pattern with %p replaced by the process id; false: too long. */
static bool statistics_name(char *name, size_t size)
{
	size_t used = 0;

	for (const char *from = pattern; *from && used < size; from++) {
		if (from[0] == '%' && from[1] == 'p') {
			used += (size_t)snprintf(name + used, size - used, "%d", process);
			from++;
		} else {
			name[used++] = *from;
		}
	}
	if (used >= size)
		return false;
	name[used] = '\0';
	return true;
}

static int statistics_write(const char *name)
{
	char line[4096];
	size_t size = statistics_print(line, sizeof(line));
	int descriptor = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	int error = 0;

	if (descriptor < 0)
		return errno;
	if (!size || write(descriptor, line, size) != (ssize_t)size)
		error = errno ? errno : EIO;
	close(descriptor);
	return error;
}

static __attribute__((destructor)) void statistics_end(void)
{
	char name[4096];
	int error = ENAMETOOLONG;

	if (!pattern || getpid() != process || statistics_are_empty())
		return;
	if (statistics_name(name, sizeof(name)))
		error = statistics_write(name);
	if (error)
		fprintf(stderr, "peerpin simulated adapter: %s=%s: %s\n", FILE_SETTING, pattern,
			strerror(error));
}

/* The program may change its environment. */
static __attribute__((constructor)) void statistics_start(void)
{
	const char *text = getenv(FILE_SETTING);

	process = getpid();
	if (text && *text)
		pattern = strdup(text);
}
