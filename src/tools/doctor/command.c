/* SPDX-License-Identifier: BSD-3-Clause */
/* command.c -- runs an external command with a time limit and records its output */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/doctor/host_internal.h"

#define WORDS	 16
#define TEXT_MAX (1 << 20)

static int64_t command_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Child only: empty stdin, stderr discarded, no inherited descriptors. Exit status 127: no such
 * command. */
static void command_exec(char *line, int out)
{
	char *words[WORDS + 1] = { NULL }, *rest = line;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (unsigned int i = 0; i < WORDS; i++)
		words[i] = strtok_r(i ? NULL : line, " ", &rest);
	setpgid(0, 0);
	dup2(null, 0);
	dup2(out, 1);
	dup2(null, 2);
	unsetenv("LD_PRELOAD");
	if (words[0])
		execvp(words[0], words);
	_exit(127);
}

/* Reads until the command closes its output. Returns false at the time limit. */
static bool command_collect(int from, char *text, size_t *length, int64_t end)
{
	ssize_t got = 1;

	while (got > 0 && *length < TEXT_MAX) {
		struct pollfd ready = { .fd = from, .events = POLLIN };
		int64_t left = end - command_now_ms();
		int answer = left > 0 ? poll(&ready, 1, (int)left) : 0;

		if (!answer)
			return false;
		if (answer < 0 && errno != EINTR)
			return true;
		if (answer < 0)
			continue;
		got = read(from, text + *length, TEXT_MAX - *length);
		if (got > 0)
			*length += (size_t)got;
	}
	return true;
}

/* Keeps only lines with `word`; NULL keeps all. Returns the new length. */
static size_t command_keep_lines(char *text, const char *word)
{
	char *to = text;

	for (char *line = text; *line;) {
		size_t length = strcspn(line, "\n");
		char *next = line + length + (line[length] == '\n');
		char end = line[length];

		line[length] = '\0';
		if (!word || strstr(line, word)) {
			memmove(to, line, length);
			to += length;
			*to++ = '\n';
		}
		if (!end)
			break;
		line = next;
	}
	if (to > text)
		to--;
	*to = '\0';
	return (size_t)(to - text);
}

static void command_record(struct host *host, const char *name, int status, bool in_time,
			   char *text, const char *word)
{
	if (!in_time)
		host_fail(host, name, ETIMEDOUT, "it did not end in time");
	else if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		host_fail(host, name, ENOENT, "%s", "");
	else if (!WIFEXITED(status) || WEXITSTATUS(status))
		host_fail(host, name, EIO, WIFEXITED(status) ? "exit %d" : "signal %d",
			  WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
	else
		host_record(host, name, 0, text, command_keep_lines(text, word));
}

void command_read(struct host *host, const char *name, const char *line, unsigned int seconds)
{
	const char *pipe_sign = strstr(line, " | grep ");
	const char *word = pipe_sign ? pipe_sign + strlen(" | grep ") : NULL;
	char *command =
		need_text("%.*s", (int)(pipe_sign ? pipe_sign - line : (long)strlen(line)), line);
	char *text = need(calloc(1, TEXT_MAX + 1));
	size_t length = 0;
	int ends[2], status = 0;
	bool in_time = true;
	pid_t child;

	if (!host_has_time(host, seconds)) {
		host_fail(host, name, ETIME, "%s", NO_TIME);
	} else if (pipe2(ends, O_CLOEXEC)) {
		host_fail(host, name, errno, "pipe");
	} else {
		child = fork();
		if (!child)
			command_exec(command, ends[1]);
		close(ends[1]);
		if (child > 0) {
			setpgid(child, child);
			in_time = command_collect(ends[0], text, &length,
						  command_now_ms() + 1000 * (int64_t)seconds);
			if (!in_time)
				kill(-child, SIGKILL);
			close(ends[0]); /* a command that still writes gets SIGPIPE */
			while (waitpid(child, &status, 0) < 0 && errno == EINTR)
				;
			command_record(host, name, status, in_time, text, word);
		} else {
			host_fail(host, name, errno, "fork");
			close(ends[0]);
		}
	}
	free(text);
	free(command);
}
