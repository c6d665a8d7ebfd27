/* SPDX-License-Identifier: BSD-3-Clause */
/* hinted.c -- a process with given numbers: prints its table at exit, and writes its segment
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

#include "report/emit.h"

static struct segment segment;

static const struct {
	const char *name;
	_Atomic uint64_t *value;
} numbers[] = {
#define STATISTIC(name, unit, meaning) { #name, &segment.counters.name },
#define TALLY(name, unit, meaning)     { #name, &segment.tallies[0].counts[TALLY_##name] },
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
		if (segment.header.settings[0])
			strcat(segment.header.settings, "\n");
		strcat(segment.header.settings, word);
		return;
	}
	if (!strncmp(word, "sizes=", 6)) {
		while (number--)
			segment.histograms[HISTOGRAM_used_bytes][12 + number] = 1;
		return;
	}
	if (!strncmp(word, "job=", 4)) {
		strcpy(segment.header.job, word + 4);
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
	struct emit_source source = { .segment = &segment, .processes = 1 };
	FILE *file = count > 1 ? fopen(words[1], "w") : NULL;

	if (!file)
		hinted_fail("FILE");
	memcpy(segment.header.magic, SEGMENT_MAGIC, sizeof(segment.header.magic));
	segment.header.layout = segment_layout();
	segment.header.size = sizeof(segment);
	segment.header.process = 1 << 30; /* no process has this number */
	segment.header.rank = segment.header.local_rank = -1;
	segment.header.threads = 1;
	strcpy(segment.header.program, "hinted");
	strcpy(segment.header.job, "hinted");
	for (int i = 2; i < count; i++)
		hinted_set(words[i]);
	output.argument = stdout;
	emit(&output, &source, EMIT_TABLE);
	if (output_end(&output) || !fwrite(&segment, sizeof(segment), 1, file) || fclose(file))
		hinted_fail("output");
	return 0;
}
