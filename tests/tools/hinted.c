/* SPDX-License-Identifier: BSD-3-Clause */
/* hinted.c -- a process with given numbers: prints its table at exit, and writes its snapshot
 *
 * usage: hinted FILE WORD...  each one of
 *   NAME=NUMBER         a counter
 *   PEERPIN_NAME=VALUE  a changed setting
 *   sizes=NUMBER        number of powers of 2 among the requested sizes
 *   job=NAME
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/output.h"
#include "report/statistics.h"

static const struct {
	const char *name;
	_Atomic uint64_t *value;
} numbers[] = {
#define STATISTIC(name, unit, meaning) { #name, &statistics.counters.name },
#define TALLY(name, unit, meaning)     { #name, &statistics.tallies[0].counts[TALLY_##name] },
#include "report/statistics.def"
#undef TALLY
#undef STATISTIC
};

static void hinted_fail(const char *word)
{
	fprintf(stderr, "hinted: %s\n", word);
	exit(3);
}

static void hinted_set(const char *word)
{
	const char *equals = strchr(word, '=');
	size_t i = 0, length = equals ? (size_t)(equals - word) : 0;
	unsigned long number = length ? strtoul(equals + 1, NULL, 10) : 0;

	if (!strncmp(word, "PEERPIN_", 8)) {
		if (statistics.process.settings[0])
			strcat(statistics.process.settings, "\n");
		strcat(statistics.process.settings, word);
		return;
	}
	if (!strncmp(word, "sizes=", 6)) {
		while (number--)
			statistics.histograms[HISTOGRAM_used_bytes][12 + number] = 1;
		return;
	}
	if (!strncmp(word, "job=", 4)) {
		strcpy(statistics.process.job, word + 4);
		return;
	}
	while (i < sizeof(numbers) / sizeof(*numbers) &&
	       (strncmp(numbers[i].name, word, length) || numbers[i].name[length]))
		i++;
	if (!length || i == sizeof(numbers) / sizeof(*numbers))
		hinted_fail(word);
	*numbers[i].value = number;
}

static int hinted_print(void *argument, const char *bytes, size_t length)
{
	return fwrite(bytes, 1, length, argument) == length ? 0 : -1;
}

int main(int count, char **words)
{
	static struct output output = { .take = hinted_print };
	FILE *file = count > 1 ? fopen(words[1], "w") : NULL;

	if (!file)
		hinted_fail("FILE");
	statistics.process.number = 1 << 30; /* no process has this number */
	statistics.process.rank = statistics.process.local_rank = -1;
	statistics.threads = 1;
	strcpy(statistics.process.program, "hinted");
	strcpy(statistics.process.job, "hinted");
	for (int i = 2; i < count; i++)
		hinted_set(words[i]);
	output.argument = stdout;
	table_write(&output, 0);
	if (output_end(&output))
		hinted_fail("output");
	output.argument = file;
	json_write(&output, false, 0);
	if (output_end(&output) || fclose(file))
		hinted_fail("output");
	return 0;
}
