/* SPDX-License-Identifier: BSD-3-Clause */
/* command.c -- runs an external command with a time limit and records its output */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/doctor/child.h"
#include "tools/doctor/host_internal.h"
#include "tools/units.h"

#define WORDS	 16
#define TEXT_MAX (1 << 20)
#define SECONDS	 5

/* Command of the next child, set before the fork. */
static char *command_words[WORDS + 1];

/* Child only: discards stderr. Exit status 127: no such command. */
static void command_exec(struct host *host)
{
	(void)host;
	dup2(STDIN_FILENO, STDERR_FILENO); /* /dev/null */
	unsetenv("LD_PRELOAD");
	if (command_words[0])
		execvp(command_words[0], command_words);
	_exit(127);
}

/* Keeps only lines with `word`; "" keeps all. */
static const char *command_keep_lines(char *text, const char *word)
{
	char *kept = NULL, *rest = NULL;

	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		if (strstr(line, word))
			list_append(&kept, "\n", line);
	}
	return kept ? kept : "";
}

void command_read(struct host *host, const char *name, const char *line)
{
	char *command = text_of("%s", line), *pipe_sign = strstr(command, " | grep ");
	const char *word = pipe_sign ? pipe_sign + strlen(" | grep ") : "";
	struct child child = { .host = host,
			       .seconds = SECONDS,
			       .output = zeroed(1, TEXT_MAX + 1),
			       .output_size = TEXT_MAX };
	char *rest = NULL;
	int error;

	if (pipe_sign)
		*pipe_sign = '\0';
	for (unsigned int i = 0; i < WORDS; i++)
		command_words[i] = strtok_r(i ? NULL : command, " ", &rest);
	error = child_run(&child, command_exec);
	if (error) {
		host_record_error(host, name, error, "%s", child.call);
	} else if (!strncmp(child.end, "timeout", 7)) {
		host_record_error(host, name, ETIMEDOUT, "it did not end in time");
	} else if (!strcmp(child.end, "exit 127")) {
		host_record_error(host, name, ENOENT, "%s", "");
	} else if (strcmp(child.end, "ok")) {
		host_record_error(host, name, EIO, "%s", child.end);
	} else {
		host_record(host, name, "%s", command_keep_lines(child.output, word));
	}
	free(child.output);
}
