/* SPDX-License-Identifier: BSD-3-Clause */
/* policy.h -- the constants that decide which memory is registered, and when
 *
 * Each has its reason and its measurement; "chosen": none was made. Bounds of a search and sizes of
 * tables stand beside their use.
 */
#ifndef PEERPIN_REGISTRATION_POLICY_H
#define PEERPIN_REGISTRATION_POLICY_H

#include "memory/memory.h"

/* ---- ranges ---- */

/* A request registers the whole in place of a part where that is at most so many bytes, and at most
 * POLICY_PARTS times the part: 32 granules take an adapter hardly longer than one. Collectives of
 * 64 KiB to 1 MiB in new buffers make 3.9 to 4.0 registrations in each round, 4.8 to 5.7 where
 * equal times were the condition, 7 without peerpin (simulated adapter, 0.5 ms each). */
#define POLICY_WHOLE BLOCK

/* After so many parts of an allocation in a domain the worker registers the whole. With fewer the
 * bytes that no client requests take CPUs from the program, and lengthen its frees. An arena of 40
 * pieces, each requested twice, has 76 hits of 82 with 4, 72 with 8 (simulated adapter).
 *
 * If the worker has not come after twice as many, as no CPU is idle, the next request registers the
 * whole, where that is at most 4 times as long as so many parts like its own: the program pays at
 * most so many times what it has paid, and has hits from then on. Where the worker came late that
 * arena had 41 hits of 82, and has 65. */
#define POLICY_PARTS 8u

/* Failed registrations of an allocation in a domain, after which the whole is not tried again, and
 * parts and spans rarely: a failure is paid beside the client's own registration. Failed spans of a
 * domain, after which spans are not tried. Chosen. */
#define POLICY_FAILURES 3u

/* ---- background registration ---- */

/* Regions of a class of sizes (powers of two) that end in a row without a request end background
 * registration of that class in the domain, until the next request for one. Chosen. */
#define POLICY_VAIN 8u

/* After POLICY_FAILURES one of so many requests tries. Chosen. */
#define POLICY_MEMORY 32u

/* ---- the worker ---- */

/* A poll is about a synchronous registration. Polls ended at most 0.1 ms late while one of 16 CPUs
 * was idle, and at least 1.9 ms where a thread polled on each (Linux 6.18). */
#define POLICY_POLL_NS 50000
#define POLICY_LATE_NS (4 * POLICY_POLL_NS)

/* Polls without work before the worker sleeps: allocations wake it only after them. */
#define POLICY_POLLS 16

#endif
