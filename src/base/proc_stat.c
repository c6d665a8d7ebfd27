/* SPDX-License-Identifier: BSD-3-Clause */
/* proc_stat.c -- parses /proc/PROCESS/stat */
#include "base/proc_stat.h"

#include <stdio.h>

#include "base/kernel.h"
#include "base/text.h"

/* Field numbers as in proc(5), from 1. */
enum { STATE = 3, THREADS = 20, START = 22, FIELDS };

/* Fill `fields` from STATE on, as far as the file goes: STATE with a character, others with a
 * number. */
static bool proc_stat_read(const char *file, uint64_t fields[FIELDS])
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
	for (int field = STATE; field < FIELDS; field++) {
		at = text_find(at, ' ');
		if (!at)
			return false;
		at++;
		fields[field] = field == STATE ? (uint64_t)*at : text_number(&at);
	}
	return true;
}

uint64_t proc_stat_start(void)
{
	uint64_t fields[FIELDS];

	/* /proc may belong to another PID namespace. */
	return proc_stat_read("/proc/self/stat", fields) ? fields[START] : 0;
}

bool proc_stat_is_live(int process, uint64_t start)
{
	bool live = !kernel_is_gone(process);
	uint64_t fields[FIELDS];
	char file[32];

	snprintf(file, sizeof(file), "/proc/%d/stat", process);
	/* State Z with several threads: a live process after the end of its first thread. */
	if (live && proc_stat_read(file, fields))
		live = (!start || fields[START] == start) && fields[STATE] != 'X' &&
		       (fields[STATE] != 'Z' || fields[THREADS] > 1);
	return live;
}

/* The first thread stays, as a zombie, until the last one ends. */
bool proc_stat_is_last_thread(void)
{
	uint64_t fields[FIELDS];

	return proc_stat_read("/proc/self/stat", fields) && fields[STATE] == 'Z' &&
	       fields[THREADS] == 2;
}
