/* SPDX-License-Identifier: BSD-3-Clause */
/* trace.h -- what happens, when and for how long, as a file of trace events that Perfetto and Chrome open (PEERPIN_TRACE_FILE)
 *
 * Each event is one line, written at once: who is killed leaves a file that can be opened, only its last bracket is missing,
 * which the format allows. At exit that bracket is the last that is written, whatever other threads are at. Times are those of the host's clock since it was started, so that files of several processes of
 * one host belong together. Any thread, outside of our locks: a write may take its time.
 */
#ifndef PEERPIN_BASE_TRACE_H
#define PEERPIN_BASE_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

extern _Atomic bool trace_wanted __attribute__((visibility("hidden")));

static inline bool trace_is_on(void)
{
	return atomic_load_explicit(&trace_wanted, memory_order_relaxed);
}

/* When the process becomes active, as the settings say, and the second to say why it cannot: others wait during the first, and telling
 * may take its time; when it exits; in a forked child. */
void trace_begin(void);
void trace_begun(void);
void trace_end(void);
void trace_leave(void);

/* An allocation begins or ends. Allocations that live at once may lie in each other: `id` is of one alone. */
void trace_allocation(bool begins, uint64_t id, uint64_t base, uint64_t size, int gpu, const char *kind);

/* `what` went on since `start` (statistics_clock), for this range, up to now. */
void trace_span(const char *what, uint64_t start, uint64_t base, uint64_t length, int gpu,
		const char *outcome);

/* How much is pinned now. */
void trace_pinned(uint64_t bytes);

#endif
