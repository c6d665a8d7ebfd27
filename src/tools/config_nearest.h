/* SPDX-License-Identifier: BSD-3-Clause */
/* config_nearest.h -- the option most similar to an unknown one */
#ifndef PEERPIN_TOOLS_CONFIG_NEAREST_H
#define PEERPIN_TOOLS_CONFIG_NEAREST_H

#include <stddef.h>

/* A search for the candidate most similar to the word, up to its equals sign. */
struct nearest {
	const char *word;
	size_t length;
	unsigned int best;
	const char *answer;
};

struct nearest nearest_begin(const char *word);
void nearest_compare(struct nearest *nearest, const char *candidate);

/* Compare all options of settings. */
void nearest_compare_settings(struct nearest *nearest);

#endif
