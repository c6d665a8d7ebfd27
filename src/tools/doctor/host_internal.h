/* SPDX-License-Identifier: BSD-3-Clause */
/* host_internal.h -- between host.c, which keeps readings, and those that make and write them */
#ifndef PEERPIN_DOCTOR_HOST_INTERNAL_H
#define PEERPIN_DOCTOR_HOST_INTERNAL_H

#include <stdio.h>

#include "tools/doctor/host.h"

/* ---- host.c ---- */

/* A host of which nothing is read: what was not recorded is an error ENOENT. */
struct host *host_empty(void);
bool host_is_live(const struct host *host);
const char *host_root(const struct host *host);

/* malloc, and the end of the program with one line where there is no memory left. */
void *need(void *memory);
char *need_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- live.c ---- */

/* Reads a file, a folder, a link or a pseudo path of this machine, and records it. */
void live_read(struct host *host, const char *name);

/* ---- command.c ---- */

/* Runs "LINE" or "LINE | grep WORD" (no shell is involved; lines with the word are kept) for at most `seconds`, and records
 * what it printed as `name`. */
void command_read(struct host *host, const char *name, const char *line, unsigned int seconds);

/* ---- record.c ---- */

#define RECORD_FIRST_LINE "# peerpin doctor: readings of a host, version 1"

void record_write(FILE *to, const char *name, const struct reading *reading);
void record_write_all(FILE *to, struct host *host);

/* Records all that the text says. False: it is no such text; `line` is where. */
bool record_parse(struct host *host, char *text, unsigned int *line);

#endif
