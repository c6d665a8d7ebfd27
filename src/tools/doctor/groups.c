/* SPDX-License-Identifier: BSD-3-Clause */
/* groups.c -- puts together what is the same */
#include "tools/doctor/groups.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/doctor/host_internal.h"

void groups_add(struct groups *groups, enum verdict verdict, const char *item, const char *format, ...)
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
		i--; /* the last one takes the rest, and the worst of it */
	if (i == groups->count)
		groups->groups[groups->count++] =
			(struct group){ .verdict = verdict, .words = need_text("%s", words) };
	if (verdict > groups->groups[i].verdict)
		groups->groups[i].verdict = verdict;
	list_add(&groups->groups[i].items, item);
}

/* Where the number at the end of a word begins; its end if there is none. */
static const char *number_of(const char *word, size_t length)
{
	const char *at = word + length;

	while (at > word && at[-1] >= '0' && at[-1] <= '9')
		at--;
	return at;
}

/* The word is the one before, counted on by one: GPU1 behind GPU0. */
static bool follows(const char *before, const char *word)
{
	size_t length = strcspn(word, " "), length_before = strcspn(before, " ");
	const char *number = number_of(word, length), *number_before = number_of(before, length_before);
	size_t prefix = (size_t)(number - word);

	return number < word + length && number_before < before + length_before &&
	       prefix == (size_t)(number_before - before) && !strncmp(before, word, prefix) &&
	       !memchr(word, '-', length) && atoi(number) == atoi(number_before) + 1;
}

/* "GPU0 GPU1 GPU2 GPU5" as "GPU0..2 GPU5". For the caller to free. */
char *shorten_list(const char *items)
{
	char *text = need_text("%s", "");

	for (const char *first = items; *first;) {
		const char *last = first, *next = first + strcspn(first, " ");
		size_t length = strcspn(first, " ");
		unsigned int count = 1;
		char *longer;

		while (*next == ' ' && follows(last, next + 1)) {
			last = next + 1;
			next = last + strcspn(last, " ");
			count++;
		}
		if (count > 2) {
			const char *number = number_of(last, strcspn(last, " "));

			longer = need_text("%s%s%.*s..%.*s", text, *text ? " " : "", (int)length, first,
					   (int)(next - number), number);
		} else {
			longer = need_text("%s%s%.*s", text, *text ? " " : "", (int)(next - first), first);
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
