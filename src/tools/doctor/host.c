/* SPDX-License-Identifier: BSD-3-Clause */
/* host.c -- makes each reading of a machine once, and keeps it */
#include "tools/doctor/host.h"

#include <errno.h>
#include <search.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/kernel.h"
#include "tools/doctor/child.h"
#include "tools/units.h"

/* Names that begin with the prefix come from `fill`, on their first use. */
static const struct source {
	const char *prefix;
	void (*fill)(struct host *host);
} sources[] = { { "cuda/", driver_fill },
		{ "verbs/", verbs_fill },
		{ "probe/", probe_fill },
		{ "program/", program_fill } };
#define SOURCES (sizeof(sources) / sizeof(sources[0]))

struct host {
	bool live;
	const char *root;
	void *readings; /* struct reading, by name (tsearch) */
	bool filled[SOURCES];
	char *refused;
	uint64_t began; /* kernel_time */
};

struct host *host_empty(void)
{
	struct host *host = zeroed(1, sizeof(*host));

	host->root = "";
	return host;
}

struct host *host_live(const char *root)
{
	struct host *host = host_empty();
	size_t length = strlen(root);

	while (length && root[length - 1] == '/')
		length--;
	host->root = text_of("%.*s", (int)length, root);
	host->live = true;
	host->began = kernel_time(CLOCK_MONOTONIC);
	return host;
}

void host_free(struct host *host)
{
	tdestroy(host->readings, free);
	free(host);
}

const char *host_root(const struct host *host)
{
	return host->root;
}

void list_append(char **to, const char *between, const char *text)
{
	*to = text_of("%s%s%s", *to ? *to : "", *to && **to ? between : "", text);
}

/* ---- records ---- */

static int host_compare(const void *a, const void *b)
{
	const struct reading *left = a, *right = b;

	return strcmp(left->name, right->name);
}

const struct reading *host_recorded(const struct host *host, const char *name)
{
	const struct reading wanted = { .name = name };
	void *found = tfind(&wanted, &host->readings, host_compare);

	return found ? *(const struct reading **)found : NULL;
}

void host_record_bytes(struct host *host, const char *name, int error, const char *text,
		       size_t length)
{
	struct reading *reading;
	char *copy;

	if (host_recorded(host, name))
		return;
	reading = zeroed(1, sizeof(*reading) + length + 1);
	copy = memcpy(reading + 1, text, length);
	*reading = (struct reading){ text_of("%s", name), error, copy, length };
	if (!tsearch(reading, &host->readings, host_compare))
		abort(); /* no memory */
	if (child_is_child())
		child_forward(name, error, text, length);
}

void host_record(struct host *host, const char *name, const char *format, ...)
{
	va_list arguments;
	char *text;

	va_start(arguments, format);
	text = text_print(format, arguments);
	va_end(arguments);
	host_record_bytes(host, name, 0, text, strlen(text));
}

const char *reading_name(const char *format, ...)
{
	static char name[300];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(name, sizeof(name), format, arguments);
	va_end(arguments);
	return name;
}

void host_record_error(struct host *host, const char *name, int error, const char *format, ...)
{
	va_list arguments;
	char *text;

	va_start(arguments, format);
	text = text_print(format, arguments);
	va_end(arguments);
	host_record_bytes(host, name, error ? error : EINVAL, text, strlen(text));
}

/* ---- reads ---- */

/* Discards notes of unreadable readings made while filling: they must not depend on the check
 * that reads first. The source records its own errors as readings. */
static void host_fill(struct host *host, size_t source)
{
	char *before = host_take_refused(host);

	host->filled[source] = true;
	sources[source].fill(host);
	host->refused = before;
}

/* Below a system root there are no sources: the names are errors ENOENT. */
static void host_make(struct host *host, const char *name)
{
	size_t source = 0;

	while (source < SOURCES &&
	       strncmp(name, sources[source].prefix, strlen(sources[source].prefix)))
		source++;
	if (source == SOURCES)
		live_read(host, name);
	else if (!host->filled[source] && !*host->root)
		host_fill(host, source);
}

const struct reading *host_read(struct host *host, const char *format, ...)
{
	const struct reading *reading;
	va_list arguments;
	char name[1024];

	va_start(arguments, format);
	vsnprintf(name, sizeof(name), format, arguments);
	va_end(arguments);
	reading = host_recorded(host, name);
	if (reading)
		return reading;
	if (host->live)
		host_make(host, name);
	host_record_bytes(host, name, ENOENT, "", 0); /* if it was not made */
	return host_recorded(host, name);
}

bool reading_is_refused(const struct reading *reading)
{
	return reading->error && reading->error != ENOENT && reading->error != ENOTDIR;
}

void host_note_refused(struct host *host, const char *names)
{
	if (names && !(host->refused && strstr(host->refused, names)))
		list_append(&host->refused, ", ", names);
}

char *host_take_refused(struct host *host)
{
	char *refused = host->refused;

	host->refused = NULL;
	return refused;
}

/* Display name of a reading: the path of a file, else its origin and name. */
static const char *host_display_name(const char *name)
{
	static const struct {
		const char *prefix, *origin;
	} origins[] = {
		{ "cuda/", "the CUDA driver's" }, { "verbs/", "libibverbs'" },
		{ "probe/", "the probe's" },	  { "program/", "the program's" },
		{ "kernel/", "the kernel's" },	  { "limits/", "the limit" },
		{ "identity/", "the machine's" }, { "environment/", "the variable" },
		{ "command/", "the output of" },
	};

	for (size_t i = 0; i < sizeof(origins) / sizeof(*origins); i++) {
		size_t length = strlen(origins[i].prefix);

		if (!strncmp(name, origins[i].prefix, length))
			return text_of("%s %s", origins[i].origin, name + length);
	}
	return name;
}

const struct reading *host_noting(struct host *host, const struct reading *reading)
{
	if (reading_is_refused(reading))
		host_note_refused(host, text_of("%s (%s)", host_display_name(reading->name),
						host_error_name(reading->error)));
	return reading;
}

bool reading_number(const struct reading *reading, int64_t *value)
{
	const char *text = reading->text;
	char *end;

	if (reading->error || !*text)
		return false;
	*value = strtoll(text, &end, !strncmp(text, "0x", 2) ? 16 : 10);
	return end != text && (!*end || *end == ' ' || *end == '\n');
}

bool host_line(const char **text, char *line, size_t size)
{
	size_t length;

	if (!*text || !**text)
		return false;
	length = strcspn(*text, "\n");
	snprintf(line, size, "%.*s", (int)length, *text);
	*text += length + ((*text)[length] == '\n');
	return true;
}

bool host_has_time(struct host *host, unsigned int seconds)
{
	int64_t limit = HOST_LIMIT;

	if (!host_number(host, &limit, "option/limit"))
		limit = HOST_LIMIT;
	return (int64_t)((kernel_time(CLOCK_MONOTONIC) - host->began) / 1000000000) + seconds <=
	       limit;
}

static void (*host_visit)(const struct reading *reading);

static void host_visit_node(const void *node, VISIT order, int depth)
{
	(void)depth;
	if (order == postorder || order == leaf)
		host_visit(*(const struct reading *const *)node);
}

void host_each(struct host *host, void (*visit)(const struct reading *reading))
{
	host_visit = visit;
	twalk(host->readings, host_visit_node);
}
