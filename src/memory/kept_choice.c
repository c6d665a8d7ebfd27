/* SPDX-License-Identifier: BSD-3-Clause */
/* kept_choice.c -- which kept allocation to release next */
#include "memory/kept_choice.h"

#define LOOKED_AT      64u /* entries of a class */
#define LOOKED_AT_LIKE 8u  /* where others are between them */

static struct entry *choice_find_of(unsigned int list, CUcontext context)
{
	struct entry *entry;

	for (unsigned int logarithm = KEPT_CLASSES; logarithm--;) {
		TAILQ_FOREACH(entry, &kept_lists[list].classes[logarithm], in_list) {
			if (entry->kept.allocation.context == context)
				return entry;
		}
	}
	return NULL;
}

/* Thousands may have to go, one after the other: look at few of a class. Its sizes differ by less
 * than a factor of 2, so the least recently kept one stands for it. */
static struct entry *choice_find(unsigned int list, const struct kept_choice *choice)
{
	const struct allocation *like = choice->like;
	unsigned int most = choice->largest ? LOOKED_AT : like ? LOOKED_AT_LIKE : 1;
	unsigned int start = like && like->size > KEPT_SMALL ? KEPT_SMALL_CLASSES : 0;
	unsigned int end = like && like->size <= KEPT_SMALL ? KEPT_SMALL_CLASSES : KEPT_CLASSES;
	struct entry *entry, *best = NULL;
	uint64_t age, size;
	double cost, highest = 0;

	for (unsigned int logarithm = end; logarithm-- > start;) {
		unsigned int left = most;

		TAILQ_FOREACH(entry, &kept_lists[list].classes[logarithm], in_list) {
			if (!left--)
				break;
			if (like && (entry->kept.allocation.context != like->context ||
				     entry->kept.allocation.kind != like->kind))
				continue;
			size = entry->kept.allocation.size;
			age = kept_allocated(list) - entry->since;
			if (age < choice->unused * size)
				continue;
			cost = (double)size * (choice->largest ? 1 : (double)(age + 1));
			if (cost > highest) {
				highest = cost;
				best = entry;
			}
		}
		if (best && choice->largest)
			break;
	}
	return best;
}

struct entry *kept_choose(const struct kept_choice *choice)
{
	struct entry *entry = NULL;

	for (unsigned int i = choice->from; i < choice->to && !entry; i++) {
		if (load_relaxed(&kept_lists[i].bytes) > choice->above)
			entry = choice->context ? choice_find_of(i, choice->context)
						: choice_find(i, choice);
	}
	return entry;
}
