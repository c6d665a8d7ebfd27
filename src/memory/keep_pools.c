/* SPDX-License-Identifier: BSD-3-Clause */
/* keep_pools.c -- release thresholds of the devices' default pools
 *
 * A pool with a threshold of 0, the driver's default, returns its unused memory to the GPU at each
 * synchronization. The first allocation from a pool of a device raises the threshold of its default
 * pool to the limit of kept memory, once. The default pool is never destroyed; pools that a program
 * creates are forwarded: a call of peerpin could meet their end.
 *
 * The driver counts live memory, too. It returns unused memory of pools for cuMemAlloc, for
 * cuMemCreate and to another pool (measured). Before the program asks how much is free, or
 * reserved, the pool returns it.
 */
#include "base/config.h"
#include "base/system.h"
#include "memory/memory.h"
#include "memory/driver.h"
#include "memory/kept.h"

/* The low bits of peerpin's thresholds: no program sets a number of bytes that ends so. */
#define THRESHOLD_MARK	  ((uint64_t)0x15bad)
#define THRESHOLD_MARKING (BLOCK - 1)

enum pool_state { POOL_UNREAD, POOL_READ, POOL_RAISED };

static struct {
	_Atomic enum pool_state state;
	_Atomic(CUmemoryPool) pool; /* POOL_RAISED: the default pool */
} pools[DEVICES_MAX];

static bool pools_is_ours(uint64_t threshold)
{
	return (threshold & THRESHOLD_MARKING) == THRESHOLD_MARK;
}

static uint64_t pools_attribute(CUmemoryPool pool, CUmemPool_attribute attribute)
{
	uint64_t value = 0;

	return driver_calls()->cuMemPoolGetAttribute(pool, attribute, &value) == CUDA_SUCCESS
		       ? value
		       : 0;
}

/* ---- thresholds ---- */

/* True if the threshold is peerpin's from now on. A setting by another thread between both calls is
 * lost: then the pool holds up to the limit. */
static bool pools_set(CUmemoryPool pool, uint64_t limit)
{
	const struct driver_calls *driver = driver_calls();
	uint64_t threshold = (limit & ~THRESHOLD_MARKING) | THRESHOLD_MARK, before = 0;

	return driver->cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &before) ==
		       CUDA_SUCCESS &&
	       !before &&
	       driver->cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold) ==
		       CUDA_SUCCESS;
}

static void pools_raise(int device)
{
	const struct driver_calls *driver = driver_calls();
	CUmemoryPool pool;
	uint64_t limit = kept_limit(kept_list_of(device), 0);

	/* The limit is not known yet. */
	if (!limit) {
		store_relaxed(&pools[device].state, POOL_UNREAD);
		return;
	}
	if (!driver->cuDeviceGetDefaultMemPool || !driver->cuMemPoolGetAttribute ||
	    !driver->cuMemPoolSetAttribute || !driver->cuMemPoolTrimTo ||
	    driver->cuDeviceGetDefaultMemPool(&pool, device) != CUDA_SUCCESS ||
	    !pools_set(pool, limit))
		return;
	store_relaxed(&pools[device].pool, pool);
	store_release(&pools[device].state, POOL_RAISED);
}

void keep_pool_allocated(int device)
{
	enum pool_state unread = POOL_UNREAD;
	CUstreamCaptureMode mode;
	bool relaxed;
	int held;

	if (load_relaxed(&keep_mode) != KEEP_ON || !config_get()->keep || captures_may_be_open())
		return;
	kept_look_for_ranks();
	if (device < 0 || device >= DEVICES_MAX ||
	    load_relaxed(&pools[device].state) != POOL_UNREAD ||
	    !replace_seq_cst(&pools[device].state, &unread, POOL_READ))
		return;
	held = system_hold_cancellation();
	relaxed = driver_relax_capture(&mode);
	pools_raise(device);
	driver_restore_capture(relaxed, &mode);
	system_release_cancellation(held);
}

/* ---- unused memory ---- */

/* Only the driver knows what it can return: memory whose neighbours are in use stays (measured). */
static uint64_t pools_trim(CUmemoryPool pool)
{
	CUstreamCaptureMode mode;
	bool relaxed = driver_relax_capture(&mode);
	uint64_t before = pools_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT),
		 after = before;

	if (before > pools_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) &&
	    pools_is_ours(pools_attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD))) {
		driver_calls()->cuMemPoolTrimTo(pool, 0);
		after = pools_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
	}
	driver_restore_capture(relaxed, &mode);
	return before > after ? before - after : 0;
}

bool kept_trim_pool(int device)
{
	return device >= 0 && device < DEVICES_MAX &&
	       load_acquire(&pools[device].state) == POOL_RAISED &&
	       pools_trim(load_relaxed(&pools[device].pool));
}

void keep_return_pool(void)
{
	kept_trim_pool(kept_current_device());
}

static bool pools_is_raised(CUmemoryPool pool)
{
	for (int device = 0; device < DEVICES_MAX; device++) {
		if (load_acquire(&pools[device].state) == POOL_RAISED &&
		    load_relaxed(&pools[device].pool) == pool)
			return true;
	}
	return false;
}

void keep_pool_read(CUmemoryPool pool, CUmemPool_attribute attribute, uint64_t *value)
{
	uint64_t returned;

	if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD && pools_is_ours(*value) &&
	    pools_is_raised(pool))
		*value = 0;
	if (attribute != CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT || !pools_is_raised(pool))
		return;
	returned = pools_trim(pool);
	*value = *value > returned ? *value - returned : 0;
}
