/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * turns.c -- jobs that are to be compared do a case each, one after the other
 *
 * So all of them see the machine in the same mood. A turn is a whole case and no single round,
 * since what a library does in the background after one round is to cost the next round of its own
 * job. Each rank waits for its own turn in a read from a pipe, where it uses no processor; in a
 * call of MPI it would.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "patterns.h"

static int from = -1, to = -1;

/* For both directions: opening waits for nobody, and what is written before others have opened it
 * is kept. */
static int open_pipe(const char *name)
{
	char full[4096];
	int file;

	snprintf(full, sizeof(full), "%s.%d", name, job.rank);
	file = open(full, O_RDWR | O_CLOEXEC);
	if (file < 0)
		fail(full, strerror(errno));
	return file;
}

static void take_turn(void)
{
	char byte;
	ssize_t got;

	do {
		got = read(from, &byte, 1);
	} while (got < 0 && errno == EINTR);
	if (got != 1)
		fail(job.turn_from, "no turn has come");
}

static void pass_turn(void)
{
	if (write(to, "t", 1) != 1)
		fail(job.turn_to, strerror(errno));
}

void begin_turns(void)
{
	if (!job.turn_from)
		return;
	from = open_pipe(job.turn_from);
	to = open_pipe(job.turn_to);
	take_turn();
}

void yield_turn(void)
{
	if (from < 0)
		return;
	pass_turn();
	take_turn();
}

void end_turns(void)
{
	if (from < 0)
		return;
	yield_turn();
	pass_turn();
}
