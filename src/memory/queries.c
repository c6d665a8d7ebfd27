/* SPDX-License-Identifier: BSD-3-Clause */
/* queries.c -- pointer queries: single attributes, ranges, handles, and setting SYNC_MEMOPS */
#include "memory/queries.h"

#include "base/atomics.h"
#include "base/config.h"
#include "base/log.h"
#include "memory/captures.h"
#include "memory/driver.h"
#include "memory/events.h"
#include "memory/keep.h"
#include "memory/query_target.h"
#include "report/statistics.h"

_Atomic int queries_mode;

void queries_begin(void)
{
	int undecided = QUERIES_UNDECIDED;
	int mode = process_is_passive() || !config_get()->pointer_queries ? QUERIES_OFF
		   : config_get()->verify				  ? QUERIES_VERIFY
									  : QUERIES_ON;

	replace_seq_cst(&queries_mode, &undecided, mode);
}

void queries_end(void)
{
	store_seq_cst(&queries_mode, QUERIES_OFF);
}

static void queries_disagree(const char *query, uint64_t address)
{
	statistics_count(verify_disagreements);
	log_message(
		LOG_ERROR,
		"verification: peerpin's answer to a query of %s at 0x%llx differs from the "
		"driver's; "
		"the client got the driver's. Set PEERPIN_POINTER_QUERIES=0, and please report it.",
		query, (unsigned long long)address);
}

/* Skip the comparison if the target has ended meanwhile. */
void queries_compare(const struct query_target *target, const char *query, bool same)
{
	if (!lookup_is_same(&target->found))
		return;
	statistics_count(verify_checks);
	if (!same)
		queries_disagree(query, target->address);
}

/* State of the calling thread's context: CUDA_SUCCESS if it is usable; INVALID_CONTEXT if there is
 * none; CONTEXT_IS_DESTROYED; or the error of a kernel that has failed. */
static CUresult queries_context_state(void)
{
	const struct driver_calls *driver = driver_calls();
	unsigned int version;

	return driver->cuCtxGetApiVersion ? driver->cuCtxGetApiVersion(NULL, &version)
					  : CUDA_ERROR_NOT_SUPPORTED;
}

/* ---- addresses unknown to CUDA ----
 *
 * There the driver answers a list query with CUDA_SUCCESS and memory type 0, and refuses a single
 * query with CUDA_ERROR_INVALID_VALUE without storing a value (measured, tests/contract). The list
 * query costs a fifth of the single one, which takes 470 ns (sheet cuda-driver-h200). The answer
 * has no state: it holds whether or not peerpin intercepts every free.
 */

/* A device with access to pageable memory makes every host address known to CUDA. Devices and their
 * attributes do not change. */
static bool queries_is_host_memory_unknown(const struct driver_calls *driver)
{
	static _Atomic int known; /* 0: not queried; 1: true; -1: false */
	int count = 0, pageable = 0;

	if (load_relaxed(&known))
		return load_relaxed(&known) > 0;
	if (!driver->cuDeviceGetCount || !driver->cuDeviceGetAttribute ||
	    driver->cuDeviceGetCount(&count) != CUDA_SUCCESS)
		return false;
	for (int device = 0; device < count && !pageable; device++) {
		if (driver->cuDeviceGetAttribute(&pageable,
						 CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS,
						 device) != CUDA_SUCCESS)
			pageable = 1;
	}
	store_relaxed(&known, pageable ? -1 : 1);
	return !pageable;
}

/* True if the driver refuses the query of `attribute` at `address`, and stores nothing. False: the
 * driver has to answer. The driver also refuses a list with an attribute that it does not support.
 * Queries in a context after a failed kernel were not measured. */
static bool queries_is_refused(CUpointer_attribute attribute, uint64_t address)
{
	const struct driver_calls *driver = driver_calls();
	CUpointer_attribute attributes[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE, attribute };
	unsigned int type = CU_MEMORYTYPE_DEVICE;
	uint64_t value;
	void *values[] = { &type, &value };
	CUresult context;

	if (address >> ADDRESS_BITS || !driver->cuPointerGetAttributes ||
	    !queries_is_host_memory_unknown(driver) ||
	    driver->cuPointerGetAttributes(2, attributes, values, address) != CUDA_SUCCESS || type)
		return false;
	context = queries_context_state();
	return context == CUDA_SUCCESS || context == CUDA_ERROR_INVALID_CONTEXT ||
	       context == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static CUresult queries_verify_refusal(CUresult result, uint64_t address)
{
	statistics_count(verify_checks);
	if (result != CUDA_ERROR_INVALID_VALUE &&
	    queries_is_refused(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address))
		queries_disagree("an unknown address", address);
	return result;
}

/* ---- one attribute ---- */

/* Attributes with a list query free of side effects: a query of the tokens sets SYNC_MEMOPS. */
static bool queries_is_listable(CUpointer_attribute attribute)
{
	return (unsigned int)attribute < QUERY_ATTRIBUTES && query_attributes[attribute].bytes &&
	       attribute != CU_POINTER_ATTRIBUTE_P2P_TOKENS;
}

/* A query of the tokens sets SYNC_MEMOPS (measured): only the driver has the value afterwards. */
static CUresult queries_get_tokens(__typeof__(cuPointerGetAttribute) *forward, void *data,
				   CUpointer_attribute attribute, CUdeviceptr address)
{
	struct memory_sync sync;
	CUresult result;

	memory_setting_sync(&sync, address);
	result = forward(data, attribute, address);
	memory_sync_settled(&sync, false, false);
	return result;
}

CUresult queries_forward(__typeof__(cuPointerGetAttribute) *forward, void *data,
			 CUpointer_attribute attribute, CUdeviceptr address)
{
	return forward(data, attribute, keep_visible(address));
}

static __attribute__((noinline)) CUresult
queries_get_unrecorded(__typeof__(cuPointerGetAttribute) *forward, void *data,
		       CUpointer_attribute attribute, const struct query_target *target)
{
	uint64_t address = keep_visible(target->address);

	if (data && !target->record && queries_is_listable(attribute) &&
	    queries_is_refused(attribute, address)) {
		statistics_tally(TALLY_host_answers);
		if (!queries_are_verified())
			return CUDA_ERROR_INVALID_VALUE;
		return queries_verify_refusal(forward(data, attribute, address), address);
	}
	statistics_tally(TALLY_queries_forwarded);
	if (attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
		return queries_get_tokens(forward, data, attribute, address);
	return queries_forward(forward, data, attribute, address);
}

static bool queries_is_stored(const void *data, uint64_t value, unsigned int size)
{
	return size == LONG ? *(const uint64_unaligned *)data == value
			    : *(const uint32_unaligned *)data == (uint32_t)value;
}

static __attribute__((noinline)) CUresult
queries_get_verified(__typeof__(cuPointerGetAttribute) *forward, void *data,
		     CUpointer_attribute attribute, const struct query_target *target,
		     uint64_t value, unsigned int size)
{
	CUresult result = forward(data, attribute, target->address);

	queries_compare(target, "an attribute",
			result == CUDA_SUCCESS && queries_is_stored(data, value, size));
	return result;
}

CUresult queries_get(__typeof__(cuPointerGetAttribute) *forward, void *data,
		     CUpointer_attribute attribute, CUdeviceptr address)
{
	struct query_target target;
	unsigned int size = UNANSWERED;
	uint64_t value = 0;

	if (__builtin_expect(query_target_find(&target, address) && data, 1))
		size = query_target_value(&target, attribute, false, &value);
	if (__builtin_expect(!size, 0))
		return queries_get_unrecorded(forward, data, attribute, &target);
	statistics_tally(TALLY_queries_answered);
	if (__builtin_expect(queries_are_verified(), 0))
		return queries_get_verified(forward, data, attribute, &target, value, size);
	if (size == LONG)
		*(uint64_unaligned *)data = value;
	else
		*(uint32_unaligned *)data = (uint32_t)value;
	return CUDA_SUCCESS;
}

/* ---- ranges and handles ---- */

CUresult queries_forward_range(__typeof__(cuMemGetAddressRange_v2) *forward, CUdeviceptr *base,
			       size_t *size, CUdeviceptr address)
{
	return forward(base, size, keep_visible(address));
}

/* Answers for memory that the context of the calling thread reaches. VMM memory: the mapping, if
 * accessible. Elsewhere the driver's error depends on the context. */
CUresult queries_get_range(__typeof__(cuMemGetAddressRange_v2) *forward, CUdeviceptr *base,
			   size_t *size, CUdeviceptr address)
{
	struct query_target target;
	uint64_t begin, length;
	CUresult result;

	if (!(base || size) || !query_target_find(&target, address) ||
	    !(target.traits & TRAIT_ACCESSIBLE) || !query_target_is_reached(&target) ||
	    queries_context_state() != CUDA_SUCCESS)
		goto unanswered;
	begin = address - target.found.offset;
	length = target.found.size;
	statistics_tally(TALLY_queries_answered);
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
unanswered:
	statistics_tally(TALLY_queries_forwarded);
	return queries_forward_range(forward, base, size, address);
}

/* Only VMM memory has a handle. Shared and external memory may be VMM memory, unknown to
 * peerpin. */
static bool queries_has_no_handle(const struct query_target *target)
{
	enum allocation_kind kind = traits_kind(target->traits);

	return kind != ALLOCATION_MAPPED && kind != ALLOCATION_SHARED &&
	       kind != ALLOCATION_EXTERNAL;
}

CUresult queries_get_handle(__typeof__(cuMemRetainAllocationHandle) *forward,
			    CUmemGenericAllocationHandle *handle, void *address)
{
	struct query_target target;
	CUresult result;

	if (!query_target_find(&target, (uintptr_t)address) || !queries_has_no_handle(&target)) {
		statistics_tally(TALLY_queries_forwarded);
		return forward(handle, keep_visible_pointer(address));
	}
	statistics_tally(TALLY_queries_answered);
	if (queries_are_verified()) {
		result = forward(handle, address);
		queries_compare(&target, "a handle", result == CUDA_ERROR_INVALID_VALUE);
		return result;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

/* ---- setting SYNC_MEMOPS ---- */

/* The driver refuses during any capture, and with a destroyed context (measured). */
static bool queries_is_set_already(const void *value, CUpointer_attribute attribute,
				   CUdeviceptr address, struct query_target *target)
{
	const uint64_t wanted = TRAIT_SYNC_KNOWN | TRAIT_SYNC_SET;
	CUresult context;
	unsigned int on;

	if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || captures_may_be_open() ||
	    !query_target_find(target, address) || (target->traits & wanted) != wanted)
		return false;
	memcpy(&on, value, sizeof(on));
	context = on ? queries_context_state() : CUDA_ERROR_NOT_SUPPORTED;
	return context == CUDA_SUCCESS || context == CUDA_ERROR_INVALID_CONTEXT;
}

CUresult queries_set(__typeof__(cuPointerSetAttribute) *forward, const void *value,
		     CUpointer_attribute attribute, CUdeviceptr address)
{
	CUdeviceptr visible;
	struct memory_sync sync = { .tracked = false };
	struct query_target target;
	unsigned int on = 0;
	CUresult result;

	if (queries_is_set_already(value, attribute, address, &target)) {
		statistics_tally(TALLY_sync_answers);
		if (!queries_are_verified())
			return CUDA_SUCCESS;
		result = forward(value, attribute, address);
		queries_compare(&target, "a setting", result == CUDA_SUCCESS);
		return result;
	}
	visible = keep_visible(address);
	if (value && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) {
		memcpy(&on, value, sizeof(on));
		memory_setting_sync(&sync, visible);
	}
	result = forward(value, attribute, visible);
	memory_sync_settled(&sync, result == CUDA_SUCCESS, on != 0);
	if (sync.tracked && result == CUDA_SUCCESS && !on)
		statistics_count(sync_off);
	return result;
}
