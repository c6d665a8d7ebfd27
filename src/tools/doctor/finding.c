/* SPDX-License-Identifier: BSD-3-Clause */
/* finding.c -- builds findings; table of the checks */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/doctor/checks.h"
#include "tools/doctor/host_internal.h"

const struct check checks[] = {
#define CHECK(id, group, function, privilege, why, link)                                           \
	{ id, group, privilege, why, link, function },
#include "tools/doctor/doctor_checks.def"
#undef CHECK
};
const unsigned int check_count = sizeof(checks) / sizeof(checks[0]);

static const char *const names[] = { "OK", "NOT NEEDED", "UNKNOWN", "WARN", "FAIL" };

const char *verdict_name(enum verdict verdict)
{
	return names[verdict];
}

static char *finding_print(const char *format, va_list arguments)
{
	char *text = NULL;

	if (vasprintf(&text, format, arguments) < 0)
		text = NULL;
	return need(text);
}

/* Appends `text` behind `between` and frees `text`. */
static void finding_append_text(char **to, const char *between, char *text)
{
	char *whole = *to && **to ? need_text("%s%s%s", *to, between, text) : need_text("%s", text);

	free(*to);
	free(text);
	*to = whole;
}

void finding_set(struct finding *finding, enum verdict verdict, const char *format, ...)
{
	va_list arguments;

	free(finding->text);
	va_start(arguments, format);
	finding->text = finding_print(format, arguments);
	va_end(arguments);
	finding->verdict = verdict;
}

void finding_add(struct finding *finding, enum verdict verdict, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	finding_append_text(&finding->text, "; ", finding_print(format, arguments));
	va_end(arguments);
	if (verdict > finding->verdict)
		finding->verdict = verdict;
}

void finding_append(struct finding *finding, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	finding_append_text(&finding->text, "", finding_print(format, arguments));
	va_end(arguments);
}

void finding_read(struct finding *finding, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	finding_append_text(&finding->read, ", ", finding_print(format, arguments));
	va_end(arguments);
}

void finding_fix(struct finding *finding, const char *format, ...)
{
	unsigned int known = 0;
	va_list arguments;
	char *fix;

	if (finding->undecided)
		return;
	va_start(arguments, format);
	fix = finding_print(format, arguments);
	va_end(arguments);
	while (known < finding->fix_count && strcmp(finding->fixes[known], fix))
		known++;
	if (known < finding->fix_count) {
		free(fix);
		return;
	}
	finding->fixes = need(reallocarray(finding->fixes, finding->fix_count + 1, sizeof(char *)));
	finding->fixes[finding->fix_count++] = fix;
}

void finding_free(struct finding *finding)
{
	free(finding->text);
	free(finding->read);
	for (unsigned int i = 0; i < finding->fix_count; i++)
		free(finding->fixes[i]);
	free(finding->fixes);
	*finding = (struct finding){ .verdict = VERDICT_OK };
}

/* True if there is a GPU with a driver, and an adapter that is not software. */
static bool finding_has_hardware(struct host *host)
{
	const struct machine *machine = machine_of(host);

	if (driver_flavour(host) == FLAVOUR_NONE && !machine->driver_answers)
		return false;
	for (unsigned int i = 0; machine->gpu_count && i < machine->adapter_count; i++) {
		if (!machine->adapters[i].software)
			return true;
	}
	return false;
}

void finding_without(struct host *host, struct finding *finding, enum way other,
		     const char *missing)
{
	bool decided = finding_has_hardware(host);
	char *refused = host_take_refused(host);

	if (way_suffices(host, other))
		finding_set(finding, VERDICT_NOT_NEEDED, "%s; not needed, %s works", missing,
			    way_name(other));
	else if (refused)
		finding_set(finding, VERDICT_UNKNOWN,
			    "%s, if that could be seen: %s cannot be read", missing, refused);
	else if (decided && !way_is_open(host, other))
		finding_set(finding, VERDICT_FAIL, "%s", missing);
	else
		finding_set(finding, VERDICT_UNKNOWN,
			    "%s; whether it is needed cannot be said here", missing);
	finding->undecided = finding->verdict == VERDICT_UNKNOWN;
	host_note_refused(host, refused);
	free(refused);
}

bool had_no_time(struct host *host, struct finding *finding, const char *ended)
{
	if (host_read(host, "%s", ended)->error != ETIME)
		return false;
	finding_set(finding, VERDICT_UNKNOWN, NO_TIME);
	finding_fix(finding, "peerpin doctor --limit 1200");
	return true;
}

void list_add(char **list, const char *item)
{
	finding_append_text(list, " ", need_text("%s", item));
}
