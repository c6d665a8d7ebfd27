/* SPDX-License-Identifier: BSD-3-Clause */
/* background.c -- background registration: the queue of allocations and its processing
 *
 * An allocation is queued once, whatever the number of domains, so queueing costs the same for any
 * number. The worker (worker.c) goes through the domains; in eager mode the allocating thread does
 * for its own allocation, and the worker does the rest: no call of a client registers other memory
 * than its own. The queue holds addresses and ids, not regions: a free has nothing to remove, and a
 * dequeued allocation that is no longer live is skipped. A rescan visits all live allocations: for
 * all domains when the queue is full, for one when it, or a class of sizes there, begins.
 *
 * The queue has a lock of its own: the worker holds registration_mutex while it goes through the
 * domains, and allocating threads must not wait for that. Lock order: registration_mutex, then the
 * queue's lock. No function is called with the queue's lock held.
 */
#include "registration/background.h"

#include "base/atomics.h"
#include "base/config.h"
#include "base/kernel.h"
#include "base/process.h"
#include "base/system.h"
#include "registration/adapter.h"
#include "registration/domain.h"
#include "registration/lock.h"
#include "registration/region.h"
#include "registration/region_end.h"
#include "registration/region_life.h"
#include "report/statistics.h"

#define QUEUE_SIZE 4096u
#define BATCH	   16u

struct queued {
	uint64_t base, id;
};

/* The lock and both counts share a cache line, because the lock's holder needs the counts. Reading
 * a count without the lock gives only an estimate. */
static struct {
	pthread_mutex_t lock;
	_Atomic uint64_t queued, taken; /* totals since the start */
} __attribute__((aligned(128))) ends = { .lock = PTHREAD_MUTEX_INITIALIZER };
static struct queued queue[QUEUE_SIZE]; /* guarded by ends.lock */

/* Rescans are due: for all domains; for those that wait for one (domain.h). */
static _Atomic bool rescan_all, rescan_domains;

/* The rescan in progress. Guarded by registration_mutex. */
static uint32_t cursor;	       /* 0: none */
static struct domain *scanned; /* NULL: all */
static uint64_t scanned_number, scanned_youngest;

static bool background_is_on(void)
{
	return config_get()->preregister != PREREGISTER_OFF && !process_is_exiting();
}

static bool background_is_eligible(const struct allocation *allocation)
{
	return background_is_on() && domain_may_reach(allocation);
}

/* A rescan takes the place of a full queue. */
static void background_push(const struct queued *queued)
{
	uint64_t position;

	lock_take(&ends.lock);
	position = load_relaxed(&ends.queued);
	if (position - load_relaxed(&ends.taken) == QUEUE_SIZE) {
		store_relaxed(&ends.taken, position);
		store_seq_cst(&rescan_all, true);
	}
	queue[position % QUEUE_SIZE] = *queued;
	store_relaxed(&ends.queued, position + 1);
	lock_drop(&ends.lock);
}

static bool background_pop(struct queued *queued)
{
	uint64_t position;
	bool any;

	lock_take(&ends.lock);
	position = load_relaxed(&ends.taken);
	any = position != load_relaxed(&ends.queued);
	if (any) {
		*queued = queue[position % QUEUE_SIZE];
		store_relaxed(&ends.taken, position + 1);
	}
	lock_drop(&ends.lock);
	return any;
}

static bool background_queue(const struct allocation *allocation)
{
	struct queued queued = { allocation->base, allocation->id };

	if (!background_is_on() || region_is_queued(allocation))
		return false;
	/* Another thread may have freed the allocation already; background_process() checks
	 * that. */
	if (!region_set_queued(allocation))
		return background_queue_all();
	background_push(&queued);
	return true;
}

/* A rescan in progress may be past some allocations already. */
bool background_queue_domain(struct domain *domain)
{
	if (!domain || !process_is_active() || !background_is_on())
		return false;
	domain->youngest = memory_youngest();
	domain_set_behind(domain);
	store_seq_cst(&rescan_domains, true);
	return true;
}

bool background_queue_all(void)
{
	if (!background_is_on())
		return false;
	store_seq_cst(&rescan_all, true);
	return true;
}

/* True for a new region, and for one that did not fit within the pin limit. */
static bool background_may_begin(const struct region *region)
{
	return region->state == REGION_IDLE && !region->with_worker;
}

/* Drops the lock meanwhile. The caller is one of the region's users. */
static void background_register(struct region *region, struct region **ending)
{
	uint64_t duration = region_register_prepared(region, ending);

	if (!duration)
		return;
	if (own_thread_is_current())
		statistics_time(background_ns, duration, registration_background_ns);
	else
		statistics_time(program_ns, duration, registration_program_ns);
	if (region->state == REGION_READY) {
		statistics_count(registrations_background);
		region_set_background_time(region, duration);
	}
}

/* Registers the allocation in one domain, if selected and not registered yet. Drops the lock
 * meanwhile. */
static void background_register_in(struct domain *domain, const struct allocation *allocation,
				   struct region **ending)
{
	struct region_reference *reference;
	struct region *region;

	if (domain->owner->closing || !adapter_selects(domain, allocation->device))
		return;
	reference = region_find_whole(allocation, domain);
	if ((reference && !background_may_begin(reference->region)) ||
	    region_is_requested(allocation, domain) || !domain_reaches(domain, allocation))
		return;
	if (!reference)
		reference = region_refer_whole(allocation, domain);
	region = reference ? reference->region : NULL;
	/* The region may be shared, and registered already. */
	if (!region || !background_may_begin(region))
		return;
	region->speculative = !region->used;
	region->users++;
	background_register(region, ending);
	/* The domain may have ended with the region. */
	if (region->state == REGION_READY && !region->ended)
		region_end_parts(allocation, domain, region, ending);
	region_release_user(region);
}

/* Drops the lock, if it describes any. */
static void background_describe_adapters(const struct allocation *allocation,
					 struct region **ending)
{
	if (!adapter_needs_description())
		return;
	region_flush(ending);
	adapters_describe(allocation->device);
}

static void background_register_in_all(const struct allocation *allocation, struct region **ending)
{
	struct domain *domain = NULL;
	uint64_t number = 0;

	background_describe_adapters(allocation, ending);
	/* A free is visible before registration_freeing() takes the lock. Either this check finds it,
	 * or registration_freeing() finds the reference created below. */
	while (memory_is_live(allocation) && !process_is_exiting() &&
	       (domain = domain_after(domain, number))) {
		number = domain->number;
		background_register_in(domain, allocation, ending);
	}
}

void background_allocated(const struct allocation *allocation)
{
	struct region *ending = NULL;

	if (!domain_may_reach(allocation))
		return;
	if (config_get()->preregister == PREREGISTER_EAGER) {
		if (!background_is_on())
			return;
		registration_lock();
		background_register_in_all(allocation, &ending);
		registration_unlock();
		region_unpin_all(&ending);
	} else if (background_queue(allocation)) {
		worker_wake();
	}
}

static void background_process(const struct queued *queued, struct region **ending)
{
	struct allocation allocation;

	if (!memory_find_live(queued->base, queued->id, &allocation) ||
	    !region_is_queued(&allocation))
		return;
	background_register_in_all(&allocation, ending);
	region_unqueue(&allocation);
}

static void background_rescan_in_all(const struct allocation *allocation, struct region **ending)
{
	/* A mark set meanwhile belongs to a later entry of the queue. */
	bool queued = region_is_queued(allocation);

	if (!queued && !background_is_eligible(allocation))
		return;
	background_register_in_all(allocation, ending);
	if (queued)
		region_unqueue(allocation);
}

/* A later allocation is queued, or in eager mode registered before it returns: not if the worker
 * had begun. The domain may end in each of these calls, which drop the lock. */
static void background_rescan_in_one(const struct allocation *allocation, struct region **ending)
{
	if (allocation->id > scanned_youngest || !background_is_eligible(allocation))
		return;
	background_describe_adapters(allocation, ending);
	if (memory_is_live(allocation) && scanned->number == scanned_number)
		background_register_in(scanned, allocation, ending);
}

/* Works on the next batch of live allocations, and on those that a full queue has dropped. */
static void background_rescan_batch(struct region **ending)
{
	static struct allocation batch[BATCH]; /* of the worker */
	unsigned int count = memory_next(&cursor, batch, BATCH);

	for (unsigned int i = 0; i < count; i++) {
		if (scanned)
			background_rescan_in_one(&batch[i], ending);
		else
			background_rescan_in_all(&batch[i], ending);
	}
	if (!count || (scanned && scanned->number != scanned_number))
		cursor = 0;
}

/* False: none is due. */
static bool background_begin_rescan(void)
{
	scanned = NULL;
	if (exchange_seq_cst(&rescan_all, false))
		return true;
	scanned = domain_take_behind();
	if (scanned) {
		scanned_number = scanned->number;
		scanned_youngest = scanned->youngest;
	}
	store_seq_cst(&rescan_domains, scanned);
	return scanned;
}

/* True: there was work. */
static bool background_rescan_step(struct region **ending)
{
	if (!cursor && !background_begin_rescan())
		return false;
	background_rescan_batch(ending);
	return true;
}

bool background_step(struct region **ending)
{
	struct queued queued;

	if (process_is_exiting())
		return false;
	if (!background_pop(&queued))
		return background_rescan_step(ending);
	background_process(&queued, ending);
	return true;
}

bool background_has_more(void)
{
	bool any;

	lock_take(&ends.lock);
	any = load_relaxed(&ends.queued) != load_relaxed(&ends.taken);
	lock_drop(&ends.lock);
	return (any || load_seq_cst(&rescan_all) || load_seq_cst(&rescan_domains)) &&
	       !process_is_exiting();
}
