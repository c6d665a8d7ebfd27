/* SPDX-License-Identifier: BSD-3-Clause */
/* queries.c -- pointer queries of recorded memory, alone and in lists */
#include "memory/queries.h"

#include <string.h>

#include "base/config.h"
#include "base/log.h"
#include "memory/driver.h"
#include "memory/keep.h"
#include "memory/lookup.h"
#include "report/statistics.h"

_Atomic int queries_mode;

void queries_begin(void)
{
	int undecided = QUERIES_UNDECIDED;
	int mode = process_is_passive()	  ? QUERIES_OFF
		   : config_get()->verify ? QUERIES_VERIFY
					  : QUERIES_ON;

	replace_seq_cst(&queries_mode, &undecided, mode);
}

void queries_end(void)
{
	store_seq_cst(&queries_mode, QUERIES_OFF);
}

/* ---- answers ---- */

/* Attributes that MPI libraries query for each message. IS_MANAGED is in the lists of all of them
 * (UCX, Open MPI, libfabric). */
#define ANSWERED                                                                                   \
	(1u << CU_POINTER_ATTRIBUTE_CONTEXT | 1u << CU_POINTER_ATTRIBUTE_MEMORY_TYPE |             \
	 1u << CU_POINTER_ATTRIBUTE_BUFFER_ID | 1u << CU_POINTER_ATTRIBUTE_IS_MANAGED |            \
	 1u << CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)

LOOKUP_INLINE bool queries_is_answered(CUpointer_attribute attribute)
{
	return (unsigned int)attribute < 32 && (ANSWERED >> attribute & 1);
}

/* What the record says, all of one moment. */
struct query_target {
	struct found found;
	uint64_t traits, buffer_id, context;
};

/* False: no record with all attributes, or the record ended meanwhile. */
LOOKUP_INLINE bool queries_find(struct query_target *target, uint64_t address)
{
	const struct record *record;

	if (!lookup(address, &target->found))
		return false;
	record = target->found.record;
	target->traits = load_acquire(&record->traits);
	target->buffer_id = load_acquire(&record->buffer_id);
	target->context = load_acquire(&record->context);
	return (target->traits & TRAIT_DESCRIBED) && lookup_is_same(&target->found);
}

/* Destination of an answer, at any alignment. */
typedef uint64_t uint64_unaligned __attribute__((aligned(1), may_alias));
typedef uint32_t uint32_unaligned __attribute__((aligned(1), may_alias));

LOOKUP_INLINE void queries_store(void *to, const struct query_target *target,
				 CUpointer_attribute attribute)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*(uint64_unaligned *)to = target->context;
		break;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*(uint64_unaligned *)to = target->buffer_id;
		break;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(uint32_unaligned *)to =
			target->traits & TRAIT_HOST ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		break;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*(uint32_unaligned *)to = !!(target->traits & TRAIT_MANAGED);
		break;
	default:
		*(uint32_unaligned *)to = (uint32_t)traits_device(target->traits);
	}
}

/* ---- verification ---- */

#define LIST_MAX 24 /* attributes of a list that is answered, or whose memory is hidden */
#define PATTERN	 0xa5a5a5a5a5a5a5a5u /* of bytes that the driver has not stored */

/* One value, and room behind it. */
struct answer {
	uint64_t words[4];
};

static void *queries_clear(struct answer *answer)
{
	for (unsigned int i = 0; i < 4; i++)
		answer->words[i] = PATTERN;
	return answer;
}

/* Counts the comparison, unless the memory has ended meanwhile. */
static void queries_compared(const struct query_target *target, CUdeviceptr address, bool same)
{
	if (!lookup_is_same(&target->found))
		return;
	statistics_count(verify_checks);
	if (same)
		return;
	statistics_count(verify_disagreements);
	log_once(LOG_ERROR,
		 "verification: peerpin's answer to a pointer query at 0x%llx differs from the "
		 "driver's; the client got the driver's. Run with PEERPIN_DISABLE=1, and "
		 "please report it.",
		 (unsigned long long)address);
}

/* The client gets the driver's answer, by a query of its own. */
static __attribute__((noinline)) void queries_verify(unsigned int count,
						     CUpointer_attribute *attributes,
						     const struct query_target *target,
						     CUdeviceptr address)
{
	const struct driver_calls *driver = driver_calls();
	struct answer own[LIST_MAX], theirs[LIST_MAX];
	void *data[LIST_MAX];
	bool same;

	for (unsigned int i = 0; i < count; i++) {
		queries_store(queries_clear(&own[i]), target, attributes[i]);
		data[i] = queries_clear(&theirs[i]);
	}
	same = driver->cuPointerGetAttributes &&
	       driver->cuPointerGetAttributes(count, attributes, data, address) == CUDA_SUCCESS;
	for (unsigned int i = 0; i < 4 * count; i++)
		same &= own[i / 4].words[i % 4] == theirs[i / 4].words[i % 4];
	queries_compared(target, address, same);
}

/* ---- kept memory ---- */

/* Bytes that the driver stores. */
static const unsigned char queries_bytes[] = {
#define POINTER_ATTRIBUTE(name, value, bytes) [value] = bytes,
#include "memory/cuda_abi.def"
#undef POINTER_ATTRIBUTE
};

/* For an unknown address a list stores the address itself as the host pointer, and values also
 * before an attribute that the driver refuses (measured). Outputs may overlap: the values go to
 * buffers first, and from there in the driver's order. */
static __attribute__((noinline)) CUresult
queries_forward_hidden(__typeof__(cuPointerGetAttributes) *forward, unsigned int count,
		       CUpointer_attribute *attributes, void **data, CUdeviceptr address,
		       CUdeviceptr absent)
{
	struct answer values[LIST_MAX];
	void *buffers[LIST_MAX];
	CUresult result;

	if (!attributes || !data || count > LIST_MAX)
		return forward(count, attributes, data, absent);
	for (unsigned int i = 0; i < count; i++)
		buffers[i] = data[i] ? queries_clear(&values[i]) : NULL;
	result = forward(count, attributes, buffers, absent);
	for (unsigned int i = 0; i < count; i++) {
		if (!data[i] || (unsigned int)attributes[i] >= sizeof(queries_bytes) ||
		    values[i].words[0] == PATTERN)
			continue;
		if (attributes[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER &&
		    values[i].words[0] == absent)
			values[i].words[0] = address;
		memcpy(data[i], &values[i], queries_bytes[attributes[i]]);
	}
	return result;
}

/* ---- the calls ---- */

CUresult queries_get(__typeof__(cuPointerGetAttribute) *forward, void *data,
		     CUpointer_attribute attribute, CUdeviceptr address)
{
	struct query_target target;

	if (!queries_are_on())
		return forward(data, attribute, keep_visible(address));
	if (!queries_is_answered(attribute) || !data || !queries_find(&target, address)) {
		statistics_tally(TALLY_queries_forwarded);
		return forward(data, attribute, keep_visible(address));
	}
	statistics_tally(TALLY_queries_answered);
	if (__builtin_expect(queries_are_verified(), 0)) {
		queries_verify(1, &attribute, &target, address);
		return forward(data, attribute, address);
	}
	queries_store(data, &target, attribute);
	return CUDA_SUCCESS;
}

/* The driver refuses a NULL before it stores any value (measured). */
LOOKUP_INLINE bool queries_is_list_answered(unsigned int count,
					    const CUpointer_attribute *attributes,
					    void *const *data)
{
	bool answered = attributes && data && count - 1 < LIST_MAX;

	for (unsigned int i = 0; answered && i < count; i++)
		answered = data[i] && queries_is_answered(attributes[i]);
	return answered;
}

static CUresult queries_forward_list(__typeof__(cuPointerGetAttributes) *forward,
				     unsigned int count, CUpointer_attribute *attributes,
				     void **data, CUdeviceptr address)
{
	uint64_t visible = keep_visible(address);

	if (visible != address)
		return queries_forward_hidden(forward, count, attributes, data, address, visible);
	return forward(count, attributes, data, address);
}

CUresult queries_get_list(__typeof__(cuPointerGetAttributes) *forward, unsigned int count,
			  CUpointer_attribute *attributes, void **data, CUdeviceptr address)
{
	struct query_target target;

	if (!queries_are_on())
		return queries_forward_list(forward, count, attributes, data, address);
	if (!queries_is_list_answered(count, attributes, data) || !queries_find(&target, address)) {
		statistics_tally(TALLY_queries_forwarded);
		return queries_forward_list(forward, count, attributes, data, address);
	}
	statistics_tally(TALLY_queries_answered);
	if (__builtin_expect(queries_are_verified(), 0)) {
		queries_verify(count, attributes, &target, address);
		return forward(count, attributes, data, address);
	}
	for (unsigned int i = 0; i < count; i++)
		queries_store(data[i], &target, attributes[i]);
	return CUDA_SUCCESS;
}

/* Only VMM memory has a handle. Shared and external memory may be VMM memory of its owner. */
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

	if (!queries_are_on())
		return forward(handle, keep_visible_pointer(address));
	if (!queries_find(&target, (uintptr_t)address) || !queries_has_no_handle(&target)) {
		statistics_tally(TALLY_queries_forwarded);
		return forward(handle, keep_visible_pointer(address));
	}
	statistics_tally(TALLY_queries_answered);
	if (!queries_are_verified())
		return CUDA_ERROR_INVALID_VALUE;
	result = forward(handle, address);
	queries_compared(&target, (uintptr_t)address, result == CUDA_ERROR_INVALID_VALUE);
	return result;
}
