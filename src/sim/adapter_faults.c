/* SPDX-License-Identifier: BSD-3-Clause */
/* adapter_faults.c -- the simulated adapter's settings and injected failures */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
