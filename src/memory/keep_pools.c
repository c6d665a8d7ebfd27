/* SPDX-License-Identifier: BSD-3-Clause */
/* keep_pools.c -- release thresholds of stream-ordered pools
 *
 * A pool with a threshold of 0, the driver's default, returns its unused memory to the GPU at each
 * synchronization. The first allocation from a pool raises its threshold to the limit of kept
 * memory, which the program may change later; later ones lower it, where ranks that began after
 * this one share the GPU. The driver counts live memory, too; it splits and joins what the pool
 * holds, which hardly exceeds the most that the program has had of it at a time (measured). The
 * driver itself returns this memory for cuMemAlloc, for cuMemCreate and to another pool (measured).
 * Before the program asks how much is free, or reserved, the pools return it.
 */
#include <pthread.h>

#include "base/atomics.h"
#include "base/config.h"
#include "base/system.h"
#include "memory/captures.h"
#include "memory/driver.h"
#include "memory/kept.h"

#define POOLS_MAX 32u

enum pool_threshold { THRESHOLD_UNREAD, THRESHOLD_OURS, THRESHOLD_PROGRAMS };

/* pools_lock guards stores, and is taken alone. */
static struct pool_entry {
	_Atomic(CUmemoryPool) pool; /* NULL: none */
	_Atomic enum pool_threshold threshold;
	int device;
	unsigned int calls; /* peerpin's calls in flight: the entry and the pool stay */
	uint64_t limit;	    /* as peerpin has set the threshold */
	_Atomic unsigned int allocations;
} entries[POOLS_MAX];
static pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t pools_call_ended = PTHREAD_COND_INITIALIZER;

void kept_renew_pools(void)
{
	pools_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	pools_call_ended = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
}

static struct pool_entry *pools_find(CUmemoryPool pool)
{
	for (struct pool_entry *entry = entries; entry < entries + POOLS_MAX; entry++) {
		if (load_acquire(&entry->pool) == pool)
			return entry;
	}
	return NULL;
}

/* ---- peerpin's calls ---- */

static uint64_t pools_attribute(CUmemoryPool pool, CUmemPool_attribute attribute)
{
	uint64_t value = 0;

	return driver_calls()->cuMemPoolGetAttribute(pool, attribute, &value) == CUDA_SUCCESS
		       ? value
		       : 0;
}

/* Only the driver knows what it can return: memory whose neighbours are in use stays (measured: 1
 * GiB of 16 MiB each, of which every second was freed, returns nothing). */
static uint64_t pools_trim(CUmemoryPool pool, uint64_t before)
{
	uint64_t after;

	if (before <= pools_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT))
		return 0;
	driver_calls()->cuMemPoolTrimTo(pool, 0);
	after = pools_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
	return before > after ? before - after : 0;
}

/* Bracket a call with the pool; with the lock held, which is dropped meanwhile, and cancellation
 * held off: a call without an end would be waited for for ever. */
static void pools_begin_call(struct pool_entry *entry)
{
	entry->calls++;
	pthread_mutex_unlock(&pools_lock);
}

static void pools_end_call(struct pool_entry *entry)
{
	pthread_mutex_lock(&pools_lock);
	entry->calls--;
	system_wake(&pools_call_ended);
}

/* With the lock held, which is dropped meanwhile. */
static uint64_t pools_trim_entry(struct pool_entry *entry)
{
	CUmemoryPool pool = entry->pool;
	uint64_t released;

	pools_begin_call(entry);
	released = pools_trim(pool, pools_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
	pools_end_call(entry);
	return released;
}

/* The pools of the device (KEEP_POOL: of any), or one of them, if the threshold is peerpin's. */
static uint64_t pools_trim_all(int device, CUmemoryPool only)
{
	CUstreamCaptureMode mode;
	int held = system_hold_cancellation();
	bool relaxed = driver_relax_capture(&mode);
	uint64_t sum = 0;

	pthread_mutex_lock(&pools_lock);
	for (struct pool_entry *entry = entries; entry < entries + POOLS_MAX; entry++) {
		if (entry->pool && entry->threshold == THRESHOLD_OURS &&
		    (!only || entry->pool == only) &&
		    (device == KEEP_POOL || entry->device == device))
			sum += pools_trim_entry(entry);
	}
	pthread_mutex_unlock(&pools_lock);
	driver_restore_capture(relaxed, &mode);
	system_release_cancellation(held);
	return sum;
}

bool kept_trim_pools(int device)
{
	return pools_trim_all(device, NULL);
}

/* ---- thresholds; with the lock held ---- */

/* NULL: there are too many pools. */
static struct pool_entry *pools_add(CUmemoryPool pool)
{
	struct pool_entry *entry = pools_find(pool);

	if (!entry)
		entry = pools_find(NULL);
	if (entry && !entry->pool) {
		entry->threshold = THRESHOLD_UNREAD;
		store_release(&entry->pool, pool);
	}
	return entry;
}

static void pools_set(struct pool_entry *entry, uint64_t limit)
{
	entry->limit = limit;
	pools_begin_call(entry);
	driver_calls()->cuMemPoolSetAttribute(entry->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
					      &limit);
	pools_end_call(entry);
}

static void pools_raise(struct pool_entry *entry, uint64_t limit)
{
	uint64_t threshold = 0;
	CUresult result;

	pools_begin_call(entry);
	result = driver_calls()->cuMemPoolGetAttribute(
		entry->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
	pools_end_call(entry);
	/* The program may have set it meanwhile. */
	if (entry->threshold != THRESHOLD_UNREAD)
		return;
	entry->threshold =
		result == CUDA_SUCCESS && !threshold ? THRESHOLD_OURS : THRESHOLD_PROGRAMS;
	if (entry->threshold == THRESHOLD_OURS)
		pools_set(entry, limit);
}

/* ---- the program's calls ---- */

/* True at a pool's allocation 2, 4, 8, ...: to look for ranks that have begun costs a read. */
static bool pools_is_due(struct pool_entry *entry)
{
	unsigned int count;

	if (config_get()->keep != CONFIG_AUTO || load_relaxed(&entry->threshold) != THRESHOLD_OURS)
		return false;
	count = add_relaxed(&entry->allocations, 1) + 2;
	return !(count & (count - 1));
}

void kept_pool_allocated(const struct allocation *allocation)
{
	struct pool_entry *entry = allocation->pool ? pools_find(allocation->pool) : NULL;
	bool again = entry && pools_is_due(entry), relaxed;
	CUstreamCaptureMode mode;
	uint64_t limit;
	int held;

	if (load_relaxed(&keep_mode) == KEEP_ON && !captures_may_be_open())
		kept_answer_ranks();
	if (!allocation->pool || (entry && !again) || !allocation->described ||
	    load_relaxed(&keep_mode) != KEEP_ON)
		return;
	held = system_hold_cancellation();
	relaxed = driver_relax_capture(&mode);
	limit = again ? kept_later_limit(allocation->device)
		      : kept_device_limit(allocation->device, 0);
	pthread_mutex_lock(&pools_lock);
	entry = limit ? pools_add(allocation->pool) : NULL;
	if (entry && !entry->calls && !again && entry->threshold == THRESHOLD_UNREAD) {
		entry->device = allocation->device;
		pools_raise(entry, limit);
	} else if (entry && !entry->calls && again && entry->threshold == THRESHOLD_OURS &&
		   limit < entry->limit) {
		pools_set(entry, limit);
	}
	pthread_mutex_unlock(&pools_lock);
	driver_restore_capture(relaxed, &mode);
	system_release_cancellation(held);
}

void keep_pool_read(CUmemoryPool pool, CUmemPool_attribute attribute, uint64_t *value)
{
	struct pool_entry *entry = pools_find(pool);
	uint64_t released;

	if (!entry || load_relaxed(&entry->threshold) != THRESHOLD_OURS)
		return;
	if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
		*value = 0;
	if (attribute != CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
		return;
	released = pools_trim_all(KEEP_POOL, pool);
	*value = *value > released ? *value - released : 0;
}

bool keep_pool_take(CUmemoryPool pool)
{
	struct pool_entry *entry;
	bool ours;

	if (!pool)
		return false;
	pthread_mutex_lock(&pools_lock);
	entry = pools_add(pool);
	ours = entry && entry->threshold == THRESHOLD_OURS;
	if (entry)
		entry->threshold = THRESHOLD_PROGRAMS;
	while (entry && entry->calls)
		system_wait(&pools_call_ended, &pools_lock);
	pthread_mutex_unlock(&pools_lock);
	return ours;
}

void keep_pool_give_back(CUmemoryPool pool)
{
	struct pool_entry *entry;

	pthread_mutex_lock(&pools_lock);
	entry = pools_find(pool);
	if (pool && entry)
		entry->threshold = THRESHOLD_OURS;
	pthread_mutex_unlock(&pools_lock);
}

void keep_pool_forget(CUmemoryPool pool)
{
	struct pool_entry *entry;

	pthread_mutex_lock(&pools_lock);
	entry = pools_find(pool);
	if (entry)
		store_release(&entry->pool, NULL);
	pthread_mutex_unlock(&pools_lock);
}
