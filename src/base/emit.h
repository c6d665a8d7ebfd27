/* SPDX-License-Identifier: BSD-3-Clause */
/* emit.h -- one walk over all that is counted, into a table for people, JSON, Prometheus' text, or one line
 *
 * The forms cannot disagree: each row of statistics.def is read once, and the form decides what becomes of it. Nothing is
 * allocated. docs/stats.schema.json says what JSON holds.
 */
#ifndef PEERPIN_BASE_EMIT_H
#define PEERPIN_BASE_EMIT_H

#include "base/segment.h"
#include "base/output.h"

/* What happened to the process; several together have not ended before the last one. */
enum emit_end { EMIT_EXITED, EMIT_RUNNING, EMIT_KILLED };

struct emit_source {
	const struct segment *segment;
	enum emit_end end;
	uint64_t elapsed_ns;	/* since it became active */
	unsigned int processes; /* whose numbers these are: 1, or a sum */
	unsigned int killed;	/* how many of several left no final record */
	unsigned int used;	/* how many of several used it (usage_is_used) */
};

enum emit_form { EMIT_TABLE, EMIT_JSON, EMIT_PROMETHEUS, EMIT_LINE };

void emit(struct output *output, const struct emit_source *source, enum emit_form form);

/* ---- what the forms share (usage.c) ---- */

/* Whether any request was served. */
bool usage_is_used(const struct segment *segment);

/* "used: ..." or "not used: ...": the answer to the question that users ask first. */
void usage_write(const struct segment *segment, char *to, size_t size);

/* The setting that would have left out most of what was registered and never used; false: there is none. `skipped`: how many of
 * the regions. */
bool usage_smallest_size(const struct segment *segment, uint64_t *bytes, uint64_t *skipped);

/* Whether all was registered ahead by the user's own choice, where what nobody asks for would have been learnt. */
bool usage_registers_all(const struct segment *segment);

/* Bytes in the largest unit that leaves a number above 1: "41.2 GiB". */
void usage_bytes(uint64_t bytes, char *to, size_t size);

/* Nanoseconds likewise: "3.1 ms". */
void usage_time(uint64_t nanoseconds, char *to, size_t size);

#endif
