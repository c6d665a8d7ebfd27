/* SPDX-License-Identifier: BSD-3-Clause */
/* program.h -- between program.c, which reads the program's files, and program_run.c, which runs it */
#ifndef PEERPIN_TOOLS_DOCTOR_PROGRAM_H
#define PEERPIN_TOOLS_DOCTOR_PROGRAM_H

#include "tools/doctor/host.h"

/* Records program/run. */
void program_run(struct host *host);

#endif
