/* SPDX-License-Identifier: BSD-3-Clause */
/* learning.c -- which kinds of allocation clients request: background registration of those only
 *
 * A region that no client requests is waste, and its deregistration is paid in cuMemFree. Two
 * outcomes are evidence: a client requests a region registered in the background, or the region
 * ends before any request. Each domain keeps evidence per exact size and per size class (half an
 * octave). Message buffers of a program have few sizes, its scratch memory may have any. Once an
 * exact size has enough evidence of its own, its class neither judges it nor learns from it.
 *
 * - Unknown kinds are registered within a limit: POLICY_SPECULATIVE regions, and twice as many
 *   after each request for one.
 * - Background registration of a kind stops when clients requested less than POLICY_REQUESTED
 *   percent of its recent regions.
 * - A request restarts it. After a wrong restart, the next one takes twice as many requests.
 */
#include "registration/learning.h"

#include <stddef.h>

#include "base/atomics.h"
#include "base/config.h"
#include "registration/policy.h"

/* Kinds that every domain refuses, so that allocations of scratch memory need not be queued: by
 * exact size, and by class for sizes without evidence. An entry is valid while its number is `era`;
 * every change that could reverse a refusal increments `era`. */
static _Atomic uint64_t refused_exact[EXACT_SIZES]; /* tag above the low half of the era */
static _Atomic uint64_t refused_classes[CLASSES];
static _Atomic uint8_t known[1024 / 8]; /* 1 bit for several sizes: evidence exists */
static _Atomic uint64_t era = 1;

void learning_begin(struct domain *domain)
{
	era++;
	domain->learned = (struct learned){ 0 };
}

void learning_reconsider(void)
{
	era++;
}

static uint8_t learning_class_of(uint64_t size)
{
	unsigned int octave = 63u - (unsigned int)__builtin_clzll(size | 1);

	return (uint8_t)(2 * octave + (octave && (size >> (octave - 1) & 1)));
}

/* Scratch memory of pools is no evidence against buffers from cuMemAlloc of its size, nor these a
 * reason to register it. */
static struct learning_kind learning_kind_of(const struct allocation *allocation)
{
	bool dma_buf_only = !memory_is_registrable(allocation);
	uint64_t mixed = (allocation->size ^ ((uint64_t)allocation->device << 56) ^
			  ((uint64_t)dma_buf_only << 55)) *
			 0x9e3779b97f4a7c15u;

	return (struct learning_kind){ .tag = (uint32_t)(mixed >> 24) | 1,
				       .exact = (uint16_t)(mixed >> 56) % EXACT_SIZES,
				       .size_class = (uint8_t)(learning_class_of(allocation->size) +
							       dma_buf_only * CLASSES / 2) };
}

static bool learning_is_known(const struct learning_kind *kind)
{
	return load_relaxed(&known[kind->tag / 8 % sizeof(known)]) >> kind->tag % 8 & 1;
}

static uint64_t learning_refused_tag(const struct learning_kind *kind, uint64_t now)
{
	return (uint64_t)kind->tag << 32 | (uint32_t)now;
}

bool learning_is_refused(const struct allocation *allocation)
{
	struct learning_kind kind = learning_kind_of(allocation);
	uint64_t now = load_acquire(&era);

	return load_relaxed(&refused_exact[kind.exact]) == learning_refused_tag(&kind, now) ||
	       (load_relaxed(&refused_classes[kind.size_class]) == now &&
		!learning_is_known(&kind));
}

void learning_set_refused(const struct allocation *allocation)
{
	struct learning_kind kind = learning_kind_of(allocation);

	if (learning_is_known(&kind))
		refused_exact[kind.exact] = learning_refused_tag(&kind, era);
	else
		refused_classes[kind.size_class] = era;
}

/* The evidence of exactly that size; NULL: none. */
static struct evidence_of *learning_find_exact(struct learned *learned,
					       const struct learning_kind *kind)
{
	struct evidence_of *exact = &learned->exact[kind->exact];

	return exact->tag == kind->tag ? exact : NULL;
}

/* Replaces another size's evidence, unless that has outstanding regions or requests. Each request
 * for this size halves the other's counts, so that a size which the program no longer uses cannot
 * keep the entry. */
static struct evidence_of *learning_claim_exact(struct learned *learned,
						const struct learning_kind *kind, bool requested)
{
	struct evidence_of *exact = &learned->exact[kind->exact];

	if (exact->tag == kind->tag)
		return exact;
	if (exact->outstanding || exact->requested) {
		if (requested) {
			exact->outcomes /= 2;
			exact->requested /= 2;
		}
		return NULL;
	}
	*exact = (struct evidence_of){ .tag = kind->tag };
	known[kind->tag / 8 % sizeof(known)] |= (uint8_t)(1u << kind->tag % 8);
	return exact;
}

static bool learning_may_start(struct evidence_of *evidence)
{
	unsigned int limit = POLICY_SPECULATIVE << evidence->growth;
	bool may = !evidence->stopped && evidence->outstanding < limit;

	if (!may)
		evidence->refused = true;
	return may;
}

/* True if an exact size has enough evidence of its own. */
static bool learning_is_decisive(const struct evidence_of *exact)
{
	return exact->requested || exact->stopped || exact->outcomes >= POLICY_OUTCOMES;
}

bool learning_is_eligible(struct domain *domain, const struct allocation *allocation,
			  struct learning_kind *kind)
{
	struct learned *learned = &domain->learned;
	struct evidence_of *exact;

	*kind = learning_kind_of(allocation);
	if (config_get()->preregister == PREREGISTER_ALL)
		return true;
	exact = learning_find_exact(learned, kind);
	if (exact && learning_is_decisive(exact)) {
		kind->evidence = EVIDENCE_EXACT;
		return learning_may_start(exact);
	}
	kind->evidence = EVIDENCE_CLASS;
	return (!exact || learning_may_start(exact)) &&
	       learning_may_start(&learned->classes[kind->size_class]);
}

static struct evidence_of *learning_class_if(struct learned *learned,
					     const struct learning_kind *kind)
{
	return kind->evidence == EVIDENCE_CLASS ? &learned->classes[kind->size_class] : NULL;
}

void learning_started(struct domain *domain, const struct learning_kind *kind)
{
	struct evidence_of *exact, *class;

	if (kind->evidence == EVIDENCE_NONE)
		return;
	exact = learning_claim_exact(&domain->learned, kind, false);
	class = learning_class_if(&domain->learned, kind);
	if (exact)
		exact->outstanding++;
	if (class)
		class->outstanding++;
}

static void learning_count(struct evidence_of *evidence, bool requested)
{
	if (evidence->outcomes >= POLICY_MEMORY) {
		evidence->outcomes /= 2;
		evidence->requested /= 2;
	}
	evidence->outcomes++;
	evidence->requested = (uint8_t)(evidence->requested + requested);
	if (requested && evidence->growth < 16)
		evidence->growth++;
	if (evidence->requested >= POLICY_MEMORY / 2)
		evidence->relapses = 0;
	if (evidence->requested * 100u >= evidence->outcomes * POLICY_REQUESTED ||
	    evidence->outcomes < POLICY_OUTCOMES || evidence->stopped)
		return;
	evidence->stopped = true;
	evidence->growth = 0;
	evidence->requests_since_stop = 0;
}

static void learning_settle(struct evidence_of *evidence, bool requested)
{
	if (!evidence)
		return;
	if (evidence->outstanding)
		evidence->outstanding--;
	learning_count(evidence, requested);
	/* An allocation refused earlier may fit the limit now. */
	if (evidence->refused && !evidence->stopped)
		era++;
}

void learning_unused(struct domain *domain, const struct learning_kind *kind)
{
	if (kind->evidence == EVIDENCE_NONE)
		return;
	learning_settle(learning_find_exact(&domain->learned, kind), false);
	learning_settle(learning_class_if(&domain->learned, kind), false);
}

/* A client requested an allocation that was not registered in the background: its kind may
 * restart. */
static void learning_count_miss(struct evidence_of *evidence)
{
	if (!evidence->stopped) {
		learning_count(evidence, true);
		return;
	}
	if (++evidence->requests_since_stop < 1u << evidence->relapses)
		return;
	if (1u << evidence->relapses < 2 * POLICY_MEMORY)
		evidence->relapses++;
	evidence->stopped = false;
	evidence->requested = 1;
	evidence->outcomes = 1;
	era++;
}

/* True if allocations refused earlier may be registered now. */
static bool learning_take_refused(struct evidence_of *evidence)
{
	bool refused = evidence && evidence->refused && !evidence->stopped;

	if (refused) {
		evidence->refused = false;
		era++;
	}
	return refused;
}

bool learning_requested(struct domain *domain, const struct allocation *allocation,
			const struct learning_kind *kind)
{
	struct learned *learned = &domain->learned;
	struct evidence_of *exact, *class;
	struct learning_kind own = learning_kind_of(allocation);
	bool rescan;

	if (kind->evidence != EVIDENCE_NONE) {
		exact = learning_find_exact(learned, kind);
		class = learning_class_if(learned, kind);
		learning_settle(exact, true);
		learning_settle(class, true);
	} else {
		exact = learning_claim_exact(learned, &own, true);
		class = exact ? NULL : &learned->classes[own.size_class];
		/* From now on the exact size has evidence of its own; without an entry for it, its
		 * class gets the evidence. */
		learning_count_miss(exact ? exact : class);
	}
	rescan = learning_take_refused(exact);
	return learning_take_refused(class) || rescan;
}
