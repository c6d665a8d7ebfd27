/* SPDX-License-Identifier: BSD-3-Clause */
/* region.h -- regions: ranges, flights, indexes, use and end; with registration_mutex held unless
 * noted
 */
#ifndef PEERPIN_REGISTRATION_REGION_H
#define PEERPIN_REGISTRATION_REGION_H

#include "registration/holds.h"
#include "registration/methods.h"
#include "registration/objects.h"

/* ---- ranges ---- */

struct region_range {
	uint64_t base, length; /* whole granules, or pages */
	bool whole;	       /* of all bytes of the allocation */
	bool spans;	       /* over several mappings */
};

/* The range to register for [address, address + length) of the allocation in the domain; and for
 * the whole allocation. */
struct region_range region_range_of(const struct allocation *allocation,
				    const struct domain *domain, uint64_t address, uint64_t length);
struct region_range region_whole_of(const struct allocation *allocation,
				    const struct domain *domain);

static inline bool region_is_of(const struct region *region, const struct region_range *range)
{
	return region->base == range->base && region->length == range->length &&
	       region->spans == range->spans;
}

static inline bool region_contains(const struct region *region, uint64_t base, uint64_t length)
{
	return region->base <= base && base + length <= region->base + region->length;
}

static inline bool region_overlaps(const struct region *region, uint64_t base, uint64_t size)
{
	return region->base < base + size && base < region->base + region->length;
}

/* ---- flights ----
 *
 * The thread that registers a region notes it before it drops the lock. A free, or the end of the
 * protection domain, marks the flight as ended and waits: the thread then deregisters. */

/* Notes a flight for the allocation, of a span for its first mapping. NULL: out of memory. */
struct region *region_begin(struct domain *domain, const struct allocation *allocation,
			    const struct region_range *range);

/* The flight of exactly that range, which a request may wait for; NULL: none. */
const struct region *region_find_flight(const struct domain *domain,
					const struct region_range *range);

/* True if the worker registers exactly that range, in any domain of that mapping: the request
 * behind the client's export of it would wait, too. */
bool region_any_flight(uint64_t base, uint64_t length, int device, bool pcie);

/* The flight is over. region_abandon(): not registered. region_enter(): with region->mr, and keys:
 * into the indexes of the domain. */
void region_abandon(struct region *region);
void region_enter(struct region *region);

/* ---- regions ---- */

/* The region of exactly that range, for another allocation of the context; NULL: none. */
struct region *region_find_shared(const struct domain *domain, CUcontext context,
				  const struct region_range *range);

/* From now on no other allocation finds what reaches the allocation. The driver has freed that,
 * maybe with its whole block, and may have put other pages there. Client MRs stay: their memory may
 * live. */
void region_unshare_around(const struct domain *domain, const struct allocation *allocation);

/* No longer speculative: a client requests the region, or may use it unobserved. */
void region_set_used(struct region *region);

/* A hold for a client MR whose allocation is unknown. 0: out of memory. */
uint64_t region_take_import(struct region *region);

/* True if a client MR has the region; region_is_held(): also an import. While hits run, an
 * estimate. */
static inline bool region_has_client_mrs(const struct region *region)
{
	return holds_any(region->hits);
}

static inline bool region_is_held(const struct region *region)
{
	return region_has_client_mrs(region) ||
	       (region->imported && holds_any(region->imported->hits));
}

/* True if imports alone hold the region, at most: hits take none from now on. The caller ends it.
 */
static inline bool region_claim(struct region *region)
{
	return holds_claim(region->hits);
}

/* The last use of the region by a client, in evictions (holds.h). */
static inline uint32_t region_used_at(const struct region *region)
{
	return load_relaxed(&region->hits->used_at);
}

/* ---- the end ----
 *
 * `ending`: the caller's list of ended regions, NULL at first. The caller deregisters them as soon
 * as it has dropped the lock, before it does anything else: nothing may wait for another thread
 * before. Each function of the layer that may end a region has such a list from its caller. */

/* Takes the region out of every index, revokes its client MRs, and adds it to the list; also a
 * flight that is registered, and that no client got. */
void region_end(struct region *region, struct region **ending);

/* Marks the flights that need the allocation, or are of the protection domain, as ended. True:
 * there is one. */
bool region_end_flights(const struct allocation *allocation);
void region_end_flights_of(const struct protection_domain *owner);

/* Deregister the regions on the list. region_unpin_all(): without the lock. region_flush(): drops
 * the lock meanwhile, if there are any. */
void region_unpin_all(struct region **ending);
void region_flush(struct region **ending);

/* Two ends may meet: memory is freed while its protection domain is closed. Only one thread finds
 * the region; the other must not continue before it is deregistered. These functions wait for
 * ended regions and flights of other threads; a caller deregisters its own first. *since, if 0,
 * becomes the time when a wait began. */
void region_await_range(uint64_t base, uint64_t size, struct region **ending, uint64_t *since);
void region_await_owner(const struct protection_domain *owner, struct region **ending);

/* The memory of a revoked client MR was freed, and no kernel object is behind it. Without peerpin
 * there would be one until the deregistration, and its protection domain would be busy. So an ended
 * region stays in a list of its protection domain until its last client MR is deregistered. True if
 * there is one. region_forget_revoked(): the protection domain has ended. */
bool region_any_revoked(struct protection_domain *owner);
void region_forget_revoked(struct protection_domain *owner);

/* Count the client MRs of the region as leaked, and if its memory was freed as outlived. */
void region_count_leaked(const struct region *region);

/* ---- log, trace and the counters of failures ----
 *
 * A write to the log or trace may block: without the lock, unless noted. */

struct errors_room;

/* Counts a failed registration by its errno, grouped by fix. With or without the lock. */
void region_count_failure(int error);

/* region_is_reported(): true if the log or trace needs start times. The others report an end: 0 or
 * -errno. */
bool region_is_reported(void);
void region_report_registered(const struct pin_request *request, int error,
			      const struct errors_text *failure, uint64_t start);
void region_report_ended(const struct region *region, int error, uint64_t start);

/* A refusal set the GPU's pin limit to `learnt` bytes; 0: unchanged. */
void region_report_pin_limit(int device, uint64_t learnt);

/* Logs a failed registration. `room` holds the known limits; the function completes it. */
void region_log_failure(const struct region *region, int error, struct errors_text failure,
			struct errors_room *room);

#endif
