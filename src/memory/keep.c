/* SPDX-License-Identifier: BSD-3-Clause */
/* keep.c -- bins of freed memory: frees that keep memory, allocations that reuse it, releases
 *
 * A bin has the freed memory of one context, of about one size: above 1 MiB of as many of the
 * driver's blocks, below of an eighth of a power of two; host memory of equal sizes and flags. The
 * last freed comes first. A bin that is not reused is not kept (struct bin).
 *
 * Each GPU, and the host, has a list of what it keeps in the order of the frees: the least recently
 * freed memory is released first. Memory that is being released is in no list; a batch on the
 * releasing thread's stack has it until the driver has freed it.
 */
#include "memory/keep.h"

#include <pthread.h>
#include <sys/queue.h>

#include "base/config.h"
#include "base/loaded.h"
#include "base/log.h"
#include "base/pool.h"
#include "base/process.h"
#include "base/system.h"
#include "memory/memory.h"
#include "memory/driver.h"
#include "memory/kept.h"
#include "memory/lookup.h"
#include "memory/table.h"
#include "report/statistics.h"

_Atomic int keep_mode = KEEP_UNDECIDED;

/* Kept memory. Its record is hidden, or has ended. */
struct entry {
	struct entry *next_free;
	struct allocation allocation;
	TAILQ_ENTRY(entry) in_order;
	LIST_ENTRY(entry) in_bin;
};
TAILQ_HEAD(entries, entry);

#define BINS	  1024u
#define LOOKED_AT 64u /* entries of a bin */

/* Kept memory that is not reused costs time: the driver takes other memory instead of what was just
 * freed. So a bin is kept while `worth` is not 0. Each reuse adds to it, each release for a limit
 * takes from it. Without it a free is noted, and an allocation that the noted memory would have
 * served adds to it. A new bin is worth 1 while the list has memory that is reused (struct list).
 * Beyond kept_trial() a bin has to be worth WORTH_MAX: kept memory that is not reused adds to the
 * program's next allocations, which release nothing. Bins with equal hashes share all this; entries
 * are compared. */
static struct bin {
	LIST_HEAD(, entry) entries;
	uint64_t noted_size; /* of the largest noted memory, about */
	uint32_t noted;	     /* frees */
	bool is_known;	     /* it was new */
	int worth;	     /* 0 to WORTH_MAX */
} bins[BINS];

#define WORTH_MAX  16
#define NOTED_GAIN 2 /* of a noted free: half the sizes may repeat */

static struct list {
	struct entries order; /* the least recently freed first; set up by the first one */
	int vain[2];	      /* releases for limits, less reuses: 0 to WORTH_MAX; of larger memory,
				 and of memory up to KEPT_SMALL */
	_Atomic uint64_t bytes;	 /* as the driver counts them; stored with the lock */
	_Atomic uint64_t blocks; /* of them, bytes in blocks of their own */
} lists[KEPT_LISTS];

/* Memory that a thread is releasing: its records end before the driver frees it. */
struct batch {
	TAILQ_ENTRY(batch) in_flight;
	struct entries entries;
	uint64_t number;
};

/* keep_lock guards all of these. Lock order: taken alone. */
static pthread_mutex_t keep_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pool entry_pool = POOL_INITIALIZER(struct entry);
static TAILQ_HEAD(, batch) batches = TAILQ_HEAD_INITIALIZER(batches);
static uint64_t last_batch;
static _Atomic unsigned int releases; /* number of batches */
static pthread_cond_t release_ended = PTHREAD_COND_INITIALIZER;
_Atomic uint64_t keep_releases_ended; /* stored with the lock */
static __thread unsigned int own_releases __attribute__((tls_model("initial-exec")));

/* Nothing is kept in a child that starts anew. */
void kept_renew(void)
{
	keep_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	release_ended = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
}

/* ---- begin and end ---- */

/* compute-sanitizer has to see each allocation and each free. */
static bool keep_is_sanitized(void)
{
	return loaded_has("libsanitizer-collection.so");
}

static void keep_begin(void)
{
	const struct config *config = config_get();
	int undecided = KEEP_UNDECIDED, mode = KEEP_OFF;

	if (config->keep || config->keep_host) {
		mode = keep_is_sanitized() ? KEEP_OFF : KEEP_ON;
		if (mode != KEEP_ON)
			log_once(LOG_WARN,
				 "PEERPIN_KEEP has no effect under compute-sanitizer, which "
				 "checks each allocation and each free.");
	}
	replace_seq_cst(&keep_mode, &undecided, mode);
}

bool keep_has_begun(void)
{
	if (process_is_passive() || process_is_done())
		return false;
	if (load_relaxed(&keep_mode) == KEEP_UNDECIDED)
		keep_begin();
	return load_relaxed(&keep_mode) >= KEEP_ON;
}

void keep_end(void)
{
	int undecided = KEEP_UNDECIDED, on = KEEP_ON;

	replace_seq_cst(&keep_mode, &undecided, KEEP_OFF);
	replace_seq_cst(&keep_mode, &on, KEEP_ENDED);
}

/* ---- contexts ---- */

/* CUDA_SUCCESS: today's interface may be used in the calling thread's context. */
static CUresult keep_context_state(void)
{
	const struct driver_calls *driver = driver_calls();
	unsigned int version = 0;
	CUresult result = driver->cuCtxGetApiVersion ? driver->cuCtxGetApiVersion(NULL, &version)
						     : CUDA_ERROR_NOT_SUPPORTED;

	return result == CUDA_SUCCESS && version < 3020 ? CUDA_ERROR_NOT_SUPPORTED : result;
}

/* The driver refuses a free with a destroyed context, in a context of the interface before
 * CUDA 3.2, and after a failed kernel (measured). */
static bool keep_may_free(void)
{
	CUresult state = keep_context_state();

	return state == CUDA_SUCCESS || state == CUDA_ERROR_INVALID_CONTEXT;
}

/* The context of the calling thread, if the driver would allocate there. */
static CUcontext keep_current_context(void)
{
	const struct driver_calls *driver = driver_calls();
	CUcontext context = NULL;

	return driver->cuCtxGetCurrent && keep_context_state() == CUDA_SUCCESS &&
			       driver->cuCtxGetCurrent(&context) == CUDA_SUCCESS
		       ? context
		       : NULL;
}

int kept_current_device(void)
{
	const struct driver_calls *driver = driver_calls();
	CUdevice device = KEEP_CURRENT;

	return driver->cuCtxGetDevice && driver->cuCtxGetDevice(&device) == CUDA_SUCCESS
		       ? device
		       : KEEP_CURRENT;
}

uint64_t kept_bytes(unsigned int list)
{
	return load_relaxed(&lists[list].bytes);
}

/* ---- bins; with the lock held ---- */

/* The last bin whose memory serves a request. Larger memory serves its own bin: what it has in
 * excess cannot be given back while the program has it. Small memory serves requests of two thirds
 * of its size: random sizes over UCX take much longer without (docs/performance/h200-stacks.md). */
static uint64_t keep_last_bin_size(uint64_t size)
{
	uint64_t bin = keep_bin_size(size), most = bin + bin / 2;

	return size > KEPT_SMALL ? bin : most < KEPT_SMALL ? most : KEPT_SMALL;
}

static uint64_t keep_flags_of(const struct allocation *allocation)
{
	return allocation->kind == ALLOCATION_HOST ? allocation->keep_key >> 1 : 0;
}

/* `size`: of the bin, for device memory. */
static struct bin *keep_bin(CUcontext context, uint64_t flags, uint64_t size)
{
	uint64_t mixed = ((uintptr_t)context >> 4 ^ flags << 16) * 0x9e3779b97f4a7c15u;

	mixed = (mixed ^ mixed >> 29 ^ size) * 0x9e3779b97f4a7c15u;
	return &bins[(mixed >> 32) % BINS];
}

static struct bin *keep_bin_of(const struct allocation *allocation)
{
	return keep_bin(allocation->context, keep_flags_of(allocation),
			allocation->kind == ALLOCATION_HOST ? allocation->size
							    : keep_bin_size(allocation->size));
}

static void keep_change(int *value, int change)
{
	int changed = *value + change;

	*value = changed < 0 ? 0 : changed > WORTH_MAX ? WORTH_MAX : changed;
}

static int *keep_vain(const struct allocation *allocation)
{
	return &lists[kept_list_number(allocation)].vain[allocation->size <= KEPT_SMALL];
}

/* The memory was reused (1), or released for a limit (-1). */
static void keep_judge(const struct allocation *allocation, int reused)
{
	keep_change(&keep_bin_of(allocation)->worth, reused);
	keep_change(keep_vain(allocation), -reused);
}

/* True if the memory may be kept. Host memory always: it takes the driver milliseconds. */
static bool keep_is_worth(const struct allocation *allocation)
{
	unsigned int list = kept_list_number(allocation);
	struct bin *bin = keep_bin_of(allocation);

	if (!bin->is_known && *keep_vain(allocation) < WORTH_MAX) {
		bin->is_known = true;
		keep_change(&bin->worth, 1);
	}
	if (bin->worth == WORTH_MAX || allocation->kind == ALLOCATION_HOST ||
	    (bin->worth && kept_bytes(list) + kept_bytes_of(allocation) <= kept_trial(list)))
		return true;
	if (!bin->noted || bin->noted_size < allocation->size)
		bin->noted_size = allocation->size;
	if (bin->noted < UINT32_MAX)
		bin->noted++;
	return false;
}

/* The driver is about to allocate device memory. */
static void keep_count_noted(CUcontext context, uint64_t size)
{
	uint64_t last = keep_last_bin_size(size);
	struct bin *bin;

	for (uint64_t of = keep_bin_size(size); of <= last; of = keep_bin_size(of + 1)) {
		bin = keep_bin(context, 0, of);
		if (bin->noted && bin->noted_size >= size) {
			bin->noted--;
			keep_change(&bin->worth, NOTED_GAIN);
			return;
		}
	}
}

/* Find the smallest entry of at most `last` bytes; of several, the last freed. */
static struct entry *keep_find_in(struct bin *bin, CUcontext context,
				  const struct keep_request *request, uint64_t last)
{
	struct entry *entry = LIST_FIRST(&bin->entries), *best = NULL;
	const struct allocation *of;

	for (unsigned int i = 0; entry && i < LOOKED_AT; i++, entry = LIST_NEXT(entry, in_bin)) {
		of = &entry->allocation;
		if (of->context == context && of->kind == request->kind &&
		    keep_flags_of(of) == request->flags && of->size >= request->size &&
		    of->size <= last && (!best || of->size < best->allocation.size))
			best = entry;
		if (best && best->allocation.size == request->size)
			break;
	}
	return best;
}

static struct entry *keep_find(CUcontext context, const struct keep_request *request)
{
	uint64_t size = request->size, last;
	struct entry *entry = NULL;

	if (request->kind == ALLOCATION_HOST)
		return keep_find_in(keep_bin(context, request->flags, size), context, request,
				    size);
	last = keep_last_bin_size(size);
	for (uint64_t of = keep_bin_size(size); of <= last && !entry; of = keep_bin_size(of + 1))
		entry = keep_find_in(keep_bin(context, 0, of), context, request, of);
	return entry;
}

/* Count the entry's bytes as kept, or no longer. */
static void keep_count(const struct entry *entry, bool added)
{
	const struct allocation *allocation = &entry->allocation;
	struct list *list = &lists[kept_list_number(allocation)];
	uint64_t sign = added ? 1 : UINT64_MAX, bytes = sign * kept_bytes_of(allocation);

	add_relaxed(&list->bytes, bytes);
	if (allocation->kind == ALLOCATION_HOST) {
		statistics_add(kept_host_bytes, bytes);
		return;
	}
	statistics_add(kept_bytes, bytes);
	if (allocation->size > KEPT_SMALL)
		add_relaxed(&list->blocks, bytes);
}

static void keep_unlink(struct entry *entry)
{
	assert_held(&keep_lock);
	TAILQ_REMOVE(&lists[kept_list_number(&entry->allocation)].order, entry, in_order);
	LIST_REMOVE(entry, in_bin);
	keep_count(entry, false);
}

/* False: no memory for the entry, or another call wants the memory by now, or its context has
 * ended. */
static bool keep_add(const struct allocation *allocation)
{
	struct list *list = &lists[kept_list_number(allocation)];
	struct entry *entry = NULL;

	pthread_mutex_lock(&keep_lock);
	if (!kept_is_wanted(kept_list_number(allocation)) && memory_is_live(allocation))
		entry = pool_get(&entry_pool);
	if (entry) {
		entry->allocation = *allocation;
		if (!list->order.tqh_last)
			TAILQ_INIT(&list->order);
		TAILQ_INSERT_TAIL(&list->order, entry, in_order);
		LIST_INSERT_HEAD(&keep_bin_of(allocation)->entries, entry, in_bin);
		keep_count(entry, true);
	}
	pthread_mutex_unlock(&keep_lock);
	return entry;
}

static bool keep_take(CUcontext context, const struct keep_request *request,
		      struct allocation *taken)
{
	struct entry *entry;

	pthread_mutex_lock(&keep_lock);
	entry = keep_find(context, request);
	if (entry) {
		*taken = entry->allocation;
		keep_judge(taken, 1);
		keep_unlink(entry);
		pool_put(&entry_pool, entry);
	} else if (request->kind != ALLOCATION_HOST) {
		keep_count_noted(context, request->size);
	}
	pthread_mutex_unlock(&keep_lock);
	return entry;
}

uint64_t keep_free_bytes(void)
{
	int device = kept_current_device();

	return device < 0 ? 0 : load_relaxed(&lists[kept_list_of(device)].blocks);
}

/* ---- releases ---- */

/* In the memory's context: the driver frees nothing while a destroyed context is current, and UCX's
 * hook queries the range first, which needs the context. A free in relaxed mode disturbs no capture
 * of another thread (measured). */
static void keep_free_in_driver(const struct allocation *allocation)
{
	const struct driver_calls *driver = driver_calls();
	CUcontext context = allocation->context;
	CUstreamCaptureMode mode;
	CUresult result;
	bool relaxed;

	/* Another thread has ended the context, and the memory: other memory may have the
	 * address. */
	if (driver->cuCtxPushCurrent_v2(context) != CUDA_SUCCESS)
		return;
	statistics_count(kept_released);
	relaxed = driver_relax_capture(&mode);
	result = allocation->kind == ALLOCATION_HOST
			 ? keep_targets.free_host((void *)(uintptr_t)allocation->base)
			 : keep_targets.free_device(allocation->base);
	driver_restore_capture(relaxed, &mode);
	driver->cuCtxPopCurrent_v2(&context);
	if (result != CUDA_SUCCESS)
		log_once(LOG_WARN,
			 "kept memory at 0x%llx, %llu bytes, could not be freed: the driver "
			 "returned %d. The memory stays allocated.",
			 (unsigned long long)allocation->base, (unsigned long long)allocation->size,
			 (int)result);
}

/* Otherwise the memory has ended with its context. In a call that ends a context after a count, it
 * may just have: other memory may have the address. */
static void keep_release_memory(const struct allocation *allocation)
{
	struct allocation ended;

	if (!table_take(allocation->base, allocation->id, &ended))
		return;
	events_ending(&ended);
	if (attributes_match(&ended))
		keep_free_in_driver(allocation);
}

/* Move an entry to the batch. With the lock held. */
static void keep_collect(struct batch *batch, struct entry *entry)
{
	keep_unlink(entry);
	if (TAILQ_EMPTY(&batch->entries)) {
		batch->number = ++last_batch;
		TAILQ_INSERT_TAIL(&batches, batch, in_flight);
		add_seq_cst(&releases, 1);
	}
	TAILQ_INSERT_TAIL(&batch->entries, entry, in_order);
}

/* Release the batch. The caller does not hold the lock. */
static void keep_release_batch(struct batch *batch)
{
	struct entry *entry = TAILQ_FIRST(&batch->entries);
	int held;

	if (!entry)
		return;
	held = system_hold_cancellation();
	own_releases++;
	while (entry) {
		keep_release_memory(&entry->allocation);
		pthread_mutex_lock(&keep_lock);
		TAILQ_REMOVE(&batch->entries, entry, in_order);
		pool_put(&entry_pool, entry);
		entry = TAILQ_FIRST(&batch->entries);
		if (!entry) {
			TAILQ_REMOVE(&batches, batch, in_flight);
			subtract_seq_cst(&releases, 1);
		}
		add_relaxed(&keep_releases_ended, 1);
		pthread_mutex_unlock(&keep_lock);
		pthread_cond_broadcast(&release_ended);
	}
	own_releases--;
	system_release_cancellation(held);
}

static bool keep_is_of(const struct kept_part *part, const struct allocation *allocation)
{
	unsigned int list = kept_list_number(allocation);

	return list >= part->from && list < part->to &&
	       (!part->context || allocation->context == part->context);
}

CUcontext kept_first_context(unsigned int list)
{
	const struct entry *entry;
	CUcontext context;

	pthread_mutex_lock(&keep_lock);
	entry = TAILQ_FIRST(&lists[list].order);
	context = entry ? entry->allocation.context : NULL;
	pthread_mutex_unlock(&keep_lock);
	return context;
}

bool kept_release(const struct kept_part *part)
{
	struct batch batch = { .entries = TAILQ_HEAD_INITIALIZER(batch.entries) };
	struct entry *entry, *next;
	bool releases_any;

	pthread_mutex_lock(&keep_lock);
	for (unsigned int i = part->from; i < part->to; i++) {
		for (entry = TAILQ_FIRST(&lists[i].order); entry; entry = next) {
			next = TAILQ_NEXT(entry, in_order);
			if (keep_is_of(part, &entry->allocation))
				keep_collect(&batch, entry);
		}
	}
	releases_any = !TAILQ_EMPTY(&batch.entries);
	pthread_mutex_unlock(&keep_lock);
	keep_release_batch(&batch);
	return releases_any;
}

/* The caller holds the lock. */
static bool keep_is_in_flight(const struct kept_part *part, uint64_t last)
{
	const struct batch *batch;
	const struct entry *entry;

	TAILQ_FOREACH(batch, &batches, in_flight) {
		if (batch->number > last)
			break;
		TAILQ_FOREACH(entry, &batch->entries, in_order) {
			if (keep_is_of(part, &entry->allocation))
				return true;
		}
	}
	return false;
}

/* A call inside a release, of a subscriber, does not wait: two of them would wait for each other.
 */
void kept_await_releases(const struct kept_part *part)
{
	uint64_t last;

	if (own_releases || !load_seq_cst(&releases))
		return;
	pthread_mutex_lock(&keep_lock);
	last = last_batch;
	while (keep_is_in_flight(part, last))
		system_wait(&release_ended, &keep_lock);
	pthread_mutex_unlock(&keep_lock);
}

static void keep_count_peak(_Atomic uint64_t *bytes, _Atomic uint64_t *peak)
{
	if (load_relaxed(bytes) > load_relaxed(peak))
		store_relaxed(peak, load_relaxed(bytes));
}

/* What a free of that context may release: a release waits for the work of its context, as the free
 * does. Of few others: they may be thousands. NULL: nothing. With the lock held. */
static struct entry *keep_oldest(unsigned int list, CUcontext context)
{
	struct entry *entry = TAILQ_FIRST(&lists[list].order);

	for (unsigned int i = 0; entry && i < LOOKED_AT; i++, entry = TAILQ_NEXT(entry, in_order)) {
		if (entry->allocation.context == context)
			return entry;
	}
	entry = TAILQ_LAST(&lists[list].order, entries);
	return entry && entry->allocation.context == context ? entry : NULL;
}

/* Inside a free: release what exceeds the limit of the list, or what the program needs. `keeps`:
 * the memory is kept; else the driver frees it next. */
static void keep_apply_limits(const struct allocation *freed, uint64_t limit, bool keeps)
{
	struct batch batch = { .entries = TAILQ_HEAD_INITIALIZER(batch.entries) };
	struct statistics_counters *counters = &statistics.counters;
	unsigned int list = kept_list_number(freed);
	struct entry *entry;
	uint64_t room;

	pthread_mutex_lock(&keep_lock);
	room = kept_room(list, keeps ? 0 : kept_bytes_of(freed));
	while (kept_bytes(list) > (room < limit ? room : limit) &&
	       (entry = keep_oldest(list, freed->context))) {
		keep_judge(&entry->allocation, -1);
		keep_collect(&batch, entry);
	}
	keep_count_peak(&counters->kept_bytes, &counters->kept_bytes_peak);
	keep_count_peak(&counters->kept_host_bytes, &counters->kept_host_bytes_peak);
	pthread_mutex_unlock(&keep_lock);
	keep_release_batch(&batch);
}

void keep_release_context(CUcontext context)
{
	const struct kept_part part = { 0, KEPT_LISTS, context };

	kept_release(&part);
	kept_await_releases(&part);
}

void keep_forget_ended(void)
{
	struct entry *entry, *next;

	pthread_mutex_lock(&keep_lock);
	for (unsigned int i = 0; i < KEPT_LISTS; i++) {
		for (entry = TAILQ_FIRST(&lists[i].order); entry; entry = next) {
			next = TAILQ_NEXT(entry, in_order);
			if (memory_is_live(&entry->allocation))
				continue;
			keep_unlink(entry);
			pool_put(&entry_pool, entry);
		}
	}
	pthread_mutex_unlock(&keep_lock);
}

/* ---- frees ---- */

/* The key of a record of host memory: its flags, and 1; 0: host memory that is not kept. */
void keep_allocated_host(const struct keep_request *request, uint64_t base)
{
	table_set_keep_key(base, request->flags << 1 | 1);
}

static bool keep_is_keepable(enum memory_free call, const struct allocation *allocation)
{
	bool host = allocation->kind == ALLOCATION_HOST;

	return allocation->described && allocation->context && host == (call == FREE_HOST) &&
	       (host ? allocation->keep_key != 0 : allocation->kind == ALLOCATION_DEVICE);
}

/* True if the memory fits, and its bin is reused. */
static bool keep_is_wise(const struct allocation *allocation, uint64_t limit)
{
	bool worth;

	if (kept_bytes_of(allocation) > limit)
		return false;
	pthread_mutex_lock(&keep_lock);
	worth = keep_is_worth(allocation);
	pthread_mutex_unlock(&keep_lock);
	return worth;
}

/* The caller has hidden the allocation. */
static bool keep_hidden(struct allocation *allocation)
{
	events_emit(MEMORY_KEEPING, allocation);
	if (keep_wait(allocation->context) == CUDA_SUCCESS && keep_add(allocation))
		return true;
	/* The driver's own free decides. */
	if (table_show(allocation))
		events_emit(MEMORY_REUSED, allocation);
	return false;
}

static bool keep_free_now(struct allocation *allocation, uint64_t limit)
{
	int held;
	bool keeps;

	if (!keep_is_wise(allocation, limit) || !keep_may_free() ||
	    (memory_is_verified() && !memory_check(allocation)) || !table_hide(allocation))
		return false;
	held = system_hold_cancellation();
	keeps = keep_hidden(allocation);
	if (keeps) {
		statistics_count(kept);
		events_count_free(allocation, 1);
	}
	system_release_cancellation(held);
	return keeps;
}

bool keep_free(enum memory_free call, uint64_t address)
{
	struct allocation allocation;
	unsigned int list;
	uint64_t limit;
	bool keeps;

	if (!memory_find(address, &allocation) || allocation.base != address ||
	    !keep_is_keepable(call, &allocation))
		return false;
	if (load_relaxed(&keep_mode) == KEEP_ENDED) {
		kept_release(&(struct kept_part){ 0, KEPT_LISTS, allocation.context });
		return false;
	}
	if (captures_may_be_open())
		return false;
	list = kept_list_number(&allocation);
	kept_look_for_ranks();
	if (kept_is_wanted(list)) {
		kept_release(&(struct kept_part){ list, list + 1, allocation.context });
		return false;
	}
	limit = kept_limit(list, kept_bytes_of(&allocation));
	keeps = keep_free_now(&allocation, limit);
	if (keeps || kept_bytes(list))
		keep_apply_limits(&allocation, limit, keeps);
	return keeps;
}

/* ---- allocations ---- */

/* Another rank has asked for memory. */
static void keep_answer(CUcontext context)
{
	int device = kept_current_device();
	unsigned int list = kept_list_of(device);

	if (device >= 0 && kept_bytes(list) && kept_is_wanted(list) && keep_is_idle(context))
		kept_release(&(struct kept_part){ list, list + 1, context });
}

bool keep_allocate(const struct keep_request *request, CUdeviceptr *address)
{
	struct allocation kept;
	bool reuses = false;
	CUcontext context;
	int held;

	/* Sums of a size beyond any address could wrap around. */
	if (!request->size || request->size >> ADDRESS_BITS ||
	    load_relaxed(&keep_mode) != KEEP_ON || captures_may_be_open() ||
	    (request->kind == ALLOCATION_DEVICE && !config_get()->keep))
		return false;
	context = keep_current_context();
	kept_look_for_ranks();
	if (context && kept_is_asked())
		keep_answer(context);
	held = system_hold_cancellation();
	/* A context may have ended in a call that peerpin does not intercept. */
	while (context && !reuses && keep_take(context, request, &kept))
		reuses = memory_check(&kept) && table_show(&kept);
	if (reuses) {
		statistics_count(reused);
		events_count_allocation(kept.kind, kept.size);
		events_emit(MEMORY_REUSED, &kept);
		*address = kept.base;
	}
	system_release_cancellation(held);
	return reuses;
}

/* ---- hidden memory ---- */

/* True while another thread is releasing an allocation that contains the address: its record has
 * ended, and the driver still has it. Hooks in the driver's free (UCX) query the memory that this
 * thread is releasing. */
static bool keep_is_releasing(uint64_t address)
{
	struct allocation released = { 0 };
	struct batch *batch;
	struct entry *entry;

	if (own_releases || !load_seq_cst(&releases))
		return false;
	pthread_mutex_lock(&keep_lock);
	TAILQ_FOREACH(batch, &batches, in_flight) {
		TAILQ_FOREACH(entry, &batch->entries, in_order) {
			if (address - entry->allocation.base < entry->allocation.size)
				released = entry->allocation;
		}
	}
	pthread_mutex_unlock(&keep_lock);
	if (!released.size)
		return false;
	/* Once the driver has freed it, there may be other memory, also without a record. */
	released.base = address;
	return attributes_match(&released);
}

uint64_t keep_visible_slowly(uint64_t address)
{
	return table_is_address_hidden(address) || keep_is_releasing(address) ? KEEP_ABSENT
									      : address;
}

uint64_t keep_exported_slowly(uint64_t address, uint64_t size)
{
	bool hides;

	if (!size)
		return keep_visible_slowly(address);
	/* Memory of the program beside memory that another thread releases is exported, too. */
	if (table_shows(address, size, &hides))
		return address;
	return hides || keep_is_releasing(address) ? KEEP_ABSENT : address;
}
