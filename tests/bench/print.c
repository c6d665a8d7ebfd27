/* SPDX-License-Identifier: BSD-3-Clause */
/* print.c -- rows as a table for people, and as JSON */
#include "print.h"

#include <math.h>
#include <string.h>
#include <sys/utsname.h>

#include "measure.h"

static double ratio_of(const struct bench_row *row)
{
	return row->peer_ns / row->ns;
}

/* ---- the table ---- */

/* `value` in `text`, or a dash. */
static const char *number(char *text, size_t size, double value)
{
	if (isnan(value))
		return "-";
	snprintf(text, size, "%.*f", value < 100 ? 1 : 0, value);
	return text;
}

void print_header(FILE *file, const char *bench)
{
	fprintf(file, "%-50s %8s %3s %9s %17s %9s %6s\n", bench, "live", "thr", "ns", "min to max",
		"peer ns", "ratio");
}

void print_row(FILE *file, const struct bench_row *row)
{
	char ns[24], range[48] = "-", peer[48], ratio[24];

	if (!isnan(row->min_ns))
		snprintf(range, sizeof(range), "%.1f to %.1f", row->min_ns, row->max_ns);
	fprintf(file, "%-50s %8llu %3u %9s %17s %9s %6s", row->name, (unsigned long long)row->live,
		row->threads, number(ns, sizeof(ns), row->ns), range,
		number(peer, sizeof(peer), row->peer_ns),
		number(ratio, sizeof(ratio), ratio_of(row)));
	fputc('\n', file);
	fflush(file);
}

/* ---- JSON ---- */

static void print_text(const char *name, const char *text)
{
	printf("\"%s\": \"", name);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			printf("\\%c", *text);
		else if ((unsigned char)*text >= ' ')
			putchar(*text);
	}
	putchar('"');
}

static void print_number(const char *name, double value)
{
	if (isnan(value))
		printf(", \"%s\": null", name);
	else
		printf(", \"%s\": %.3f", name, value);
}

static void print_json_row(const struct bench_row *row)
{
	putchar('{');
	print_text("case", row->name);
	printf(", \"live\": %llu, \"threads\": %u", (unsigned long long)row->live, row->threads);
	print_number("ns", row->ns);
	print_number("min_ns", row->min_ns);
	print_number("max_ns", row->max_ns);
	printf(", ");
	if (row->peer[0])
		print_text("peer", row->peer);
	else
		printf("\"peer\": null");
	print_number("peer_ns", row->peer_ns);
	print_number("ratio", ratio_of(row));
	putchar('}');
}

/* Name of the processor; not every architecture has one. */
static void read_processor(char *name, size_t size)
{
	FILE *file = fopen("/proc/cpuinfo", "r");
	char line[256];
	char *value;

	while (file && fgets(line, sizeof(line), file)) {
		value = strstr(line, ": ");
		if (strncmp(line, "model name", 10) || !value)
			continue;
		value[strcspn(value, "\n")] = '\0';
		snprintf(name, size, "%s", value + 2);
		break;
	}
	if (file)
		fclose(file);
}

static void print_machine(const char *more)
{
	struct utsname names;
	char processor[128];
	char text[512];

	uname(&names);
	snprintf(processor, sizeof(processor), "%s", names.machine);
	read_processor(processor, sizeof(processor));
	snprintf(text, sizeof(text), "%s, %u CPUs, %s %s%s%s", processor, measure_cpus(),
		 names.sysname, names.release, more ? ", " : "", more ? more : "");
	print_text("machine", text);
}

void print_json(const char *bench, const char *more, const struct bench_row *rows,
		unsigned int count)
{
	putchar('{');
	print_text("bench", bench);
	printf(", ");
	print_machine(more);
	printf(", \"rows\": [\n");
	for (unsigned int i = 0; i < count; i++) {
		print_json_row(&rows[i]);
		printf(i + 1 < count ? ",\n" : "\n");
	}
	printf("]}\n");
}
