/* SPDX-License-Identifier: BSD-3-Clause */
/* trace_events.h -- subscriber that writes allocations and frees to the trace (PEERPIN_TRACE_FILE)
 */
#ifndef PEERPIN_MEMORY_TRACE_EVENTS_H
#define PEERPIN_MEMORY_TRACE_EVENTS_H

#include "memory/memory.h"

extern const struct memory_subscriber trace_subscriber;

#endif
