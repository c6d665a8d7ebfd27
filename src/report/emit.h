/* SPDX-License-Identifier: BSD-3-Clause */
/* emit.h -- statistics as a table, as JSON, as Prometheus text or as one line
 *
 * Nothing is allocated. docs/stats.schema.json describes the JSON form.
 */
#ifndef PEERPIN_REPORT_EMIT_H
#define PEERPIN_REPORT_EMIT_H

#include "report/output.h"
#include "report/segment.h"

/* End of the process. A sum of several processes ends with the last one. */
enum emit_end { EMIT_EXITED, EMIT_RUNNING, EMIT_KILLED };

struct emit_source {
	const struct segment *segment;
	enum emit_end end;
	uint64_t elapsed_ns;	/* since activation */
	unsigned int processes; /* processes in the sum; 1: one process */
	unsigned int killed;	/* processes in the sum without a final record */
	unsigned int used;	/* processes in the sum for which usage_is_used() */
};

enum emit_form { EMIT_TABLE, EMIT_JSON, EMIT_PROMETHEUS, EMIT_LINE };

void emit(struct output *output, const struct emit_source *source, enum emit_form form);

/* ---- shared by the forms (usage.c) ---- */

/* Return true if a request was served or a key looked up, unless every adapter is software. */
bool usage_is_used(const struct segment *segment);

/* Write "used: ...", "no request hit: ..." or "not used: REASON". */
void usage_write(const struct segment *segment, char *to, size_t size);

/* Write " (98.9 %)", or nothing without a request. */
void usage_hit_rate(const struct segment *segment, char *to, size_t size);

/* Write why many requests miss, and what helps (hints.def, hints.c). False: few miss. */
bool hints_find(const struct segment *segment, char *to, size_t size);

/* Format bytes in the largest unit that gives a number above 1: "41.2 GiB". */
void usage_bytes(uint64_t bytes, char *to, size_t size);

/* Format nanoseconds in the largest unit that gives a number above 1: "3.1 ms". */
void usage_time(uint64_t nanoseconds, char *to, size_t size);

#endif
