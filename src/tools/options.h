/* SPDX-License-Identifier: BSD-3-Clause */
/* options.h -- the options of peerpin report and peerpin top: what both do with theirs
 *
 * Wrong usage is one line on standard error and exit status 2.
 */
#ifndef PEERPIN_TOOLS_OPTIONS_H
#define PEERPIN_TOOLS_OPTIONS_H

#include <getopt.h>
#include <stdbool.h>

struct tool {
	const char *name; /* "report" */
	const char *help;
};

/* Each has the first two; a tool numbers its own from OPTION_FIRST on. */
enum { OPTION_HELP = 256, OPTION_VERSION, OPTION_FIRST };

/* The next option that is the tool's own; -1: there is none, and then either *status is the exit status, or it is as it was and
 * the other words begin at optind. */
int options_next(const struct tool *tool, const struct option *known, int count, char **words, int *status);

/* Hands on what was printed on standard output. False, and it has complained: not all of it went there. */
bool options_print_out(const struct tool *tool);

/* Complains, and returns the exit status. The word may be anything. */
int options_refuse(const struct tool *tool, const char *what, const char *word);

#endif
