/* SPDX-License-Identifier: BSD-3-Clause */
/* host.c -- makes each reading of a machine once, and keeps it */
#include "tools/doctor/host.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/doctor/child.h"
#include "tools/doctor/clock.h"
#include "tools/doctor/host_internal.h"

#define SOURCES 16

struct entry {
	char *name;
	struct reading reading;
};

struct source {
	const char *prefix;
	void (*fill)(struct host *host);
	bool filled;
};

struct host {
	bool live;
	char *root;
	struct entry **entries; /* sorted by name; the array moves, its entries do not */
	size_t count, room;
	struct source sources[SOURCES];
	unsigned int source_count;
	char *refused;
	uint64_t began; /* clock_ns */
};

void *need(void *memory)
{
	if (memory)
		return memory;
	fputs("peerpin doctor: no memory left\n", stderr);
	exit(3);
}

char *need_print(const char *format, va_list arguments)
{
	char *text;

	return need(vasprintf(&text, format, arguments) < 0 ? NULL : text);
}

char *need_text(const char *format, ...)
{
	va_list arguments;
	char *text;

	va_start(arguments, format);
	text = need_print(format, arguments);
	va_end(arguments);
	return text;
}

void list_append(char **to, const char *between, const char *text)
{
	char *whole = need_text("%s%s%s", *to ? *to : "", *to && **to ? between : "", text);

	free(*to);
	*to = whole;
}

struct host *host_empty(void)
{
	struct host *host = need(calloc(1, sizeof(*host)));

	host->root = need_text("%s", "");
	return host;
}

struct host *host_live(const char *root)
{
	struct host *host = host_empty();
	size_t length = strlen(root);

	while (length && root[length - 1] == '/')
		length--;
	free(host->root);
	host->root = need_text("%.*s", (int)length, root);
	host->live = true;
	host->began = clock_ns();
	return host;
}

void host_free(struct host *host)
{
	for (size_t i = 0; i < host->count; i++) {
		free((void *)host->entries[i]->reading.text);
		free(host->entries[i]->name);
		free(host->entries[i]);
	}
	free(host->entries);
	free(host->root);
	free(host->refused);
	free(host);
}

const char *host_root(const struct host *host)
{
	return host->root;
}

/* ---- records ---- */

/* Index of the name, or its insertion point. */
static size_t host_slot(const struct host *host, const char *name, bool *found)
{
	size_t low = 0, high = host->count;

	*found = false;
	while (low < high && !*found) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(name, host->entries[middle]->name);

		*found = !order;
		if (*found)
			low = middle;
		else if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static struct entry *host_find(const struct host *host, const char *name)
{
	bool found;
	size_t slot = host_slot(host, name, &found);

	return found ? host->entries[slot] : NULL;
}

void host_record_bytes(struct host *host, const char *name, int error, const char *text,
		       size_t length)
{
	struct entry *entry;
	char *copy;
	bool found;
	size_t slot = host_slot(host, name, &found);

	if (found)
		return;
	if (host->count == host->room) {
		host->room = host->room ? 2 * host->room : 256;
		host->entries =
			need(reallocarray(host->entries, host->room, sizeof(struct entry *)));
	}
	entry = need(calloc(1, sizeof(*entry)));
	copy = need(malloc(length + 1));
	memcpy(copy, text, length);
	copy[length] = '\0';
	entry->name = need_text("%s", name);
	entry->reading = (struct reading){ .error = error, .text = copy, .length = length };
	memmove(host->entries + slot + 1, host->entries + slot,
		(host->count - slot) * sizeof(struct entry *));
	host->entries[slot] = entry;
	host->count++;
	if (child_is_child())
		child_forward(name, error, text, length);
}

void host_record(struct host *host, const char *name, const char *format, ...)
{
	va_list arguments;
	char *text;

	va_start(arguments, format);
	text = need_print(format, arguments);
	va_end(arguments);
	host_record_bytes(host, name, 0, text, strlen(text));
	free(text);
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
	text = need_print(format, arguments);
	va_end(arguments);
	host_record_bytes(host, name, error ? error : EINVAL, text, strlen(text));
	free(text);
}

/* ---- reads ---- */

void host_add_source(struct host *host, const char *prefix, void (*fill)(struct host *host))
{
	if (host->live && host->source_count < SOURCES)
		host->sources[host->source_count++] =
			(struct source){ .prefix = prefix, .fill = fill };
}

static struct source *host_source(struct host *host, const char *name)
{
	for (unsigned int i = 0; i < host->source_count; i++) {
		if (!strncmp(name, host->sources[i].prefix, strlen(host->sources[i].prefix)))
			return &host->sources[i];
	}
	return NULL;
}

/* Discards notes of unreadable readings made while filling: they must not depend on the check
 * that reads first. The source records its own errors as readings. */
static void host_fill(struct host *host, struct source *source)
{
	char *before = host_take_refused(host);

	source->filled = true;
	source->fill(host);
	free(host_take_refused(host));
	host_note_refused(host, before);
	free(before);
}

static const struct reading *host_read_once(struct host *host, const char *name)
{
	struct entry *entry = host_find(host, name);
	struct source *source = entry || !host->live ? NULL : host_source(host, name);

	if (source && !source->filled) {
		host_fill(host, source);
		entry = host_find(host, name);
	} else if (!entry && !source && host->live) {
		live_read(host, name);
		entry = host_find(host, name);
	}
	if (!entry) {
		host_record_bytes(host, name, ENOENT, "", 0);
		entry = host_find(host, name);
	}
	return &entry->reading;
}

bool reading_is_refused(const struct reading *reading)
{
	return reading->error && reading->error != ENOENT && reading->error != ENOTDIR;
}

void host_note_refused(struct host *host, const char *names)
{
	char *longer;

	if (!names || (host->refused && strstr(host->refused, names)))
		return;
	longer = need_text("%s%s%s", host->refused ? host->refused : "", host->refused ? ", " : "",
			   names);
	free(host->refused);
	host->refused = longer;
}

char *host_take_refused(struct host *host)
{
	char *refused = host->refused;

	host->refused = NULL;
	return refused;
}

/* Display name of a reading: the path of a file, else its origin and name. */
static char *host_display_name(const char *name)
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
			return need_text("%s %s", origins[i].origin, name + length);
	}
	return need_text("%s", name);
}

const struct reading *host_read(struct host *host, const char *format, ...)
{
	const struct reading *reading;
	va_list arguments;
	char *name;

	va_start(arguments, format);
	name = need_print(format, arguments);
	va_end(arguments);
	reading = host_read_once(host, name);
	free(name);
	return reading;
}

const struct reading *host_read_noting(struct host *host, const char *format, ...)
{
	char *name, *display, *refused;
	const struct reading *reading;
	va_list arguments;

	va_start(arguments, format);
	name = need_print(format, arguments);
	va_end(arguments);
	reading = host_read_once(host, name);
	if (reading_is_refused(reading)) {
		display = host_display_name(name);
		refused = need_text("%s (%s)", display, host_error_name(reading->error));
		host_note_refused(host, refused);
		free(refused);
		free(display);
	}
	free(name);
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
	return (int64_t)((clock_ns() - host->began) / 1000000000) + seconds <= limit;
}

void host_each(struct host *host,
	       bool (*visit)(const char *name, const struct reading *reading, void *argument),
	       void *argument)
{
	for (size_t i = 0; i < host->count; i++) {
		if (!visit(host->entries[i]->name, &host->entries[i]->reading, argument))
			return;
	}
}
