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

void groups_say(struct groups *groups, struct finding *finding)
{
	for (unsigned int i = 0; i < groups->count; i++) {
		struct group *group = &groups->groups[i];

		if (*group->words)
			finding_add(finding, group->verdict, "%s %s", group->items, group->words);
		else
			finding_add(finding, group->verdict, "%s", group->items);
		free(group->items);
		free(group->words);
	}
	groups->count = 0;
}
