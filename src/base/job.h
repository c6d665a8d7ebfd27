/* SPDX-License-Identifier: BSD-3-Clause */
/* job.h -- what the processes of one job on one host know of each other, through the runtime folder
 *
 * The last of them that ends by exit() speaks for all. Each marks its own file (segment_file.c) as ended and then looks at the
 * others': of two that end at once at least one sees that the other one has ended, too. If both do, the one that makes
 * JOB.speaker speaks; it takes away the files of all that have ended, and marks them as told of before that, which these see in
 * their own memory. A process without a job, and one that has no file or has lost it, speaks for itself.
 */
#ifndef PEERPIN_BASE_JOB_H
#define PEERPIN_BASE_JOB_H

#include <stdbool.h>

#include "base/segment.h"

/* At the end, after the segment says so: whether this process speaks for the job. */
bool job_speaks(void);

/* For who speaks: calls `take` for each other process of the job on this host, and removes the files of those that have
 * ended. */
void job_each_other(void (*take)(const struct segment *segment, void *argument), void *argument);

/* It has spoken. */
void job_spoken(void);

#endif
