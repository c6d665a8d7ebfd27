/* SPDX-License-Identifier: BSD-3-Clause */
/* learning.c -- which kinds of allocation clients ask for, so that only those are registered ahead
 *
 * Registering what nobody sends is waste, and its deregistration is paid in cuMemFree. What is learned from: a region that
 * was registered ahead and that a client then asked for, and one whose memory ended before anybody did. Evidence is kept
 * for each domain, of each exact size and of each size class (half an octave), since a program's message buffers
 * have few sizes, while its scratch memory may have any: as soon as an exact size has shown what it is, its class no
 * longer judges it, nor learns from it.
 *
 * - What is unknown is registered, but only so much of it at a time: eight regions that nobody has asked for yet, and
 *   twice as many with each that somebody does.
 * - Where less than LEAST of the last regions were asked for, it stops.
 * - It comes back when one is asked for; if that turns out wrong, next time it takes twice as many.
 */
#include "registration/internal.h"

#include <stddef.h>

#include "base/config.h"
#include "base/near.h"
#include "base/pool.h"

#define EXACT_SIZES  256u
#define CLASSES	     128u
#define MEMORY	     32u /* outcomes; then the older ones count half */
#define ENOUGH	     2u	 /* outcomes that an exact size needs to be judged by its own */
#define UNASKED	     8u
#define RELAPSES_MAX 6u

/* Of registrations ahead, the part in percent that has to be asked for: below one half, what a hit saves the program is
 * less than what it pays for the others when it frees them. */
#define LEAST 60u

struct evidence_of {
	uint32_t tag;
	uint32_t outstanding; /* regions ahead that nobody has asked for yet */
	uint8_t asked, outcomes;
	uint8_t growth;	  /* UNASKED << growth may be outstanding */
	uint8_t relapses; /* times that it came back for nothing */
	uint8_t pleas;	  /* asked for since it stopped */
	bool stopped;
	bool refused; /* something was passed over since the last rescan */
};

struct learned {
	struct learned *next_free;
	struct evidence_of exact[EXACT_SIZES], classes[CLASSES];
};

static struct pool learned_pool = POOL_INITIALIZER(struct learned);

/* What no domain wants, so that the allocations of scratch memory need not be queued: exact sizes, and classes for sizes of which
 * there is no evidence. An entry counts while its number is `era`, which moves when something may be wanted again. */
static _Atomic uint64_t unwanted[EXACT_SIZES]; /* the tag above the era's lower half */
static _Atomic uint64_t unwanted_classes[CLASSES];
static _Atomic uint8_t
	known[1024 / 8]; /* one bit for some sizes each: of these some domain has evidence, or had */
static _Atomic uint64_t era = 1;

#define get(place) atomic_load_explicit((place), memory_order_relaxed)

void learning_begin(struct domain *domain)
{
	era++;
	domain->learned = pool_get(&learned_pool);
	if (domain->learned)
		*domain->learned = (struct learned){ 0 };
}

void learning_reconsider(void)
{
	era++;
}

void learning_end(struct domain *domain)
{
	if (domain->learned)
		pool_put(&learned_pool, domain->learned);
	domain->learned = NULL;
}

static uint8_t class_of(uint64_t size)
{
	unsigned int octave = 63u - (unsigned int)__builtin_clzll(size | 1);

	return (uint8_t)(2 * octave + (octave && (size >> (octave - 1) & 1)));
}

static struct kind kind_of(const struct allocation *allocation)
{
	uint64_t mixed = (allocation->size ^ ((uint64_t)allocation->device << 56)) * 0x9e3779b97f4a7c15u;

	return (struct kind){ .tag = (uint32_t)(mixed >> 24) | 1,
			      .exact = (uint16_t)(mixed >> 56) % EXACT_SIZES,
			      .size_class = class_of(allocation->size) };
}

static bool is_known(const struct kind *kind)
{
	return get(&known[kind->tag / 8 % sizeof(known)]) >> kind->tag % 8 & 1;
}

static uint64_t unwanted_as(const struct kind *kind, uint64_t now)
{
	return (uint64_t)kind->tag << 32 | (uint32_t)now;
}

NEAR void learning_expect(uint64_t size)
{
	near_fetch_read(&era);
	near_fetch_read(&unwanted_classes[class_of(size)]);
}

NEAR bool learning_passes_over(const struct allocation *allocation)
{
	struct kind kind = kind_of(allocation);
	uint64_t now = atomic_load_explicit(&era, memory_order_acquire);

	return get(&unwanted[kind.exact]) == unwanted_as(&kind, now) ||
	       (get(&unwanted_classes[kind.size_class]) == now && !is_known(&kind));
}

void learning_refused(const struct allocation *allocation)
{
	struct kind kind = kind_of(allocation);

	if (is_known(&kind))
		unwanted[kind.exact] = unwanted_as(&kind, era);
	else
		unwanted_classes[kind.size_class] = era;
}

/* The evidence of exactly that size; NULL: there is none. */
static struct evidence_of *exact_of(struct learned *learned, const struct kind *kind)
{
	struct evidence_of *exact = &learned->exact[kind->exact];

	return exact->tag == kind->tag ? exact : NULL;
}

/* Another size's goes, unless that one still has something to say: less with each request for this one, so that what a
 * program no longer uses does not stay for ever. */
static struct evidence_of *claim_exact(struct learned *learned, const struct kind *kind, bool asked)
{
	struct evidence_of *exact = &learned->exact[kind->exact];

	if (exact->tag == kind->tag)
		return exact;
	if (exact->outstanding || exact->asked) {
		if (asked) {
			exact->outcomes /= 2;
			exact->asked /= 2;
		}
		return NULL;
	}
	*exact = (struct evidence_of){ .tag = kind->tag };
	known[kind->tag / 8 % sizeof(known)] |= (uint8_t)(1u << kind->tag % 8);
	return exact;
}

static bool has_room(struct evidence_of *evidence)
{
	bool room = !evidence->stopped && evidence->outstanding < UNASKED << evidence->growth;

	if (!room)
		evidence->refused = true;
	return room;
}

/* Whether an exact size is judged by its own evidence. */
static bool speaks(const struct evidence_of *exact)
{
	return exact->asked || exact->stopped || exact->outcomes >= ENOUGH;
}

bool learning_wants(struct domain *domain, const struct allocation *allocation, struct kind *kind)
{
	struct learned *learned = domain->learned;
	struct evidence_of *exact;

	*kind = kind_of(allocation);
	/* Where keys are looked up on each use, nobody sees what is used. */
	if (config_get()->preregister == PREREGISTER_ALL || domain->looked_up || !learned)
		return true;
	exact = exact_of(learned, kind);
	if (exact && speaks(exact)) {
		kind->evidence = EVIDENCE_EXACT;
		return has_room(exact);
	}
	kind->evidence = EVIDENCE_CLASS;
	return (!exact || has_room(exact)) && has_room(&learned->classes[kind->size_class]);
}

static struct evidence_of *class_if(struct learned *learned, const struct kind *kind)
{
	return kind->evidence == EVIDENCE_CLASS ? &learned->classes[kind->size_class] : NULL;
}

void learning_made(struct domain *domain, const struct kind *kind)
{
	struct evidence_of *exact, *class;

	if (!domain->learned || kind->evidence == EVIDENCE_NONE)
		return;
	exact = claim_exact(domain->learned, kind, false);
	class = class_if(domain->learned, kind);
	if (exact)
		exact->outstanding++;
	if (class)
		class->outstanding++;
}

static void count(struct evidence_of *evidence, bool asked)
{
	if (evidence->outcomes >= MEMORY) {
		evidence->outcomes /= 2;
		evidence->asked /= 2;
	}
	evidence->outcomes++;
	evidence->asked = (uint8_t)(evidence->asked + asked);
	if (asked && evidence->growth < 16)
		evidence->growth++;
	if (evidence->asked >= MEMORY / 2)
		evidence->relapses = 0;
	if (evidence->asked * 100u >= evidence->outcomes * LEAST || evidence->outcomes < ENOUGH ||
	    evidence->stopped)
		return;
	evidence->stopped = true;
	evidence->growth = 0;
	evidence->pleas = 0;
}

static void settle(struct evidence_of *evidence, bool asked)
{
	if (!evidence)
		return;
	if (evidence->outstanding)
		evidence->outstanding--;
	count(evidence, asked);
	/* There may be room now for what was passed over. */
	if (evidence->refused && !evidence->stopped)
		era++;
}

void learning_wasted(struct domain *domain, const struct kind *kind)
{
	if (!domain->learned || kind->evidence == EVIDENCE_NONE)
		return;
	settle(exact_of(domain->learned, kind), false);
	settle(class_if(domain->learned, kind), false);
}

/* Asked for without having been registered ahead: it may come back. */
static void plead(struct evidence_of *evidence)
{
	if (!evidence->stopped) {
		count(evidence, true);
		return;
	}
	if (++evidence->pleas < 1u << evidence->relapses)
		return;
	if (evidence->relapses < RELAPSES_MAX)
		evidence->relapses++;
	evidence->stopped = false;
	evidence->asked = 1;
	evidence->outcomes = 1;
	era++;
}

/* What was passed over is wanted now. */
static bool take_refused(struct evidence_of *evidence)
{
	bool refused = evidence && evidence->refused && !evidence->stopped;

	if (refused) {
		evidence->refused = false;
		era++;
	}
	return refused;
}

bool learning_asked(struct domain *domain, const struct allocation *allocation, const struct kind *kind)
{
	struct learned *learned = domain->learned;
	struct evidence_of *exact, *class;
	struct kind own = kind_of(allocation);
	bool again;

	if (!learned)
		return false;
	if (kind->evidence != EVIDENCE_NONE) {
		exact = exact_of(learned, kind);
		class = class_if(learned, kind);
		settle(exact, true);
		settle(class, true);
	} else {
		exact = claim_exact(learned, &own, true);
		class = exact ? NULL : &learned->classes[own.size_class];
		/* Its exact size speaks for itself from now on; where there is no room for it, its class does. */
		plead(exact ? exact : class);
	}
	again = take_refused(exact);
	return take_refused(class) || again;
}
