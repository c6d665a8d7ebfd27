/* SPDX-License-Identifier: BSD-3-Clause */
/* job.h -- what the processes of one job on one host know of each other, through the runtime folder
 *
 * One of them speaks for all at its end: the first that becomes active, or if that was killed any later one. A process
 * without a job, and one that has no runtime folder, speaks for itself.
 *
 * JOB.speaker is there as long as somebody means to speak. Who does takes it away first and then looks for the others'
 * files; who ends first marks its own file as ended and then looks whether somebody will speak. So each file is seen by the
 * speaker, or taken away by its own process.
 */
#ifndef PEERPIN_BASE_JOB_H
#define PEERPIN_BASE_JOB_H

#include <stdbool.h>

#include "base/image.h"

/* Offers to speak, when the process becomes active. */
void job_begin(void);

/* At the end, after the image says so: whether this process speaks for the job. If it does, nobody else will. */
bool job_may_speak(void);

/* For who speaks: calls `take` for each other process of the job on this host, and removes the files of those that have
 * ended. */
void job_each_other(void (*take)(const struct image *image, void *argument), void *argument);

/* Whether the numbers of this process need not be kept for another one. */
bool job_is_told(void);

#endif
