/* SPDX-License-Identifier: BSD-3-Clause */
/* observe.c -- the recorder: live memory, its registrations, and sums of both
 *
 * A memory has a use for each domain (protection domain and access flags) in which it was
 * registered, a use has its ranges, and a registration its range. A range outlives its memory as
 * long as a registration of it is alive.
 */
#include "observe/observe_tables.h"

#include <pthread.h>
#include <stddef.h>

#include "base/config.h"
#include "base/kernel.h"
#include "base/once.h"
#include "base/pool.h"
#include "base/process.h"
#include "base/start.h"
#include "base/system.h"
#include "base/text.h"
#include "memory/keep.h"
#include "report/statistics.h"

#define SAMPLE_NS                                                                                  \
	(UINT64_C(16) << 20) /* the first interval of the timeline: 4 ticks of the clock */
#define EARLY_NS  UINT64_C(1000000000)
#define GRANULE	  UINT64_C(65536)
#define KEPT_ROOM (UINT64_C(32) << 20)
#define EXPORTS	  1024u /* recorded dma-bufs, by descriptor */

struct memory {
	uint64_t base, size, begun;
	uint32_t left, right, priority; /* the tree; `left` links the free list */
	uint32_t uses, user;		/* user: the first caller that registered it */
	unsigned char kind;
	bool synchronized, registered;
	bool kept; /* kept memory would have served the allocation, with its registrations */
};

struct part {
	uint64_t from, to;
};

struct use {
	uint32_t next, memory, domain, ranges, requests, part_count;
	bool whole;
	struct part parts[PARTS]; /* registered by peerpin's rules */
};

struct range {
	uint64_t address, length;
	uint32_t next_in_use, next_in_bucket, use; /* use 0: the memory has ended */
	uint32_t count, live;
};

enum { SAVED_SERVED = 1, SAVED_BACKGROUND = 2, SAVED_KEPT = 4 };

struct mr {
	const void *mr, *device;
	uint64_t length;
	uint32_t next, range, caller, kind;
	bool repeated;
	unsigned char saved;
};

struct domain {
	const void *pd;
	int access;
	uint32_t caller;
	uint64_t begun; /* first request for GPU memory */
};

struct pd {
	const void *pd;
	uint32_t caller;
	char adapter[32];
};

struct export
{
	int fd;
	uint64_t address, size;
};

static struct tables {
	struct observed observed;
	struct memory memories[MEMORIES];
	struct use uses[USES];
	struct range ranges[RANGES];
	struct mr mrs[MRS];
	struct domain domains[DOMAINS];
	struct pd pds[DOMAINS];
	struct export exports[EXPORTS];
	uint32_t range_buckets[RANGES], mr_buckets[MRS];
	TAILQ_HEAD(, observed_size) order; /* bins with reusable memory, by the last free */
	uint32_t root, domain_count, pd_count;
	uint32_t free_memory, free_use, free_range, free_mr;
	uint32_t memory_count, use_count, range_count, mr_count; /* taken so far */
} * tables AT_START_DATA;

/* Guards the tables. No other lock is taken under it, and no foreign code called. */
static pthread_mutex_t observe_lock = PTHREAD_MUTEX_INITIALIZER;

static _Atomic uint32_t frees;
static once observe_shown;

/* A signal handler that ends the process may have interrupted this thread with the lock held. */
static __thread bool observe_is_here __attribute__((tls_model("initial-exec")));

/* ---- the timeline ---- */

static uint32_t sampled(uint32_t caller)
{
	return caller < SAMPLED_CALLERS ? caller : SAMPLED_CALLERS - 1;
}

static uint64_t greater(uint64_t one, uint64_t other)
{
	return one > other ? one : other;
}

static struct observed_sample sample_join(const struct observed_sample *one,
					  const struct observed_sample *other)
{
	struct observed_sample both = { .memory = greater(one->memory, other->memory) };

	for (uint32_t i = 0; i < SAMPLED_CALLERS; i++) {
		both.pinned[i] = greater(one->pinned[i], other->pinned[i]);
		both.registrations[i] = one->registrations[i] + other->registrations[i];
	}
	return both;
}

static void timeline_join_pairs(struct observed_timeline *timeline)
{
	for (uint32_t i = 0; i < SAMPLES / 2; i++)
		timeline->samples[i] =
			sample_join(&timeline->samples[2 * i], &timeline->samples[2 * i + 1]);
	timeline->count = SAMPLES / 2;
	timeline->interval *= 2;
}

/* The intervals until now begin with the levels so far. */
static void timeline_advance(struct observed_timeline *timeline)
{
	uint64_t now = system_coarse_clock();

	if (!timeline->count) {
		timeline->interval = SAMPLE_NS;
		timeline->end = now;
	}
	while (timeline->end <= now) {
		if (timeline->count == SAMPLES)
			timeline_join_pairs(timeline);
		timeline->samples[timeline->count++] = timeline->level;
		timeline->end += timeline->interval;
	}
}

static struct observed_sample *timeline_sample(void)
{
	struct observed_timeline *timeline = &tables->observed.timeline;

	return &timeline->samples[timeline->count - 1];
}

static void observe_end(void)
{
	pthread_mutex_unlock(&observe_lock);
	observe_is_here = false;
}

/* Take the lock. False: there is no memory for the tables, and the lock is not held. */
static bool observe_begin(void)
{
	observe_is_here = true;
	pthread_mutex_lock(&observe_lock);
	if (__builtin_expect(!tables, 0)) {
		tables = pool_map(sizeof(*tables));
		if (!tables) {
			observe_end();
			return false;
		}
		TAILQ_INIT(&tables->order);
		tables->observed.begun_ns = kernel_time(CLOCK_REALTIME);
		tables->observed.begun_clock = system_clock();
	}
	timeline_advance(&tables->observed.timeline);
	return true;
}

/* Sums for peerpin top, with the lock held. */
static void observe_copy(void)
{
	const struct observed *observed = &tables->observed;
	uint64_t allocated = 0, freed = 0, registered = 0, failed = 0, ns = 0;

	for (int i = 0; i < ALLOCATION_HOST; i++) {
		allocated += observed->allocated[i].count;
		freed += observed->freed[i].count;
	}
	for (uint32_t i = 0; i < observed->kind_count; i++) {
		registered += observed->kinds[i].made.count;
		failed += observed->kinds[i].failed;
		ns += observed->kinds[i].made.ns;
	}
	store_relaxed(&statistics.counters.allocations, allocated);
	store_relaxed(&statistics.counters.frees, freed);
	store_relaxed(&statistics.counters.registrations, registered);
	store_relaxed(&statistics.counters.registrations_failed, failed);
	store_relaxed(&statistics.counters.program_ns, ns);
	store_relaxed(&statistics.counters.pinned_bytes, observed->pinned);
	store_relaxed(&statistics.counters.pinned_bytes_peak, observed->pinned_peak);
}

/* Drop the lock. With PEERPIN_OBSERVE_TOP a snapshot follows, at most twice a second. */
static void observe_end_shown(void)
{
	bool shows = config_get()->observe_top;

	if (shows)
		observe_copy();
	observe_end();
	if (!shows)
		return;
	if (once_begin(&observe_shown)) {
		statistics_begin_observed();
		once_end(&observe_shown);
	}
	statistics_snapshot();
}

static void observe_sum(struct observed_sum *sum, uint64_t bytes, uint64_t ns)
{
	sum->count++;
	sum->bytes += bytes;
	sum->ns += ns;
}

static void observe_peak(uint64_t *now, uint64_t *peak, uint64_t change)
{
	*now += change;
	if ((int64_t)*now > (int64_t)*peak)
		*peak = *now;
}

/* A record of a table, or 0 if it is full. `link`: the word that links free records. */
#define TAKE(list, free_list, taken, most, link)                                                   \
	({                                                                                         \
		uint32_t number_ = tables->free_list;                                              \
                                                                                                   \
		if (number_)                                                                       \
			tables->free_list = tables->list[number_].link;                            \
		else if (tables->taken + 1 < (most))                                               \
			number_ = ++tables->taken;                                                 \
		else                                                                               \
			tables->observed.lost++;                                                   \
		if (number_)                                                                       \
			tables->list[number_] = (__typeof__(*tables->list)){ .link = 0 };          \
		number_;                                                                           \
	})

#define GIVE(list, free_list, link, number)                                                        \
	do {                                                                                       \
		tables->list[number].link = tables->free_list;                                     \
		tables->free_list = (number);                                                      \
	} while (0)

/* ---- the tree of memory, by address ---- */

#define memory_at(number) (&tables->memories[number])

/* `*left`: the memories below `base`. */
static void tree_split(uint32_t tree, uint64_t base, uint32_t *left, uint32_t *right)
{
	if (!tree) {
		*left = *right = 0;
	} else if (memory_at(tree)->base < base) {
		*left = tree;
		tree_split(memory_at(tree)->right, base, &memory_at(tree)->right, right);
	} else {
		*right = tree;
		tree_split(memory_at(tree)->left, base, left, &memory_at(tree)->left);
	}
}

static uint32_t tree_join(uint32_t left, uint32_t right)
{
	if (!left || !right)
		return left ? left : right;
	if (memory_at(left)->priority > memory_at(right)->priority) {
		memory_at(left)->right = tree_join(memory_at(left)->right, right);
		return left;
	}
	memory_at(right)->left = tree_join(left, memory_at(right)->left);
	return right;
}

static void tree_insert(uint32_t number)
{
	uint32_t left, right;

	memory_at(number)->left = memory_at(number)->right = 0;
	tree_split(tables->root, memory_at(number)->base, &left, &right);
	tables->root = tree_join(tree_join(left, number), right);
}

static void tree_remove(uint32_t number)
{
	uint32_t left, middle, right;

	tree_split(tables->root, memory_at(number)->base, &left, &right);
	tree_split(right, memory_at(number)->base + 1, &middle, &right);
	tables->root = tree_join(left, right);
}

/* The memory with the highest base of at most `address`, or 0. */
static uint32_t tree_find_below(uint64_t address)
{
	uint32_t found = 0, at = tables->root;

	while (at) {
		if (memory_at(at)->base <= address) {
			found = at;
			at = memory_at(at)->right;
		} else {
			at = memory_at(at)->left;
		}
	}
	return found;
}

static uint32_t tree_find(uint64_t address)
{
	uint32_t found = tree_find_below(address);

	return found && address - memory_at(found)->base < memory_at(found)->size ? found : 0;
}

/* ---- ranges and uses ---- */

static uint32_t *range_bucket(uint32_t use, uint64_t address, uint64_t length)
{
	uint64_t mixed = (address ^ length << 20 ^ use) * UINT64_C(0x9e3779b97f4a7c15);

	return &tables->range_buckets[(mixed >> 40) % RANGES];
}

static uint32_t range_find(uint32_t use, uint64_t address, uint64_t length)
{
	uint32_t at = *range_bucket(use, address, length);

	while (at && (tables->ranges[at].use != use || tables->ranges[at].address != address ||
		      tables->ranges[at].length != length))
		at = tables->ranges[at].next_in_bucket;
	return at;
}

static uint32_t range_add(uint32_t use, uint64_t address, uint64_t length)
{
	uint32_t number = TAKE(ranges, free_range, range_count, RANGES, next_in_use);
	uint32_t *bucket = range_bucket(use, address, length);
	struct range *range = &tables->ranges[number];

	if (!number)
		return 0;
	range->address = address;
	range->length = length;
	range->use = use;
	range->next_in_bucket = *bucket;
	*bucket = number;
	range->next_in_use = tables->uses[use].ranges;
	tables->uses[use].ranges = number;
	return number;
}

static void range_unlink(uint32_t number)
{
	struct range *range = &tables->ranges[number];
	uint32_t *at = range_bucket(range->use, range->address, range->length);

	while (*at != number)
		at = &tables->ranges[*at].next_in_bucket;
	*at = range->next_in_bucket;
	range->use = 0;
	if (!range->live)
		GIVE(ranges, free_range, next_in_use, number);
}

static void range_ended(uint32_t number)
{
	struct range *range = &tables->ranges[number];

	if (!--range->live && !range->use)
		GIVE(ranges, free_range, next_in_use, number);
}

static uint32_t use_find(uint32_t memory, uint32_t domain)
{
	uint32_t at = memory_at(memory)->uses;

	while (at && tables->uses[at].domain != domain)
		at = tables->uses[at].next;
	if (at)
		return at;
	at = TAKE(uses, free_use, use_count, USES, next);
	if (!at)
		return 0;
	tables->uses[at].memory = memory;
	tables->uses[at].domain = domain;
	tables->uses[at].next = memory_at(memory)->uses;
	memory_at(memory)->uses = at;
	return at;
}

static void memory_changes(uint64_t change)
{
	struct observed *observed = &tables->observed;

	observe_peak(&observed->memory, &observed->memory_peak, change);
	observe_peak(&observed->timeline.level.memory, &timeline_sample()->memory, change);
}

/* The memory, which is not in the tree, has ended. `freed`: by the program's free. */
static void memory_end(uint32_t number, bool freed)
{
	struct memory *memory = memory_at(number);
	uint32_t next_use, next, live;

	for (uint32_t use = memory->uses; use; use = next_use) {
		uint32_t caller = tables->domains[tables->uses[use].domain].caller;

		next_use = tables->uses[use].next;
		for (uint32_t at = tables->uses[use].ranges; at; at = next) {
			next = tables->ranges[at].next_in_use;
			live = freed ? tables->ranges[at].live : 0;
			if (live)
				callers_find(caller, FINDING_outlived, live,
					     live * tables->ranges[at].length, 0);
			range_unlink(at);
		}
		GIVE(uses, free_use, next, use);
	}
	/* The driver refuses SYNC_MEMOPS for VMM memory (measured). */
	if (memory->registered && !memory->synchronized && memory->kind != ALLOCATION_MAPPED)
		callers_find(memory->user, FINDING_sync_missing, 1, memory->size, 0);
	if (memory->kind != ALLOCATION_HOST)
		memory_changes(-memory->size);
	GIVE(memories, free_memory, left, number);
}

/* ---- kept memory ---- */

/* Open addressing: a bin never leaves. NULL: no room. */
static struct observed_size *size_find(uint64_t size)
{
	struct observed *observed = &tables->observed;
	uint64_t bin = keep_bin_size(size), at = bin * UINT64_C(0x9e3779b97f4a7c15) >> 40;

	for (unsigned int i = 0; i < SIZES; i++, at++) {
		struct observed_size *found = &observed->sizes[at % SIZES];

		if (!found->size) {
			found->size = bin;
			observed->size_count++;
		}
		if (found->size == bin)
			return found;
	}
	observed->lost++;
	return NULL;
}

/* One of its memories is no longer kept. */
static void size_take(struct observed_size *size)
{
	tables->observed.kept -= size->size;
	if (!--size->reusable)
		TAILQ_REMOVE(&tables->order, size, in_order);
	if (size->reusable_registered > size->reusable)
		size->reusable_registered = size->reusable;
}

static void size_keep(struct observed_size *size)
{
	tables->observed.kept += size->size;
	if (size->reusable++)
		TAILQ_REMOVE(&tables->order, size, in_order);
	TAILQ_INSERT_TAIL(&tables->order, size, in_order);
}

static void size_allocated(struct memory *memory, uint64_t ns)
{
	struct observed_size *size = size_find(memory->size);

	if (!size)
		return;
	observe_sum(&size->allocated, memory->size, ns);
	if (!size->reusable)
		return;
	observe_sum(&size->reused, memory->size, ns);
	memory->kept = size->reusable_registered;
	size->reusable_registered -= memory->kept;
	size_take(size);
}

/* Kept memory and the program's are together at most 1.5 times the most that the program has had
 * at a time, but at least 32 MiB are kept (memory/kept.h). The least recently freed is released
 * first, here of a bin. */
static void size_freed(const struct memory *memory, uint64_t ns, bool sampled, uint64_t waited)
{
	struct observed *observed = &tables->observed;
	uint64_t live = observed->memory - memory->size, peak = observed->memory_peak;
	struct observed_size *size = size_find(memory->size);

	if (!size)
		return;
	observe_sum(&size->freed, memory->size, ns);
	if (sampled) {
		size->sampled++;
		size->sampled_ns += ns;
		size->waited_ns += waited;
	}
	size_keep(size);
	size->reusable_registered += memory->registered;
	while (observed->kept > KEPT_ROOM && observed->kept + live > peak + peak / 2)
		size_take(TAILQ_FIRST(&tables->order));
}

/* ---- calls of the driver ---- */

/* Records that the new memory overlaps have ended without a recorded free. */
static void memory_clear(uint64_t base, uint64_t size)
{
	uint32_t found;

	while ((found = tree_find_below(base + size - 1)) &&
	       memory_at(found)->base + memory_at(found)->size > base) {
		tree_remove(found);
		memory_end(found, false);
	}
}

void observe_allocated(enum allocation_kind kind, uint64_t address, uint64_t size, uint64_t ns)
{
	uint64_t now = system_clock();
	struct memory *memory;
	uint32_t number;

	if (!observe_begin())
		return;
	observe_sum(&tables->observed.allocated[kind], size, ns);
	/* The size of another process's memory is unknown. */
	if (size)
		memory_clear(address, size);
	number = size ? TAKE(memories, free_memory, memory_count, MEMORIES, left) : 0;
	if (number) {
		memory = memory_at(number);
		memory->base = address;
		memory->size = size;
		memory->begun = now;
		memory->kind = kind;
		memory->priority = (uint32_t)(address * UINT64_C(0x9e3779b97f4a7c15) >> 32);
		if (kind == ALLOCATION_DEVICE)
			size_allocated(memory, ns);
		if (kind != ALLOCATION_HOST)
			memory_changes(size);
		tree_insert(number);
	}
	observe_end_shown();
}

void observe_freeing(uint64_t address, struct observed_free *pending)
{
	*pending = (struct observed_free){ 0 };
	if (!observe_begin())
		return;
	pending->memory = tree_find(address);
	if (pending->memory && memory_at(pending->memory)->base != address)
		pending->memory = 0;
	if (pending->memory)
		tree_remove(pending->memory);
	observe_end();
}

void observe_freed(const struct observed_free *pending, bool freed, uint64_t ns, bool sampled,
		   uint64_t waited)
{
	struct memory *memory;

	if (!observe_begin())
		return;
	memory = memory_at(pending->memory);
	if (!pending->memory) {
		tables->observed.unknown_frees += freed;
	} else if (!freed) {
		tree_insert(pending->memory);
	} else {
		observe_sum(&tables->observed.freed[memory->kind], memory->size, ns);
		if (memory->kind == ALLOCATION_DEVICE)
			size_freed(memory, ns, sampled, waited);
		memory_end(pending->memory, true);
	}
	observe_end_shown();
}

bool observe_samples_free(void)
{
	return add_relaxed(&frees, 1) % OBSERVE_SAMPLE == 0;
}

void observe_unmapped(uint64_t address, uint64_t size, uint64_t ns)
{
	uint32_t found;

	if (!observe_begin())
		return;
	while (size && (found = tree_find_below(address + size - 1)) &&
	       memory_at(found)->base >= address) {
		observe_sum(&tables->observed.freed[memory_at(found)->kind], memory_at(found)->size,
			    ns);
		ns = 0; /* one call */
		tree_remove(found);
		memory_end(found, true);
	}
	observe_end();
}

void observe_synchronized(uint64_t address)
{
	uint32_t found;

	if (!observe_begin())
		return;
	found = tree_find(address);
	if (found)
		memory_at(found)->synchronized = true;
	observe_end();
}

void observe_exported(int fd, uint64_t address, uint64_t size, uint64_t ns, const void *caller)
{
	uint32_t by = callers_number(caller);

	if (!observe_begin())
		return;
	observe_sum(&tables->observed.exported[by], size, ns);
	tables->exports[(unsigned int)fd % EXPORTS] = (struct export){ fd, address, size };
	observe_end();
}

void observe_context_ended(void)
{
	if (!observe_begin())
		return;
	tables->observed.contexts_ended++;
	observe_end();
}

/* ---- registrations ---- */

static const struct pd *pd_find(const void *pd)
{
	for (uint32_t i = 1; i <= tables->pd_count; i++) {
		if (tables->pds[i].pd == pd)
			return &tables->pds[i];
	}
	return &tables->pds[0];
}

void observe_pd_allocated(const void *pd, const char *adapter, const void *caller)
{
	uint32_t by = callers_number(caller), i = 1;

	if (!observe_begin())
		return;
	while (i <= tables->pd_count && tables->pds[i].pd != pd)
		i++;
	if (i < DOMAINS) {
		if (i > tables->pd_count)
			tables->pd_count = i;
		tables->pds[i].pd = pd;
		tables->pds[i].caller = by;
		text_copy(tables->pds[i].adapter, sizeof(tables->pds[i].adapter), adapter);
		/* The address may be that of an ended one. */
		for (uint32_t at = 0; at < tables->domain_count; at++) {
			if (tables->domains[at].pd == pd)
				tables->domains[at].pd = NULL;
		}
	} else {
		tables->observed.lost++;
	}
	observe_end();
}

/* DOMAINS: no room. */
static uint32_t domain_find(const struct observed_registration *request, uint32_t caller,
			    uint64_t now)
{
	uint32_t i = 0;

	while (i < tables->domain_count && (tables->domains[i].pd != request->pd ||
					    tables->domains[i].access != request->access))
		i++;
	if (i < tables->domain_count)
		return i;
	if (i == DOMAINS) {
		tables->observed.lost++;
		return i;
	}
	tables->domains[i] = (struct domain){ request->pd, request->access, caller, now };
	tables->domain_count++;
	return i;
}

static uint32_t kind_find(const struct observed_registration *request, const struct pd *pd,
			  bool gpu)
{
	struct observed *observed = &tables->observed;
	uint32_t i = 0;
	struct observed_kind *kind;

	for (; i < observed->kind_count; i++) {
		kind = &observed->kinds[i];
		if (kind->caller == pd->caller && kind->form == request->form &&
		    kind->access == request->access && kind->gpu == gpu &&
		    text_equals(kind->adapter, pd->adapter))
			return i;
	}
	/* Sums stay exact: what finds no room counts in the last row. */
	if (i == KINDS)
		return KINDS - 1;
	kind = &observed->kinds[i];
	kind->caller = pd->caller;
	kind->form = request->form;
	kind->access = request->access;
	kind->gpu = gpu;
	text_copy(kind->adapter, sizeof(kind->adapter), pd->adapter);
	observed->kind_count++;
	return i;
}

/* The address of a dma-buf's memory: by its export, else as the client names the first byte. */
static uint64_t request_address(const struct observed_registration *request)
{
	const struct export *export = &tables->exports[(unsigned int)request->fd % EXPORTS];

	if (request->form == OBSERVED_ADDRESS)
		return request->address;
	return export->size && export->fd == request->fd ? export->address + request->address
							 : request->iova;
}

/* True if the range ends beyond its memory, in units in which adapters get pages of the GPU. One
 * range over several mappings is the rule with VMM memory. */
static bool request_is_oversized(uint32_t memory, uint64_t address, uint64_t length)
{
	uint64_t end = address + length, reached;

	for (;;) {
		const struct memory *at = memory_at(memory);
		uint32_t next;

		reached = at->base + at->size;
		if (end <= ((reached + GRANULE - 1) & ~(GRANULE - 1)))
			return false;
		next = at->kind == ALLOCATION_MAPPED ? tree_find(reached) : 0;
		if (!next || memory_at(next)->kind != ALLOCATION_MAPPED)
			return true;
		memory = next;
	}
}

static bool use_covers(const struct use *use, const struct part *wanted)
{
	if (use->whole)
		return true;
	for (uint32_t i = 0; i < use->part_count; i++) {
		if (use->parts[i].from <= wanted->from && wanted->to <= use->parts[i].to)
			return true;
	}
	return false;
}

/* As peerpin chooses the range of a miss (registration/requests.c): the whole of small memory, or
 * of at most 16 times the request; else the request, joined with a near part; the fifth makes the
 * whole. */
static void use_extend(struct use *use, const struct part *wanted)
{
	uint64_t length = wanted->to - wanted->from, size = memory_at(use->memory)->size;
	struct part hull, *part;

	if (size <= BLOCK || size <= 16 * length || use->part_count == PARTS) {
		use->whole = true;
		return;
	}
	for (part = use->parts; part < use->parts + use->part_count; part++) {
		hull.from = part->from < wanted->from ? part->from : wanted->from;
		hull.to = part->to > wanted->to ? part->to : wanted->to;
		if (hull.to - hull.from <= 2 * (length + part->to - part->from)) {
			*part = hull;
			return;
		}
	}
	use->parts[use->part_count++] = *wanted;
}

/* What peerpin would have saved of a request: SAVED_*. In domains of unique keys a region serves
 * one client's registration at a time. */
static unsigned char use_request(struct use *use, const struct range *range, uint64_t ns,
				 uint64_t now)
{
	const struct memory *memory = memory_at(use->memory);
	const struct domain *domain = &tables->domains[use->domain];
	struct part wanted = { range->address & ~(GRANULE - 1),
			       (range->address + range->length + GRANULE - 1) & ~(GRANULE - 1) };
	bool unique = callers_at(domain->caller)->unique_keys;
	unsigned char saved = 0;

	if (unique ? range->count && !range->live : use_covers(use, &wanted))
		return SAVED_SERVED;
	if (!use->requests) {
		/* The worker had the time for it since the allocation. */
		if (!unique && domain->begun < memory->begun && now - memory->begun > 2 * ns)
			saved |= SAVED_BACKGROUND;
		if (memory->kept)
			saved |= SAVED_KEPT;
		/* The worker, or the last use of the kept memory, has registered the whole. */
		if (saved)
			use->whole = !unique;
	}
	if (!saved && !unique)
		use_extend(use, &wanted);
	return saved;
}

static void saving_add(unsigned char saved, uint64_t bytes, uint64_t ns, bool counts)
{
	struct observed_saving *saving = &tables->observed.saving;
	struct observed_sum *sums[] = {
		saved & SAVED_SERVED ? &saving->served : NULL,
		saved & SAVED_BACKGROUND ? &saving->background : NULL,
		saved & SAVED_KEPT ? &saving->kept : NULL,
		saved == (SAVED_KEPT | SAVED_BACKGROUND) ? &saving->kept_background : NULL,
		saved ? NULL : &saving->first,
	};

	for (size_t i = 0; i < sizeof(sums) / sizeof(*sums); i++) {
		if (!sums[i])
			continue;
		sums[i]->count += counts;
		sums[i]->bytes += counts ? bytes : 0;
		sums[i]->ns += ns;
	}
}

static uint32_t *mr_bucket(const void *mr)
{
	uint64_t mixed = (uintptr_t)mr * UINT64_C(0x9e3779b97f4a7c15);

	return &tables->mr_buckets[(mixed >> 40) % MRS];
}

static void mr_pin(const struct mr *mr, uint64_t change)
{
	struct observed *observed = &tables->observed;

	if (!mr->range)
		return;
	observe_peak(&observed->timeline.level.pinned[sampled(mr->caller)],
		     &timeline_sample()->pinned[sampled(mr->caller)], change);
	observe_peak(&observed->pinned, &observed->pinned_peak, change);
	observe_peak(&observed->pinned_by[mr->caller], &observed->pinned_by_peak[mr->caller],
		     change);
}

/* A registration of GPU memory: the findings, and the saving. Return its range, or 0. */
static uint32_t memory_registered(uint32_t number, const struct observed_registration *request,
				  uint32_t caller, uint64_t ns, struct mr *mr)
{
	struct memory *memory = memory_at(number);
	uint64_t now = system_clock(), address = request_address(request);
	uint32_t domain = domain_find(request, caller, now), use, found;
	struct range *range;

	if (!memory->registered)
		memory->user = caller;
	memory->registered = true;
	if (request_is_oversized(number, address, request->length))
		callers_find(caller, FINDING_oversized, 1, request->length, 0);
	use = domain < DOMAINS ? use_find(number, domain) : 0;
	found = use ? range_find(use, address, request->length) : 0;
	if (use && !found)
		found = range_add(use, address, request->length);
	if (!found)
		return 0;
	range = &tables->ranges[found];
	mr->saved = use_request(&tables->uses[use], range, ns, now);
	saving_add(mr->saved, request->length, ns, true);
	mr->repeated = range->count != 0;
	if (mr->repeated)
		callers_find(caller, FINDING_repeated, 1, request->length, ns);
	if (range->live)
		callers_find(caller, FINDING_duplicate, 1, request->length, ns);
	tables->uses[use].requests++;
	range->count++;
	range->live++;
	return found;
}

static void mr_add(const struct observed_registration *request, uint32_t caller, uint32_t kind,
		   uint32_t memory, uint64_t ns)
{
	uint32_t number = TAKE(mrs, free_mr, mr_count, MRS, next);
	uint32_t *bucket = mr_bucket(request->mr);
	struct mr *mr = &tables->mrs[number];

	if (!number)
		return;
	mr->mr = request->mr;
	mr->device = request->device;
	mr->length = request->length;
	mr->caller = caller;
	mr->kind = kind;
	mr->range = memory ? memory_registered(memory, request, caller, ns, mr) : 0;
	mr_pin(mr, mr->length);
	mr->next = *bucket;
	*bucket = number;
}

/* `deregistered`: false: the device is closed, or the process ends, with it. */
static void mr_end(uint32_t *link, bool deregistered, uint64_t ns)
{
	uint32_t number = *link;
	struct mr *mr = &tables->mrs[number];

	*link = mr->next;
	if (deregistered) {
		observe_sum(&tables->observed.kinds[mr->kind].ended, mr->length, ns);
		if (mr->repeated)
			callers_find(mr->caller, FINDING_repeated, 0, 0, ns);
	}
	if (mr->range) {
		if (!deregistered)
			callers_find(mr->caller, FINDING_leaked, 1, mr->length, 0);
		else
			saving_add(mr->saved, 0, ns, false);
		mr_pin(mr, -mr->length);
		range_ended(mr->range);
	}
	GIVE(mrs, free_mr, next, number);
}

static uint32_t *mr_find(const void *mr)
{
	uint32_t *at = mr_bucket(mr);

	while (*at && tables->mrs[*at].mr != mr)
		at = &tables->mrs[*at].next;
	return *at ? at : NULL;
}

static uint32_t request_memory(const struct observed_registration *request)
{
	uint64_t address = request_address(request);
	uint32_t memory = tree_find(address);

	/* Clients round the range to pages. */
	if (!memory && request->length)
		memory = tree_find(address + request->length - 1);
	return memory && memory_at(memory)->kind != ALLOCATION_HOST ? memory : 0;
}

uint64_t observe_registered(const struct observed_registration *request, bool registered,
			    uint64_t ns)
{
	uint32_t memory, number, *old;
	struct observed_kind *kind;
	uint64_t unsynchronized = 0;
	const struct pd *pd;

	if (!observe_begin())
		return 0;
	pd = pd_find(request->pd);
	memory = request_memory(request);
	number = kind_find(request, pd, memory);
	kind = &tables->observed.kinds[number];
	if (registered) {
		observe_sum(&kind->made, request->length, ns);
		timeline_sample()->registrations[sampled(pd->caller)]++;
		kind->early += system_clock() - tables->observed.begun_clock < EARLY_NS;
		old = mr_find(request->mr);
		if (old) /* its owner abandoned the struct */
			mr_end(old, false, 0);
		if (memory && !memory_at(memory)->registered && !memory_at(memory)->synchronized)
			unsynchronized = memory_at(memory)->base;
		mr_add(request, pd->caller, number, memory, ns);
	} else {
		kind->failed++;
	}
	observe_end_shown();
	return unsynchronized;
}

void observe_deregistered(const void *mr, uint64_t ns)
{
	uint32_t *at;

	if (!observe_begin())
		return;
	at = mr_find(mr);
	if (at)
		mr_end(at, true, ns);
	observe_end_shown();
}

void observe_changed(const struct observed_registration *request, uint64_t ns)
{
	observe_deregistered(request->mr, 0);
	observe_registered(request, true, ns);
}

void observe_device_closing(const void *start, uint64_t bytes)
{
	if (!observe_begin())
		return;
	for (uint32_t i = 0; i < MRS && tables->mr_count; i++) {
		uint32_t *at = &tables->mr_buckets[i];

		while (*at) {
			if ((uintptr_t)tables->mrs[*at].device - (uintptr_t)start < bytes)
				mr_end(at, false, 0);
			else
				at = &tables->mrs[*at].next;
		}
	}
	observe_end();
}

/* ---- the end ---- */

static void memory_conclude(uint32_t tree)
{
	const struct memory *memory = memory_at(tree);

	if (!tree)
		return;
	memory_conclude(memory->left);
	if (memory->registered && !memory->synchronized && memory->kind != ALLOCATION_MAPPED)
		callers_find(memory->user, FINDING_sync_missing, 1, memory->size, 0);
	memory_conclude(memory->right);
}

const struct observed *observe_conclude(void)
{
	if (!tables || observe_is_here)
		return NULL;
	pthread_mutex_lock(&observe_lock);
	timeline_advance(&tables->observed.timeline);
	for (uint32_t i = 0; i < MRS && tables->mr_count; i++) {
		while (tables->mr_buckets[i])
			mr_end(&tables->mr_buckets[i], false, 0);
	}
	memory_conclude(tables->root);
	pthread_mutex_unlock(&observe_lock);
	return &tables->observed;
}

AT_START bool observe_has_begun(void)
{
	return tables;
}

void observe_renew(void)
{
	statistics_renew_observed();
	observe_shown = 0;
	observe_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	tables = NULL;
	store_relaxed(&frees, 0);
}
