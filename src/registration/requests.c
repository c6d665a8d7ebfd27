/* SPDX-License-Identifier: BSD-3-Clause */
/* requests.c -- what clients ask for, and what births and deaths mean for what they got */
#include "registration/registration.h"

#include "base/config.h"
#include "base/process.h"
#include "base/statistics.h"
#include "registration/internal.h"

/* Rights that regions are shared by. Relaxed ordering is one like any other: domains differ by it. */
#define SHARED_RIGHTS                                                                                        \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |                         \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_RELAXED_ORDERING)

#define not_served(reason) (statistics_count(not_served), statistics_count(not_served_##reason), false)

static bool is_eager(const struct allocation *allocation)
{
	const struct config *config = config_get();

	return config->eager != EAGER_OFF && memory_is_registrable(allocation) &&
	       allocation->size >= config->min_size && !process_is_exiting();
}

/* registration_lock is held; true if something was queued. */
static bool enqueue(const struct allocation *allocation, struct domain *domain)
{
	struct region *region;
	bool made;

	region = region_for(allocation, domain, &made);
	if (!region || !made)
		return false;
	worker_enqueue(region);
	return true;
}

static void enqueue_visited(const struct allocation *allocation, void *domain)
{
	if (is_eager(allocation))
		enqueue(allocation, domain);
}

static void born(const struct allocation *allocation)
{
	struct protection_domain *owner;
	struct domain *domain;
	bool queued = false;

	if (!is_eager(allocation))
		return;
	pthread_mutex_lock(&registration_lock);
	/* Another thread may have freed it already: then its death was told, and must stay the last word. */
	if (memory_is_alive(allocation)) {
		for (owner = protection_domains; owner; owner = owner->next) {
			for (domain = owner->domains; domain && !owner->closing; domain = domain->next)
				queued |= enqueue(allocation, domain);
		}
	}
	pthread_mutex_unlock(&registration_lock);
	if (queued)
		worker_start();
}

static void dying(const struct allocation *allocation)
{
	struct region *ending = NULL;
	uint64_t base, length, start;

	region_range(allocation, &base, &length);
	pthread_mutex_lock(&registration_lock);
	region_end_tenancies(allocation, &ending);
	pthread_mutex_unlock(&registration_lock);
	if (ending) {
		start = statistics_clock();
		region_unpin_all(ending);
		statistics_add(free_ns, statistics_clock() - start);
	}
	pthread_mutex_lock(&registration_lock);
	region_await_range(allocation->base, allocation->size);
	pthread_mutex_unlock(&registration_lock);
}

const struct memory_subscriber registration_subscriber = { .born = born, .dying = dying };

static bool is_gpu_memory(uint64_t address)
{
	struct allocation allocation;

	return memory_find(address, &allocation) && allocation.kind != ALLOCATION_HOST;
}

bool registration_concerns(const struct registration_request *request)
{
	if (request->length &&
	    (is_gpu_memory(request->address) || is_gpu_memory(request->address + request->length - 1)))
		return true;
	statistics_count(host_requests);
	return false;
}

/* The domain of these rights, active from now on; NULL if there can be none. *activated: it is new, and the caller has
 * to queue for it what is alive. */
static struct domain *activate(const struct ibv_pd *pd, int access, bool *activated)
{
	struct protection_domain *owner = protection_domain_find(pd->context, pd->handle);
	struct domain *domain = NULL;

	if (owner && !owner->closing)
		domain = domain_find(owner, access);
	if (!domain && owner && !owner->closing) {
		domain = domain_make(owner, access);
		*activated = domain != NULL;
	}
	return domain;
}

struct domain *registration_domain(const struct ibv_pd *pd, int access)
{
	struct domain *domain;
	bool activated = false;

	if (access & ~SHARED_RIGHTS)
		return NULL;
	pthread_mutex_lock(&registration_lock);
	domain = activate(pd, access, &activated);
	if (activated)
		memory_visit(enqueue_visited, domain);
	pthread_mutex_unlock(&registration_lock);
	if (activated)
		worker_start();
	return domain;
}

/* How a served request found its region. */
enum way { HIT, WAITED, TAKEN_OVER, ON_DEMAND };

/* Brings the region to READY, or finds that it cannot be; registration_lock is held, and dropped meanwhile.
 * The caller is among the region's users. */
static enum way bring_to_ready(struct region *region)
{
	enum way way = region->state == REGION_QUEUED ? TAKEN_OVER : ON_DEMAND;
	uint64_t start;

	switch (region->state) {
	case REGION_READY:
	case REGION_FAILED:
		return HIT;
	case REGION_REGISTERING:
		start = statistics_clock();
		region_await_settled(region);
		statistics_add(program_ns, statistics_clock() - start);
		return WAITED;
	case REGION_QUEUED:
		worker_dequeue(region);
		break;
	case REGION_IDLE:
		break;
	}
	region->state = REGION_REGISTERING;
	statistics_add(program_ns, region_register(region));
	return way;
}

static void count_served(enum way way)
{
	switch (way) {
	case HIT:
		statistics_count(hits);
		break;
	case WAITED:
		statistics_count(waited);
		break;
	case TAKEN_OVER:
		statistics_count(taken_over);
		break;
	case ON_DEMAND:
		statistics_count(on_demand);
		break;
	}
}

/* registration_lock is held, and dropped while registering or waiting. */
static bool serve(const struct registration_request *request, const struct allocation *allocation,
		  struct registration_keys *keys, bool *activated)
{
	struct domain *domain = activate(request->pd, request->access, activated);
	struct region *region = NULL;
	bool served, made;
	enum way way;

	if (!domain)
		return not_served(domain);
	/* Its death is visible before dying() takes the lock: either we see it here, or dying() sees what
	 * we make below. */
	if (!memory_is_alive(allocation))
		return not_served(ended);
	region = region_for(allocation, domain, &made);
	if (!region)
		return not_served(failed);
	region->used = true;
	region->users++;
	if (*activated)
		memory_visit(enqueue_visited, domain);
	way = bring_to_ready(region);
	served = region->state == REGION_READY && !region->ended &&
		 !handle_insert(request->handle, region, allocation->id);
	if (served) {
		*keys = region->keys;
		count_served(way);
	} else if (region->ended) {
		(void)not_served(ended);
	} else {
		(void)not_served(failed);
	}
	region_release_user(region);
	return served;
}

bool registration_request(const struct registration_request *request, struct registration_keys *keys)
{
	struct allocation allocation;
	bool served, activated = false;

	statistics_count(requests);
	if (!memory_find(request->address, &allocation) ||
	    request->length > allocation.size - (request->address - allocation.base))
		return not_served(range);
	if (request->access & ~SHARED_RIGHTS)
		return not_served(flags);
	if (request->iova != request->address)
		return not_served(address);
	if (!memory_is_registrable(&allocation))
		return not_served(capability);
	if (memory_is_distrusted() && !memory_check(&allocation))
		return not_served(distrust);
	pthread_mutex_lock(&registration_lock);
	served = serve(request, &allocation, keys, &activated);
	pthread_mutex_unlock(&registration_lock);
	if (activated)
		worker_start();
	if (served)
		memory_used_by_adapter(&allocation);
	return served;
}

bool registration_drop(const void *handle)
{
	bool found, revoked = false;

	if (process_is_forked())
		return handle_forget(handle);
	pthread_mutex_lock(&registration_lock);
	found = handle_remove(handle, &revoked);
	pthread_mutex_unlock(&registration_lock);
	if (found && revoked)
		statistics_count(late_deregistrations);
	return found;
}

bool registration_holds(const void *handle)
{
	bool found;

	/* The parent's lock may have been held by a thread that the child does not have. */
	if (process_is_forked())
		return handle_exists(handle);
	pthread_mutex_lock(&registration_lock);
	found = handle_exists(handle);
	pthread_mutex_unlock(&registration_lock);
	return found;
}
