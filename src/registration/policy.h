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

/* A request registers the whole in place of a part where that is at most so many bytes, or at most
 * POLICY_TIMES times the part: 32 granules take an adapter hardly longer than one. */
#define POLICY_WHOLE BLOCK
#define POLICY_TIMES 16u

/* After so many parts of an allocation in a domain a request registers the whole. Chosen. */
#define POLICY_PARTS 4u

/* Failed registrations of an allocation in a domain, after which the whole is not tried again, and
 * parts and spans rarely: a failure is paid beside the client's own registration. Failed spans of a
 * domain, after which spans are not tried. Chosen. */
#define POLICY_FAILURES 3u

/* After POLICY_FAILURES one of so many requests tries. Chosen. */
#define POLICY_MEMORY 32u

/* ---- background registration ---- */

/* Regions of a class of sizes (powers of two) that end in a row without a request end background
 * registration of that class in the domain, until the next request for one. Chosen. */
#define POLICY_VAIN 8u

/* ---- the worker ---- */

/* A poll is about a synchronous registration. */
#define POLICY_POLL_NS 50000

/* Polls without work before the worker sleeps: allocations wake it only after them. */
#define POLICY_POLLS 16

#endif
