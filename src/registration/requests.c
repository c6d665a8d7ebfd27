/* SPDX-License-Identifier: BSD-3-Clause */
/* requests.c -- client requests, and their service from regions */
#include "base/atomics.h"
#include "base/log.h"
#include "base/system.h"
#include "memory/lookup.h"
#include "registration/background.h"
#include "registration/client_mr.h"
#include "registration/domain.h"
#include "registration/domain_enable.h"
#include "registration/holds.h"
#include "registration/keys.h"
#include "registration/learning.h"
#include "registration/ready_exports.h"
#include "registration/region.h"
#include "registration/region_choice.h"
#include "registration/region_life.h"
#include "registration/region_use.h"
#include "registration/room.h"
#include "registration/session.h"
#include "registration/spans.h"
#include "report/statistics.h"
#include "report/trace.h"

#define TRIES 3 /* of a request whose region another thread ends */

/* Reasons of forwarded requests, each with a counter. */
#define BYPASS_REASONS(REASON)                                                                     \
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
	BYPASS_REASONS(REASON)
#undef REASON
};

/* Call without the lock, as all logging: a log write may block. */
static void requests_log(const struct registration_request *request, const char *answer)
{
	log_message(LOG_TRACE, "request 0x%llx, %llu bytes, access flags 0x%x: %s",
		    (unsigned long long)request->address, (unsigned long long)request->length,
		    (unsigned int)request->access, answer);
}

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
	bool parts_only;       /* see region_choose() */
	uint64_t waited_since; /* 0: no wait */
	bool enabled;
	enum service service; /* if served */
};

/* Brings the region to READY if possible. registration_lock is held, and dropped meanwhile. The
 * caller is one of the region's users. */
static enum service requests_make_ready(struct serving *serving, struct region *region,
					bool optional)
{
	enum service service = !region->spans && region_is_queued(&serving->allocation)
				       ? SYNCHRONOUS_QUEUED
				       : SYNCHRONOUS;
	uint64_t start;

	if (region->state == REGION_READY)
		return HIT;
	if (region->state == REGION_REGISTERING) {
		start = serving->waited_since = system_clock();
		region_await_settled(region);
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
	statistics_time(program_ns, region_register(region, serving->request, optional),
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

/* Learns from the first request for the allocation in this domain: for the whole that the worker
 * registers, too, where a part serves. True: a rescan may register more. */
static bool requests_learn(struct domain *domain, const struct allocation *allocation,
			   struct region_reference *reference)
{
	struct region_reference *whole =
		reference->whole ? reference : region_find_whole(allocation, domain);
	struct region *region = whole ? whole->region : reference->region;
	bool again = false, first;

	/* No background registration would serve such requests. */
	if (reference->region->spans) {
		region_set_used(reference->region);
		return false;
	}
	first = region_count_request(allocation, domain);
	/* A speculative region settles its evidence once. */
	if (region->learning_kind.evidence == EVIDENCE_NONE ? first : !region->used)
		again = learning_requested(domain, allocation, &region->learning_kind);
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
	keys_publish(reference->region, reference);
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

/* For the worker, after a served request. registration_lock is held. */
static void requests_queue_more(struct serving *serving, const struct region_reference *reference)
{
	struct domain *domain = reference->region->domain;

	if (serving->service != HIT && reference->whole)
		region_end_parts(&serving->allocation, domain);
	if (domain_served(domain, &serving->allocation))
		serving->go |= background_queue_domain(domain);
	if (serving->service != HIT && !reference->whole && !reference->region->spans &&
	    !serving->parts_only && region_wants_whole(&serving->allocation, domain))
		serving->go |= background_queue_requested(&serving->allocation);
}

/* registration_lock is held, and dropped while registering or waiting. */
static enum outcome requests_serve(struct serving *serving, struct registration_keys *keys)
{
	const struct registration_request *request = serving->request;
	struct region_reference *reference;
	struct domain *domain;
	struct region *region;
	bool rescan = false, gone = false;
	enum region_choice choice = CHOICE_PART;
	enum outcome outcome;

	room_describe(serving->allocation.device);
	domain = domain_enable(request->pd, domain_access(request), false, &rescan);
	if (!domain)
		return FORWARDED_domain;
	domain->exports = request->dma_buf;
	serving->enabled |= rescan;
	serving->go |= rescan && background_queue_domain(domain);
	/* A free is visible before subscriber_freeing() takes the lock. Either this check finds it,
	 * or subscriber_freeing() finds the reference created below. */
	if (!memory_is_live(&serving->allocation))
		return FORWARDED_freed;
	reference = serving->spans ? span_choose(&serving->allocation, domain, request, &gone)
				   : region_choose(&serving->allocation, domain, request,
						   serving->parts_only, &choice);
	if (!reference)
		return gone || !memory_is_live(&serving->allocation) ? FORWARDED_freed
								     : FORWARDED_failed;
	region = reference->region;
	if (requests_learn(domain, &serving->allocation, reference))
		serving->go |= background_queue_domain(domain);
	region->users++;
	serving->service = requests_make_ready(serving, region, choice == CHOICE_OPTIONAL);
	outcome = requests_take(serving, region, reference);
	if (outcome == SERVED) {
		*keys = region->keys;
		requests_queue_more(serving, reference);
	}
	/* Not freed: so the reference is there. */
	if (outcome != SERVED && outcome != FORWARDED_freed && region->state != REGION_READY)
		region_drop_failed(region, reference);
	serving->parts_only |= choice != CHOICE_PART && outcome == FORWARDED_pin_limit;
	region_release_user(region);
	return outcome;
}

/* Retry: while this thread waited the region may have ended, by an eviction or a neighbour's free.
 * Where the whole did not fit, or failed in place of a part, a part may. registration_lock is held.
 */
static enum outcome requests_serve_again(struct serving *serving, struct registration_keys *keys)
{
	enum outcome outcome;
	int tries = 0;
	bool only;

	do {
		/* A free may wait for these regions, and the next try for a registration. */
		session_flush();
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
		BYPASS_REASONS(REASON)
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
	if (!region_suits(request, allocation))
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
	session_begin();
	outcome = requests_serve_again(serving, keys);
	session_end();
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
	hold = domain ? keys_find_hold(domain, &found, request->address, request->length, keys) : 0;
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
