/* SPDX-License-Identifier: BSD-3-Clause */
/* options.c -- command-line options common to peerpin report and peerpin top */
#include "tools/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/units.h"

int options_refuse(const struct tool *tool, const char *what, const char *word)
{
	char *clean = clean_text(word);

	fprintf(stderr, "peerpin %s: %s%s (see peerpin %s --help)\n", tool->name, what, clean,
		tool->name);
	free(clean);
	return 2;
}

bool options_print_out(const struct tool *tool)
{
	if (!fflush(stdout) && !ferror(stdout))
		return true;
	fprintf(stderr, "peerpin %s: standard output: %s\n", tool->name, strerror(errno));
	return false;
}

int options_next(const struct tool *tool, const struct option *known, int count, char **words,
		 int *status)
{
	char letters[16];
	int option;

	snprintf(letters, sizeof(letters), ":h%s", tool->letters ? tool->letters : "");
	opterr = 0;
	option = getopt_long(count, words, letters, known, NULL);
	switch (option) {
	case 'h':
	case OPTION_HELP:
		fputs(tool->help, stdout);
		*status = !options_print_out(tool);
		return -1;
	case OPTION_VERSION:
		puts("peerpin " PACKAGE_VERSION);
		*status = !options_print_out(tool);
		return -1;
	case ':':
		*status = options_refuse(tool, "missing value after ", words[optind - 1]);
		return -1;
	case '?':
		*status = options_refuse(tool, "unknown option: ", words[optind - 1]);
		return -1;
	default:
		return option;
	}
}
