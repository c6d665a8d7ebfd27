/* SPDX-License-Identifier: BSD-3-Clause */
/* top.h -- peerpin top: the processes of this host that use peerpin, as they are now */
#ifndef PEERPIN_TOOLS_TOP_H
#define PEERPIN_TOOLS_TOP_H

#include <stdio.h>
#include <time.h>

#include "tools/records.h"

struct top_choice {
	const char *job;       /* NULL: any */
	const long *processes; /* none: any */
	size_t count;
};

/* One look at all of them; what is shown as a rate needs the look before. */
struct look {
	struct records records;
	struct timespec at;
	const struct top_choice *choice;
	size_t left; /* processes that were killed before, and are not shown */
};

/* What is chosen, by job, rank and process. A killed process is shown if it was named, was seen running, or if others of its job
 * run. Problems are left out: files come and go while a job runs. `before` may be NULL. */
void top_look(struct look *look, const struct look *before, const struct top_choice *choice);
void top_forget(struct look *look);

/* At most `height` lines of at most `width` columns, each of them followed by `end`; 0: no limit. Where it is narrow what matters
 * least is left out. */
void top_rows(const struct look *now, const struct look *before, int width, int height, const char *end,
	      FILE *out);
json_t *top_json(const struct look *now, const struct look *before);

/* Redraws the terminal each `interval` seconds, until q or a signal; then the terminal is as it was. Returns the exit status. */
int top_on_terminal(const struct top_choice *choice, double interval);

#endif
