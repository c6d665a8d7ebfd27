/* SPDX-License-Identifier: BSD-3-Clause */
/* keep.c -- frees that keep memory, and allocations that reuse it */
#include "memory/keep.h"

#include "base/config.h"
#include "base/loaded.h"
#include "base/log.h"
#include "base/process.h"
#include "base/system.h"
#include "memory/captures.h"
#include "memory/driver.h"
#include "memory/events.h"
#include "memory/keep_worth.h"
#include "memory/kept.h"
#include "memory/lookup.h"
#include "memory/table.h"
#include "report/statistics.h"

_Atomic int keep_mode = KEEP_UNDECIDED;

/* compute-sanitizer has to see each allocation and each free. */
static bool keep_is_sanitized(void)
{
	static _Atomic uint64_t answer;

	return loaded_has("libsanitizer-collection.so", &answer);
}

static void keep_begin(void)
{
	const struct config *config = config_get();
	int undecided = KEEP_UNDECIDED, mode = config->stats_file ? KEEP_WATCHING : KEEP_OFF;

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
	return load_relaxed(&keep_mode) != KEEP_OFF;
}

void keep_end(void)
{
	int undecided = KEEP_UNDECIDED, on = KEEP_ON;

	replace_seq_cst(&keep_mode, &undecided, KEEP_OFF);
	replace_seq_cst(&keep_mode, &on, KEEP_ENDED);
}

/* True while memory may be kept and reused. */
static bool keep_is_possible(void)
{
	switch (load_relaxed(&keep_mode)) {
	case KEEP_ON:
		if (captures_may_be_open())
			return false;
		kept_answer_ranks();
		return true;
	case KEEP_ENDED:
		keep_release_context(NULL);
		return false;
	default:
		return false;
	}
}

/* ---- requests ----
 *
 * The key of a record restores the request, which its size does not describe: of pitched memory the
 * pitch (31 bits), the padding of a row (31 bits) and the element (2 bits); of host memory the
 * flags. 0: other memory.
 */

#define PITCH_MAX ((uint64_t)1 << 31)

static uint64_t keep_key_of(const struct keep_request *request, uint64_t pitch)
{
	if (request->kind == ALLOCATION_HOST)
		return request->detail << 1 | 1;
	if (pitch >= PITCH_MAX || request->width > pitch ||
	    (request->detail != 4 && request->detail != 8 && request->detail != 16))
		return 0;
	return pitch << 33 | (pitch - request->width) << 2 |
	       (uint64_t)(__builtin_ctzll(request->detail) - 1);
}

static uint64_t keep_pitch_of(const struct allocation *allocation)
{
	return allocation->keep_key >> 33;
}

/* False: memory that is never kept. */
static bool keep_request_of(const struct allocation *allocation, struct keep_request *request)
{
	uint64_t key = allocation->keep_key, pitch = keep_pitch_of(allocation);

	*request = (struct keep_request){ .kind = allocation->kind };
	switch (allocation->kind) {
	case ALLOCATION_DEVICE:
		request->width = allocation->size;
		return true;
	case ALLOCATION_PITCHED:
		request->width = pitch - (key >> 2 & (PITCH_MAX - 1));
		request->height = pitch ? allocation->size / pitch : 0;
		request->detail = 2u << (key & 3);
		return key;
	case ALLOCATION_HOST:
		request->width = allocation->size;
		request->detail = key >> 1;
		return key;
	default:
		return false;
	}
}

void keep_allocated(const struct keep_request *request, uint64_t base, uint64_t pitch)
{
	table_set_keep_key(base, keep_key_of(request, pitch));
}

/* CUDA_SUCCESS: today's interface may be used in the calling thread's context. */
static CUresult keep_context_state(void)
{
	const struct driver_calls *driver = driver_calls();
	unsigned int version = 0;
	CUresult result = driver->cuCtxGetApiVersion ? driver->cuCtxGetApiVersion(NULL, &version)
						     : CUDA_ERROR_NOT_SUPPORTED;

	return result == CUDA_SUCCESS && version < 3020 ? CUDA_ERROR_NOT_SUPPORTED : result;
}

/* ---- frees ---- */

/* The driver refuses a free with a destroyed context, in a context of the interface before
 * CUDA 3.2, and after a failed kernel (measured). */
static bool keep_may_free(void)
{
	CUresult state = keep_context_state();

	return state == CUDA_SUCCESS || state == CUDA_ERROR_INVALID_CONTEXT;
}

/* Without credit the free, which waits for its context anyway, releases some of what was kept. */
static bool keep_is_worth(const struct allocation *allocation)
{
	unsigned int list = kept_list_number(allocation);
	uint64_t bytes = allocation->size;

	if (allocation->kind != ALLOCATION_DEVICE ||
	    keep_worth_has(list, bytes, !table_was_hidden(allocation)))
		return true;
	keep_worth_freed(list, bytes);
	kept_release_like(allocation);
	return false;
}

/* The caller has hidden the allocation. */
static bool keep_hidden(struct kept *kept)
{
	events_hidden(&kept->allocation);
	if (keep_wait(kept->allocation.context) == CUDA_SUCCESS && kept_add(kept))
		return true;
	/* The driver's own free decides. */
	if (table_show(&kept->allocation))
		events_shown(&kept->allocation);
	return false;
}

bool keep_free(enum memory_free call, uint64_t address, union keep_target target)
{
	struct kept kept = { .target = target };
	int held;
	bool keeps;

	if (!keep_is_possible() || !memory_find(address, &kept.allocation) ||
	    kept.allocation.base != address ||
	    (kept.allocation.kind == ALLOCATION_HOST) != (call == FREE_HOST) ||
	    !keep_request_of(&kept.allocation, &kept.request) || !kept.allocation.described ||
	    !kept.allocation.context || !kept_is_within_limit(&kept.allocation) ||
	    !keep_may_free() || (memory_is_verified() && !memory_check(&kept.allocation)) ||
	    !keep_is_worth(&kept.allocation) || !table_hide(&kept.allocation))
		return false;
	held = system_hold_cancellation();
	keeps = keep_hidden(&kept);
	if (keeps) {
		statistics_count(kept);
		events_count_free(&kept.allocation, 1);
		kept_apply_limit(&kept.allocation);
	}
	system_release_cancellation(held);
	return keeps;
}

uint64_t keep_visible_slowly(uint64_t address)
{
	return table_is_address_hidden(address) || kept_is_releasing(address) ? KEEP_ABSENT
									      : address;
}

uint64_t keep_exported_slowly(uint64_t address, uint64_t size)
{
	bool hidden =
		size ? table_is_range_hidden(address, size) : table_is_address_hidden(address);

	return hidden || kept_is_releasing(address) ? KEEP_ABSENT : address;
}

/* ---- allocations ---- */

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

static int keep_current_device(void)
{
	const struct driver_calls *driver = driver_calls();
	CUdevice device = -1;

	return driver->cuCtxGetDevice && driver->cuCtxGetDevice(&device) == CUDA_SUCCESS ? device
											 : -1;
}

static bool keep_take(CUcontext context, const struct keep_request *request, struct kept *taken)
{
	return (request->kind == ALLOCATION_HOST || statistics_get(kept_bytes)) &&
	       kept_take(context, request, taken);
}

/* The driver is about to allocate on the current device. */
static void keep_missed(const struct keep_request *request)
{
	int device = keep_current_device();
	unsigned int list = kept_list_of(device);
	uint64_t bytes = request->width * (request->height ? request->height : 1);

	/* The driver refuses an allocation of no bytes. */
	if (request->kind == ALLOCATION_DEVICE && bytes)
		keep_worth_missed(list, bytes, kept_number_like(list, bytes));
	if (statistics_get(kept_bytes))
		kept_make_room(device, kept_bytes_of(&(struct allocation){ .kind = request->kind,
									   .size = bytes }));
}

bool keep_allocate(const struct keep_request *request, CUdeviceptr *address, size_t *pitch)
{
	CUcontext context;
	struct kept kept;

	/* Sums of a size beyond any address could wrap around. */
	if (request->width >> ADDRESS_BITS || !statistics_get(kept) || !keep_is_possible())
		return false;
	context = keep_current_context();
	while (context && keep_take(context, request, &kept)) {
		/* A context may have ended in a call that peerpin does not intercept. */
		if (!memory_check(&kept.allocation) || !table_show(&kept.allocation))
			continue;
		statistics_count(reused);
		if (request->kind == ALLOCATION_DEVICE)
			keep_worth_matched(kept_list_number(&kept.allocation), request->width);
		events_count_allocation(kept.allocation.kind, kept.allocation.size);
		events_shown(&kept.allocation);
		if (pitch)
			*pitch = keep_pitch_of(&kept.allocation);
		*address = kept.allocation.base;
		return true;
	}
	if (context && request->kind != ALLOCATION_HOST && config_get()->keep)
		keep_missed(request);
	return false;
}

/* ---- memory pressure, and ends ---- */

void keep_return_pools(void)
{
	kept_trim_pools(keep_current_device());
}

uint64_t keep_free_bytes(void)
{
	return kept_block_bytes(keep_current_device());
}

/* Other threads may fill the pools again at once, and other ranks may take what was given. */
#define POOL_TRIES 8
#define RANK_TRIES 64

bool keep_release_for(int device, uint64_t bytes, unsigned int tries)
{
	if (device == KEEP_POOL && keep_release_for(KEEP_CURRENT, bytes, tries))
		return true;
	if (device == KEEP_CURRENT)
		device = keep_current_device();
	return device != KEEP_CURRENT &&
	       (kept_release(device, bytes) || (tries < POOL_TRIES && kept_trim_pools(device)) ||
		(tries < RANK_TRIES && device >= 0 && kept_ask_ranks(device, bytes)));
}

bool keep_release(int device, uint64_t bytes)
{
	return keep_release_for(device, bytes, 0);
}

bool keep_await_release(uint64_t ended)
{
	kept_await_releases(NULL);
	return load_relaxed(&keep_releases_ended) != ended;
}
