/* SPDX-License-Identifier: BSD-3-Clause */
/* kept.c -- the list of kept allocations and its order
 *
 * One list for each GPU and one for the host, of classes of sizes, each in the order of the frees;
 * and the index (kept_index.c). An allocation that is taken out is in no list; while its memory is
 * released it is in `releasing`, because its record ends before the driver frees it.
 */
#include "memory/kept_choice.h"

#include <pthread.h>

#include "base/log.h"
#include "base/pool.h"
#include "base/system.h"
#include "memory/driver.h"
#include "memory/events.h"
#include "memory/keep_worth.h"
#include "memory/table.h"
#include "report/statistics.h"

static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pool entry_pool = POOL_INITIALIZER(struct entry);
static struct entries releasing = TAILQ_HEAD_INITIALIZER(releasing);
static _Atomic unsigned int releases; /* number in `releasing` */
static pthread_cond_t release_ended = PTHREAD_COND_INITIALIZER;
_Atomic uint64_t keep_releases_ended;
static __thread unsigned int own_releases __attribute__((tls_model("initial-exec")));

struct kept_list kept_lists[KEPT_LISTS];

void kept_renew(void)
{
	kept_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	release_ended = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
}

/* ---- the list; with the lock held ---- */

/* Count the entry's bytes as kept, or no longer. */
static void kept_count(const struct entry *entry, bool added)
{
	const struct allocation *allocation = &entry->kept.allocation;
	struct kept_list *list = &kept_lists[kept_list_number(allocation)];
	uint64_t sign = added ? 1 : UINT64_MAX, bytes = sign * kept_bytes_of(allocation);

	store_relaxed(&list->bytes, load_relaxed(&list->bytes) + bytes);
	add_relaxed(&list->blocks, sign * kept_block_bytes_of(allocation));
	if (allocation->kind == ALLOCATION_DEVICE)
		add_relaxed(&list->numbers[allocation->size <= KEPT_SMALL], sign);
	if (allocation->kind == ALLOCATION_HOST)
		statistics_add(kept_host_bytes, bytes);
	else
		statistics_add(kept_bytes, bytes);
}

static struct entries *kept_class(const struct allocation *allocation)
{
	return &kept_lists[kept_list_number(allocation)]
			.classes[KEPT_CLASSES - 1 - __builtin_clzll((allocation->size - 1) | 1)];
}

static void kept_unlink(struct entry *entry)
{
	kept_index_remove(entry);
	TAILQ_REMOVE(kept_class(&entry->kept.allocation), entry, in_list);
	kept_count(entry, false);
}

bool kept_add(const struct kept *kept)
{
	struct entries *of_class = kept_class(&kept->allocation);
	struct entry *entry;

	pthread_mutex_lock(&kept_lock);
	entry = pool_get(&entry_pool);
	if (entry) {
		entry->kept = *kept;
		entry->since = kept_allocated(kept_list_number(&kept->allocation));
		if (!of_class->tqh_last)
			TAILQ_INIT(of_class);
		kept_index_add(entry);
		TAILQ_INSERT_TAIL(of_class, entry, in_list);
		kept_count(entry, true);
	}
	pthread_mutex_unlock(&kept_lock);
	return entry;
}

bool kept_take(CUcontext context, const struct keep_request *request, struct kept *taken)
{
	struct entry *entry;

	pthread_mutex_lock(&kept_lock);
	entry = kept_index_find(context, request);
	if (entry) {
		kept_unlink(entry);
		*taken = entry->kept;
		pool_put(&entry_pool, entry);
	}
	pthread_mutex_unlock(&kept_lock);
	return entry;
}

/* ---- releases ---- */

/* In the memory's context: the driver frees nothing while a destroyed context is current, and UCX's
 * hook queries the range first, which needs the context. A free in relaxed mode disturbs no capture
 * of another thread (measured). */
static void kept_free(const struct kept *kept)
{
	const struct driver_calls *driver = driver_calls();
	const struct allocation *allocation = &kept->allocation;
	CUcontext context = allocation->context;
	bool entered =
		driver->cuCtxPushCurrent_v2 && driver->cuCtxPushCurrent_v2(context) == CUDA_SUCCESS;
	CUstreamCaptureMode mode;
	bool relaxed = driver_relax_capture(&mode);
	CUresult result = allocation->kind == ALLOCATION_HOST
				  ? kept->target.host((void *)(uintptr_t)allocation->base)
				  : kept->target.device(allocation->base);

	driver_restore_capture(relaxed, &mode);
	if (entered)
		driver->cuCtxPopCurrent_v2(&context);
	statistics_count(kept_released);
	if (result != CUDA_SUCCESS)
		log_once(LOG_WARN,
			 "kept memory at 0x%llx, %llu bytes, could not be freed: the driver "
			 "returned %d. The memory stays allocated.",
			 (unsigned long long)allocation->base, (unsigned long long)allocation->size,
			 (int)result);
}

/* The entry is in `releasing`. */
static void kept_release_entry(struct entry *entry)
{
	const struct allocation *allocation = &entry->kept.allocation;
	struct allocation ended;

	/* Otherwise the memory has ended with its context. In a call that ends a context after a
	 * count, it may just have: other memory may have the address. */
	if (table_take(allocation->base, allocation->id, &ended)) {
		events_freeing(&ended);
		if (attributes_match(&ended))
			kept_free(&entry->kept);
	}
	pthread_mutex_lock(&kept_lock);
	TAILQ_REMOVE(&releasing, entry, in_list);
	subtract_seq_cst(&releases, 1);
	pool_put(&entry_pool, entry);
	add_relaxed(&keep_releases_ended, 1);
	pthread_mutex_unlock(&kept_lock);
	system_wake(&release_ended);
}

/* Release one entry. Returns its bytes; 0: there is none. */
static uint64_t kept_release_one(const struct kept_choice *choice)
{
	struct entry *entry;
	uint64_t bytes = 0;
	int held;

	pthread_mutex_lock(&kept_lock);
	entry = kept_choose(choice);
	if (entry) {
		bytes = kept_bytes_of(&entry->kept.allocation);
		/* For want of credit: the program might have been about to allocate it. */
		if (choice->like)
			keep_worth_freed(choice->from, entry->kept.allocation.size);
		kept_unlink(entry);
		add_seq_cst(&releases, 1);
		TAILQ_INSERT_TAIL(&releasing, entry, in_list);
	}
	pthread_mutex_unlock(&kept_lock);
	if (entry) {
		held = system_hold_cancellation();
		own_releases++;
		kept_release_entry(entry);
		own_releases--;
		system_release_cancellation(held);
	}
	return bytes;
}

/* A subscriber's call inside a release does not wait: two of them would wait for each other. */
void kept_await_releases(CUcontext context)
{
	struct entry *entry;

	if (own_releases || !load_seq_cst(&releases))
		return;
	pthread_mutex_lock(&kept_lock);
	do {
		TAILQ_FOREACH(entry, &releasing, in_list) {
			if (!context || entry->kept.allocation.context == context)
				break;
		}
		if (entry)
			system_wait(&release_ended, &kept_lock);
	} while (entry && context);
	pthread_mutex_unlock(&kept_lock);
}

void kept_release_above(unsigned int list, uint64_t bytes, uint64_t unused)
{
	struct kept_choice choice = { list, list + 1, .above = bytes, .unused = unused };

	while (load_relaxed(&kept_lists[list].bytes) > bytes && kept_release_one(&choice))
		;
}

void kept_release_like(const struct allocation *allocation)
{
	unsigned int list = kept_list_number(allocation);
	struct kept_choice choice = { list, list + 1, .like = allocation };

	if (kept_number_like(list, allocation->size) && kept_release_one(&choice))
		kept_release_one(&choice);
}

static bool kept_is_peak(_Atomic uint64_t *bytes, _Atomic uint64_t *peak)
{
	return load_relaxed(bytes) > load_relaxed(peak);
}

void kept_count_peaks(unsigned int list, uint64_t limit)
{
	struct segment_counters *of = &statistics_segment.counters;

	if (!kept_is_peak(&of->kept_bytes, &of->kept_bytes_peak) &&
	    !kept_is_peak(&of->kept_host_bytes, &of->kept_host_bytes_peak))
		return;
	pthread_mutex_lock(&kept_lock);
	if (load_relaxed(&kept_lists[list].bytes) <= limit) {
		if (kept_is_peak(&of->kept_bytes, &of->kept_bytes_peak))
			store_relaxed(&of->kept_bytes_peak, load_relaxed(&of->kept_bytes));
		if (kept_is_peak(&of->kept_host_bytes, &of->kept_host_bytes_peak))
			store_relaxed(&of->kept_host_bytes_peak,
				      load_relaxed(&of->kept_host_bytes));
	}
	pthread_mutex_unlock(&kept_lock);
}

bool kept_release(int device, uint64_t bytes)
{
	unsigned int list = kept_list_of(device);
	struct kept_choice choice = { list, list + 1, .largest = true };
	uint64_t released = 0, one;

	if (device == KEEP_ANY || device == KEEP_POOL)
		choice = (struct kept_choice){ 0, KEPT_HOST + (device == KEEP_ANY),
					       .largest = true };
	do
		released += one = kept_release_one(&choice);
	while (one && released < bytes);
	return released;
}

void keep_release_context(CUcontext context)
{
	struct kept_choice choice = { 0, KEPT_LISTS, .context = context };

	while (kept_release_one(&choice))
		;
	kept_await_releases(context);
}

void keep_forget_ended(void)
{
	struct entry *entry, *next;

	pthread_mutex_lock(&kept_lock);
	for (unsigned int i = 0; i < KEPT_LISTS * KEPT_CLASSES; i++) {
		entry = TAILQ_FIRST(&kept_lists[i / KEPT_CLASSES].classes[i % KEPT_CLASSES]);
		for (; entry; entry = next) {
			next = TAILQ_NEXT(entry, in_list);
			if (memory_is_live(&entry->kept.allocation))
				continue;
			kept_unlink(entry);
			pool_put(&entry_pool, entry);
		}
	}
	pthread_mutex_unlock(&kept_lock);
}

/* ---- for queries ---- */

uint64_t kept_block_bytes(int device)
{
	return device < 0 || device >= DEVICES_MAX ? 0 : load_relaxed(&kept_lists[device].blocks);
}

uint64_t kept_number_like(unsigned int list, uint64_t bytes)
{
	return load_relaxed(&kept_lists[list].numbers[bytes <= KEPT_SMALL]);
}

/* Hooks in the driver's free (UCX) query the memory that this thread is releasing. */
bool kept_is_releasing(uint64_t address)
{
	struct allocation released;
	struct entry *entry;

	if (own_releases || !load_seq_cst(&releases))
		return false;
	pthread_mutex_lock(&kept_lock);
	TAILQ_FOREACH(entry, &releasing, in_list) {
		if (address - entry->kept.allocation.base < entry->kept.allocation.size)
			break;
	}
	if (entry)
		released = entry->kept.allocation;
	pthread_mutex_unlock(&kept_lock);
	if (!entry)
		return false;
	/* Once the driver has freed it, there may be other memory, also without a record. */
	released.base = address;
	return attributes_match(&released);
}
