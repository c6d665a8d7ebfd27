/* SPDX-License-Identifier: BSD-3-Clause */
/* allocations.c -- begins and ends of allocations: their records, events and tag checks
 *
 * An allocation ends by a free, by the end of its context, by a later allocation at its address, or
 * because the driver no longer reports it.
 */
#include "memory/memory.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>

#include "base/atomics.h"
#include "base/config.h"
#include "base/log.h"
#include "base/pool.h"
#include "base/process.h"
#include "memory/keep.h"
#include "memory/kept.h"
#include "memory/queries.h"
#include "memory/table.h"
#include "report/errors.h"
#include "report/statistics.h"
#include "report/trace.h"

/* ---- events: to the layers above, the log, the trace and the statistics ---- */

/* Names of a kind in the log, and in the trace. */
static const char events_kinds[][12] = {
#define KIND(kind, name) #name,
	ALLOCATION_KINDS(KIND)
#undef KIND
		"host"
};
static const char events_traced_kinds[][20] = {
#define KIND(kind, name) #name " memory",
	ALLOCATION_KINDS(KIND)
#undef KIND
		"host memory"
};

/* The trace has the program's allocations and frees: kept memory is freed memory. Snapshots of the
 * statistics are due in the time of these calls. */
static void events_trace(const struct allocation *allocation, bool begins)
{
	if (trace_is_on())
		trace_allocation(begins, allocation->event_id, allocation->base, allocation->size,
				 allocation->device, events_traced_kinds[allocation->kind]);
	statistics_snapshot();
}

void events_emit(enum memory_event event, const struct allocation *allocation)
{
	static const char names[][12] = { "allocated", "freeing", "keeping", "reused",
					  "releasing" };
	bool concerns = memory_is_for_adapters(allocation);

	log_message(LOG_TRACE, "%s 0x%llx %llu %s id %llu%s", names[event],
		    (unsigned long long)allocation->base, (unsigned long long)allocation->size,
		    events_kinds[allocation->kind], (unsigned long long)allocation->event_id,
		    concerns ? "" : ", not for adapters");
	if (!concerns)
		return;
	if (event == MEMORY_FREEING || event == MEMORY_KEEPING)
		events_trace(allocation, false);
	memory_hook(event, allocation);
	if (event == MEMORY_ALLOCATED || event == MEMORY_REUSED)
		events_trace(allocation, true);
}

void events_count_allocation(enum allocation_kind kind, uint64_t size)
{
	if (kind == ALLOCATION_HOST) {
		statistics_count(host_allocations);
		return;
	}
	statistics_count(allocations);
	statistics_add(allocated_bytes, size);
	statistics_sort(allocation_bytes, size);
	switch (kind) {
#define KIND(kind, name)                                                                           \
	case ALLOCATION_##kind:                                                                    \
		statistics_count(allocations_##name);                                              \
		break;
		ALLOCATION_KINDS(KIND)
#undef KIND
	case ALLOCATION_HOST:
		break;
	}
}

void events_count_free(const struct allocation *ended, int number)
{
	if (ended->kind == ALLOCATION_HOST)
		statistics_add(host_frees, number);
	else
		statistics_add(frees, number);
}

void memory_report_refused(const char *what)
{
	int error = exchange_relaxed(&pool_refused, 0);
	struct errors_text refusal;
	char description[256];

	if (!error)
		return;
	refusal = errors_look_up(ERRORS_GROWTH, error);
	errors_describe(&refusal, description, sizeof(description));
	log_once(LOG_WARN,
		 "GPU memory is not %s: %s. Client registrations of this memory are forwarded. %s",
		 what, description, refusal.fix);
}

void events_untracked(const struct allocation *allocation, int error)
{
	statistics_count(untracked);
	log_message(LOG_INFO, "memory at 0x%llx, %llu bytes, is not recorded: %s",
		    (unsigned long long)allocation->base, (unsigned long long)allocation->size,
		    error == -ENOMEM ? "out of memory" : "unusual address");
	if (error == -ENOMEM)
		memory_report_refused("recorded");
}

/* ---- begins: a record, after the ends of stale ones that it overlaps ---- */

void memory_renew(void)
{
	table_renew();
	exports_renew();
	kept_renew();
}

void memory_missed_free(const struct allocation *ended)
{
	struct allocation gone = *ended;

	gone.gone = true;
	statistics_count(missed_frees);
	log_once(LOG_WARN,
		 "memory at 0x%llx: peerpin missed its free, and ends its registrations now. "
		 "Please report how the program frees GPU memory.",
		 (unsigned long long)ended->base);
	events_ending(&gone);
}

static bool allocate_is_recorded(const struct allocation *allocation)
{
	struct allocation recorded;

	return memory_find(allocation->base, &recorded) && recorded.base == allocation->base &&
	       recorded.buffer_id == allocation->buffer_id;
}

/* Insert a record and end the stale records in its range. Retry, because other threads may insert
 * there, too. -EALREADY: another thread, or an intercepted call nested in the current call, has
 * recorded this very memory. */
static int allocate_insert(struct allocation *allocation)
{
	struct allocation ended;
	int error;

	while ((error = table_insert(allocation)) == -EEXIST) {
		if (allocate_is_recorded(allocation))
			return -EALREADY;
		if (!table_take_overlapping(allocation->base, allocation->size, &ended))
			continue;
		memory_missed_free(&ended);
	}
	return error;
}

bool memory_insert(struct allocation *allocation)
{
	int error = allocate_insert(allocation);

	if (error == -EALREADY)
		return false;
	if (error)
		events_untracked(allocation, error);
	else
		events_emit(MEMORY_ALLOCATED, allocation);
	return true;
}

void memory_reserved(uint64_t base, uint64_t size)
{
	struct allocation ended;

	while (table_take_overlapping(base, size, &ended))
		memory_missed_free(&ended);
}

void memory_allocated(enum allocation_kind kind, uint64_t base, uint64_t size)
{
	/* A later call makes VMM memory accessible. */
	struct allocation allocation = {
		.base = base, .size = size, .kind = kind, .accessible = kind != ALLOCATION_MAPPED
	};

	process_activate();
	if (config_get()->verify)
		store_relaxed(&memory_verify_mode, true);
	if (!attributes_read(base, &allocation)) {
		/* A captured allocation is no memory before its graph runs (measured): no client
		 * can use it, and stale records there end. */
		if (kind == ALLOCATION_POOL)
			statistics_count(graph_allocations);
		else
			statistics_count(untracked);
		/* Without a BUFFER_ID, no later check could identify the memory. */
		memory_reserved(base, size);
		return;
	}
	allocation.integrated = kind == ALLOCATION_HOST && attributes_integrated(allocation.device);
	if (memory_insert(&allocation))
		events_count_allocation(kind, size);
	if (kind == ALLOCATION_POOL && allocation.described && keep_is_on())
		keep_pool_allocated(allocation.device);
}

/* ---- ends ---- */

__thread unsigned int memory_frees_here __attribute__((tls_model("initial-exec")));

/* PEERPIN_VERIFY: compare the record with the memory that the driver is about to end. */
static void free_verify(const struct allocation *ended)
{
	if (!config_get()->verify)
		return;
	statistics_count(verify_checks);
	if (attributes_match(ended))
		return;
	statistics_count(verify_disagreements);
	log_once(LOG_ERROR,
		 "verification: the record at 0x%llx differs from the driver: peerpin missed a "
		 "free or an allocation. "
		 "Please report how the program allocates memory.",
		 (unsigned long long)ended->base);
}

static bool free_ends_kind(enum memory_free call, enum allocation_kind kind)
{
	switch (call) {
	case FREE_SHARED:
		return kind == ALLOCATION_SHARED;
	case FREE_HOST:
		return kind == ALLOCATION_HOST;
	case FREE_DEVICE:
		break;
	}
	/* Only an unmap ends VMM memory. */
	return kind != ALLOCATION_MAPPED && kind != ALLOCATION_HOST;
}

static void free_end(const struct allocation *ended)
{
	if (!ended->hidden)
		events_count_free(ended, 1);
	events_ending(ended);
}

bool memory_freeing(enum memory_free call, uint64_t base, struct allocation *ended)
{
	struct allocation found;

	if (!memory_find(base, &found) || found.base != base || !free_ends_kind(call, found.kind) ||
	    !table_take(base, found.id, ended)) {
		if (base)
			statistics_count(untracked_frees);
		return false;
	}
	free_verify(ended);
	free_end(ended);
	return true;
}

void memory_freed(const struct allocation *allocation)
{
	struct allocation ended;

	if (!table_take(allocation->base, allocation->id, &ended))
		return;
	ended.gone = true;
	free_end(&ended);
}

void memory_free_refused(const struct allocation *ended)
{
	struct allocation again = *ended;

	if (ended->hidden || !attributes_match(ended))
		return;
	if (memory_insert(&again))
		events_count_free(ended, -1);
}

/* List of ended allocations. */
struct pending_frees {
	struct pending_frees *next_free;
	struct pending_frees *next;
	struct allocation ended;
};

/* Records copied per step of a walk. Queries and ends run between the steps, without table_lock. */
#define WALK_BATCH 64

static pthread_mutex_t frees_lock = PTHREAD_MUTEX_INITIALIZER; /* guards frees_pool; taken alone */
static struct pool frees_pool = POOL_INITIALIZER(struct pending_frees);

/* End the record, and keep it in the list for a refusal. Without memory for the list, a refused
 * free leaves the memory unrecorded, and its requests are forwarded. */
static struct pending_frees *free_add(struct pending_frees *frees, const struct allocation *ended)
{
	struct pending_frees *added;

	free_verify(ended);
	free_end(ended);
	pthread_mutex_lock(&frees_lock);
	added = pool_get(&frees_pool);
	pthread_mutex_unlock(&frees_lock);
	if (!added)
		return frees;
	*added = (struct pending_frees){ .next = frees, .ended = *ended };
	return added;
}

/* A release of a context: the predicate of memory that stays; the counter of intercepted retains,
 * and its value at which the context may still be ended. */
struct release {
	bool (*is_in_use)(const struct allocation *allocation);
	const _Atomic unsigned int *retains;
	unsigned int unchanged;
};

/* Adds the context's allocations to the list, ended. With `release`: only those of the program that
 * no client uses, until a retain begins. Memory of pools and VMM memory has no context, and
 * outlives all contexts (measured). */
static struct pending_frees *free_walk(struct pending_frees *frees, CUcontext context,
				       const struct release *release)
{
	struct allocation batch[WALK_BATCH], ended;
	uint32_t cursor = 0;
	unsigned int count;

	while ((count = memory_next(&cursor, batch, WALK_BATCH)) &&
	       (!release || load_seq_cst(release->retains) == release->unchanged)) {
		for (unsigned int i = 0; i < count; i++) {
			if (batch[i].context == context &&
			    (!release || (!batch[i].hidden && !release->is_in_use(&batch[i]))) &&
			    table_take(batch[i].base, batch[i].id, &ended))
				frees = free_add(frees, &ended);
		}
	}
	return frees;
}

#define WALKS_MAX 8 /* a subscriber may allocate at each free */

/* A walk does not see what another thread, or a subscriber, allocates behind it, and the worker may
 * register that before the driver's call: walks until one ends nothing. */
static struct pending_frees *free_context(CUcontext context, const struct release *release)
{
	struct pending_frees *frees = NULL, *before;
	unsigned int walks = 0;

	if (!context)
		return NULL;
	do {
		before = frees;
		frees = free_walk(frees, context, release);
	} while (frees != before && ++walks < WALKS_MAX);
	return frees;
}

struct pending_frees *memory_context_freeing(CUcontext context)
{
	return free_context(context, NULL);
}

struct pending_frees *
memory_context_releasing(CUcontext context, bool (*is_in_use)(const struct allocation *allocation),
			 const _Atomic unsigned int *retains, unsigned int unchanged)
{
	return free_context(context, &(struct release){ is_in_use, retains, unchanged });
}

/* True if an allocation crosses either end of the range, or if the allocation at `base` is no VMM
 * memory. Kept memory is none. */
static bool free_is_cut(uint64_t base, uint64_t size)
{
	struct allocation at;

	return table_is_address_hidden(base) || table_is_address_hidden(base + size - 1) ||
	       (memory_find(base, &at) && (at.base < base || at.kind != ALLOCATION_MAPPED)) ||
	       (memory_find(base + size - 1, &at) && at.base + at.size > base + size);
}

struct pending_frees *memory_range_freeing(uint64_t base, uint64_t size)
{
	struct pending_frees *frees = NULL;
	struct allocation ended;

	if (!size || free_is_cut(base, size))
		return NULL;
	while (table_take_overlapping(base, size, &ended))
		frees = free_add(frees, &ended);
	return frees;
}

void memory_frees_settled(struct pending_frees *frees, bool refused)
{
	struct pending_frees *next;

	for (; frees; frees = next) {
		next = frees->next;
		if (refused)
			memory_free_refused(&frees->ended);
		pthread_mutex_lock(&frees_lock);
		pool_put(&frees_pool, frees);
		pthread_mutex_unlock(&frees_lock);
	}
}

/* Selection of the records to compare with the driver. */
struct selection {
	bool pools;
	CUcontext context;   /* NULL: all */
	uint64_t base, size; /* size 0: all */
};

static bool free_is_selected(const struct allocation *allocation, const struct selection *selection)
{
	return (!selection->pools || allocation->kind == ALLOCATION_POOL) &&
	       (!selection->context || allocation->context == selection->context) &&
	       (!selection->size || allocation->base - selection->base < selection->size ||
		selection->base - allocation->base < allocation->size);
}

/* Call `end` for each selected record that the driver no longer reports. The worker gets no answer
 * once exit has begun. */
static void free_end_unreported(const struct selection *selection,
				void (*end)(const struct allocation *ended))
{
	struct allocation batch[WALK_BATCH], ended;
	uint32_t cursor = 0;
	unsigned int count;

	while ((count = memory_next(&cursor, batch, WALK_BATCH))) {
		for (unsigned int i = 0; i < count; i++) {
			if (!free_is_selected(&batch[i], selection) ||
			    attributes_match(&batch[i]) || own_thread_is_done() ||
			    !table_take(batch[i].base, batch[i].id, &ended))
				continue;
			ended.gone = true;
			end(&ended);
		}
	}
}

void memory_end_unreported(void)
{
	free_end_unreported(&(struct selection){ 0 }, free_end);
}

void memory_context_released(CUcontext context)
{
	if (context)
		free_end_unreported(&(struct selection){ .context = context }, free_end);
}

void memory_range_gone(uint64_t base, uint64_t size)
{
	if (table_overlaps(base, size))
		free_end_unreported(&(struct selection){ .base = base, .size = size }, free_end);
}

void memory_check_pools(void)
{
	free_end_unreported(&(struct selection){ .pools = true }, memory_missed_free);
}

/* ---- checks, where a record alone is not enough ---- */

_Atomic bool memory_verify_mode;

void memory_verify_always(void)
{
	store_relaxed(&memory_verify_mode, true);
	queries_end();
	keep_end();
}

bool memory_check(const struct allocation *allocation)
{
	struct allocation ended;

	statistics_count(verify_checks);
	if (attributes_match(allocation))
		return true;
	if (!table_take(allocation->base, allocation->id, &ended))
		return false; /* freed meanwhile by an intercepted call */
	statistics_count(verify_disagreements);
	log_once(LOG_ERROR,
		 "verification: the record at 0x%llx differs from the driver, and ends now. "
		 "Please report how the program allocates memory.",
		 (unsigned long long)allocation->base);
	memory_missed_free(&ended);
	return false;
}
