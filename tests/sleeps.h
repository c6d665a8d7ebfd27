/* SPDX-License-Identifier: BSD-3-Clause */
/* sleeps.h -- whether another thread of this process sleeps */
#ifndef PEERPIN_TESTS_SLEEPS_H
#define PEERPIN_TESTS_SLEEPS_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static inline bool sleeps(int thread)
{
	char name[64], text[512], *at;
	FILE *file;

	snprintf(name, sizeof(name), "/proc/self/task/%d/stat", thread);
	file = fopen(name, "r");
	if (!file)
		return false;
	at = fgets(text, sizeof(text), file) ? strrchr(text, ')') : NULL;
	fclose(file);
	return at && at[1] && at[2] == 'S';
}

#endif
