/* SPDX-License-Identifier: BSD-3-Clause */
/* subscriptions.c -- allocations and frees told to those who subscribed by peerpin.h
 *
 * While somebody subscribes, each allocation has a note (deliveries.h) of who has still to be told of its allocation, who is being
 * told, and who has been, and so has to be told of its free. Notes are made at the allocation, or at the subscription from
 * what is alive then; both may come upon the same allocation, and the note says which of them tells. That none is missed:
 * memory's table has a lock, and what lives while a subscription looks through it is found there, while a thread whose
 * record comes too late for that sees that there is a subscriber. That none is told after its free: memory ends a record
 * before it tells of the free, and a note is only made for what is alive.
 *
 * subscription_lock guards everything here, and the notes. It is taken before memory's lock and beside no other, and is
 * not held during a callback. So nothing found under it is believed afterwards: notes are found again by their id.
 */
#include "intercept/subscriptions.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/near.h"
#include "base/process.h"
#include "base/system.h"
#include "intercept/deliveries.h"
#include "peerpin.h"

#define BATCH 64

struct subscription {
	int number;  /* 0: none */
	int leaving; /* its number, when it has been ended but callbacks of it are still running; 0: none */
	unsigned int running; /* callbacks */
	struct peerpin_subscriber subscriber;
};

/* A callback that this thread is in. */
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

static _Atomic unsigned int subscribed; /* how many; written with the lock, read without */

static __thread struct frame *innermost __attribute__((tls_model("initial-exec")));

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), "kinds are told as they are")
SAME(ALLOCATION_DEVICE, PEERPIN_DEVICE);
SAME(ALLOCATION_PITCHED, PEERPIN_PITCHED);
SAME(ALLOCATION_MANAGED, PEERPIN_MANAGED);
SAME(ALLOCATION_POOL, PEERPIN_POOL);
SAME(ALLOCATION_MAPPED, PEERPIN_MAPPED);
SAME(ALLOCATION_SHARED, PEERPIN_SHARED);
SAME(ALLOCATION_EXTERNAL, PEERPIN_EXTERNAL);
SAME(ALLOCATION_HOST, PEERPIN_HOST);

/* ---- callbacks; the lock is held, and dropped while one runs ---- */

/* Its last callback has returned: the index is free for another one, which nothing has been told of. */
static void release(unsigned int index)
{
	subscriptions[index].leaving = 0;
	deliveries_release(index);
}

static void call(unsigned int index, const struct delivery *delivery, bool is_allocation)
{
	struct subscription *subscription = &subscriptions[index];
	struct peerpin_subscriber subscriber = subscription->subscriber;
	struct peerpin_allocation allocation = delivery->allocation;
	struct frame frame = {
		.outer = innermost, .subscription = subscription->number, .index = index, .id = allocation.id
	};
	void (*callback)(const struct peerpin_allocation *, void *) =
		is_allocation ? subscriber.allocated : subscriber.freeing;
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
		release(index);
}

static void tell_allocation(uint32_t slot, uint64_t id, unsigned int index, int number)
{
	struct delivery *delivery = delivery_find(slot, id);
	uint8_t bit = (uint8_t)(1u << index);

	if (!delivery || !(delivery->owed & bit) || subscriptions[index].number != number)
		return;
	delivery->owed &= (uint8_t)~bit;
	delivery->telling |= bit;
	call(index, delivery, true);
	/* Unless the subscription has ended meanwhile. */
	delivery = delivery_find(slot, id);
	if (delivery && (delivery->telling & bit)) {
		delivery->telling &= (uint8_t)~bit;
		delivery->told |= bit;
	}
	system_wake(&callback_returned);
}

/* Whether this thread itself is telling that subscriber of the allocation: it would wait for itself. */
static bool is_inside(uint64_t id, unsigned int index)
{
	const struct frame *frame = innermost;

	while (frame && (frame->id != id || frame->index != index))
		frame = frame->outer;
	return frame;
}

static void tell_free(uint32_t slot, uint64_t id, unsigned int index)
{
	uint8_t bit = (uint8_t)(1u << index);
	struct delivery *delivery;

	while ((delivery = delivery_find(slot, id)) && (delivery->telling & bit) && !is_inside(id, index))
		system_wait(&callback_returned, &subscription_lock);
	if (!delivery || !((delivery->told | delivery->telling) & bit))
		return;
	delivery->told &= (uint8_t)~bit;
	delivery->telling &= (uint8_t)~bit;
	if (subscriptions[index].number)
		call(index, delivery, false);
	system_wake(&callback_returned);
}

/* ---- allocations and frees ---- */

static bool nobody_listens(void)
{
	return __builtin_expect(!atomic_load_explicit(&subscribed, memory_order_relaxed), 1);
}

static __attribute__((noinline)) void tell_allocated(const struct allocation *allocation)
{
	int numbers[SLOTS];
	uint8_t to = 0;

	pthread_mutex_lock(&subscription_lock);
	for (unsigned int index = 0; index < SLOTS; index++) {
		numbers[index] = subscriptions[index].number;
		to |= (uint8_t)(numbers[index] ? 1u << index : 0);
	}
	/* Another thread may have ended it already: then its free was told, to nobody. */
	to = memory_is_alive(allocation) ? delivery_owe(allocation, to) : 0;
	for (unsigned int index = 0; index < SLOTS; index++) {
		if (to & 1u << index)
			tell_allocation(allocation->slot, allocation->id, index, numbers[index]);
	}
	pthread_mutex_unlock(&subscription_lock);
}

static __attribute__((noinline)) void tell_freeing(const struct allocation *allocation)
{
	struct delivery *delivery;

	pthread_mutex_lock(&subscription_lock);
	delivery = delivery_find(allocation->slot, allocation->id);
	if (delivery)
		delivery->owed = 0;
	for (unsigned int index = 0; delivery && index < SLOTS; index++)
		tell_free(allocation->slot, allocation->id, index);
	delivery_forget(allocation->slot, allocation->id);
	pthread_mutex_unlock(&subscription_lock);
}

/* Apart, so that who has nobody to tell saves no registers for it. */
static NEAR void allocated(const struct allocation *allocation)
{
	if (!nobody_listens())
		tell_allocated(allocation);
}

static void freeing(const struct allocation *allocation)
{
	if (!nobody_listens())
		tell_freeing(allocation);
}

const struct memory_subscriber subscriptions_subscriber = { .allocated = allocated, .freeing = freeing };

/* ---- subscriptions ---- */

/* What is beyond the struct that is known here must not be set. */
static int check(const struct peerpin_subscriber *subscriber)
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

/* The lock is held all the way: who ends one of these meanwhile tells of it afterwards, and finds the note. */
static void owe_living(unsigned int index)
{
	struct allocation batch[BATCH];
	unsigned int count;
	uint32_t cursor = 0;

	while ((count = memory_next(&cursor, batch, BATCH))) {
		for (unsigned int i = 0; i < count; i++) {
			if (memory_is_for_adapters(&batch[i]))
				delivery_owe(&batch[i], (uint8_t)(1u << index));
		}
	}
}

/* The lock is held, and dropped meanwhile. */
static void tell_living(unsigned int index)
{
	int number = subscriptions[index].number;
	uint32_t slot = 0;
	struct delivery *delivery;

	while (subscriptions[index].number == number && (delivery = delivery_find_owed(&slot, index)))
		tell_allocation(slot, delivery->allocation.id, index, number);
}

/* The lock is held. */
static int begin(const struct peerpin_subscriber *subscriber, int *number)
{
	unsigned int index = 0;

	while (index < SLOTS && (subscriptions[index].number || subscriptions[index].leaving))
		index++;
	if (index == SLOTS || last_number == INT_MAX)
		return -ENOSPC;
	*number = ++last_number;
	subscriptions[index].subscriber = *subscriber;
	subscriptions[index].number = *number;
	atomic_fetch_add_explicit(&subscribed, 1, memory_order_relaxed);
	owe_living(index);
	tell_living(index);
	return 0;
}

int peerpin_subscribe(const struct peerpin_subscriber *subscriber, int *subscription)
{
	int error = subscription ? check(subscriber) : -EINVAL;

	if (!error && process_is_passive())
		error = -EOPNOTSUPP;
	if (error)
		return error;
	system_prepare();
	pthread_mutex_lock(&subscription_lock);
	error = begin(subscriber, subscription);
	pthread_mutex_unlock(&subscription_lock);
	return error;
}

/* The lock is held, and dropped while waiting. */
static int end(struct subscription *subscription)
{
	int number = subscription->number;
	unsigned int own = 0;

	subscription->number = 0;
	atomic_fetch_sub_explicit(&subscribed, 1, memory_order_relaxed);
	if (!subscription->running) {
		release((unsigned int)(subscription - subscriptions));
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

	if (process_is_forked())
		return -EOPNOTSUPP;
	pthread_mutex_lock(&subscription_lock);
	while (index < SLOTS && (!subscription || subscriptions[index].number != subscription))
		index++;
	if (index < SLOTS)
		error = end(&subscriptions[index]);
	pthread_mutex_unlock(&subscription_lock);
	return error;
}
