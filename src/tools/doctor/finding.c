/* SPDX-License-Identifier: BSD-3-Clause */
/* finding.c -- builds findings; table of the checks */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/doctor/checks.h"
#include "tools/units.h"

const struct check checks[] = {
#include "tools/doctor/doctor_checks.def"
};
const unsigned int check_count = sizeof(checks) / sizeof(checks[0]);

const char *result_name(enum result result)
{
	static const char *const names[RESULTS] = { "OK", "NOT NEEDED", "UNKNOWN", "WARN", "FAIL" };

	return names[result];
}

/* ---- lists of words ---- */

void list_add(char **list, const char *item)
{
	list_append(list, " ", item);
}

/* Start of the number at the end of a word; the word's end if there is none. */
static const char *list_number(const char *word)
{
	const char *at = word + strcspn(word, " ");

	while (at > word && at[-1] >= '0' && at[-1] <= '9')
		at--;
	return at;
}

/* True if `word` is `before` plus one: GPU1 after GPU0. Pairs ("GPU0-mlx5_0") never match. */
static bool list_follows(const char *before, const char *word)
{
	const char *number = list_number(word), *number_before = list_number(before);
	size_t prefix = (size_t)(number - word);

	return *number && *number != ' ' && *number_before && *number_before != ' ' &&
	       prefix == (size_t)(number_before - before) && !strncmp(before, word, prefix) &&
	       !memchr(word, '-', prefix) && atoi(number) == atoi(number_before) + 1;
}

char *list_shorten(const char *items)
{
	char *text = NULL, *part;

	for (const char *first = items, *next; *first; first = next + (*next == ' ')) {
		const char *last = first;
		unsigned int count = 1;

		next = first + strcspn(first, " ");
		for (; *next == ' ' && list_follows(last, next + 1); count++) {
			last = next + 1;
			next = last + strcspn(last, " ");
		}
		if (count > 2)
			part = text_of("%.*s..%.*s", (int)strcspn(first, " "), first,
				       (int)(next - list_number(last)), list_number(last));
		else
			part = text_of("%.*s", (int)(next - first), first);
		list_add(&text, part);
	}
	return text;
}

/* ---- text ---- */

static void finding_join(struct finding *finding, enum result result, const char *text)
{
	list_append(&finding->text, "; ", text);
	if (result > finding->result)
		finding->result = result;
}

/* Moves all items to the text, in order of their creation. */
const char *finding_text(struct finding *finding)
{
	for (unsigned int i = 0; i < finding->group_count; i++) {
		struct group *group = &finding->groups[i];
		char *items = list_shorten(group->items);

		list_append(&items, *group->words ? " " : "", group->words);
		finding_join(finding, group->result, items);
	}
	finding->group_count = 0;
	return finding->text;
}

void finding_set(struct finding *finding, enum result result, const char *text)
{
	finding_text(finding);
	finding->text = text_of("%s", text);
	finding->result = result;
}

void finding_add(struct finding *finding, enum result result, const char *text)
{
	finding_text(finding);
	finding_join(finding, result, text);
}

void finding_implied(struct finding *finding, const char *item, const char *measured,
		     enum result result, const char *fix, const char *text)
{
	const char *whole = measured ? text_of("%s, but %s", text, measured) : text;

	if (item)
		finding_item(finding, measured ? OK : result, item, whole);
	else
		finding_add(finding, measured ? OK : result, whole);
	if (fix && !measured)
		finding_fix(finding, fix);
}

void finding_item(struct finding *finding, enum result result, const char *item, const char *text)
{
	struct group *group = finding->groups;

	while (group < finding->groups + finding->group_count &&
	       (group->result != result || strcmp(group->words, text)))
		group++;
	if (group == finding->groups + GROUPS_MAX)
		group--; /* the last group takes the rest, with the worst result */
	if (group == finding->groups + finding->group_count) {
		*group = (struct group){ .result = result, .words = text };
		finding->group_count++;
	}
	if (result > group->result)
		group->result = result;
	if (result > finding->result)
		finding->result = result;
	list_add(&group->items, item);
}

void finding_forgive(struct host *host, struct finding *finding)
{
	(void)host;
	finding_text(finding);
	finding->result = OK;
}

void finding_fix(struct finding *finding, const char *fix)
{
	unsigned int known = 0;

	while (known < finding->fix_count && strcmp(finding->fixes[known], fix))
		known++;
	if (finding->undecided || known < finding->fix_count)
		return;
	finding->fixes = grown(finding->fixes, known, sizeof(char *));
	finding->fixes[finding->fix_count++] = fix;
}

/* ---- findings of several checks ---- */

/* True if there is a GPU with a driver, and an adapter that is not software. */
static bool finding_has_hardware(struct host *host)
{
	const struct machine *machine = machine_of(host);

	if (driver_flavour(host) == FLAVOUR_NONE && !machine->driver_answers)
		return false;
	EACH_ADAPTER(host, adapter) {
		if (machine->gpu_count && !adapter->software)
			return true;
	}
	return false;
}

void finding_without(struct host *host, struct finding *finding, const char *measured,
		     enum method other, const char *fix, const char *missing)
{
	bool decided = finding_has_hardware(host), integrated = gpus_are_integrated(host);
	char *refused = host_take_refused(host);
	enum result result = UNKNOWN;
	const char *more = "; this host does not show whether it is needed";

	if (measured) {
		result = OK;
		more = text_of(", but %s", measured);
	} else if (integrated) {
		result = NOT_NEEDED;
		more = "; not needed, the GPU is integrated";
	} else if (method_suffices(host, other)) {
		result = NOT_NEEDED;
		more = text_of("; not needed, %s works", method_name(other));
	} else if (refused) {
		more = text_of(", as far as readable: %s cannot be read", refused);
	} else if (decided && !method_is_open(host, other)) {
		result = FAIL;
		more = "";
	}
	finding_set(finding, result, text_of("%s%s", missing, more));
	finding->undecided = result == UNKNOWN || integrated;
	if (fix && !measured)
		finding_fix(finding, fix);
	host_note_refused(host, refused);
}
