/* SPDX-License-Identifier: BSD-3-Clause */
/* trace.h -- trace of events with their times, for Perfetto and Chrome (PEERPIN_TRACE_FILE)
 *
 * Each event is one line, written at once. The file of a killed process lacks only the last
 * bracket, which the format allows. At exit that bracket is the last byte written, whatever other
 * threads do. Times are of the host's clock since boot: files of several processes of a host fit
 * together. Any thread, outside of peerpin's locks: a write may block.
 */
#ifndef PEERPIN_REPORT_TRACE_H
#define PEERPIN_REPORT_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomics.h"

extern _Atomic bool trace_wanted __attribute__((visibility("hidden")));

static inline bool trace_is_on(void)
{
	return load_relaxed(&trace_wanted);
}

/* trace_begin: at activation, while other threads wait. trace_begun: afterwards, logs a failed
 * begin; logging may block. trace_end: at exit. */
void trace_begin(void);
void trace_begun(void);
void trace_end(void);

/* Record an allocation or its end. Live allocations may overlap: only `id` is unique. */
void trace_allocation(bool begins, uint64_t id, uint64_t base, uint64_t size, int gpu,
		      const char *kind);

/* Record the span `what` of a range, from `start` (system_clock()) until now. */
void trace_span(const char *what, uint64_t start, uint64_t base, uint64_t length, int gpu,
		const char *outcome);

/* Record the number of pinned bytes. */
void trace_pinned(uint64_t bytes);

#endif
