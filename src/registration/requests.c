/* SPDX-License-Identifier: BSD-3-Clause */
/* requests.c -- client requests, and their service from regions
 *
 * From top to bottom: the domain of a request, the range that serves it, the mappings that it
 * needs, the registration of that range, and the request: a look at the entry of its allocation,
 * the wait for another thread's flight or an own one, and the client MR. Hits, which take no lock,
 * are at the end, after a client's exports of dma-bufs.
 */
#include <errno.h>
#include <stdio.h>

#include "base/atomics.h"
#include "base/config.h"
#include "base/log.h"
#include "base/process.h"
#include "base/system.h"
#include "memory/driver.h"
#include "memory/lookup.h"
#include "registration/adapter.h"
#include "registration/background.h"
#include "registration/client_mr.h"
#include "registration/domain.h"
#include "registration/entry.h"
#include "registration/lock.h"
#include "registration/pinning.h"
#include "registration/ready_exports.h"
#include "registration/region.h"
#include "registration/registration.h"
#include "registration/room.h"
#include "report/callers.h"
#include "report/statistics.h"
#include "report/trace.h"

#define TRIES 3 /* of a request whose flight another thread ends */

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

	/* Flights in the expected domain may come before the first request. */
	dma_buf_expect_forks();
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
 * whole does not fit, or fails, in the place of an idle one; while client MRs hold all parts,
 * requests register the whole or are forwarded. With unique keys there are parts alone: each client
 * MR needs a region of its own, also of a range that has one.
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

/* With unique keys: a client MR has the region's keys. Such a domain has no hits, so all its holds
 * are taken with the lock held. */
static bool choice_is_taken(const struct region *region)
{
	return region->owner->own_keys && region_is_held(region);
}

static bool choice_is_better(const struct region *one, const struct region *other, bool smallest)
{
	return !other || (smallest ? one->length < other->length : one->length > other->length);
}

/* Of the entry: a region for [address, address + length); NULL: none. */
static struct region *choice_find(const struct domain *domain, const struct entry *entry,
				  uint64_t address, uint64_t length)
{
	struct entry_walk walk = entry_walk(domain, entry);
	struct region *region, *best = NULL;

	while ((region = entry_next(&walk))) {
		if (region_contains(region, address, length) && !choice_is_taken(region) &&
		    choice_is_better(region, best, domain->owner->own_keys))
			best = region;
	}
	return best;
}

/* Likewise, or a neighbour's region of that range, which the entry names from now on. */
static struct region *choice_find_or_share(struct domain *domain, CUcontext context,
					   struct entry *entry, uint64_t address, uint64_t length,
					   const struct region_range *range, struct region **ending)
{
	struct region *region = choice_find(domain, entry, address, length);

	if (region)
		return region;
	region = region_find_shared(domain, context, range);
	return region && entry_name(domain, entry, region, range, ending) ? region : NULL;
}

/* The part, joined with the nearest one where both make up at least half of that. */
static struct region_range choice_hull(const struct allocation *allocation,
				       const struct domain *domain, const struct entry *entry,
				       const struct region_range *part)
{
	uint64_t end = part->base + part->length, first, last, least = UINT64_MAX;
	struct entry_walk walk = entry_walk(domain, entry);
	struct region_range hull = *part;
	const struct region *other;

	while ((other = entry_next(&walk))) {
		first = other->base < part->base ? other->base : part->base;
		last = other->base + other->length > end ? other->base + other->length : end;
		if (last - first > 2 * (part->length + other->length) || last - first >= least)
			continue;
		least = last - first;
		hull = choice_join(allocation, domain, first, last);
	}
	return hull;
}

/* The range to register for a request whose own range is `part`. */
static struct region_range choice_extend(const struct allocation *allocation,
					 const struct domain *domain, const struct entry *entry,
					 const struct region_range *part)
{
	struct region_range whole = region_whole_of(allocation, domain), hull;

	if (part->whole || domain->owner->own_keys || allocation->integrated)
		return *part;
	if ((whole.length <= POLICY_WHOLE || whole.length <= POLICY_TIMES * part->length ||
	     entry->made == POLICY_PARTS) &&
	    !entry->whole_failures && entry_has_place(domain, entry, &whole) &&
	    room_has(domain->owner->adapter, allocation->device, whole.length))
		return whole;
	hull = entry->made < POLICY_PARTS ? choice_hull(allocation, domain, entry, part) : *part;
	return room_has(domain->owner->adapter, allocation->device, hull.length) ? hull : *part;
}

/* A client requests the allocation in this domain. True: for the first time, which is counted. */
static bool choice_count_request(const struct allocation *allocation, struct entry *entry)
{
	registration_assert_held();
	if (entry->requested)
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
 * The span is in a list of its domain, and ends with the first of its mappings. So a span serves
 * only requests that need all its mappings: the unmap of another one would revoke their client MRs.
 * A request for more mappings registers another span; the shorter one stays idle.
 *
 * No client MR outlives a mapping. A span serves a request if the mappings are those of its
 * registration, by their ids. The end of a mapping (cuMemUnmap, a loss
 * of access) first ends the record, then takes the lock, ends the spans and the flights that need
 * it, and returns when they are deregistered. Hits of spans take the hold with the lock held,
 * before or after that. No entry publishes a span for hits without the lock.
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

struct mappings {
	struct region_range range; /* from the first to the last */
	uint64_t ids;		   /* their sum: an id at an address only grows */
	bool dma_buf_only;	   /* adapters reach one of them by dma-bufs alone */
};

/* The mappings of the request. False: one between has ended, and may be back already. */
static bool span_find_mappings(const struct registration_request *request,
			       const struct allocation *first, struct mappings *mappings)
{
	struct allocation piece = *first;
	bool more;

	*mappings = (struct mappings){ .range = { .base = first->base, .spans = true } };
	do {
		mappings->ids += piece.id;
		mappings->dma_buf_only |= !memory_is_registrable(&piece);
		more = !span_ends_in(request, &piece);
		if (more && !span_next(request, &piece))
			return false;
	} while (more);
	mappings->range.length = span_piece_end(&piece) - first->base;
	return true;
}

static struct region *span_find(const struct domain *domain,
				const struct registration_request *request,
				const struct mappings *mappings)
{
	const struct region_range *limit = &mappings->range;
	struct region *region, *best = NULL;

	LIST_FOREACH(region, &domain->spans, in_entry) {
		if (region_contains(region, request->address, request->length) &&
		    region->base >= limit->base &&
		    region->base + region->length <= limit->base + limit->length &&
		    !choice_is_taken(region) && choice_is_better(region, best, true))
			best = region;
	}
	return best;
}

/* After the registration: true if the mappings are those from before. Counts the request
 * for each. */
static bool span_is_valid(const struct registration_request *request,
			  const struct allocation *first, struct domain *domain,
			  const struct region *region, struct region **ending)
{
	struct allocation piece = *first;
	struct mappings mappings;
	struct entry *entry;

	if (!span_find_mappings(request, first, &mappings) || mappings.ids != region->ids ||
	    region->base + region->length > mappings.range.base + mappings.range.length)
		return false;
	for (;;) {
		entry = entry_claim(domain, &piece, ending);
		if (!entry)
			return false;
		choice_count_request(&piece, entry);
		entry->made += entry->made < POLICY_PARTS;
		if (span_ends_in(request, &piece))
			return true;
		if (!span_next(request, &piece))
			return false;
	}
}

/* ---- a registration ----
 *
 * The thread notes the flight, registers without the lock, and looks again: another thread may have
 * registered meanwhile, or ended the flight.
 */

/* Evictions for one registration that the adapter refuses. Each evicts twice as many bytes as the
 * last. */
#define EVICTIONS_MAX 4

/* Beside the methods' errors. */
#define NO_ROOM (-EDQUOT)    /* within the pin limit */
#define ENDED	(-ECANCELED) /* by a free, or with its protection domain */

/* A registration to make. */
struct miss {
	struct domain *domain;
	const struct allocation *allocation;
	struct region_range range;
	const struct registration_request *client; /* NULL: the worker, or an allocation */
	bool optional;	   /* the client has a smaller range: neither an eviction nor a warning */
	bool dma_buf_only; /* adapters reach a mapping of the span by dma-bufs alone */
	uint64_t ids;	   /* of the mappings of the span */
	struct region **ending;
	struct dma_buf source; /* the client's, or exported for this registration; length 0: none */
	uint64_t duration;     /* ns, once made or failed */
};

static struct pin_request miss_pin_request(const struct miss *miss, const struct region *region)
{
	return (struct pin_request){ .pd = region->owner->pd,
				     .base = region->base,
				     .length = region->length,
				     .access = miss->domain->access & ~DOMAIN_PCIE,
				     .pcie = miss->domain->access & DOMAIN_PCIE,
				     .device = region->device,
				     .context = region->context,
				     .dma_buf_only = region->dma_buf_only,
				     .own_blocks = region->context && !region->dma_buf_only &&
						   region->size >= BLOCK,
				     .by_address = miss->client && !miss->client->dma_buf,
				     .source = miss->source };
}

static int miss_pin(const struct miss *miss, struct region *region, struct pin_result *result)
{
	struct pin_request request = miss_pin_request(miss, region);
	uint64_t start = system_clock();
	int error;

	region_flush(miss->ending);
	registration_unlock();
	error = pinning_pin(&request, result);
	region->method = result->method;
	region->from_source = !error && result->from_source;
	region_report_registered(&request, error, &result->failure, start);
	registration_lock();
	return error;
}

/* Reserves the region's bytes, after evictions for a client that waits. The evicted bytes are
 * counted before the lock is dropped. */
static int miss_reserve(const struct miss *miss, struct region *region)
{
	bool fits;

	adapter_describe(region->owner->adapter, region->device);
	room_describe(region->device);
	if (region->ended)
		return ENDED;
	fits = room_fits(region);
	if (!fits && miss->client && !miss->optional)
		fits = room_make_for(region, miss->ending);
	if (fits)
		room_reserve(region);
	else
		statistics_count(over_pin_limit);
	return fits ? 0 : NO_ROOM;
}

static void miss_report(const struct miss *miss, const struct region *region, int error,
			const struct pin_result *result, uint64_t learnt)
{
	const struct adapter *adapter = region->owner->adapter;
	struct errors_room room = { .regions = adapter_regions(adapter),
				    .region_limit = adapter->region_limit,
				    .bar1 = room_bar1(region->device) };

	registration_unlock();
	region_report_pin_limit(region->device, learnt);
	/* Of the worker's failures clients notice nothing. */
	if (error && miss->client && !result->reported)
		region_log_failure(region, error, result->failure, &room);
	registration_lock();
}

/* A lack of memory is no evidence against spans, nor are further failures of one first mapping. */
static void miss_count_failure(const struct miss *miss, int error)
{
	struct entry *entry = entry_of(miss->domain, miss->allocation);
	uint8_t *of_spans = &miss->domain->span_failures;

	if (!own_thread_is_done())
		region_count_failure(-error);
	if (pinning_may_succeed_later(error) || !entry || (miss->optional && !miss->range.whole))
		return;
	if (entry_count_failure(entry, miss->range.whole) && miss->range.spans &&
	    error != -ENOMEM && *of_spans < POLICY_FAILURES)
		++*of_spans;
}

/* Sets the region's MR and keys. */
static int miss_make(const struct miss *miss, struct region *region)
{
	uint64_t bytes = region->length, learnt = 0;
	struct pin_result result;
	int error = miss_reserve(miss, region);

	if (error)
		return error;
	error = miss_pin(miss, region, &result);
	for (int i = miss->optional ? EVICTIONS_MAX : 0;
	     error == -ENOMEM && !region->ended && i < EVICTIONS_MAX; i++, bytes *= 2) {
		learnt = room_refused(region);
		if (!miss->client ||
		    !room_make(region->owner->adapter, region->device, bytes, miss->ending))
			break;
		error = miss_pin(miss, region, &result);
	}
	if (!error && miss->client)
		room_granted(region);
	if ((error && !miss->optional) || learnt)
		miss_report(miss, region, error, &result, learnt);
	if (error) {
		miss_count_failure(miss, error);
		return error;
	}
	region->mr = result.mr;
	region->keys = (struct registration_keys){ .kernel_handle = result.mr->handle,
						   .lkey = result.mr->lkey,
						   .rkey = result.mr->rkey };
	statistics_count(registrations);
	statistics_pinned((int64_t)region->length);
	return 0;
}

/* The region of another thread that has the range; NULL: none. */
static struct region *miss_find_other(const struct miss *miss, struct entry *entry)
{
	const struct region_range *range = &miss->range;

	if (!entry || range->spans || miss->domain->owner->own_keys)
		return NULL;
	return choice_find_or_share(miss->domain, miss->allocation->context, entry, range->base,
				    range->length, range, miss->ending);
}

/* Without a client: exports the memory first. Requests do not wait for that, and register. */
static void miss_export(struct miss *miss, struct region *region)
{
	struct pin_request request = miss_pin_request(miss, region);

	region_flush(miss->ending);
	if (region->ended || !room_fits(region))
		return;
	registration_unlock();
	pinning_prepare(&request);
	registration_lock();
	miss->source = request.source;
}

/* Before the flight is over: an open dma-buf keeps freed memory allocated. */
static void miss_close_export(struct miss *miss)
{
	if (miss->client || !miss->source.length)
		return;
	registration_unlock();
	dma_buf_close(&miss->source.file);
	registration_lock();
	miss->source.length = 0;
}

/* The flight is over: the entry names its region, or that of another thread. */
static struct region *miss_settle(struct miss *miss, struct region *region)
{
	struct entry *entry = NULL;
	struct region *other;
	bool named;

	if (!region->ended)
		entry = entry_claim(miss->domain, miss->allocation, miss->ending);
	other = miss_find_other(miss, entry);
	region->used |= other || (entry && entry->requested);
	named = entry && !other &&
		(miss->range.spans
			 ? span_is_valid(miss->client, miss->allocation, miss->domain, region,
					 miss->ending)
			 : entry_name(miss->domain, entry, region, &miss->range, miss->ending));
	if (!named) {
		region_end(region, miss->ending);
		return other;
	}
	region_enter(region);
	ready_export_keep(region, &miss->source);
	if (region->spans)
		miss->domain->span_failures = SPANS_WORK;
	return region;
}

/* Registers the range, and drops the lock meanwhile. The driver may reach a cancellation point, and
 * frees wait for the flight: cancellation is held. NULL: *error. */
static struct region *miss_register(struct miss *miss, int *error)
{
	struct region *region = region_begin(miss->domain, miss->allocation, &miss->range), *other;
	uint64_t start = system_clock();
	bool flying = false;
	int held;

	registration_assert_held();
	*error = -ENOMEM;
	if (!region)
		return NULL;
	held = system_hold_cancellation();
	region->used = miss->client;
	region->speculative = !miss->client;
	region->dma_buf_only |= miss->dma_buf_only;
	region->ids = miss->ids;
	if (!miss->client) {
		region->exporting = true;
		miss_export(miss, region);
		flying = region_find_flight(miss->domain, &miss->range);
		region->exporting = false;
	}
	other = miss_find_other(miss, entry_of(miss->domain, miss->allocation));
	*error = other || flying || region->ended ? ENDED : miss_make(miss, region);
	if (*error || region->ended || !ready_export_fits(region, &miss->source))
		miss_close_export(miss);
	miss->duration = system_clock() - start;
	region->background_ns = miss->client ? 0 : miss->duration;
	if (*error) {
		*error = region->ended ? ENDED : *error;
		region_abandon(region);
		region = NULL;
	} else {
		region = miss_settle(miss, region);
		*error = region ? 0 : ENDED;
	}
	/* Neither the region nor another one keeps the worker's dma-buf. Without the lock the
	 * region may end. */
	if (!miss->client && miss->source.length) {
		miss_close_export(miss);
		region = NULL;
		*error = ENDED;
	}
	system_release_cancellation(held);
	return region;
}

struct region *requests_register_whole(struct domain *domain, const struct allocation *allocation,
				       uint64_t *duration, struct region **ending)
{
	struct miss miss = { .domain = domain,
			     .allocation = allocation,
			     .range = region_whole_of(allocation, domain),
			     .ending = ending };
	struct entry *entry = entry_claim(domain, allocation, ending);
	struct region *region = NULL;
	int error = 0;

	registration_assert_held();
	*duration = 0;
	if (!entry || entry->made || entry->whole_failures ||
	    entry_whole(domain, entry, &miss.range) || region_find_flight(domain, &miss.range) ||
	    miss_find_other(&miss, entry))
		return NULL;
	region = miss_register(&miss, &error);
	*duration = miss.duration;
	if (region)
		entry_end_parts(domain, entry, region, ending);
	else if (error != ENDED)
		domain_count_vain(domain, allocation->size);
	return region;
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
	bool parts_only;       /* a longer range than the request's did not fit, or failed */
	bool again;	       /* after a wait */
	uint64_t waited_since; /* 0: no wait */
	uint64_t waited;       /* ns, of all waits */
	bool enabled;
	enum service service;  /* if served */
	struct region *ending; /* ended meanwhile, to deregister without the lock */
};

/* What a look finds: a region; a range to register; another thread's flight of that range; nothing
 * to try; mappings that have changed. */
enum look { FOUND, MISSING, FLYING, REFUSED, GONE };

/* With unique keys the other's region would not serve. */
static bool requests_is_flying(const struct domain *domain, const struct region_range *range)
{
	return !domain->owner->own_keys && region_find_flight(domain, range);
}

static enum look requests_look(struct miss *miss, struct entry *entry, bool parts_only,
			       struct region **found)
{
	const struct allocation *allocation = miss->allocation;
	const struct registration_request *request = miss->client;
	struct region_range part = region_whole_of(allocation, miss->domain);

	if (request->length < allocation->size)
		part = region_range_of(allocation, miss->domain, request->address, request->length);
	miss->range = part;
	*found = choice_find_or_share(miss->domain, allocation->context, entry, request->address,
				      request->length, &part, miss->ending);
	if (*found)
		return FOUND;
	if (requests_is_flying(miss->domain, &part))
		return FLYING;
	if (!entry_may_try(entry, part.whole))
		return REFUSED;
	if (!parts_only)
		miss->range = choice_extend(allocation, miss->domain, entry, &part);
	miss->optional = miss->range.length > part.length;
	/* Client MRs hold all parts. */
	if (!entry_has_place(miss->domain, entry, &miss->range) && !entry->whole_failures) {
		miss->range = region_whole_of(allocation, miss->domain);
		miss->optional = false;
	}
	if (requests_is_flying(miss->domain, &miss->range))
		return FLYING;
	return entry_has_place(miss->domain, entry, &miss->range) ? MISSING : REFUSED;
}

static enum look requests_look_for_span(struct miss *miss, struct entry *entry,
					struct region **found)
{
	const struct registration_request *request = miss->client;
	const struct domain *domain = miss->domain;
	struct mappings mappings;

	if (!span_find_mappings(request, miss->allocation, &mappings))
		return GONE;
	miss->range = span_range(request, &mappings.range);
	miss->dma_buf_only = mappings.dma_buf_only;
	miss->ids = mappings.ids;
	*found = span_find(domain, request, &mappings);
	/* The event of a former mapping waits for the lock. */
	if (*found)
		return (*found)->ids != mappings.ids ? GONE : FOUND;
	if (requests_is_flying(domain, &miss->range))
		return FLYING;
	if (domain->span_failures != SPANS_WORK && domain->span_failures >= POLICY_FAILURES)
		return REFUSED;
	return entry_may_try(entry, false) ? MISSING : REFUSED;
}

/* For the next registration_wake(); the request then looks again. */
static void requests_wait(struct serving *serving)
{
	uint64_t start = system_clock();

	serving->again = true;
	if (!serving->waited_since)
		serving->waited_since = start;
	if (serving->ending)
		region_flush(&serving->ending);
	else
		registration_sleep();
	serving->waited += system_clock() - start;
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

/* A request, before its region is looked at or registered. No background registration would serve
 * requests for several mappings. */
static void requests_count_use(struct serving *serving, struct domain *domain, struct entry *entry)
{
	if (serving->spans || !choice_count_request(&serving->allocation, entry))
		return;
	if (domain_count_requested(domain, serving->allocation.size))
		serving->go |= background_queue_domain(domain);
}

/* Hits may follow, because the allocation has been requested. The whole that the worker registered
 * was of use, too, where a part serves. */
static enum outcome requests_take(const struct serving *serving, struct region *region)
{
	struct entry *entry = entry_of(region->domain, &serving->allocation);
	struct region_range range;
	struct region *whole;
	uint64_t hold;

	/* The freeing event waits for the lock. */
	if (!entry || !memory_is_live(&serving->allocation))
		return FORWARDED_freed;
	hold = holds_take(holds_of(region->hits));
	if (!hold)
		return FORWARDED_failed;
	if (!client_mr_add(serving->request->client_mr, hold)) {
		holds_drop(hold);
		return FORWARDED_failed;
	}
	region_set_used(region);
	range = region_whole_of(&serving->allocation, region->domain);
	whole = region->spans ? NULL : entry_whole(region->domain, entry, &range);
	if (whole)
		region_set_used(whole);
	domain_enter_table(region->domain);
	entry_publish(entry, region);
	return SERVED;
}

/* The range of a miss; drops the lock meanwhile. */
static enum outcome requests_register(struct serving *serving, struct miss *miss,
				      struct region **region)
{
	int error;

	serving->service = !serving->spans && background_is_queued(&serving->allocation)
				   ? SYNCHRONOUS_QUEUED
				   : SYNCHRONOUS;
	*region = miss_register(miss, &error);
	statistics_time(program_ns, miss->duration, registration_program_ns);
	serving->parts_only |= error && error != ENDED && miss->optional;
	return !error		  ? SERVED
	       : error == ENDED	  ? FORWARDED_freed
	       : error == NO_ROOM ? FORWARDED_pin_limit
				  : FORWARDED_failed;
}

/* Drops the lock while registering or waiting. */
static enum outcome requests_serve(struct serving *serving, struct registration_keys *keys)
{
	const struct registration_request *request = serving->request;
	struct miss miss = { .allocation = &serving->allocation,
			     .client = request,
			     .ending = &serving->ending,
			     .source = request->source };
	enum outcome outcome = SERVED;
	struct region *region = NULL;
	struct entry *entry;
	bool rescan = false;
	enum look look;

	registration_assert_held();
	room_describe(serving->allocation.device);
	miss.domain = domain_enable(request->pd, domain_access(request), &rescan);
	if (!miss.domain)
		return FORWARDED_domain;
	miss.domain->exports |= request->dma_buf;
	serving->enabled |= rescan;
	serving->go |= rescan && background_queue_domain(miss.domain);
	/* A free is visible before registration_freeing() takes the lock. Either this check finds
	 * it, or registration_freeing() finds the entry claimed below. */
	if (!memory_is_live(&serving->allocation))
		return FORWARDED_freed;
	entry = entry_claim(miss.domain, &serving->allocation, &serving->ending);
	if (!entry)
		return FORWARDED_failed;
	look = serving->spans ? requests_look_for_span(&miss, entry, &region)
			      : requests_look(&miss, entry, serving->parts_only, &region);
	if (look == FLYING) {
		requests_wait(serving);
		return FORWARDED_freed;
	}
	if (look == REFUSED || look == GONE)
		return look == GONE ? FORWARDED_freed : FORWARDED_failed;
	requests_count_use(serving, miss.domain, entry);
	serving->service = serving->waited_since ? WAITED : HIT;
	if (look == MISSING)
		outcome = requests_register(serving, &miss, &region);
	if (outcome == SERVED)
		outcome = requests_take(serving, region);
	if (outcome != SERVED)
		return outcome;
	*keys = region->keys;
	if (look == MISSING && !serving->spans)
		entry_end_parts(miss.domain, entry, region, &serving->ending);
	if (domain_served(miss.domain, &serving->allocation))
		serving->go |= background_queue_domain(miss.domain);
	return SERVED;
}

/* Retry: while this thread waited, or registered, the memory may have been freed, or the protection
 * domain closed and restored. Where the whole did not fit, or failed in place of a part, a part
 * may.
 */
static enum outcome requests_serve_again(struct serving *serving, struct registration_keys *keys)
{
	enum outcome outcome;
	int tries = 0;
	bool only;

	do {
		/* A free may wait for these regions, and the next try for a registration. */
		region_flush(&serving->ending);
		only = serving->parts_only;
		serving->again = false;
		outcome = requests_serve(serving, keys);
	} while (serving->again || serving->parts_only != only ||
		 (outcome == FORWARDED_freed && tries++ < TRIES &&
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

	/* Without an expected domain the first flight of the process follows. */
	dma_buf_expect_forks();
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
	if (serving->waited) {
		statistics_add(program_ns, serving->waited);
		statistics_time(waited_ns, serving->waited, wait_ns);
	}
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

/* ---- exports ---- */

/* The driver exports only while a context of the device is current (measured). Negative: it would
 * export nothing. */
static int requests_exporting_device(void)
{
	const struct driver_calls *driver = driver_calls();
	CUdevice current;

	return driver->cuCtxGetDevice && driver->cuCtxGetDevice(&current) == CUDA_SUCCESS &&
			       !captures_may_be_open()
		       ? current
		       : -1;
}

int registration_export(const struct found_export *wanted)
{
	struct found_export made = *wanted;
	struct held_file file;
	int fd, device;

	if (!ready_exports_are_expected() || memory_is_verified())
		return -1;
	device = requests_exporting_device();
	if (device < 0)
		return -1;
	registration_lock();
	for (;;) {
		made.youngest = memory_youngest();
		fd = ready_export_copy(wanted, device, &file);
		if (fd >= 0 ||
		    !region_any_flight(wanted->address, wanted->size, device, wanted->pcie))
			break;
		registration_sleep();
	}
	registration_unlock();
	if (fd < 0)
		return -1;
	memory_exported_again(file.device, file.inode, &made);
	statistics_count(exports_ready);
	return fd;
}

/* ---- hits ---- */

/* A range rounded up beyond the end of the allocation. */
static __attribute__((noinline)) bool requests_is_in_extent(const struct found *found,
							    uint64_t traits, uint64_t length)
{
	struct allocation allocation = { .kind = traits_kind(traits), .size = found->size };

	return length <= memory_extent(&allocation) - found->offset;
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
	uint64_t hold, traits;

	/* Memory that adapters reach only by dma-buf has no hit by address. */
	if (!lookup(request->address, &found) || !request->length ||
	    request->iova != request->address || memory_is_verified())
		return false;
	traits = load_acquire(&found.record->traits);
	if (!requests_may_hit(traits) || (request->length > found.size - found.offset &&
					  !requests_is_in_extent(&found, traits, request->length)))
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
