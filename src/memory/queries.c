/* SPDX-License-Identifier: BSD-3-Clause */
/* queries.c -- pointer queries: single attributes, ranges, handles, and setting SYNC_MEMOPS */
#include "memory/queries.h"

#include "base/atomics.h"
#include "base/config.h"
#include "base/log.h"
#include "base/near.h"
#include "memory/driver.h"
#include "memory/events.h"
#include "memory/query_target.h"
#include "report/statistics.h"

_Atomic int queries_mode;
static _Atomic bool ended;
static _Atomic int captures; /* captures in progress; rather too many than too few */

NEAR void queries_begin(void)
{
	int off = QUERIES_OFF;

	if (load_relaxed(&queries_mode) != QUERIES_OFF || !config_get()->pointer_queries ||
	    load_seq_cst(&ended))
		return;
	if (replace_seq_cst(&queries_mode, &off,
			    config_get()->verify ? QUERIES_VERIFY : QUERIES_ON))
		host_pages_begin();
	/* A concurrent queries_end() may have run before the exchange. */
	if (load_seq_cst(&ended))
		queries_end();
}

void queries_end(void)
{
	store_seq_cst(&ended, true);
	store_seq_cst(&queries_mode, QUERIES_OFF);
	host_pages_end();
}

void queries_capture_begins(void)
{
	add_seq_cst(&captures, 1);
}

void queries_capture_begun(bool begun)
{
	if (begun)
		statistics_count(captures);
	else
		queries_capture_ended();
}

/* An end without a begin reveals a capture call of a newer driver, and others may follow. The count
 * then stays above 0, so that peerpin queries the driver from now on. */
void queries_capture_ended(void)
{
	if (subtract_seq_cst(&captures, 1) <= 0)
		add_seq_cst(&captures, 2);
}

bool queries_may_be_captured(void)
{
	return load_seq_cst(&captures);
}

/* ---- common parts ---- */

void queries_count(const struct query_target *target)
{
	statistics_tally(target->record ? TALLY_queries_answered : TALLY_host_answers);
}

/* Count a forwarded query, and learn the host page of an address without a record. */
void queries_pass(uint64_t address)
{
	struct found found;

	statistics_tally(TALLY_queries_forwarded);
	if (load_relaxed(&host_pages_generation) && !lookup(address, &found) &&
	    !host_pages_remember(address))
		host_pages_learn(address);
}

/* Skip the comparison if the target has ended meanwhile. */
void queries_compare(const struct query_target *target, const char *what, bool same)
{
	if (!query_target_holds(target))
		return;
	statistics_count(verify_checks);
	if (same)
		return;
	statistics_count(verify_disagreements);
	log_message(LOG_ERROR,
		    "verification: the record of %s at 0x%llx differs from the driver; the client "
		    "got the driver's answer. "
		    "Set PEERPIN_POINTER_QUERIES=0, and please report it.",
		    what, (unsigned long long)target->address);
}

/* ---- one attribute ---- */

#define BIT(attribute) ((uint64_t)1 << (attribute))

/* A query of the tokens sets SYNC_MEMOPS (measured): only the driver has the value afterwards. */
static __attribute__((noinline)) CUresult
queries_get_forwarded(__typeof__(cuPointerGetAttribute) *forward, void *data,
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
			target->record
				? result == CUDA_SUCCESS && queries_is_stored(data, value, size)
				: result == CUDA_ERROR_INVALID_VALUE);
	return result;
}

/* Attributes whose single query the driver refuses outside of CUDA's memory, without storing a
 * value. */
static inline unsigned int queries_refused(CUpointer_attribute attribute)
{
	const uint64_t which =
		BIT(CU_POINTER_ATTRIBUTE_CONTEXT) | BIT(CU_POINTER_ATTRIBUTE_MEMORY_TYPE) |
		BIT(CU_POINTER_ATTRIBUTE_DEVICE_POINTER) | BIT(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) |
		BIT(CU_POINTER_ATTRIBUTE_BUFFER_ID) | BIT(CU_POINTER_ATTRIBUTE_IS_MANAGED) |
		BIT(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) |
		BIT(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE) |
		BIT(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR) | BIT(CU_POINTER_ATTRIBUTE_RANGE_SIZE) |
		BIT(CU_POINTER_ATTRIBUTE_MAPPED) |
		BIT(CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE) |
		BIT(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE);

	return (unsigned int)attribute < 64 && which >> attribute & 1 ? UNTOUCHED : UNANSWERED;
}

#undef BIT

CUresult queries_get(__typeof__(cuPointerGetAttribute) *forward, void *data,
		     CUpointer_attribute attribute, CUdeviceptr address)
{
	struct query_target target;
	unsigned int size = UNANSWERED;
	uint64_t value = 0;

	if (__builtin_expect(data && query_target_find(&target, address), 1))
		size = target.record ? query_target_value(&target, attribute, false, &value)
				     : queries_refused(attribute);
	/* One load checked a host page: only a record needs the second check. */
	if (__builtin_expect(!size || (target.record && !query_target_holds(&target)), 0))
		return queries_get_forwarded(forward, data, attribute, address);
	queries_count(&target);
	if (__builtin_expect(queries_are_verified(), 0))
		return queries_get_verified(forward, data, attribute, &target, value, size);
	if (!target.record)
		return CUDA_ERROR_INVALID_VALUE;
	if (size == LONG)
		*(uint64_unaligned *)data = value;
	else
		*(uint32_unaligned *)data = (uint32_t)value;
	return CUDA_SUCCESS;
}

/* ---- ranges and handles ---- */

/* True if the context of the calling thread is usable: not destroyed, and no kernel in it has
 * failed. */
static bool queries_is_context_usable(void)
{
	const struct driver_calls *driver = driver_calls();
	unsigned int version;

	return driver->cuCtxGetApiVersion &&
	       driver->cuCtxGetApiVersion(NULL, &version) == CUDA_SUCCESS;
}

/* Answers for memory that the context of the calling thread reaches. VMM memory: the mapping, if
 * accessible. */
CUresult queries_get_range(__typeof__(cuMemGetAddressRange_v2) *forward, CUdeviceptr *base,
			   size_t *size, CUdeviceptr address)
{
	struct query_target target;
	uint64_t begin, length;
	CUresult result;

	if (!(base || size) || !query_target_find(&target, address) || !target.record ||
	    !(target.traits & TRAIT_ACCESSIBLE) || !query_target_is_reached(&target) ||
	    !queries_is_context_usable())
		goto unanswered;
	begin = address - target.found.offset;
	length = target.found.size;
	if (!query_target_holds(&target))
		goto unanswered;
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
unanswered:
	queries_pass(address);
	return forward(base, size, address);
}

/* Only VMM memory has a handle. Shared and external memory may be VMM memory, unknown to
 * peerpin. */
static bool queries_has_no_handle(const struct query_target *target)
{
	enum allocation_kind kind;

	if (!target->record)
		return true;
	kind = traits_kind(target->traits);
	return kind != ALLOCATION_MAPPED && kind != ALLOCATION_SHARED &&
	       kind != ALLOCATION_EXTERNAL;
}

CUresult queries_get_handle(__typeof__(cuMemRetainAllocationHandle) *forward,
			    CUmemGenericAllocationHandle *handle, void *address)
{
	struct query_target target;
	CUresult result;

	if (!query_target_find(&target, (uintptr_t)address) || !queries_has_no_handle(&target) ||
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

/* The driver refuses during any capture, and with a destroyed context (measured). */
static bool queries_is_set_already(const void *value, CUpointer_attribute attribute,
				   CUdeviceptr address, struct query_target *target)
{
	const struct driver_calls *driver = driver_calls();
	const uint64_t wanted = TRAIT_SYNC_KNOWN | TRAIT_SYNC_SET;
	unsigned int on, version;
	CUresult context;

	if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || load_seq_cst(&captures) ||
	    !query_target_find(target, address) || !target->record ||
	    (target->traits & wanted) != wanted)
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

	if (queries_is_set_already(value, attribute, address, &target)) {
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
