/* SPDX-License-Identifier: BSD-3-Clause */
/* program_statistics.h -- collects the files of a run under peerpin: ld.PID, PID.json,
 * peerpin/PID.stats */
#ifndef PEERPIN_TOOLS_DOCTOR_PROGRAM_STATISTICS_H
#define PEERPIN_TOOLS_DOCTOR_PROGRAM_STATISTICS_H

#include <stdio.h>

/* Writes a line "NAME N" for each number that is not 0, then removes the files and the folder. */
void program_statistics_take(const char *folder, FILE *to);

#endif
