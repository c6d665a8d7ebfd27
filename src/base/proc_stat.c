/* SPDX-License-Identifier: BSD-3-Clause */
/* proc_stat.c -- parses /proc/PROCESS/stat */
#include "base/proc_stat.h"

#include "base/kernel.h"
#include "base/system.h"
#include "base/text.h"

/* Field numbers as in proc(5), from 1. */
enum field { STATE = 3, PARENT, THREADS = 20, START = 22 };

struct process_stat {
	char state;
	uint64_t parent, threads, start;
};

static bool proc_stat_read(const char *file, struct process_stat *stat)
{
	char text[1024];
	const char *at = text;
	ssize_t length;
	int fd = kernel_open(file, O_RDONLY | O_CLOEXEC, 0);

	if (fd < 0)
		return false;
	length = kernel_read(fd, text, sizeof(text) - 1);
	kernel_close(fd);
	text[length > 0 ? length : 0] = '\0';
	/* Skip field 2: the name in parentheses may contain any character. */
	for (const char *character = text; *character; character++) {
		if (*character == ')')
			at = character;
	}
	for (int field = STATE; (at = text_find(at, ' ')); field++) {
		at++;
		if (field == STATE)
			stat->state = *at;
		else if (field == PARENT)
			stat->parent = text_number(&at);
		else if (field == THREADS)
			stat->threads = text_number(&at);
		else if (field == START)
			stat->start = text_number(&at);
		if (field == START)
			return true;
	}
	return false;
}

int proc_stat_parent(int process, uint64_t *start)
{
	struct process_stat stat = { 0 };
	char file[32] = "/proc/self/stat";

	/* Use /proc/self for 0: /proc may belong to another PID namespace. */
	if (process)
		system_format(file, sizeof(file), "/proc/%d/stat", process);
	*start = proc_stat_read(file, &stat) ? stat.start : 0;
	return (int)stat.parent;
}

bool proc_stat_is_live(int process, uint64_t start)
{
	struct process_stat stat = { 0 };
	bool live = !kernel_is_gone(process);
	char file[32];

	system_format(file, sizeof(file), "/proc/%d/stat", process);
	/* State Z with several threads: a live process after the end of its first thread. */
	if (live && proc_stat_read(file, &stat))
		live = (!start || stat.start == start) && stat.state != 'X' &&
		       (stat.state != 'Z' || stat.threads > 1);
	return live;
}
