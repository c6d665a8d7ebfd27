/* SPDX-License-Identifier: BSD-3-Clause */
/* job.h -- host leader: one process of a job on a host reports for all
 *
 * The processes meet in the runtime folder. The last process that ends by exit() is the host
 * leader. Each process marks its own file (segment_file.c) as ended, then examines the other files.
 * Of two processes that end at once, at least one finds the other ended. If both do, the creator of
 * JOB.leader leads. The leader marks each ended process as reported, which that process sees in
 * its own memory, then removes its file. A process without a job or without a file reports for
 * itself.
 */
#ifndef PEERPIN_REPORT_JOB_H
#define PEERPIN_REPORT_JOB_H

#include <stdbool.h>

#include "report/segment.h"

/* Return true if this process reports: the host leader, or a process without a job or file. Call at
 * exit, after the segment's state is SEGMENT_ENDED. */
bool job_speaks(void);

/* Call `take` for each other process of the job on this host; remove the files of ended ones. Does
 * nothing unless the caller leads. */
void job_each_other(void (*take)(const struct segment *segment, void *argument), void *argument);

/* Remove the leader file, after the report. */
void job_spoken(void);

#endif
