/* SPDX-License-Identifier: BSD-3-Clause */
/* query_target.h -- inside the memory layer: target of a pointer query, and the driver's answer
 *
 * The answers were measured (tests/contract/queries.c); tests/intercept/queries compares them byte
 * by byte.
 */
#ifndef PEERPIN_MEMORY_QUERY_TARGET_H
#define PEERPIN_MEMORY_QUERY_TARGET_H

#include <string.h>

#include "base/atomics.h"
#include "memory/lookup.h"

/* `record` is NULL at an address without a record. */
struct query_target {
	struct record *record;
	uint64_t traits, address;
	struct found found;
};

/* False: no record with all attributes. */
LOOKUP_INLINE bool query_target_find(struct query_target *target, uint64_t address)
{
	target->address = address;
	if (__builtin_expect(lookup(address, &target->found), 1)) {
		target->record = target->found.record;
		target->traits = load_acquire(&target->record->traits);
		return target->traits & TRAIT_DESCRIBED;
	}
	target->record = NULL;
	return false;
}

/* True if the context of the calling thread reaches the memory. The driver refuses a thread without
 * a context or with a destroyed one. The context of live memory is live. */
bool query_target_is_reached(const struct query_target *target);

/* Size of an answer in bytes. UNANSWERED: left to the driver. */
enum { UNANSWERED = 0, WORD = 4, LONG = 8 };

/* Rare attributes. `listed`: for a list, which the driver answers in more cases. */
unsigned int query_target_device_pointer(const struct query_target *target, uint64_t *value);
unsigned int query_target_host_pointer(const struct query_target *target, bool listed,
				       uint64_t *value);

/* Get the value of an attribute. Returns its size. */
LOOKUP_INLINE unsigned int query_target_value(const struct query_target *target,
					      CUpointer_attribute attribute, bool listed,
					      uint64_t *value)
{
	struct record *record = target->record;
	uint64_t traits = target->traits;
	bool mapped = traits_kind(traits) == ALLOCATION_MAPPED;

	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*value = load_acquire(&record->buffer_id);
		return LONG;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*value = traits & TRAIT_HOST ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		return WORD;
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*value = load_acquire(&record->context);
		return LONG;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*value = !!(traits & TRAIT_MANAGED);
		return WORD;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*value = (uint32_t)traits_device(traits);
		return WORD;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*value = traits_kind(traits) == ALLOCATION_POOL ||
					 traits_kind(traits) == ALLOCATION_SHARED
				 ? load_acquire(&lookup_detail(target->found.slot)->words[0])
				 : 0;
		return LONG;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*value = mapped ? load_acquire(&lookup_detail(target->found.slot)->words[0])
				: load_acquire(&record->base);
		return LONG;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*value = mapped ? load_acquire(&lookup_detail(target->found.slot)->words[1])
				: load_acquire(&record->size);
		return LONG;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*value = !!(traits & TRAIT_IPC_CAPABLE);
		return WORD;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		*value = !!(traits & TRAIT_RDMA_CAPABLE);
		return WORD;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*value = !!(traits & TRAIT_MAPPED);
		return WORD;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		*value = !!(traits & TRAIT_SYNC);
		return traits & TRAIT_SYNC_KNOWN ? WORD : UNANSWERED;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		return query_target_device_pointer(target, value);
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		return query_target_host_pointer(target, listed, value);
	default:
		return UNANSWERED;
	}
}

/* Destination of an answer, at any alignment. */
typedef uint64_t uint64_unaligned __attribute__((aligned(1), may_alias));
typedef uint32_t uint32_unaligned __attribute__((aligned(1), may_alias));

/* ---- queries.c ---- */

/* Compare an answer with the driver's. */
void queries_compare(const struct query_target *target, const char *what, bool same);

#endif
