/* SPDX-License-Identifier: BSD-3-Clause */
/* program.h -- interface of program_run.c for program.c */
#ifndef PEERPIN_TOOLS_DOCTOR_PROGRAM_H
#define PEERPIN_TOOLS_DOCTOR_PROGRAM_H

#include "tools/doctor/host.h"

/* Records program/run. */
void program_run(struct host *host);

#endif
