/* SPDX-License-Identifier: BSD-3-Clause */
/* groups.c -- merges identical findings */
#include "tools/doctor/groups.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/doctor/host_internal.h"

void groups_add(struct groups *groups, enum verdict verdict, const char *item, const char *format,
		...)
{
	va_list arguments;
	char words[256];
	unsigned int i = 0;

	va_start(arguments, format);
	vsnprintf(words, sizeof(words), format, arguments);
	va_end(arguments);
	while (i < groups->count &&
	       (groups->groups[i].verdict != verdict || strcmp(groups->groups[i].words, words)))
		i++;
	if (i == GROUPS_MAX)
		i--; /* the last group takes the rest, with the worst verdict */
	if (i == groups->count)
		groups->groups[groups->count++] =
			(struct group){ .verdict = verdict, .words = need_text("%s", words) };
	if (verdict > groups->groups[i].verdict)
		groups->groups[i].verdict = verdict;
	list_add(&groups->groups[i].items, item);
}

/* Start of the number at the end of a word; the word's end if there is none. */
static const char *groups_number(const char *word, size_t length)
{
	const char *at = word + length;

	while (at > word && at[-1] >= '0' && at[-1] <= '9')
		at--;
	return at;
}

/* True if `word` is `before` plus one: GPU1 after GPU0. Pairs ("GPU0-mlx5_0") never match. */
static bool groups_follows(const char *before, const char *word)
{
	size_t length = strcspn(word, " "), length_before = strcspn(before, " ");
	const char *number = groups_number(word, length),
		   *number_before = groups_number(before, length_before);
	size_t prefix = (size_t)(number - word);

	return number < word + length && number_before < before + length_before &&
	       prefix == (size_t)(number_before - before) && !strncmp(before, word, prefix) &&
	       !memchr(word, '-', length) && atoi(number) == atoi(number_before) + 1;
}

char *shorten_list(const char *items)
{
	char *text = need_text("%s", "");

	for (const char *first = items; *first;) {
		const char *last = first, *next = first + strcspn(first, " ");
		size_t length = strcspn(first, " ");
		unsigned int count = 1;
		char *longer;

		while (*next == ' ' && groups_follows(last, next + 1)) {
			last = next + 1;
			next = last + strcspn(last, " ");
			count++;
		}
		if (count > 2) {
			const char *number = groups_number(last, strcspn(last, " "));

			longer = need_text("%s%s%.*s..%.*s", text, *text ? " " : "", (int)length,
					   first, (int)(next - number), number);
		} else {
			longer = need_text("%s%s%.*s", text, *text ? " " : "", (int)(next - first),
					   first);
		}
		free(text);
		text = longer;
		first = next + (*next == ' ');
	}
	return text;
}

void groups_say(struct groups *groups, struct finding *finding)
{
	for (unsigned int i = 0; i < groups->count; i++) {
		struct group *group = &groups->groups[i];
		char *items = shorten_list(group->items);

		if (*group->words)
			finding_add(finding, group->verdict, "%s %s", items, group->words);
		else
			finding_add(finding, group->verdict, "%s", items);
		free(items);
		free(group->items);
		free(group->words);
	}
	groups->count = 0;
}
