/* SPDX-License-Identifier: BSD-3-Clause */
/* subscriptions.c -- reports allocations and frees to the subscribers of peerpin.h
 *
 * While a subscription exists, each allocation has a delivery (deliveries.h). It records for which
 * subscribers the `allocated` callback is pending, running or done; the latter two still need the
 * `freeing` callback. Deliveries are made at the allocation, or at the subscription for live
 * allocations. Both may find one allocation; its delivery decides which of them reports.
 *
 * No allocation is missed: a subscription walks memory's table, which has a lock, and finds each
 * record that is live during the walk. A thread that adds its record after the walk sees the new
 * value of `subscribed`.
 *
 * No allocation is reported after its free: memory ends the record before the freeing event, and a
 * delivery is made only for a live record.
 *
 * subscription_lock guards everything here, and the deliveries. Lock order: subscription_lock, then
 * memory's lock; it nests with no other lock. It is released during a callback, so pointers found
 * under it are invalid afterwards: find deliveries again by id.
 */
#include "intercept/subscriptions.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>

#include "base/atomics.h"
#include "base/process.h"
#include "base/system.h"
#include "intercept/deliveries.h"
#include "peerpin.h"

#define BATCH 64

struct subscription {
	int number;	      /* 0: free */
	int leaving;	      /* number, while ended with running callbacks; 0: none */
	unsigned int running; /* callbacks that have not returned */
	struct peerpin_subscriber subscriber;
};

/* A callback on this thread's stack. */
struct frame {
	struct frame *outer;
	int subscription;
	unsigned int index;
	uint64_t id;
};

static pthread_mutex_t subscription_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t callback_returned = PTHREAD_COND_INITIALIZER;
static struct subscription subscriptions[SLOTS];
static int last_number;

static _Atomic unsigned int subscribed; /* number; written under the lock, read without */

static __thread struct frame *innermost __attribute__((tls_model("initial-exec")));

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

/* The last callback has returned: the index is free for a new subscription, which has no
 * deliveries. */
static void subscriptions_release(unsigned int index)
{
	subscriptions[index].leaving = 0;
	deliveries_release(index);
}

static void subscriptions_call(unsigned int index, const struct delivery *delivery,
			       bool is_allocated)
{
	struct subscription *subscription = &subscriptions[index];
	struct peerpin_subscriber subscriber = subscription->subscriber;
	struct peerpin_allocation allocation = delivery->allocation;
	struct frame frame = { .outer = innermost,
			       .subscription = subscription->number,
			       .index = index,
			       .id = allocation.id };
	void (*callback)(const struct peerpin_allocation *, void *) =
		is_allocated ? subscriber.allocated : subscriber.freeing;
	int saved_errno;

	if (!callback)
		return;
	subscription->running++;
	innermost = &frame;
	pthread_mutex_unlock(&subscription_lock);
	saved_errno = errno;
	callback(&allocation, subscriber.context);
	errno = saved_errno;
	pthread_mutex_lock(&subscription_lock);
	innermost = frame.outer;
	if (!--subscription->running && subscription->leaving)
		subscriptions_release(index);
}

static void subscriptions_deliver_allocated(uint32_t slot, uint64_t id, unsigned int index,
					    int number)
{
	struct delivery *delivery = delivery_find(slot, id);
	uint8_t bit = (uint8_t)(1u << index);

	if (!delivery || !(delivery->pending & bit) || subscriptions[index].number != number)
		return;
	delivery->pending &= (uint8_t)~bit;
	delivery->delivering |= bit;
	subscriptions_call(index, delivery, true);
	/* The subscription may have ended during the callback. */
	delivery = delivery_find(slot, id);
	if (delivery && (delivery->delivering & bit)) {
		delivery->delivering &= (uint8_t)~bit;
		delivery->delivered |= bit;
	}
	system_wake(&callback_returned);
}

/* True if this thread is inside this subscriber's callback for this allocation: a wait would
 * deadlock. */
static bool subscriptions_is_nested(uint64_t id, unsigned int index)
{
	const struct frame *frame = innermost;

	while (frame && (frame->id != id || frame->index != index))
		frame = frame->outer;
	return frame;
}

static void subscriptions_deliver_freeing(uint32_t slot, uint64_t id, unsigned int index)
{
	uint8_t bit = (uint8_t)(1u << index);
	struct delivery *delivery;

	while ((delivery = delivery_find(slot, id)) && (delivery->delivering & bit) &&
	       !subscriptions_is_nested(id, index))
		system_wait(&callback_returned, &subscription_lock);
	if (!delivery || !((delivery->delivered | delivery->delivering) & bit))
		return;
	delivery->delivered &= (uint8_t)~bit;
	delivery->delivering &= (uint8_t)~bit;
	if (subscriptions[index].number)
		subscriptions_call(index, delivery, false);
	system_wake(&callback_returned);
}

/* ---- allocations and frees ---- */

static bool subscriptions_are_none(void)
{
	return __builtin_expect(!load_relaxed(&subscribed), 1);
}

static __attribute__((noinline)) void
subscriptions_report_allocated(const struct allocation *allocation)
{
	int numbers[SLOTS];
	uint8_t receivers = 0;

	pthread_mutex_lock(&subscription_lock);
	for (unsigned int index = 0; index < SLOTS; index++) {
		numbers[index] = subscriptions[index].number;
		receivers |= (uint8_t)(numbers[index] ? 1u << index : 0);
	}
	/* Another thread may have freed the allocation already; its freeing event then found no
	 * delivery. */
	receivers = memory_is_visible(allocation) ? delivery_owe(allocation, receivers) : 0;
	for (unsigned int index = 0; index < SLOTS; index++) {
		if (receivers & 1u << index)
			subscriptions_deliver_allocated(allocation->slot, allocation->event_id,
							index, numbers[index]);
	}
	pthread_mutex_unlock(&subscription_lock);
}

static __attribute__((noinline)) void
subscriptions_report_freeing(const struct allocation *allocation)
{
	struct delivery *delivery;

	pthread_mutex_lock(&subscription_lock);
	delivery = delivery_find(allocation->slot, allocation->event_id);
	if (delivery)
		delivery->pending = 0;
	for (unsigned int index = 0; delivery && index < SLOTS; index++)
		subscriptions_deliver_freeing(allocation->slot, allocation->event_id, index);
	delivery_forget(allocation->slot, allocation->event_id);
	pthread_mutex_unlock(&subscription_lock);
}

/* Separate function: the common case without subscribers saves no registers. */
static void subscriptions_allocated(const struct allocation *allocation)
{
	if (!subscriptions_are_none())
		subscriptions_report_allocated(allocation);
}

static void subscriptions_freeing(const struct allocation *allocation)
{
	if (!subscriptions_are_none())
		subscriptions_report_freeing(allocation);
}

const struct memory_subscriber subscriptions_subscriber = { .of_program = true,
							    .allocated = subscriptions_allocated,
							    .freeing = subscriptions_freeing };

/* ---- subscriptions ---- */

/* The child of a process without allocations has no delivery. Numbers continue: its parent's are
 * unknown here. */
void subscriptions_renew(void)
{
	subscription_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	callback_returned = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
	for (unsigned int index = 0; index < SLOTS; index++)
		subscriptions[index] = (struct subscription){ .number = 0 };
	store_relaxed(&subscribed, 0);
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

/* The caller holds the lock throughout: a concurrent free waits for the lock, then finds the
 * delivery. */
static void subscriptions_queue_live(unsigned int index)
{
	struct allocation batch[BATCH];
	unsigned int count;
	uint32_t cursor = 0;

	while ((count = memory_next(&cursor, batch, BATCH))) {
		for (unsigned int i = 0; i < count; i++) {
			if (memory_is_for_adapters(&batch[i]) && !batch[i].hidden)
				delivery_owe(&batch[i], (uint8_t)(1u << index));
		}
	}
}

/* The caller holds the lock, which is released during each callback. */
static void subscriptions_deliver_live(unsigned int index)
{
	int number = subscriptions[index].number;
	uint32_t slot = 0;
	struct delivery *delivery;

	while (subscriptions[index].number == number &&
	       (delivery = delivery_find_owed(&slot, index)))
		subscriptions_deliver_allocated(slot, delivery->allocation.id, index, number);
}

/* The caller holds the lock, which is released during each callback. */
static int subscriptions_begin(const struct peerpin_subscriber *subscriber, int *number)
{
	unsigned int index = 0;

	while (index < SLOTS && (subscriptions[index].number || subscriptions[index].leaving))
		index++;
	if (index == SLOTS || last_number == INT_MAX)
		return -ENOSPC;
	*number = ++last_number;
	subscriptions[index].subscriber = *subscriber;
	subscriptions[index].number = *number;
	add_relaxed(&subscribed, 1);
	subscriptions_queue_live(index);
	subscriptions_deliver_live(index);
	return 0;
}

int peerpin_subscribe(const struct peerpin_subscriber *subscriber, int *subscription)
{
	int error = subscription ? subscriptions_check(subscriber) : -EINVAL;

	if (!error && process_is_passive())
		error = -EOPNOTSUPP;
	if (error)
		return error;
	system_prepare();
	pthread_mutex_lock(&subscription_lock);
	error = subscriptions_begin(subscriber, subscription);
	pthread_mutex_unlock(&subscription_lock);
	return error;
}

/* The caller holds the lock, which is released while waiting. */
static int subscriptions_end(struct subscription *subscription)
{
	int number = subscription->number;
	unsigned int own = 0;

	subscription->number = 0;
	subtract_relaxed(&subscribed, 1);
	if (!subscription->running) {
		subscriptions_release((unsigned int)(subscription - subscriptions));
		return 0;
	}
	subscription->leaving = number;
	for (const struct frame *frame = innermost; frame; frame = frame->outer)
		own += frame->subscription == number;
	if (innermost)
		return subscription->running == own ? 0 : -EINPROGRESS;
	while (subscription->leaving == number)
		system_wait(&callback_returned, &subscription_lock);
	return 0;
}

int peerpin_unsubscribe(int subscription)
{
	unsigned int index = 0;
	int error = -ENOENT;

	if (process_is_passive())
		return process_is_forked() ? -EOPNOTSUPP : -ENOENT;
	pthread_mutex_lock(&subscription_lock);
	while (index < SLOTS && (!subscription || subscriptions[index].number != subscription))
		index++;
	if (index < SLOTS)
		error = subscriptions_end(&subscriptions[index]);
	pthread_mutex_unlock(&subscription_lock);
	return error;
}
