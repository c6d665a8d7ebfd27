/* SPDX-License-Identifier: BSD-3-Clause */
/* top.h -- peerpin top: current statistics of the processes of this host that use peerpin */
#ifndef PEERPIN_TOOLS_TOP_H
#define PEERPIN_TOOLS_TOP_H

#include <stdio.h>
#include <time.h>

#include "tools/records.h"

struct top_choice {
	const char *job;       /* NULL: any */
	const long *processes; /* empty: any */
	size_t count;
};

/* Snapshot of all chosen processes. Rates are computed from two snapshots. */
struct look {
	struct records records;
	struct timespec at;
	const struct top_choice *choice;
	size_t left; /* processes killed earlier, which are omitted */
};

/* Takes a snapshot of the chosen processes. Snapshots include a killed process if its number or job
 * is chosen, if `before` has it, or if its job runs. Snapshots omit problems: files come and go
 * while a job runs. `before` may be NULL. */
void top_look(struct look *look, const struct look *before, const struct top_choice *choice);
void top_forget(struct look *look);

/* Prints at most `height` lines of at most `width` columns, each followed by `end`; 0: no limit. A
 * narrow width omits the least important columns. */
void top_rows(const struct look *now, const struct look *before, int width, int height,
	      const char *end, FILE *out);
json_t *top_json(const struct look *now, const struct look *before);

/* Redraws the terminal every `interval` seconds until q or a signal, then restores the terminal.
 * Returns the exit status. */
int top_on_terminal(const struct top_choice *choice, double interval);

#endif
