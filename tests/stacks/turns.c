/* SPDX-License-Identifier: BSD-3-Clause */
/* turns.c -- jobs under comparison do a case each, one after the other
 *
 * So all meet the same state of the machine. A turn is a whole case, since background work after a
 * round must cost its own job's next round. A rank waits for its turn in a read from a pipe, which
 * uses no processor; a call of MPI would.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "patterns.h"

static int from = -1, to = -1;

/* Both directions: no open blocks, and early writes are kept. */
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
	pass_turn();
	take_turn();
}

void yield_turn(void)
{
	if (from < 0)
		return;
	pass_turn();
	take_turn();
}
