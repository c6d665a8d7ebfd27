/* SPDX-License-Identifier: BSD-3-Clause */
/* findings.h -- findings of processes (report/callers.h): lists of objects with id, caller, count,
 * bytes and ns */
#ifndef PEERPIN_TOOLS_FINDINGS_H
#define PEERPIN_TOOLS_FINDINGS_H

#include <jansson.h>
#include <stdint.h>

/* Adds the list to `sums`: one row for each id and caller. */
void findings_add(json_t *sums, const json_t *list);

/* The list, worst first, each with text and advice: a new reference. Without unknown ids.
 */
json_t *findings_judge(const json_t *list);

/* "registrations of ...: 160 (160 MiB), by UCX 1.22.0; 270 ms, 1.9 % of the run". `caller`: its
 * name for people; `whole_ns`: of all processes, 0: unknown. Lasts as text_of(). */
const char *findings_text(const json_t *row, const char *caller, int64_t whole_ns);

#endif
