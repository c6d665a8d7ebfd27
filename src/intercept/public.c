/* SPDX-License-Identifier: BSD-3-Clause */
/* public.c -- the public interface (peerpin.h): version, statistics, subscriptions
 *
 * A subscription reads the youngest id first. It reports live memory up to this id itself, in a
 * walk over memory's table; younger memory is reported at its allocation. So each allocation is
 * reported once, and none is missed: a thread that adds a younger record sees the new value of
 * `subscriptions_number`, because both take memory's lock.
 *
 * No allocation is reported after its free: memory ends the record before the freeing event, and a
 * callback begins only for a live record. The freeing event waits for those that have begun. It is
 * reported to every subscriber, also to one that did not receive the allocation.
 *
 * subscription_lock guards everything here. Lock order: subscription_lock, then memory's lock; it
 * nests with no other lock. It is released during a callback.
 */
#include "intercept/public.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sys/queue.h>

#include "base/atomics.h"
#include "base/process.h"
#include "base/system.h"
#include "peerpin.h"
#include "report/statistics.h"

const char *peerpin_version(void)
{
	return PACKAGE_VERSION;
}

int peerpin_statistic(const char *name, uint64_t *value)
{
	return name && value ? statistics_find(name, value) : -EINVAL;
}

/* ---- subscriptions ---- */

#define REPORT_BATCH 16
#define SUBSCRIBERS  PEERPIN_SUBSCRIBERS_MAX

struct subscription {
	int number;	  /* 0: free */
	uint64_t last_id; /* of the memory that the subscription reports itself */
	struct peerpin_subscriber subscriber;
};

/* A running callback, on its thread's stack. */
struct frame {
	LIST_ENTRY(frame) in_list;
	const char *thread; /* address of its this_thread */
	int subscription;
	uint64_t allocated; /* id, of an `allocated` callback; 0: of a `freeing` callback */
};

static pthread_mutex_t subscription_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t callback_returned = PTHREAD_COND_INITIALIZER;
static struct subscription subscriptions[SUBSCRIBERS];
static LIST_HEAD(, frame) frames = LIST_HEAD_INITIALIZER(frames);
static int last_number;

_Atomic unsigned int subscriptions_number; /* written under the lock, read without */

static __thread char this_thread __attribute__((tls_model("initial-exec")));

#define SAME_KIND(ours, theirs)                                                                    \
	_Static_assert((int)(ours) == (int)(theirs),                                               \
		       "the public kinds have the values of the internal ones")
SAME_KIND(ALLOCATION_DEVICE, PEERPIN_DEVICE);
SAME_KIND(ALLOCATION_PITCHED, PEERPIN_PITCHED);
SAME_KIND(ALLOCATION_MANAGED, PEERPIN_MANAGED);
SAME_KIND(ALLOCATION_POOL, PEERPIN_POOL);
SAME_KIND(ALLOCATION_MAPPED, PEERPIN_MAPPED);
SAME_KIND(ALLOCATION_SHARED, PEERPIN_SHARED);
SAME_KIND(ALLOCATION_EXTERNAL, PEERPIN_EXTERNAL);
SAME_KIND(ALLOCATION_HOST, PEERPIN_HOST);

/* ---- callbacks; the caller holds the lock, which is released during each callback ---- */

static void subscriptions_call(unsigned int index, const struct allocation *of, bool is_allocated)
{
	struct peerpin_subscriber subscriber = subscriptions[index].subscriber;
	struct peerpin_allocation allocation = { .struct_size = sizeof(allocation),
						 .id = of->event_id,
						 .base = of->base,
						 .size = of->size,
						 .device = of->device,
						 .kind = (int32_t)of->kind };
	struct frame frame = { .thread = &this_thread,
			       .subscription = subscriptions[index].number,
			       .allocated = is_allocated ? of->event_id : 0 };
	void (*callback)(const struct peerpin_allocation *, void *) =
		is_allocated ? subscriber.allocated : subscriber.freeing;
	int saved_errno;

	if (!callback)
		return;
	LIST_INSERT_HEAD(&frames, &frame, in_list);
	pthread_mutex_unlock(&subscription_lock);
	saved_errno = errno;
	callback(&allocation, subscriber.context);
	errno = saved_errno;
	pthread_mutex_lock(&subscription_lock);
	LIST_REMOVE(&frame, in_list);
	pthread_cond_broadcast(&callback_returned);
}

/* True if another thread runs an `allocated` callback for the memory. A wait for this thread's own
 * would deadlock. */
static bool subscriptions_report_elsewhere(uint64_t id)
{
	const struct frame *frame;

	LIST_FOREACH(frame, &frames, in_list) {
		if (frame->allocated == id && frame->thread != &this_thread)
			break;
	}
	return frame;
}

/* ---- allocations and frees ---- */

void subscriptions_report_allocated(const struct allocation *allocation)
{
	pthread_mutex_lock(&subscription_lock);
	for (unsigned int index = 0; index < SUBSCRIBERS; index++) {
		/* Another thread may have freed the allocation already. */
		if (subscriptions[index].number &&
		    allocation->event_id > subscriptions[index].last_id &&
		    memory_is_visible(allocation))
			subscriptions_call(index, allocation, true);
	}
	pthread_mutex_unlock(&subscription_lock);
}

void subscriptions_report_freeing(const struct allocation *allocation)
{
	pthread_mutex_lock(&subscription_lock);
	while (subscriptions_report_elsewhere(allocation->event_id))
		system_wait(&callback_returned, &subscription_lock);
	for (unsigned int index = 0; index < SUBSCRIBERS; index++) {
		if (subscriptions[index].number)
			subscriptions_call(index, allocation, false);
	}
	pthread_mutex_unlock(&subscription_lock);
}

/* ---- begin and end ---- */

/* Numbers continue: the parent's are unknown here. */
void subscriptions_renew(void)
{
	subscription_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	callback_returned = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
	LIST_INIT(&frames);
	for (unsigned int index = 0; index < SUBSCRIBERS; index++)
		subscriptions[index] = (struct subscription){ .number = 0 };
	store_relaxed(&subscriptions_number, 0);
}

/* Members beyond the known struct must be 0. */
static int subscriptions_check(const struct peerpin_subscriber *subscriber)
{
	const char *bytes = (const char *)subscriber;

	if (!subscriber || subscriber->struct_size < sizeof(*subscriber))
		return -EINVAL;
	for (size_t i = sizeof(*subscriber); i < subscriber->struct_size; i++) {
		if (bytes[i])
			return -E2BIG;
	}
	return 0;
}

/* The caller holds the lock, which is released during each callback. */
static void subscriptions_report_live(unsigned int index)
{
	int number = subscriptions[index].number;
	struct allocation batch[REPORT_BATCH];
	unsigned int count;
	uint32_t cursor = 0;

	while ((count = memory_next(&cursor, batch, REPORT_BATCH))) {
		for (unsigned int i = 0; i < count; i++) {
			if (subscriptions[index].number != number)
				return;
			if (!batch[i].hidden && batch[i].event_id <= subscriptions[index].last_id &&
			    memory_is_for_adapters(&batch[i]) && memory_is_visible(&batch[i]))
				subscriptions_call(index, &batch[i], true);
		}
	}
}

/* The caller holds the lock, which is released during each callback. */
static int subscriptions_begin(const struct peerpin_subscriber *subscriber, int *number)
{
	unsigned int index = 0;

	while (index < SUBSCRIBERS && subscriptions[index].number)
		index++;
	if (index == SUBSCRIBERS || last_number == INT_MAX)
		return -ENOSPC;
	*number = ++last_number;
	add_relaxed(&subscriptions_number, 1);
	subscriptions[index] = (struct subscription){ .number = *number,
						      .last_id = memory_youngest_added(),
						      .subscriber = *subscriber };
	subscriptions_report_live(index);
	return 0;
}

int peerpin_subscribe(const struct peerpin_subscriber *subscriber, int *subscription)
{
	int error = subscription ? subscriptions_check(subscriber) : -EINVAL;

	if (!error && process_is_passive())
		error = -EOPNOTSUPP;
	if (error)
		return error;
	pthread_mutex_lock(&subscription_lock);
	error = subscriptions_begin(subscriber, subscription);
	pthread_mutex_unlock(&subscription_lock);
	return error;
}

/* Callbacks of the subscription that run on other threads. Sets *inside if this thread runs a
 * callback of any subscription. */
static bool subscriptions_run_elsewhere(int number, bool *inside)
{
	const struct frame *frame;
	bool elsewhere = false;

	*inside = false;
	LIST_FOREACH(frame, &frames, in_list) {
		if (frame->thread == &this_thread)
			*inside = true;
		else if (frame->subscription == number)
			elsewhere = true;
	}
	return elsewhere;
}

/* The caller holds the lock, which is released while waiting. */
static int subscriptions_end(struct subscription *subscription)
{
	int number = subscription->number;
	bool inside;

	subscription->number = 0;
	subtract_relaxed(&subscriptions_number, 1);
	while (subscriptions_run_elsewhere(number, &inside)) {
		if (inside)
			return -EINPROGRESS;
		system_wait(&callback_returned, &subscription_lock);
	}
	return 0;
}

int peerpin_unsubscribe(int subscription)
{
	unsigned int index = 0;
	int error = -ENOENT;

	if (process_is_passive())
		return process_is_forked() ? -EOPNOTSUPP : -ENOENT;
	pthread_mutex_lock(&subscription_lock);
	while (index < SUBSCRIBERS &&
	       (!subscription || subscriptions[index].number != subscription))
		index++;
	if (index < SUBSCRIBERS)
		error = subscriptions_end(&subscriptions[index]);
	pthread_mutex_unlock(&subscription_lock);
	return error;
}
