/* SPDX-License-Identifier: BSD-3-Clause */
/* trace_events.h -- who hears of allocations and frees for the trace (PEERPIN_TRACE_FILE); does nothing without one */
#ifndef PEERPIN_MEMORY_TRACED_H
#define PEERPIN_MEMORY_TRACED_H

#include "memory/memory.h"

extern const struct memory_subscriber trace_subscriber;

#endif
