/* SPDX-License-Identifier: BSD-3-Clause */
/* requests.c -- client requests, and their service from regions */
#include "base/atomics.h"
#include "registration/registration.h"

#include "base/config.h"
#include "base/log.h"
#include "base/object.h"
#include "memory/lookup.h"
#include "registration/internal.h"
#include "registration/client_mr.h"
#include "registration/holds.h"
#include "report/statistics.h"
#include "report/trace.h"

/* Failed registrations of a region after which its requests are forwarded at once. */
#define TRIES 3

/* Reasons of bypassed requests, each with a counter. */
#define BYPASS_REASONS(REASON)                                                                     \
	REASON(range)                                                                              \
	REASON(flags)                                                                              \
	REASON(address)                                                                            \
	REASON(capability)                                                                         \
	REASON(verify)                                                                             \
	REASON(domain)                                                                             \
	REASON(freed)                                                                              \
	REASON(pin_limit)                                                                          \
	REASON(keys)                                                                               \
	REASON(failed)

enum outcome {
	SERVED,
#define REASON(name) BYPASSED_##name,
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
	return false;
}

/* How a served request found its region. */
enum service { HIT, WAITED, SYNCHRONOUS_QUEUED, SYNCHRONOUS };

static const char service_names[][40] = { "hit", "waited for the worker",
					  "registered synchronously, queued before",
					  "registered synchronously" };

/* Brings the region to READY if possible. registration_lock is held, and dropped meanwhile. The
 * caller is one of the region's users. */
static enum service requests_make_ready(struct region *region, const struct allocation *allocation,
					uint64_t *waited_since)
{
	enum service service = region_is_queued(allocation) ? SYNCHRONOUS_QUEUED : SYNCHRONOUS;
	uint64_t start;

	if (region->state == REGION_READY ||
	    (region->state == REGION_FAILED && region->failures >= TRIES))
		return HIT;
	if (region->state == REGION_REGISTERING) {
		start = *waited_since = statistics_clock();
		region_await_settled(region);
		start = statistics_clock() - start;
		statistics_add(program_ns, start);
		statistics_time(waited_ns, start, wait_ns);
		service = WAITED;
	}
	if (region->ended || region->state == REGION_READY)
		return service;
	/* A background registration never evicts. A synchronous one may, so it can succeed after
	 * the worker's failure. */
	region->state = REGION_REGISTERING;
	statistics_time(program_ns, region_register(region, true), registration_program_ns);
	return service;
}

static void requests_count_served(enum service service)
{
	switch (service) {
	case HIT:
		statistics_tally(TALLY_hits);
		break;
	case WAITED:
		statistics_count(waited);
		break;
	case SYNCHRONOUS_QUEUED:
		statistics_count(synchronous_queued);
		break;
	case SYNCHRONOUS:
		statistics_count(synchronous);
		break;
	}
}

/* Learns from the first request for the allocation in this domain. True: a rescan may register
 * more. */
static bool requests_learn(struct domain *domain, const struct allocation *allocation,
			   struct region_reference *reference)
{
	struct region *region = reference->region;
	bool again = false;

	if (!reference->used && (!region->used || region->kind.evidence == EVIDENCE_NONE))
		again = learning_requested(domain, allocation, &region->kind);
	if (!reference->used) {
		statistics_add(requested_bytes, allocation->size);
		statistics_sort(used_bytes, allocation->size);
	}
	reference->used = true;
	region_set_used(region);
	return again;
}

/* libfabric indexes registrations by key (util_mr_map.c) and rejects a duplicate key. Without the
 * lock. */
static bool requests_need_own_keys(void)
{
	static _Atomic uint64_t answer;
	enum unique_keys mode = config_get()->unique_keys;

	return mode == UNIQUE_KEYS_YES ||
	       (mode == UNIQUE_KEYS_AUTO && object_is_loaded("libfabric.so", &answer));
}

/* Another client MR has the keys, in a protection domain with unique keys. Such a domain has no
 * hits: all its holds are taken with the lock held. */
static bool requests_keys_are_taken(const struct region *region)
{
	return region->owner->own_keys && region_is_held(region);
}

/* Hits may follow, because the reference has been used. */
static bool requests_add_client_mr(const struct registration_request *request,
				   struct region_reference *reference)
{
	uint64_t hold = holds_of(reference);

	if (!holds_take(hold))
		return false;
	if (!client_mr_add(request->client_mr, hold)) {
		holds_drop(hold);
		return false;
	}
	domain_enter_table(reference->region->domain);
	keys_publish(reference->region, reference);
	return true;
}

struct serving {
	const struct registration_request *request;
	struct allocation allocation;
	bool own_keys;
	bool go;	       /* work is queued */
	uint64_t waited_since; /* 0: no wait */
	bool enabled;
	enum service service; /* of a served request */
};

static enum outcome requests_outcome_of(const struct region *region)
{
	if (region->ended)
		return BYPASSED_freed;
	return region->state == REGION_IDLE ? BYPASSED_pin_limit : BYPASSED_failed;
}

/* registration_lock is held, and dropped while registering or waiting. */
static enum outcome requests_serve(struct serving *serving, struct registration_keys *keys)
{
	const struct registration_request *request = serving->request;
	enum outcome outcome = SERVED;
	struct region_reference *reference;
	struct domain *domain;
	struct region *region;
	bool rescan = false;
	enum service service;

	domain = domain_enable(request->pd, request->access, false, &rescan);
	if (!domain)
		return BYPASSED_domain;
	serving->enabled |= rescan;
	/* Set own_keys before the first hold in the protection domain. */
	domain->owner->own_keys |= rescan && serving->own_keys;
	/* A free is visible before events_freeing() takes the lock. Either this check finds it, or
	 * events_freeing() finds the reference created below. */
	if (!memory_is_live(&serving->allocation))
		return BYPASSED_freed;
	reference = region_for(&serving->allocation, domain);
	if (!reference)
		return BYPASSED_failed;
	region = reference->region;
	rescan |= requests_learn(domain, &serving->allocation, reference);
	if (rescan)
		serving->go |= background_queue_all();
	region->users++;
	service = requests_make_ready(region, &serving->allocation, &serving->waited_since);
	/* The lock was dropped: the region may remain for a neighbour alone. No free would then
	 * revoke the client MR. */
	if (!memory_is_live(&serving->allocation))
		outcome = BYPASSED_freed;
	else if (region->state != REGION_READY || region->ended)
		outcome = requests_outcome_of(region);
	else if (requests_keys_are_taken(region))
		outcome = BYPASSED_keys;
	else if (!requests_add_client_mr(request, reference))
		outcome = BYPASSED_failed;
	if (outcome == SERVED) {
		*keys = region->keys;
		requests_count_served(service);
		serving->service = service;
	}
	region_release_user(region);
	return outcome;
}

static void requests_count_bypassed(const struct registration_request *request, enum outcome reason)
{
	const char *text = "";

	statistics_count(bypassed);
	switch (reason) {
	case SERVED:
		break;
#define REASON(name)                                                                               \
	case BYPASSED_##name:                                                                      \
		statistics_count(bypassed_##name);                                                 \
		text = "forwarded: " #name;                                                        \
		break;
		BYPASS_REASONS(REASON)
#undef REASON
	}
	requests_log(request, text);
}

/* A dma-buf follows the kernel's rules; a request by address needs memory that adapters reach by
 * address. */
static bool requests_may_serve(const struct registration_request *request,
			       const struct allocation *allocation)
{
	return request->dma_buf ? memory_is_exportable(allocation)
				: memory_is_registrable(allocation);
}

/* SERVED: the request may be served. */
static enum outcome requests_check(const struct registration_request *request,
				   struct allocation *allocation)
{
	bool found = memory_find(request->address, allocation);

	/* The memory was freed, or allocated after the client's dma-buf was exported. */
	if (request->youngest && (!found || request->youngest < allocation->id))
		return BYPASSED_freed;
	if (!found || request->length > allocation->size - (request->address - allocation->base))
		return BYPASSED_range;
	if (!domain_may_share(request->access))
		return BYPASSED_flags;
	if (request->iova != request->address)
		return BYPASSED_address;
	if (!requests_may_serve(request, allocation))
		return BYPASSED_capability;
	if (memory_is_verified() && !memory_check(allocation))
		return BYPASSED_verify;
	return SERVED;
}

static enum outcome requests_try(struct serving *serving, struct registration_keys *keys)
{
	const struct registration_request *request = serving->request;
	const struct allocation *allocation = &serving->allocation;
	enum outcome outcome;
	int tries = 0;

	serving->own_keys = requests_need_own_keys();
	pthread_mutex_lock(&registration_lock);
	/* Retry: while this thread waited the region may have ended, by an eviction or a
	 * neighbour's free. */
	do
		outcome = requests_serve(serving, keys);
	while (outcome == BYPASSED_freed && tries++ < TRIES && memory_is_live(allocation));
	pthread_mutex_unlock(&registration_lock);
	if (serving->enabled)
		domain_log_enabled(request->access);
	if (serving->go)
		background_go();
	if (outcome == SERVED) {
		memory_used_by_adapter(allocation);
		requests_log(request, service_names[serving->service]);
	}
	if (serving->waited_since && trace_is_on())
		trace_span("wait", serving->waited_since, request->address, request->length,
			   allocation->device, outcome == SERVED ? "served" : "bypassed");
	return outcome;
}

bool registration_request(const struct registration_request *request,
			  struct registration_keys *keys)
{
	struct serving serving = { .request = request };
	enum outcome outcome = requests_check(request, &serving.allocation);

	statistics_tally(TALLY_requests);
	if (outcome == SERVED)
		outcome = requests_try(&serving, keys);
	if (outcome != SERVED)
		requests_count_bypassed(request, outcome);
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
	    request->length > found.size - found.offset || request->iova != request->address ||
	    memory_is_verified() || !requests_may_hit(load_acquire(&found.record->traits)))
		return false;
	domain = domain_for_hit(request->pd, request->access);
	hold = domain ? keys_find_hold(domain, &found, keys) : 0;
	if (!hold || !holds_take(hold))
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
