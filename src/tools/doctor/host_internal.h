/* SPDX-License-Identifier: BSD-3-Clause */
/* host_internal.h -- shared by host.c and the files that make and write readings */
#ifndef PEERPIN_DOCTOR_HOST_INTERNAL_H
#define PEERPIN_DOCTOR_HOST_INTERNAL_H

#include <stdio.h>

#include "tools/doctor/host.h"

/* ---- host.c ---- */

/* Host without sources: an unrecorded reading is an error ENOENT. */
struct host *host_empty(void);
const char *host_root(const struct host *host);

/* Sources of the live host: each records the readings of its prefix that exist. */
void driver_fill(struct host *host);  /* driver.c: cuda/ */
void verbs_fill(struct host *host);   /* verbs.c: verbs/ */
void probe_fill(struct host *host);   /* probe.c: probe/ */
void program_fill(struct host *host); /* program.c: program/ */

/* ---- live.c ---- */

/* Reads a file, a folder, a link or a pseudo path of this machine, and records the reading. */
void live_read(struct host *host, const char *name);

/* ---- command.c ---- */

/* Runs "LINE" or "LINE | grep WORD" without a shell, for at most 5 s. Records the output, or only
 * its lines with WORD, as `name`. */
void command_read(struct host *host, const char *name, const char *line);

/* ---- nvml.c ---- */

/* Records cuda/ of NVML, after the driver's readings: cuda/N/pci selects NVML's devices. */
void nvml_fill(struct host *host);

/* ---- record.c ---- */

#define RECORD_FIRST_LINE "# peerpin doctor: readings of a host, version 1"

void record_write_all(FILE *file, struct host *host);

/* Records all readings of a text written by record_write_all. False: malformed text; *line is
 * the line of the error. */
bool record_parse(struct host *host, char *text, unsigned int *line);

#endif
