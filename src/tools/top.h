/* SPDX-License-Identifier: BSD-3-Clause */
/* top.h -- peerpin top: current statistics of the processes of this host that use peerpin */
#ifndef PEERPIN_TOOLS_TOP_H
#define PEERPIN_TOOLS_TOP_H

#include <stdio.h>
#include <time.h>

#include "tools/records.h"

struct top_choice {
	const char *job; /* NULL: any */
	long *processes; /* empty: any */
	size_t count;
};

struct snapshot {
	struct records records; /* with rates, as requests_per_1000_s */
	struct timespec at;	/* zero: no snapshot yet */
	const struct top_choice *choice;
	size_t omitted; /* processes killed earlier */
};

/* Replaces the snapshot by one of the chosen processes; rates are those since the snapshot before.
 * Snapshots include a killed process if its number or job is chosen, if the snapshot before has it,
 * or if its job runs. Snapshots omit problems: files come and go while a job runs. */
void snapshot_update(struct snapshot *snapshot, const struct top_choice *choice);
void snapshot_free(struct snapshot *snapshot);

/* Prints at most `height` lines of at most `width` columns, each followed by `end`; 0: no limit. A
 * narrow width omits the least important columns. */
void top_rows(const struct snapshot *now, int width, int height, const char *end, FILE *out);
json_t *top_json(const struct snapshot *now);

/* Redraws the terminal every `interval` seconds until q or a signal, then restores the terminal.
 * Returns the exit status. */
int top_on_terminal(const struct top_choice *choice, double interval);

#endif
