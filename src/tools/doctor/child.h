/* SPDX-License-Identifier: BSD-3-Clause */
/* child.h -- runs calls that may crash or hang in a forked child, with a time limit
 *
 * A driver may crash, abort or hang in the calls that doctor makes. host_run_child therefore
 * runs each group of calls in a child. Readings that the child recorded before its end are kept.
 * The parent adds:
 *
 *   PREFIXended   "ok" | "signal N" | "exit N" | "timeout SECONDS", all but "ok" followed by
 *                 " in CALL" if the child announced a call (child_does); ", cannot be killed"
 *                 if the child hangs inside the kernel. Error ETIME: no time was left
 *                 (host_has_time)
 *   PREFIXoutput  start of the output that libraries printed in the child, if any
 *
 * An option/limit beyond HOST_LIMIT lengthens the time limit that the caller passes in proportion;
 * option/seconds overrides it.
 *
 * The parent kills the child and the processes that it started after the child's end or at the
 * time limit. The kernel kills the child when doctor ends.
 */
#ifndef PEERPIN_TOOLS_DOCTOR_CHILD_H
#define PEERPIN_TOOLS_DOCTOR_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct host;

struct child {
	struct host *host;
	unsigned int seconds; /* time limit */
	char *output;	      /* start of the child's output, NUL bytes replaced */
	size_t output_size, output_length;
	char call[200]; /* last call announced (child_does); of child_run, after an error */
	char end[60];	/* "ok", "signal N", ...: as PREFIXended, without the call */
};

/* Runs `body` in a child. Returns 0 after its end, or an errno; ETIME: no time was left. */
int child_run(struct child *child, void (*body)(struct host *host));

/* False: the process still runs. It stays a zombie otherwise. */
bool child_ends_within(pid_t pid, unsigned int milliseconds);

/* True in a child of host_run_child. */
bool child_is_child(void);

/* Child only: sends a reading to the parent. */
void child_forward(const char *name, int error, const char *text, size_t length);

/* Child only: announces the next call. The parent appends it to PREFIXended if the child is
 * lost. */
void child_does(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
