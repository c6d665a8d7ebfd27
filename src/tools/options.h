/* SPDX-License-Identifier: BSD-3-Clause */
/* options.h -- command-line options common to peerpin report and peerpin top
 *
 * Wrong usage prints one line on standard error; the exit status is 2.
 */
#ifndef PEERPIN_TOOLS_OPTIONS_H
#define PEERPIN_TOOLS_OPTIONS_H

#include <getopt.h>
#include <stdbool.h>

struct tool {
	const char *name; /* "report" */
	const char *help;
	const char *letters; /* of further options, as in getopt(3); NULL: none */
};

/* Every tool has the first 2 options, and numbers its own from OPTION_FIRST. */
enum { OPTION_HELP = 256, OPTION_VERSION, OPTION_FIRST };

/* Returns the tool's next option, or -1 at the end. A --help, --version or error sets `*status` to
 * the exit status. Otherwise `*status` is unchanged and other words begin at optind. */
int options_next(const struct tool *tool, const struct option *known, int count, char **words,
		 int *status);

/* Flushes standard output. Reports a write error and returns false. */
bool options_print_out(const struct tool *tool);

/* Reports `what` and `word`, and returns the exit status. `word` may hold any bytes. */
int options_refuse(const struct tool *tool, const char *what, const char *word);

#endif
