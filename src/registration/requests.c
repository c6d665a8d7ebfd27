/* SPDX-License-Identifier: BSD-3-Clause */
/* requests.c -- client requests, and their service from regions
 *
 * From top to bottom: the domain of a request, the mappings that it needs, the range that serves
 * it, the registration of that range or the wait for another thread's, and the client MR. Hits,
 * which take no lock, are at the end.
 */
#include <errno.h>
#include <stdio.h>

#include "base/atomics.h"
#include "base/config.h"
#include "base/log.h"
#include "base/process.h"
#include "base/system.h"
#include "memory/lookup.h"
#include "registration/background.h"
#include "registration/client_mr.h"
#include "registration/domain.h"
#include "registration/holds.h"
#include "registration/entry.h"
#include "registration/lock.h"
#include "registration/pin_limit.h"
#include "registration/policy.h"
#include "registration/ready_exports.h"
#include "registration/region.h"
#include "registration/region_end.h"
#include "registration/region_life.h"
#include "registration/registration.h"
#include "registration/room.h"
#include "report/statistics.h"
#include "report/trace.h"

#define TRIES 3 /* of a request whose region another thread ends */

/* Reasons of forwarded requests, each with a counter. */
#define FORWARD_REASONS(REASON)                                                                    \
	REASON(range)                                                                              \
	REASON(flags)                                                                              \
	REASON(address)                                                                            \
	REASON(capability)                                                                         \
	REASON(verify)                                                                             \
	REASON(domain)                                                                             \
	REASON(freed)                                                                              \
	REASON(pin_limit)                                                                          \
	REASON(failed)

enum outcome {
	SERVED,
#define REASON(name) FORWARDED_##name,
	FORWARD_REASONS(REASON)
#undef REASON
};

/* Call without the lock, as all logging: a log write may block. */
static void requests_log(const struct registration_request *request, const char *answer)
{
	log_message(LOG_TRACE, "request 0x%llx, %llu bytes, access flags 0x%x: %s",
		    (unsigned long long)request->address, (unsigned long long)request->length,
		    (unsigned int)request->access, answer);
}

/* ---- the domain ----
 *
 * The first request in a domain enables it. From then on, live and new allocations are
 * registered there in the background, unless that is off.
 *
 * PEERPIN_PREREGISTER=eager: memory near the adapter is registered earlier, in domains that a known
 * client will use. UCX registers each buffer twice, with relaxed ordering and without, where its
 * version prefers that for the CPU, or a setting requires it. It registers host memory, its own
 * buffers, in the same way before the program's memory: these requests reveal the choice.
 */

/* Access flags that regions may have. Domains differ by relaxed ordering, as by every other
 * flag. */
#define SHARED_FLAGS                                                                               \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_RELAXED_ORDERING)

/* The kernel refuses remote write or remote atomic without local write. */
static bool domain_may_share(int access)
{
	return !(access & ~SHARED_FLAGS) &&
	       ((access & IBV_ACCESS_LOCAL_WRITE) ||
		!(access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)));
}

/* Names the access flags of SHARED_FLAGS. The kernel never refuses local read. */
static void domain_enable_name_flags(int access, char *to, size_t size)
{
	static const struct {
		int flag;
		char name[20];
	} flags[] = {
		{ IBV_ACCESS_LOCAL_WRITE, "local write" },
		{ IBV_ACCESS_REMOTE_WRITE, "remote write" },
		{ IBV_ACCESS_REMOTE_READ, "remote read" },
		{ IBV_ACCESS_REMOTE_ATOMIC, "remote atomic" },
		{ IBV_ACCESS_RELAXED_ORDERING, "relaxed ordering" },
		{ DOMAIN_PCIE, "over PCIe" },
	};
	size_t used = (size_t)snprintf(to, size, "local read");

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]) && used < size; i++) {
		if (access & flags[i].flag)
			used += (size_t)snprintf(to + used, size - used, ", %s", flags[i].name);
	}
}

static void domain_log_enabled(int access)
{
	static const char when[][24] = { [PREREGISTER_AUTO] = "in the background",
					 [PREREGISTER_EAGER] = "inside the allocation",
					 [PREREGISTER_OFF] = "synchronously" };
	char flags[96];

	if (!log_is_on(LOG_INFO))
		return;
	domain_enable_name_flags(access, flags, sizeof(flags));
	log_message(LOG_INFO,
		    "a protection domain is enabled: new GPU memory is registered there %s; access "
		    "flags: %s",
		    when[config_get()->preregister], flags);
}

/* The domain of these access flags, enabled from now on. Sets *newly if it was not enabled before.
 * NULL: unknown or closing protection domain, or out of memory. */
static struct domain *domain_enable(const struct ibv_pd *pd, int access, bool *newly)
{
	struct protection_domain *owner = protection_domain_find(pd->context, pd->handle);
	struct domain *domain;

	registration_assert_held();
	if (!owner || owner->closing)
		return NULL;
	domain = domain_find(owner, access);
	if (!domain)
		domain = domain_create(owner, access);
	if (domain && !domain->enabled) {
		domain->enabled = true;
		*newly = true;
	}
	return domain;
}

/* Without the lock. `is_like`: for other memory, which counts if the client is known, and has added
 * relaxed ordering to its access flags. */
static void domain_enable_expect(const struct ibv_pd *pd, int access, bool is_like)
{
	struct protection_domain *owner;
	int saved_errno = errno;
	bool go = false;

	registration_lock();
	owner = protection_domain_find(pd->context, pd->handle);
	if (owner && !is_like)
		owner->expected = access;
	if (owner && !owner->closing && !domain_find(owner, access) && owner->expected &&
	    (owner->expected | (is_like ? IBV_ACCESS_RELAXED_ORDERING : 0)) == access)
		go = background_queue_domain(domain_create(owner, access));
	registration_unlock();
	if (go)
		worker_wake();
	errno = saved_errno;
}

void registration_expect(const struct ibv_pd *pd, int access)
{
	domain_enable_expect(pd, access, false);
}

/* PEERPIN_PREREGISTER=eager: the client requests host memory. */
static void domain_expect_like(const struct registration_request *request)
{
	if (config_get()->preregister == PREREGISTER_EAGER &&
	    (request->access & IBV_ACCESS_RELAXED_ORDERING))
		domain_enable_expect(request->pd, request->access, true);
}

/* ---- the range ----
 *
 * A request registers the whole allocation, where that is at most POLICY_WHOLE bytes or
 * POLICY_TIMES times the request. Else it registers a part: its own range in whole granules, joined
 * with the nearest part where both make up at least half of that. After POLICY_PARTS parts a
 * request registers the whole. The whole ends the parts without client MRs. A part serves where the
 * whole does not fit, or fails. With unique keys there are parts alone: each client MR needs a
 * region of its own, also of a range that has one.
 */

/* Of whole granules: that of the allocation's bytes in them. */
static struct region_range choice_join(const struct allocation *allocation,
				       const struct domain *domain, uint64_t first, uint64_t last)
{
	uint64_t end = allocation->base + allocation->size;

	first = first < allocation->base ? allocation->base : first;
	last = last > end ? end : last;
	return region_range_of(allocation, domain, first, last - first);
}

static bool choice_is_better(const struct region *one, const struct region *other, bool smallest)
{
	return !other || (smallest ? one->length < other->length : one->length > other->length);
}

static bool choice_is_within(const struct region *region, const struct region_range *limit)
{
	return region->base >= limit->base &&
	       region->base + region->length <= limit->base + limit->length;
}

/* For a request inside the allocation, or of a span inside `limit`, its mappings: a reference with
 * a registered region that contains the request; else with the region of exactly `range`. NULL:
 * none. With unique keys no client MR holds the region. A region of exactly `range` that is not
 * registered: another thread registers it, or it was evicted. A longer one may have failed, or not
 * fit, and takes longer. */
static struct region_reference *choice_find_serving(const struct allocation *allocation,
						    const struct domain *domain,
						    const struct registration_request *request,
						    const struct region_range *range,
						    const struct region_range *limit)
{
	struct region_reference *reference =
		region_find_reference(domain, allocation->slot, allocation->id);
	struct region_reference *best = NULL, *exact = NULL;
	bool smallest = range->spans || domain->owner->own_keys;
	const struct region *region;

	for (; reference; reference = region_next_reference(reference)) {
		region = reference->region;
		if (region->spans != range->spans || region_is_taken(region))
			continue;
		if (region_is_of(region, range))
			exact = reference;
		if (region->state == REGION_READY && region->base <= request->address &&
		    region->base + region->length >= request->address + request->length &&
		    (!limit || choice_is_within(region, limit)) &&
		    choice_is_better(region, best ? best->region : NULL, smallest))
			best = reference;
	}
	return best ? best : exact;
}

/* A part or span that is not registered after a request ends, if that is its only user. */
static void choice_drop_failed(struct region *region, const struct region_reference *reference,
			       struct region **ending)
{
	registration_assert_held();
	if (!reference->whole && region->users == 1 && (!region_is_shared(region) || region->spans))
		region_end(region, ending);
}

static struct region_reference *choice_find_exact(const struct allocation *allocation,
						  const struct domain *domain,
						  const struct region_range *range)
{
	struct region_reference *reference =
		region_find_reference(domain, allocation->slot, allocation->id);

	while (reference &&
	       (!region_is_of(reference->region, range) || region_is_taken(reference->region)))
		reference = region_next_reference(reference);
	return reference;
}

/* The part, joined with the nearest one where both make up at least half of that. */
static struct region_range choice_hull(const struct allocation *allocation,
				       const struct domain *domain, const struct region_range *part)
{
	const struct region_reference *reference =
		region_find_reference(domain, allocation->slot, allocation->id);
	uint64_t end = part->base + part->length, first, last, least = UINT64_MAX;
	struct region_range hull = *part;
	const struct region *other;

	for (; reference; reference = region_next_reference(reference)) {
		other = reference->region;
		first = other->base < part->base ? other->base : part->base;
		last = other->base + other->length > end ? other->base + other->length : end;
		if (other->spans || other->state != REGION_READY || reference->whole ||
		    last - first > 2 * (part->length + other->length) || last - first >= least)
			continue;
		least = last - first;
		hull = choice_join(allocation, domain, first, last);
	}
	return hull;
}

static bool choice_may_take_whole(const struct allocation *allocation, const struct domain *domain,
				  const struct region_range *whole)
{
	const struct region_reference *reference = region_find_whole(allocation, domain);

	/* It did not fit, or failed. */
	if (reference && reference->region->state != REGION_REGISTERING)
		return false;
	return pin_limit_has_room(domain->owner->adapter, allocation->device, whole->length);
}

/* The range to register for a request whose own range is `part`. */
static struct region_range choice_extend(const struct allocation *allocation,
					 const struct domain *domain,
					 const struct region_range *part,
					 const struct region_range *whole)
{
	const struct entry *entry = entry_of(domain, allocation->slot, allocation->id);
	unsigned int made = entry ? entry->made : 0;
	struct region_range hull;

	if (part->whole || domain->owner->own_keys || allocation->integrated)
		return *part;
	if ((whole->length <= POLICY_WHOLE || whole->length <= POLICY_TIMES * part->length ||
	     made == POLICY_PARTS) &&
	    choice_may_take_whole(allocation, domain, whole))
		return *whole;
	hull = made < POLICY_PARTS ? choice_hull(allocation, domain, part) : *part;
	return pin_limit_has_room(domain->owner->adapter, allocation->device, hull.length) ? hull
											   : *part;
}

/* The reference that serves a request inside the allocation. `parts_only`: a longer range than the
 * request's did not fit within the pin limit, or failed. Sets *optional if the range is longer.
 * NULL: out of memory, or no region for the request. */
static struct region_reference *choice_of_allocation(const struct allocation *allocation,
						     struct domain *domain,
						     const struct registration_request *request,
						     bool parts_only, bool *optional)
{
	struct region_range whole = region_whole_of(allocation, domain), part = whole, range;
	struct region_reference *found;

	registration_assert_held();
	if (request->length < allocation->size)
		part = region_range_of(allocation, domain, request->address, request->length);
	found = choice_find_serving(allocation, domain, request, &part, NULL);
	*optional = false;
	if (found &&
	    (found->region->state == REGION_READY || found->region->state == REGION_REGISTERING))
		return found;
	if (!entry_may_try(domain, allocation, part.whole))
		return NULL;
	if (found)
		return found;
	range = parts_only ? part : choice_extend(allocation, domain, &part, &whole);
	*optional = range.length > part.length;
	found = choice_find_exact(allocation, domain, &range);
	return found ? found : region_refer(allocation, domain, &range);
}

/* A client requests the allocation in this domain, in which it has a reference. True: for the first
 * time, which is counted. */
static bool choice_count_request(const struct allocation *allocation, const struct domain *domain)
{
	struct entry *entry = entry_of(domain, allocation->slot, allocation->id);

	registration_assert_held();
	if (!entry || entry->requested)
		return false;
	entry->requested = true;
	statistics_add(requested_bytes, allocation->size);
	statistics_sort(used_bytes, allocation->size);
	return true;
}

/* ---- spans ----
 *
 * A request may need several mappings: PyTorch's expandable segments map pieces of 2 and 20 MiB.
 * One region serves the request, a span, of a range inside these mappings. The driver exports such
 * a range as one dma-buf (measured).
 *
 * The span has a reference from each of its mappings, and ends with the first of them. So a span
 * serves only requests that need all its mappings: the unmap of another one would revoke their
 * client MRs. A request for more mappings registers another span; the shorter one stays idle.
 *
 * No client MR outlives a mapping. References are created with the lock held, each for a mapping
 * whose record is live then. The end of the mapping (cuMemUnmap, a loss of access) first ends the
 * record, then takes the lock, finds the reference, ends the holds of all references of the span,
 * and returns when the region is deregistered. Hits of spans take the hold with the lock held,
 * before or after that. The wait-free hit sees no span: its references have no bytes and publish no
 * hold.
 */

/* True if the request may be served from such memory, as far as the memory decides: a dma-buf
 * follows the kernel's rules; a request by address needs memory that adapters reach by address. */
static bool requests_suit(const struct registration_request *request,
			  const struct allocation *allocation)
{
	return request->dma_buf ? memory_is_exportable(allocation)
				: memory_is_registrable(allocation);
}

static uint64_t span_piece_end(const struct allocation *piece)
{
	return piece->base + memory_extent(piece);
}

/* True if the request ends in the allocation, which holds or follows the request's first byte. */
static bool span_ends_in(const struct registration_request *request, const struct allocation *piece)
{
	return request->length <= span_piece_end(piece) - request->address;
}

/* Steps from `piece` to the next mapping that the request needs. False: one region cannot serve
 * both; `piece` is unchanged. */
static bool span_next(const struct registration_request *request, struct allocation *piece)
{
	uint64_t address = span_piece_end(piece);
	struct allocation next;

	if (!memory_find(address, &next) || next.base != address ||
	    next.kind != ALLOCATION_MAPPED || next.device != piece->device ||
	    !requests_suit(request, &next) || (request->youngest && request->youngest < next.id))
		return false;
	*piece = next;
	return true;
}

/* The requested granules inside the mappings, as for parts of an allocation. */
static struct region_range span_range(const struct registration_request *request,
				      const struct region_range *mappings)
{
	uint64_t last = (request->address + request->length - 1) | (GRANULE - 1);
	uint64_t end = mappings->base + mappings->length;
	struct region_range part = *mappings;

	part.base = request->address & ~(GRANULE - 1);
	if (part.base < mappings->base)
		part.base = mappings->base;
	part.length = (last < end ? last + 1 : end) - part.base;
	return part;
}

/* References from all mappings of the request, or from none. */
static struct region_reference *span_create(const struct allocation *first, struct domain *domain,
					    const struct registration_request *request,
					    const struct region_range *range,
					    struct region **ending, bool *gone)
{
	struct region_reference *reference, *of_first = NULL;
	struct allocation piece = *first;
	bool more = true;

	do {
		reference = of_first ? region_refer_to(of_first->region, &piece, range)
				     : region_refer(&piece, domain, range);
		if (!reference)
			break;
		if (!of_first)
			of_first = reference;
		choice_count_request(&piece, domain);
		reference->used = true;
		more = !span_ends_in(request, &piece);
	} while (more && span_next(request, &piece));
	/* Another thread may have replaced the last mapping by a shorter one. */
	if (reference && !more && range->base + range->length <= span_piece_end(&piece))
		return of_first;
	if (of_first)
		region_end(of_first->region, ending);
	*gone = reference;
	return NULL;
}

/* The reference of `first`, the request's first mapping, to the region that serves the request.
 * NULL: out of memory, no region for the request, or (*gone) a mapping has ended, and may be back
 * already. */
static struct region_reference *span_choose(const struct allocation *first, struct domain *domain,
					    const struct registration_request *request,
					    struct region **ending, bool *gone)
{
	struct region_range mappings, range;
	struct region_reference *found;
	struct allocation last;

	registration_assert_held();
	/* span_create() looks at those between, as the caller has. */
	*gone = !memory_find(request->address + request->length - 1, &last);
	if (*gone)
		return NULL;
	mappings = (struct region_range){ .base = first->base,
					  .length = span_piece_end(&last) - first->base,
					  .spans = true };
	range = span_range(request, &mappings);
	found = choice_find_serving(first, domain, request, &range, &mappings);
	if (found)
		return found;
	if (domain->span_failures != SPANS_WORK && domain->span_failures >= POLICY_FAILURES)
		return NULL;
	return entry_may_try(domain, first, false)
		       ? span_create(first, domain, request, &range, ending, gone)
		       : NULL;
}

/* True while each mapping of the span is live, and not younger than the request's dma-buf:
 * `youngest` (registration.h). Counts as a use. */
static bool span_is_live(const struct region *region, uint64_t youngest)
{
	struct region_reference *reference = holds_at(region->references);
	uint32_t now = load_relaxed(&holds_time);

	registration_assert_held();
	for (; reference; reference = holds_at(reference->next_in_region)) {
		if ((youngest && youngest < reference->allocation) ||
		    !memory_is_live(&(struct allocation){ .id = reference->allocation,
							  .slot = reference->slot }))
			return false;
		store_relaxed(&reference->used_at, now);
	}
	return true;
}

/* ---- requests ---- */

static bool requests_is_gpu_memory(uint64_t address)
{
	struct allocation allocation;

	return memory_find(address, &allocation) &&
	       (allocation.kind != ALLOCATION_HOST || allocation.integrated);
}

bool registration_concerns(const struct registration_request *request)
{
	if (request->length && (requests_is_gpu_memory(request->address) ||
				requests_is_gpu_memory(request->address + request->length - 1)))
		return true;
	statistics_count(host_requests);
	domain_expect_like(request);
	return false;
}

/* How a served request found its region. */
enum service { HIT, WAITED, SYNCHRONOUS_QUEUED, SYNCHRONOUS };

static const char service_names[][40] = { "hit", "waited for the worker",
					  "registered synchronously, queued before",
					  "registered synchronously" };

struct serving {
	const struct registration_request *request;
	struct allocation allocation;
	bool spans;	       /* needs more than the allocation */
	bool go;	       /* work is queued */
	bool parts_only;       /* see choice_of_allocation() */
	uint64_t waited_since; /* 0: no wait */
	bool enabled;
	enum service service;  /* if served */
	struct region *ending; /* ended meanwhile, to deregister without the lock */
};

/* Brings the region to READY if possible; drops the lock meanwhile. The caller is one of the
 * region's users. */
static enum service requests_make_ready(struct serving *serving, struct region *region,
					bool optional)
{
	enum service service = !region->spans && region_is_queued(&serving->allocation)
				       ? SYNCHRONOUS_QUEUED
				       : SYNCHRONOUS;
	uint64_t start;

	registration_assert_held();
	if (region->state == REGION_READY)
		return HIT;
	if (region->state == REGION_REGISTERING) {
		start = serving->waited_since = system_clock();
		region_await_settled(region, &serving->ending);
		start = system_clock() - start;
		statistics_add(program_ns, start);
		statistics_time(waited_ns, start, wait_ns);
		service = WAITED;
	}
	if (region->ended || region->state == REGION_READY)
		return service;
	/* A background registration never evicts. A synchronous one may, unless a part would do: it
	 * can succeed after the worker's failure. */
	region->state = REGION_REGISTERING;
	statistics_time(program_ns,
			region_register(region, serving->request, optional, &serving->ending),
			registration_program_ns);
	return service;
}

static void requests_count_served(enum service service)
{
	if (service == HIT)
		statistics_tally(TALLY_hits);
	else if (service == WAITED)
		statistics_count(waited);
	else if (service == SYNCHRONOUS_QUEUED)
		statistics_count(synchronous_queued);
	else
		statistics_count(synchronous);
}

/* Counts the first request for the allocation in this domain: for the whole that the worker
 * registers, too, where a part serves. True: a rescan may register more. */
static bool requests_count_use(struct domain *domain, const struct allocation *allocation,
			       struct region_reference *reference)
{
	struct region_reference *whole =
		reference->whole ? reference : region_find_whole(allocation, domain);
	struct region *region = whole ? whole->region : reference->region;
	bool again;

	/* No background registration would serve such requests. */
	if (reference->region->spans) {
		region_set_used(reference->region);
		return false;
	}
	again = choice_count_request(allocation, domain) &&
		domain_count_requested(domain, allocation->size);
	reference->used = true;
	region_set_used(reference->region);
	region_set_used(region);
	return again;
}

/* Hits may follow, because the reference has been used. */
static bool requests_add_client_mr(const struct registration_request *request,
				   struct region_reference *reference)
{
	uint64_t hold = holds_take(holds_of(reference));

	if (!hold)
		return false;
	if (!client_mr_add(request->client_mr, hold)) {
		holds_drop(hold);
		return false;
	}
	domain_enter_table(reference->region->domain);
	entry_publish(reference->region, reference);
	return true;
}

/* After a registration, or a wait for one: the lock was dropped. */
static enum outcome requests_take(const struct serving *serving, const struct region *region,
				  struct region_reference *reference)
{
	/* The region may remain for a neighbour alone: no free would then revoke the client MR. Or
	 * another client MR has taken its unique keys. */
	if (!memory_is_live(&serving->allocation) || region->ended || region_is_taken(region) ||
	    (region->spans && !span_is_live(region, serving->request->youngest)))
		return FORWARDED_freed;
	if (region->state != REGION_READY)
		return region->state == REGION_IDLE ? FORWARDED_pin_limit : FORWARDED_failed;
	return requests_add_client_mr(serving->request, reference) ? SERVED : FORWARDED_failed;
}

/* For the worker, after a served request. */
static void requests_queue_more(struct serving *serving, const struct region_reference *reference)
{
	struct domain *domain = reference->region->domain;

	registration_assert_held();
	if (serving->service != HIT && !reference->region->spans)
		region_end_parts(&serving->allocation, domain, reference->region, &serving->ending);
	if (domain_served(domain, &serving->allocation))
		serving->go |= background_queue_domain(domain);
}

/* Drops the lock while registering or waiting. */
static enum outcome requests_serve(struct serving *serving, struct registration_keys *keys)
{
	const struct registration_request *request = serving->request;
	struct region_reference *reference;
	struct domain *domain;
	struct region *region;
	bool rescan = false, gone = false, optional = false;
	enum outcome outcome;

	registration_assert_held();
	room_describe(serving->allocation.device);
	domain = domain_enable(request->pd, domain_access(request), &rescan);
	if (!domain)
		return FORWARDED_domain;
	domain->exports |= request->dma_buf;
	serving->enabled |= rescan;
	serving->go |= rescan && background_queue_domain(domain);
	/* A free is visible before registration_freeing() takes the lock. Either this check finds it,
	 * or registration_freeing() finds the reference created below. */
	if (!memory_is_live(&serving->allocation))
		return FORWARDED_freed;
	reference = serving->spans ? span_choose(&serving->allocation, domain, request,
						 &serving->ending, &gone)
				   : choice_of_allocation(&serving->allocation, domain, request,
							  serving->parts_only, &optional);
	if (!reference)
		return gone || !memory_is_live(&serving->allocation) ? FORWARDED_freed
								     : FORWARDED_failed;
	region = reference->region;
	if (requests_count_use(domain, &serving->allocation, reference))
		serving->go |= background_queue_domain(domain);
	region->users++;
	serving->service = requests_make_ready(serving, region, optional);
	outcome = requests_take(serving, region, reference);
	if (outcome == SERVED) {
		*keys = region->keys;
		requests_queue_more(serving, reference);
	}
	/* Not freed: so the reference is there. */
	if (outcome != SERVED && outcome != FORWARDED_freed && region->state != REGION_READY)
		choice_drop_failed(region, reference, &serving->ending);
	serving->parts_only |= optional && outcome == FORWARDED_pin_limit;
	region_release_user(region);
	return outcome;
}

/* Retry: while this thread waited the region may have ended, by an eviction or a neighbour's free.
 * Where the whole did not fit, or failed in place of a part, a part may. */
static enum outcome requests_serve_again(struct serving *serving, struct registration_keys *keys)
{
	enum outcome outcome;
	int tries = 0;
	bool only;

	do {
		/* A free may wait for these regions, and the next try for a registration. */
		region_flush(&serving->ending);
		only = serving->parts_only;
		outcome = requests_serve(serving, keys);
	} while (serving->parts_only != only || (outcome == FORWARDED_freed && tries++ < TRIES &&
						 memory_is_live(&serving->allocation)));
	return outcome;
}

static void requests_count_forwarded(const struct registration_request *request,
				     enum outcome reason)
{
	const char *text = "";

	statistics_count(forwarded);
	switch (reason) {
	case SERVED:
		break;
#define REASON(name)                                                                               \
	case FORWARDED_##name:                                                                     \
		statistics_count(forwarded_##name);                                                \
		text = "forwarded: " #name;                                                        \
		break;
		FORWARD_REASONS(REASON)
#undef REASON
	}
	requests_log(request, text);
	if (reason == FORWARDED_failed || reason == FORWARDED_domain)
		memory_report_refused("registered");
}

/* The mappings behind the first one. No client can use their region before. */
static enum outcome requests_check_span(const struct registration_request *request,
					struct allocation piece)
{
	do {
		if (!span_next(request, &piece))
			return FORWARDED_range;
		if (memory_is_verified() && !memory_check(&piece))
			return FORWARDED_verify;
		memory_used_by_adapter(&piece);
	} while (!span_ends_in(request, &piece));
	return SERVED;
}

/* SERVED: the request may be served. */
static enum outcome requests_check(struct serving *serving)
{
	const struct registration_request *request = serving->request;
	const struct allocation *allocation = &serving->allocation;
	bool found = memory_find(request->address, &serving->allocation);

	serving->spans = found && !span_ends_in(request, allocation);
	/* The memory was freed, or allocated after the client's dma-buf was exported. */
	if (request->youngest && (!found || request->youngest < allocation->id))
		return FORWARDED_freed;
	if (!found || (serving->spans && allocation->kind != ALLOCATION_MAPPED))
		return FORWARDED_range;
	if (!domain_may_share(request->access))
		return FORWARDED_flags;
	if (request->iova != request->address)
		return FORWARDED_address;
	if (!requests_suit(request, allocation))
		return FORWARDED_capability;
	if (memory_is_verified() && !memory_check(allocation))
		return FORWARDED_verify;
	return serving->spans ? requests_check_span(request, *allocation) : SERVED;
}

static enum outcome requests_try(struct serving *serving, struct registration_keys *keys)
{
	const struct registration_request *request = serving->request;
	const struct allocation *allocation = &serving->allocation;
	enum outcome outcome;

	if (request->dma_buf)
		ready_exports_expect();
	registration_lock();
	outcome = requests_serve_again(serving, keys);
	registration_unlock();
	region_unpin_all(&serving->ending);
	if (serving->go)
		worker_wake();
	if (serving->enabled)
		domain_log_enabled(domain_access(request));
	if (outcome == SERVED) {
		requests_count_served(serving->service);
		memory_used_by_adapter(allocation);
		requests_log(request, service_names[serving->service]);
	}
	if (serving->waited_since && trace_is_on())
		trace_span("wait", serving->waited_since, request->address, request->length,
			   allocation->device, outcome == SERVED ? "served" : "forwarded");
	return outcome;
}

bool registration_request(const struct registration_request *request,
			  struct registration_keys *keys)
{
	struct serving serving = { .request = request };
	enum outcome outcome = requests_check(&serving);

	statistics_tally(TALLY_requests);
	if (outcome == SERVED)
		outcome = requests_try(&serving, keys);
	if (outcome == FORWARDED_capability && serving.allocation.kind == ALLOCATION_MANAGED)
		log_once(LOG_WARN, "managed memory (cudaMallocManaged) is registered: adapters do "
				   "not reach it on the GPU, and peerpin forwards the call. "
				   "Register memory of cudaMalloc, and copy into it.");
	if (outcome != SERVED)
		requests_count_forwarded(request, outcome);
	statistics_snapshot();
	return outcome == SERVED;
}

static bool requests_may_hit(uint64_t traits)
{
	return (traits & TRAIT_USED) && (traits & TRAIT_ACCESSIBLE) &&
	       (traits & (TRAIT_RDMA_CAPABLE | TRAIT_INTEGRATED));
}

bool registration_hit(const struct registration_request *request, struct registration_keys *keys)
{
	const struct domain *domain;
	struct found found;
	uint64_t hold;

	/* Memory that adapters reach only by dma-buf has no hit by address. */
	if (!lookup(request->address, &found) || !request->length ||
	    request->iova != request->address || memory_is_verified() ||
	    !requests_may_hit(load_acquire(&found.record->traits)))
		return false;
	domain = domain_for_hit(request->pd, request->access);
	hold = domain ? entry_find_hold(domain, &found, request->address, request->length, keys)
		      : 0;
	hold = hold ? holds_take(hold) : 0;
	if (!hold)
		return false;
	/* The second look: the keys and the hold are of this allocation, in this domain. */
	if (!lookup_is_same(&found) || !domain_is_of(domain, request->pd, request->access) ||
	    !client_mr_add(request->client_mr, hold)) {
		holds_drop(hold);
		return false;
	}
	statistics_tally(TALLY_requests);
	statistics_tally(TALLY_hits);
	requests_log(request, service_names[HIT]);
	return true;
}
