/* SPDX-License-Identifier: BSD-3-Clause */
/* queries.c -- pointer queries: which are answered, one attribute, ranges, handles, and setting SYNC_MEMOPS */
#include "memory/queries.h"

#include "base/config.h"
#include "base/log.h"
#include "base/near.h"
#include "base/statistics.h"
#include "memory/driver.h"
#include "memory/events.h"
#include "memory/query_target.h"

_Atomic int queries_mode;
static _Atomic bool ended;
static _Atomic int captures; /* streams being captured; too many rather than too few */

NEAR void queries_begin(void)
{
	int off = QUERIES_OFF;

	if (atomic_load_explicit(&queries_mode, memory_order_relaxed) != QUERIES_OFF ||
	    !config_get()->pointer_queries || atomic_load(&ended))
		return;
	if (atomic_compare_exchange_strong(&queries_mode, &off,
					   config_get()->verify ? QUERIES_VERIFY : QUERIES_ON))
		host_pages_begin();
	/* Whoever ended it meanwhile has not seen it begin. */
	if (atomic_load(&ended))
		queries_end();
}

void queries_end(void)
{
	atomic_store(&ended, true);
	atomic_store(&queries_mode, QUERIES_OFF);
	host_pages_end();
}

void queries_capture_begins(void)
{
	atomic_fetch_add(&captures, 1);
}

void queries_capture_begun(bool begun)
{
	if (begun)
		statistics_count(captures);
	else
		queries_capture_ended();
}

/* One that began unseen, in a way that a newer driver has, may be followed by others: the driver is asked from now on. */
void queries_capture_ended(void)
{
	if (atomic_fetch_sub(&captures, 1) <= 0)
		atomic_fetch_add(&captures, 2);
}

bool queries_may_be_captured(void)
{
	return atomic_load(&captures);
}

/* ---- what all of them do ---- */

void queries_count(const struct query_target *target)
{
	statistics_tally(target->record ? TALLY_queries_answered : TALLY_host_answers);
}

/* What the driver says of an address without a record is worth remembering. */
void queries_pass(uint64_t address)
{
	struct found found;

	statistics_tally(TALLY_queries_forwarded);
	if (atomic_load_explicit(&host_pages_generation, memory_order_relaxed) && !lookup(address, &found) &&
	    !host_pages_remember(address))
		host_pages_learn(address);
}

/* Nothing is said of a subject that has ended meanwhile. */
void queries_compare(const struct query_target *target, const char *what, bool same)
{
	if (!query_target_holds(target))
		return;
	statistics_count(verify_checks);
	if (same)
		return;
	statistics_count(verify_disagreements);
	log_message(LOG_ERROR,
		    "verification: a query of %s at 0x%llx would have been answered wrongly; the driver's "
		    "answer was given. "
		    "Set PEERPIN_POINTER_QUERIES=0, and please report it.",
		    what, (unsigned long long)target->address);
}

/* ---- one attribute ---- */

#define BIT(attribute) ((uint64_t)1 << (attribute))

/* Asking for the tokens sets SYNC_MEMOPS (measured): what it says afterwards only the driver knows. */
static __attribute__((noinline)) CUresult get_passed(__typeof__(cuPointerGetAttribute) *forward, void *data,
						     CUpointer_attribute attribute, CUdeviceptr address)
{
	struct memory_sync sync;
	CUresult result;

	queries_pass(address);
	if (attribute != CU_POINTER_ATTRIBUTE_P2P_TOKENS)
		return forward(data, attribute, address);
	memory_setting_sync(&sync, address);
	result = forward(data, attribute, address);
	memory_sync_settled(&sync, false, false);
	return result;
}

static bool is_stored(const void *data, uint64_t value, unsigned int size)
{
	return size == LONG ? *(const uint64_unaligned *)data == value
			    : *(const uint32_unaligned *)data == (uint32_t)value;
}

static __attribute__((noinline)) CUresult get_verified(__typeof__(cuPointerGetAttribute) *forward, void *data,
						       CUpointer_attribute attribute,
						       const struct query_target *target, uint64_t value,
						       unsigned int size)
{
	CUresult result = forward(data, attribute, target->address);

	queries_compare(target, "an attribute",
			target->record ? result == CUDA_SUCCESS && is_stored(data, value, size)
				       : result == CUDA_ERROR_INVALID_VALUE);
	return result;
}

/* Of what is not CUDA's a single question about any of these is refused, and nothing is stored. */
static inline unsigned int refused(CUpointer_attribute attribute)
{
	const uint64_t which =
		BIT(CU_POINTER_ATTRIBUTE_CONTEXT) | BIT(CU_POINTER_ATTRIBUTE_MEMORY_TYPE) |
		BIT(CU_POINTER_ATTRIBUTE_DEVICE_POINTER) | BIT(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) |
		BIT(CU_POINTER_ATTRIBUTE_BUFFER_ID) | BIT(CU_POINTER_ATTRIBUTE_IS_MANAGED) |
		BIT(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) |
		BIT(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE) |
		BIT(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR) | BIT(CU_POINTER_ATTRIBUTE_RANGE_SIZE) |
		BIT(CU_POINTER_ATTRIBUTE_MAPPED) | BIT(CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE) |
		BIT(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE);

	return (unsigned int)attribute < 64 && which >> attribute & 1 ? UNTOUCHED : UNANSWERED;
}

#undef BIT

CUresult queries_get(__typeof__(cuPointerGetAttribute) *forward, void *data, CUpointer_attribute attribute,
		     CUdeviceptr address)
{
	struct query_target target;
	unsigned int size = UNANSWERED;
	uint64_t value = 0;

	if (__builtin_expect(data && query_target_find(&target, address), 1))
		size = target.record ? query_target_value(&target, attribute, false, &value)
				     : refused(attribute);
	/* That a page is not CUDA's was read in one moment. */
	if (__builtin_expect(!size || (target.record && !query_target_holds(&target)), 0))
		return get_passed(forward, data, attribute, address);
	queries_count(&target);
	if (__builtin_expect(queries_are_verified(), 0))
		return get_verified(forward, data, attribute, &target, value, size);
	if (!target.record)
		return CUDA_ERROR_INVALID_VALUE;
	if (size == LONG)
		*(uint64_unaligned *)data = value;
	else
		*(uint32_unaligned *)data = (uint32_t)value;
	return CUDA_SUCCESS;
}

/* ---- ranges and handles ---- */

/* Whether the calling thread's context is good for anything: it is not destroyed, and no kernel in it has failed. */
static bool is_context_good(void)
{
	const struct driver_calls *driver = driver_calls();
	unsigned int version;

	return driver->cuCtxGetApiVersion && driver->cuCtxGetApiVersion(NULL, &version) == CUDA_SUCCESS;
}

/* Of memory that the calling thread's context reaches; of mapped memory it is the mapping, if it may be accessed. */
CUresult queries_get_range(__typeof__(cuMemGetAddressRange_v2) *forward, CUdeviceptr *base, size_t *size,
			   CUdeviceptr address)
{
	struct query_target target;
	uint64_t begin, length;
	CUresult result;

	if (!(base || size) || !query_target_find(&target, address) || !target.record ||
	    !(target.traits & TRAIT_ACCESSIBLE) || !query_target_is_reached(&target) || !is_context_good())
		goto pass;
	begin = address - target.found.offset;
	length = target.found.size;
	if (!query_target_holds(&target))
		goto pass;
	queries_count(&target);
	if (queries_are_verified()) {
		result = forward(base, size, address);
		queries_compare(&target, "a range",
				result == CUDA_SUCCESS && (!base || *base == begin) &&
					(!size || *size == length));
		return result;
	}
	if (base)
		*base = begin;
	if (size)
		*size = length;
	return CUDA_SUCCESS;
pass:
	queries_pass(address);
	return forward(base, size, address);
}

/* Only what is mapped has one. What another process or interface made may be mapped without our knowing. */
static bool has_no_handle(const struct query_target *target)
{
	enum allocation_kind kind;

	if (!target->record)
		return true;
	kind = traits_kind(target->traits);
	return kind != ALLOCATION_MAPPED && kind != ALLOCATION_SHARED && kind != ALLOCATION_EXTERNAL;
}

CUresult queries_get_handle(__typeof__(cuMemRetainAllocationHandle) *forward,
			    CUmemGenericAllocationHandle *handle, void *address)
{
	struct query_target target;
	CUresult result;

	if (!query_target_find(&target, (uintptr_t)address) || !has_no_handle(&target) ||
	    !query_target_holds(&target)) {
		queries_pass((uintptr_t)address);
		return forward(handle, address);
	}
	queries_count(&target);
	if (queries_are_verified()) {
		result = forward(handle, address);
		queries_compare(&target, "a handle", result == CUDA_ERROR_INVALID_VALUE);
		return result;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

/* ---- setting SYNC_MEMOPS ---- */

/* While anything is captured the driver refuses, and with a context that has been destroyed (measured). */
static bool is_set_already(const void *value, CUpointer_attribute attribute, CUdeviceptr address,
			   struct query_target *target)
{
	const struct driver_calls *driver = driver_calls();
	const uint64_t wanted = TRAIT_SYNC_KNOWN | TRAIT_SYNC_SET;
	unsigned int on, version;
	CUresult context;

	if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || atomic_load(&captures) ||
	    !query_target_find(target, address) || !target->record || (target->traits & wanted) != wanted)
		return false;
	memcpy(&on, value, sizeof(on));
	context = on && driver->cuCtxGetApiVersion ? driver->cuCtxGetApiVersion(NULL, &version)
						   : CUDA_ERROR_NOT_SUPPORTED;
	return (context == CUDA_SUCCESS || context == CUDA_ERROR_INVALID_CONTEXT) &&
	       query_target_holds(target);
}

CUresult queries_set(__typeof__(cuPointerSetAttribute) *forward, const void *value,
		     CUpointer_attribute attribute, CUdeviceptr address)
{
	struct memory_sync sync = { .tracked = false };
	struct query_target target;
	unsigned int on = 0;
	CUresult result;

	if (is_set_already(value, attribute, address, &target)) {
		statistics_tally(TALLY_sync_answers);
		if (!queries_are_verified())
			return CUDA_SUCCESS;
		result = forward(value, attribute, address);
		queries_compare(&target, "a setting", result == CUDA_SUCCESS);
		return result;
	}
	if (value && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) {
		memcpy(&on, value, sizeof(on));
		memory_setting_sync(&sync, address);
	}
	result = forward(value, attribute, address);
	memory_sync_settled(&sync, result == CUDA_SUCCESS, on != 0);
	return result;
}
