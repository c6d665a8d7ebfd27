/* SPDX-License-Identifier: BSD-3-Clause */
/* config_nearest.c -- the option most similar to an unknown one */
#include "tools/config_nearest.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "tools/config.h"

void nearest_compare(struct nearest *nearest, const char *candidate)
{
	unsigned int apart = config_distance(nearest->word, nearest->length, candidate);

	/* A word that was left unfinished is as near as one with a wrong letter. */
	if (apart > 1 && nearest->length > 2 && !strncmp(nearest->word, candidate, nearest->length))
		apart = 1;
	if (apart < nearest->best) {
		nearest->best = apart;
		nearest->answer = candidate;
	}
}

/* The limit of the distance excludes that any two words of 3 letters are similar. */
struct nearest nearest_begin(const char *word)
{
	size_t length = strcspn(word, "=");

	return (struct nearest){ .word = word, .length = length, .best = length < 8 ? 3 : 4 };
}

void nearest_compare_settings(struct nearest *nearest)
{
	static char negated[CONFIG_ROWS + 1][80];

	for (int i = CONFIG_ITSELF; i < CONFIG_ROWS; i++) {
		const struct setting *setting = setting_get(i);

		nearest_compare(nearest, setting->option);
		if (setting->takes_value)
			continue;
		snprintf(negated[i + 1], sizeof(negated[0]), "--no-%s", setting->option + 2);
		nearest_compare(nearest, negated[i + 1]);
	}
}
