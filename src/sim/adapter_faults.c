/* SPDX-License-Identifier: BSD-3-Clause */
/* adapter_faults.c -- the simulated adapter's settings, injected failures and counters, which are
 * written to a file at the end on request
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/adapter.h"

struct adapter_settings adapter_settings = {
#define SETTING(name, otherwise, meaning) .name = (otherwise),
	SIM_ADAPTER_SETTINGS(SETTING)
#undef SETTING
};

static const struct {
	const char *name;
	uint64_t *value;
} settings[] = {
#define SETTING(name, otherwise, meaning) { #name, &adapter_settings.name },
	SIM_ADAPTER_SETTINGS(SETTING)
#undef SETTING
};

/* Guarded by adapter_lock, except in the constructor. */
static uint64_t attempts, random_state;

/* Accept a number with suffix K, M or G, or with prefix "1/". */
static bool faults_read_number(const char *text, uint64_t *number)
{
	const char *suffix;
	char *end;
	int shift = 0;

	if (!strncmp(text, "1/", 2))
		text += 2;
	errno = 0;
	*number = strtoull(text, &end, 10);
	if (end == text || *text == '-' || errno)
		return false;
	suffix = *end ? strchr("KMG", *end) : NULL;
	if (suffix) {
		shift = 10 * (int)(suffix - "KMG" + 1);
		end++;
	}
	if (*end || *number > UINT64_MAX >> shift)
		return false;
	*number <<= shift;
	return true;
}

static void faults_read_setting(const char *name, uint64_t *value)
{
	char variable[64] = "PEERPIN_SIM_ADAPTER_";
	size_t used = strlen(variable);
	const char *text;
	uint64_t number;

	for (; *name; name++)
		variable[used++] = *name >= 'a' && *name <= 'z' ? (char)(*name - 'a' + 'A') : *name;
	text = getenv(variable);
	if (!text)
		return;
	if (faults_read_number(text, &number))
		*value = number;
	else
		fprintf(stderr, "peerpin simulated adapter: %s=%s is no number: using %llu\n",
			variable, text, (unsigned long long)*value);
}

static void faults_before_fork(void)
{
	pthread_mutex_lock(&adapter_lock);
}

static void faults_after_fork(void)
{
	pthread_mutex_unlock(&adapter_lock);
}

static __attribute__((constructor)) void faults_start(void)
{
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		faults_read_setting(settings[i].name, settings[i].value);
	random_state = adapter_settings.seed;
	pthread_atfork(faults_before_fork, faults_after_fork, faults_after_fork);
}

int sim_adapter_set(const char *setting, uint64_t value)
{
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		if (strcmp(settings[i].name, setting))
			continue;
		pthread_mutex_lock(&adapter_lock);
		__atomic_store_n(settings[i].value, value, __ATOMIC_RELAXED);
		if (settings[i].value == &adapter_settings.fail_at)
			attempts = 0;
		if (settings[i].value == &adapter_settings.seed)
			random_state = value;
		pthread_mutex_unlock(&adapter_lock);
		return 0;
	}
	return -ENOENT;
}

/* splitmix64 */
static uint64_t faults_next_random(void)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

bool adapter_fails_now(void)
{
	uint64_t rate = adapter_setting(fail_rate);

	attempts++;
	return attempts == adapter_setting(fail_at) || (rate && faults_next_random() % rate == 0);
}

void adapter_die(const char *format, ...)
{
	va_list arguments;
	char text[512];

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	fprintf(stderr, "peerpin simulated adapter: %s\n", text);
	abort();
}

/* ---- counters ---- */

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
