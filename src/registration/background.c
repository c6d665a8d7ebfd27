/* SPDX-License-Identifier: BSD-3-Clause */
/* background.c -- registration before a client asks: what begins is queued, and registered wherever it is wanted
 *
 * An allocation is queued once, whatever the number of domains, so that its allocation costs the same with any; whoever works off
 * the queue (worker.c, or the allocating thread in sync mode) goes through the domains. The queue holds addresses and
 * ids, not regions: a free has nothing to take out, and what is not alive any more when its turn comes is passed
 * over. When it is full, or a domain or a kind of allocation becomes wanted, all that lives is looked at again.
 *
 * The queue has a lock of its own, so that who allocates never waits for the worker, which has registration_lock while
 * it goes through the domains. The queue's lock may be taken with registration_lock held, and nothing is called with it.
 */
#include "registration/internal.h"

#include <stdatomic.h>

#include "base/config.h"
#include "base/near.h"
#include "base/process.h"
#include "base/statistics.h"
#include "base/system.h"

#define QUEUE_SIZE 4096u
#define BATCH	   16u

struct queued {
	uint64_t base, id;
};

/* One line of memory, since who has the lock needs the rest. The counts may be read without it by whoever only wants to
 * know where the queue's ends probably are. */
static struct {
	pthread_mutex_t lock;
	_Atomic uint64_t queued, taken; /* since the beginning */
} __attribute__((aligned(128))) ends = { .lock = PTHREAD_MUTEX_INITIALIZER };
static struct queued queue[QUEUE_SIZE]; /* guarded by that lock */

#define get(count)	  atomic_load_explicit(&ends.count, memory_order_relaxed)
#define set(count, value) atomic_store_explicit(&ends.count, (value), memory_order_relaxed)

static _Atomic bool rescan;
static uint32_t cursor; /* of the walk that is under way; registration_lock */

static bool is_preregister(const struct allocation *allocation)
{
	const struct config *config = config_get();

	return config->preregister != PREREGISTER_OFF && memory_is_registrable(allocation) &&
	       allocation->size >= config->min_size && !process_is_exiting();
}

/* False: the queue is full. */
static bool push(const struct queued *queued)
{
	uint64_t place;
	bool room;

	pthread_mutex_lock(&ends.lock);
	place = get(queued);
	room = place - get(taken) < QUEUE_SIZE;
	if (room) {
		queue[place % QUEUE_SIZE] = *queued;
		set(queued, place + 1);
	}
	pthread_mutex_unlock(&ends.lock);
	return room;
}

static bool pop(struct queued *queued)
{
	uint64_t place;
	bool any;

	pthread_mutex_lock(&ends.lock);
	place = get(taken);
	any = place != get(queued);
	if (any) {
		*queued = queue[place % QUEUE_SIZE];
		set(taken, place + 1);
	}
	pthread_mutex_unlock(&ends.lock);
	return any;
}

NEAR void background_expect(void)
{
	near_fetch(&ends);
	near_fetch(&queue[get(queued) % QUEUE_SIZE]);
}

NEAR bool background_queue(const struct allocation *allocation)
{
	struct queued queued = { allocation->base, allocation->id };

	if (!domain_somebody_may_want() || !is_preregister(allocation) || learning_passes_over(allocation))
		return false;
	/* Another thread may have freed it already: whoever takes it from the queue finds that. */
	if (!region_set_queued(allocation))
		return background_queue_all();
	if (push(&queued))
		return true;
	region_unqueue(allocation);
	return background_queue_all();
}

bool background_queue_all(void)
{
	if (config_get()->preregister == PREREGISTER_OFF || process_is_exiting())
		return false;
	/* A walk that is under way has passed some of it. */
	atomic_store(&rescan, true);
	return true;
}

/* Made, perhaps just now, perhaps when there was no room for it. */
static bool may_begin(const struct region *region)
{
	return region->state == REGION_IDLE && !region->failures;
}

/* Registers the allocation in one domain, if it is wanted there and is not registered yet; the lock is dropped meanwhile.
 * False: its kind is not wanted. */
static bool register_in(struct domain *domain, const struct allocation *allocation)
{
	struct region_reference *reference;
	struct region *region;
	struct kind kind;
	uint64_t duration;

	if (domain->owner->closing || !adapter_wants(domain, allocation->device))
		return true;
	reference = region_find_reference(domain, allocation->slot, allocation->id);
	if (reference && !may_begin(reference->region))
		return true;
	if (!learning_wants(domain, allocation, &kind))
		return false;
	reference = region_for(allocation, domain);
	region = reference ? reference->region : NULL;
	/* It may share one that is there. */
	if (!region || !may_begin(region))
		return true;
	/* One that found no room before is outstanding already, and one that was asked for never is. */
	if (!region->used && region->kind.evidence == EVIDENCE_NONE) {
		region->kind = kind;
		learning_made(domain, &kind);
	}
	region->state = REGION_REGISTERING;
	region->users++;
	duration = region_register(region, false);
	if (config_get()->preregister == PREREGISTER_SYNC)
		statistics_time(program_ns, duration, registration_program_ns);
	else
		statistics_time(background_ns, duration, registration_background_ns);
	if (region->state == REGION_READY) {
		statistics_count(registrations_background);
		region_set_background_time(region, duration);
	}
	region_release_user(region);
	return true;
}

/* Makes the domains that PEERPIN_DOMAINS wants from the start, with the rights that MPI libraries ask for. */
static void activate_chosen(int device)
{
	static const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				  IBV_ACCESS_REMOTE_ATOMIC;
	struct protection_domain *owner;
	bool dropped;

	do {
		dropped = false;
		for (owner = protection_domains; owner && !dropped; owner = owner->next) {
			if (owner->closing)
				continue;
			dropped = adapter_describe(owner->adapter, device);
			if (!dropped && !owner->domains)
				domain_make(owner, access);
		}
	} while (dropped);
}

static void register_everywhere(const struct allocation *allocation)
{
	struct domain *domain;
	uint64_t number = 0;
	bool wanted = false, alive;

	if (adapter_chooses())
		activate_chosen(allocation->device);
	/* Its free is visible before being freed() takes the lock: either it is seen here, or being freed() sees what is made below. */
	while ((alive = memory_is_alive(allocation)) && !process_is_exiting() &&
	       (domain = domain_after(number))) {
		number = domain->number;
		wanted |= register_in(domain, allocation);
	}
	if (alive && number && !wanted)
		learning_refused(allocation);
}

static void see_to(const struct queued *queued)
{
	struct allocation allocation;

	if (!memory_find(queued->base, &allocation) || allocation.id != queued->id ||
	    !region_is_queued(&allocation))
		return;
	register_everywhere(&allocation);
	region_unqueue(&allocation);
}

/* The next few of all that lives. */
static void walk_on(void)
{
	static struct allocation batch[BATCH]; /* one thread at a time is here: see `walking` */
	unsigned int count = memory_next(&cursor, batch, BATCH);

	for (unsigned int i = 0; i < count; i++) {
		if (is_preregister(&batch[i]))
			register_everywhere(&batch[i]);
	}
	if (!count)
		cursor = 0;
}

bool background_step(void)
{
	static bool walking;
	struct queued queued;

	if (process_is_exiting())
		return false;
	if (pop(&queued)) {
		see_to(&queued);
		return true;
	}
	if (walking || (!atomic_load(&rescan) && !cursor))
		return false;
	if (!cursor)
		atomic_store(&rescan, false);
	walking = true;
	walk_on();
	walking = false;
	return true;
}

bool background_has_more(void)
{
	bool any;

	pthread_mutex_lock(&ends.lock);
	any = get(queued) != get(taken);
	pthread_mutex_unlock(&ends.lock);
	return (any || atomic_load(&rescan)) && !process_is_exiting();
}

/* Another thread may have taken it from the queue. One that comes here from inside of a registration waits for nobody: who
 * has it may wait for what is held around that. */
NEAR void background_await(const struct allocation *allocation)
{
	if (config_get()->preregister != PREREGISTER_SYNC || registration_is_own_call())
		return;
	pthread_mutex_lock(&registration_lock);
	while (region_is_queued(allocation) && memory_is_alive(allocation) && !process_is_exiting())
		system_wait(&region_settled, &registration_lock);
	pthread_mutex_unlock(&registration_lock);
}

NEAR void background_go(void)
{
	if (config_get()->preregister != PREREGISTER_SYNC) {
		worker_wake();
		return;
	}
	pthread_mutex_lock(&registration_lock);
	while (background_step()) {
		pthread_mutex_unlock(&registration_lock);
		pthread_mutex_lock(&registration_lock);
	}
	pthread_mutex_unlock(&registration_lock);
}
