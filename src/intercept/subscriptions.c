/* SPDX-License-Identifier: BSD-3-Clause */
/* subscriptions.c -- births and deaths told to those who subscribed by peerpin.h
 *
 * While somebody subscribes, each allocation has a note of who has still to be told of its birth, who is being told, and
 * who has been, and so has to be told of its death. Notes are made at the birth, or at the subscription from what is
 * alive then; both may come upon the same allocation, and the note says which of them tells. That none is missed:
 * memory's table has a lock, and what lives while a subscription looks through it is found there, while a thread whose
 * record comes too late for that sees that there is a subscriber. That none is told after its death: memory ends a record
 * before it tells of the death, and a note is only made for what is alive.
 *
 * subscription_lock guards everything here. It is taken before memory's lock and beside no other, and is not held during a
 * callback. So nothing found under it is believed afterwards: notes are found again by their id.
 */
#include "intercept/subscriptions.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>

#include "base/arena.h"
#include "base/near.h"
#include "base/pool.h"
#include "base/process.h"
#include "base/statistics.h"
#include "base/system.h"
#include "peerpin.h"

#define LIVING_MAX (1u << 22)
#define SLOTS	   PEERPIN_SUBSCRIBERS_MAX
#define BATCH	   64

struct subscription {
	int number;  /* 0: none */
	int leaving; /* its number, when it has been ended but callbacks of it are still running; 0: none */
	unsigned int running; /* callbacks */
	struct peerpin_subscriber subscriber;
};

/* Sets of slots, one bit for each. */
struct note {
	struct note *next_free;
	struct note *next; /* at the same place */
	struct peerpin_allocation allocation;
	uint8_t owed;	 /* to be told of the birth */
	uint8_t telling; /* being told of it */
	uint8_t told;	 /* to be told of the death */
};

/* By the allocation's place. It may be another one's before the death of the last has been told everywhere. */
struct notes {
	struct note *first;
};

/* A callback that this thread is in. */
struct frame {
	struct frame *outer;
	int subscription;
	unsigned int slot;
	uint64_t id;
};

static pthread_mutex_t subscription_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t callback_returned = PTHREAD_COND_INITIALIZER;
static struct subscription subscriptions[SLOTS];
static struct arena notes = ARENA_INITIALIZER(struct notes, LIVING_MAX);
static struct pool note_pool = POOL_INITIALIZER(struct note);
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

/* ---- notes; the lock is held ---- */

static struct note **notes_at(uint32_t place)
{
	return place < notes.ready ? &((struct notes *)notes.base)[place].first : NULL;
}

static struct note *find(uint32_t place, uint64_t id)
{
	struct note **first = notes_at(place), *note = first ? *first : NULL;

	while (note && note->allocation.id != id)
		note = note->next;
	return note;
}

static struct note *make(const struct allocation *allocation)
{
	struct note **first, *note;

	if (arena_grow(&notes, allocation->place + 1))
		return NULL;
	note = pool_get(&note_pool);
	if (!note)
		return NULL;
	first = notes_at(allocation->place);
	*note = (struct note){ .next = *first,
			       .allocation = { .struct_size = sizeof(note->allocation),
					       .id = allocation->id,
					       .base = allocation->base,
					       .size = allocation->size,
					       .device = allocation->device,
					       .kind = (int32_t)allocation->kind } };
	*first = note;
	return note;
}

static void forget(uint32_t place, uint64_t id)
{
	struct note **link = notes_at(place), *note;

	while (link && *link && (*link)->allocation.id != id)
		link = &(*link)->next;
	if (!link || !*link)
		return;
	note = *link;
	*link = note->next;
	pool_put(&note_pool, note);
}

/* The birth is owed to the slots `to`. Returns those of them to whom it was not before, nor has been told. */
static uint8_t owe(const struct allocation *allocation, uint8_t to)
{
	struct note *note = find(allocation->place, allocation->id);

	if (!note && to)
		note = make(allocation);
	if (!note) {
		if (to)
			statistics_count(untold);
		return 0;
	}
	to &= (uint8_t) ~(note->owed | note->telling | note->told);
	note->owed |= to;
	return to;
}

/* ---- callbacks; the lock is held, and dropped while one runs ---- */

/* Its last callback has returned: the slot is free for another one, which nothing has been told of. */
static void release(unsigned int slot)
{
	uint8_t others = (uint8_t) ~(1u << slot);
	struct note **link, *note;

	subscriptions[slot].leaving = 0;
	for (uint32_t place = 0; place < notes.ready; place++) {
		for (link = notes_at(place); (note = *link);) {
			note->owed &= others;
			note->telling &= others;
			note->told &= others;
			if (note->owed | note->telling | note->told) {
				link = &note->next;
				continue;
			}
			*link = note->next;
			pool_put(&note_pool, note);
		}
	}
}

static void call(unsigned int slot, const struct note *note, bool is_birth)
{
	struct subscription *subscription = &subscriptions[slot];
	struct peerpin_subscriber subscriber = subscription->subscriber;
	struct peerpin_allocation allocation = note->allocation;
	struct frame frame = {
		.outer = innermost, .subscription = subscription->number, .slot = slot, .id = allocation.id
	};
	void (*callback)(const struct peerpin_allocation *, void *) =
		is_birth ? subscriber.born : subscriber.dying;
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
		release(slot);
}

static void tell_birth(uint32_t place, uint64_t id, unsigned int slot, int number)
{
	struct note *note = find(place, id);
	uint8_t bit = (uint8_t)(1u << slot);

	if (!note || !(note->owed & bit) || subscriptions[slot].number != number)
		return;
	note->owed &= (uint8_t)~bit;
	note->telling |= bit;
	call(slot, note, true);
	/* Unless the subscription has ended meanwhile. */
	note = find(place, id);
	if (note && (note->telling & bit)) {
		note->telling &= (uint8_t)~bit;
		note->told |= bit;
	}
	system_wake(&callback_returned);
}

/* Whether this thread itself is telling that subscriber of the birth: it would wait for itself. */
static bool is_inside(uint64_t id, unsigned int slot)
{
	const struct frame *frame = innermost;

	while (frame && (frame->id != id || frame->slot != slot))
		frame = frame->outer;
	return frame;
}

static void tell_death(uint32_t place, uint64_t id, unsigned int slot)
{
	uint8_t bit = (uint8_t)(1u << slot);
	struct note *note;

	while ((note = find(place, id)) && (note->telling & bit) && !is_inside(id, slot))
		system_wait(&callback_returned, &subscription_lock);
	if (!note || !((note->told | note->telling) & bit))
		return;
	note->told &= (uint8_t)~bit;
	note->telling &= (uint8_t)~bit;
	if (subscriptions[slot].number)
		call(slot, note, false);
	system_wake(&callback_returned);
}

/* ---- births and deaths ---- */

static bool nobody_listens(void)
{
	return __builtin_expect(!atomic_load_explicit(&subscribed, memory_order_relaxed), 1);
}

static __attribute__((noinline)) void tell_born(const struct allocation *allocation)
{
	int numbers[SLOTS];
	uint8_t to = 0;

	pthread_mutex_lock(&subscription_lock);
	for (unsigned int slot = 0; slot < SLOTS; slot++) {
		numbers[slot] = subscriptions[slot].number;
		to |= (uint8_t)(numbers[slot] ? 1u << slot : 0);
	}
	/* Another thread may have ended it already: then its death was told, to nobody. */
	to = memory_is_alive(allocation) ? owe(allocation, to) : 0;
	for (unsigned int slot = 0; slot < SLOTS; slot++) {
		if (to & 1u << slot)
			tell_birth(allocation->place, allocation->id, slot, numbers[slot]);
	}
	pthread_mutex_unlock(&subscription_lock);
}

static __attribute__((noinline)) void tell_dying(const struct allocation *allocation)
{
	struct note *note;

	pthread_mutex_lock(&subscription_lock);
	note = find(allocation->place, allocation->id);
	if (note)
		note->owed = 0;
	for (unsigned int slot = 0; note && slot < SLOTS; slot++)
		tell_death(allocation->place, allocation->id, slot);
	forget(allocation->place, allocation->id);
	pthread_mutex_unlock(&subscription_lock);
}

/* Apart, so that who has nobody to tell saves no registers for it. */
static NEAR void born(const struct allocation *allocation)
{
	if (!nobody_listens())
		tell_born(allocation);
}

static void dying(const struct allocation *allocation)
{
	if (!nobody_listens())
		tell_dying(allocation);
}

const struct memory_subscriber subscriptions_subscriber = { .born = born, .dying = dying };

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
static void owe_living(unsigned int slot)
{
	struct allocation batch[BATCH];
	unsigned int count;
	uint32_t cursor = 0;

	while ((count = memory_next(&cursor, batch, BATCH))) {
		for (unsigned int i = 0; i < count; i++) {
			if (memory_is_for_adapters(&batch[i]))
				owe(&batch[i], (uint8_t)(1u << slot));
		}
	}
}

/* The lock is held, and dropped meanwhile. */
static void tell_living(unsigned int slot)
{
	int number = subscriptions[slot].number;
	struct note *note;

	for (uint32_t place = 0; place < notes.ready && subscriptions[slot].number == number; place++) {
		do {
			for (note = *notes_at(place); note && !(note->owed & 1u << slot);)
				note = note->next;
			if (note)
				tell_birth(place, note->allocation.id, slot, number);
		} while (note && subscriptions[slot].number == number);
	}
}

/* The lock is held. */
static int begin(const struct peerpin_subscriber *subscriber, int *number)
{
	unsigned int slot = 0;

	while (slot < SLOTS && (subscriptions[slot].number || subscriptions[slot].leaving))
		slot++;
	if (slot == SLOTS || last_number == INT_MAX)
		return -ENOSPC;
	*number = ++last_number;
	subscriptions[slot].subscriber = *subscriber;
	subscriptions[slot].number = *number;
	atomic_fetch_add_explicit(&subscribed, 1, memory_order_relaxed);
	owe_living(slot);
	tell_living(slot);
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
	unsigned int slot = 0;
	int error = -ENOENT;

	if (process_is_forked())
		return -EOPNOTSUPP;
	pthread_mutex_lock(&subscription_lock);
	while (slot < SLOTS && (!subscription || subscriptions[slot].number != subscription))
		slot++;
	if (slot < SLOTS)
		error = end(&subscriptions[slot]);
	pthread_mutex_unlock(&subscription_lock);
	return error;
}
