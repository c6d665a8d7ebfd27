/* SPDX-License-Identifier: BSD-3-Clause */
/* program.h -- between program.c, which reads the program's files, and program_run.c, which runs it */
#ifndef PEERPIN_TOOLS_DOCTOR_PROGRAM_H
#define PEERPIN_TOOLS_DOCTOR_PROGRAM_H

#include <limits.h>
#include <stdbool.h>

#include "tools/doctor/host.h"

/* As a shell does, by PATH. False: it is none that may be run; the path is then the last that was looked at. */
bool program_find(const char *name, char path[PATH_MAX]);

/* Records program/run. */
void program_run(struct host *host);

#endif
