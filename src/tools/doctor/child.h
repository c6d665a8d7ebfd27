/* SPDX-License-Identifier: BSD-3-Clause */
/* child.h -- does in a forked child, with a time limit, what might crash or hang
 *
 * A driver may crash, abort or hang in the very calls that doctor has to make to find out. So each is made in a child of
 * its own (host_ask_child). What that records before its end counts, and its end is a reading itself:
 *
 *   PREFIXended   "ok" | "signal N" | "exit N" | "timeout SECONDS", each but the first with " in CALL" behind it where
 *                 the child has said what it does, and ", cannot be killed" if it hangs inside the kernel
 *   PREFIXsaid    the beginning of what libraries have printed in it, if they have
 *
 * Error ETIME instead: all that have gone before have left no time for it (host_has_time).
 *
 * option/seconds is how long each child has, in place of what its caller says.
 *
 * The child is killed, with what it has started, when it has ended or its time is over, and when doctor ends.
 */
#ifndef PEERPIN_TOOLS_DOCTOR_CHILD_H
#define PEERPIN_TOOLS_DOCTOR_CHILD_H

#include <stdbool.h>
#include <stddef.h>

/* Whether this process is such a child. */
bool child_is_child(void);

/* In the child: a reading, for the parent. */
void child_forward(const char *name, int error, const char *text, size_t length);

/* In the child: the call that comes next, in case that it is the last. */
void child_does(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
