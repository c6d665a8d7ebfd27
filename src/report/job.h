/* SPDX-License-Identifier: BSD-3-Clause */
/* job.h -- host leader: one process of a job on a host reports for all
 *
 * The last rank that ends by exit() is the host leader (base/job_file.h). It adds the segment files
 * (segment_file.c) of the job's other processes on this host to its own, and removes those of
 * processes that ended by exit(). A process without a job, a rank or a file reports for itself.
 */
#ifndef PEERPIN_REPORT_JOB_H
#define PEERPIN_REPORT_JOB_H

#include <stdbool.h>

#include "report/segment.h"

/* Return true if this process reports: the host leader, or a process without a job or file. Call at
 * exit, after the segment's state is SEGMENT_ENDED; job_file_leave() follows the report. */
bool job_leads(void);

/* Call `take` for each other process of the job on this host; remove the files of ended ones. Does
 * nothing unless the caller leads. */
void job_each_other(void (*take)(const struct segment *segment, void *argument), void *argument);

#endif
