/* SPDX-License-Identifier: BSD-3-Clause */
/* forms.h -- statistics of this process as a table, as one line or as JSON
 *
 * Nothing is allocated. docs/stats.schema.json describes the JSON. Times are since activation.
 */
#ifndef PEERPIN_REPORT_FORMS_H
#define PEERPIN_REPORT_FORMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/output.h"

/* For output_add(). */
#define llu(value) ((unsigned long long)(value))

void table_write(struct output *output, uint64_t elapsed_ns);
void table_write_line(struct output *output);

/* `ended`: this is the last one, at exit. */
void json_write(struct output *output, bool ended, uint64_t elapsed_ns);

/* ---- shared by the forms (usage.c) ---- */

/* Return true if a request was served or a key looked up, unless every adapter is software. */
bool usage_is_used(void);

/* Write "used: ...", "no request hit: ..." or "not used: REASON". */
void usage_write(char *to, size_t size);

/* Write " (98.9 %)", or nothing without a request. */
void usage_hit_rate(char *to, size_t size);

/* Format bytes in the largest unit that gives a number above 1: "41.2 GiB". */
void usage_bytes(uint64_t bytes, char *to, size_t size);

/* Format nanoseconds in the largest unit that gives a number above 1: "3.1 ms". */
void usage_time(uint64_t nanoseconds, char *to, size_t size);

#endif
