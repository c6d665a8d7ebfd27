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
	uint64_t address;
	uint64_t traits, buffer_id, context; /* of the record, all of one moment */
	struct found found;
};

/* False: no record with all attributes, or the record ended meanwhile. */
LOOKUP_INLINE bool query_target_find(struct query_target *target, uint64_t address)
{
	target->address = address;
	if (__builtin_expect(lookup(address, &target->found), 1)) {
		target->record = target->found.record;
		target->traits = load_acquire(&target->record->traits);
		target->buffer_id = load_acquire(&target->record->buffer_id);
		target->context = load_acquire(&target->record->context);
		return (target->traits & TRAIT_DESCRIBED) && lookup_is_same(&target->found);
	}
	target->record = NULL;
	return false;
}

/* True if the context of the calling thread reaches the memory. The driver refuses a thread without
 * a context or with a destroyed one. The context of live memory is live. */
bool query_target_is_reached(const struct query_target *target);

/* Size of an answer in bytes. UNANSWERED: left to the driver. */
enum { UNANSWERED = 0, WORD = 4, LONG = 8 };

/* Sources of answers. FIELD: at offset `detail` of the target. TRAIT: bit `detail`. SYNC: a
 * trait that may be unknown. RANGE: start (0) or size (1). DRIVER: the driver alone has it. */
enum query_source {
	QUERY_DRIVER,
	QUERY_FIELD,
	QUERY_TRAIT,
	QUERY_SYNC,
	QUERY_MEMORY_TYPE,
	QUERY_ORDINAL,
	QUERY_POOL,
	QUERY_RANGE,
	QUERY_DEVICE_POINTER,
	QUERY_HOST_POINTER,
};

/* The pointer attributes, indexed by value. Unused values have 0 bytes. */
struct query_attribute {
	uint64_t detail;
	unsigned char bytes, source;
};
#define QUERY_ATTRIBUTES (CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE + 1)
extern const struct query_attribute query_attributes[QUERY_ATTRIBUTES];

/* Rare attributes. `listed`: for a list, which the driver answers in more cases. */
unsigned int query_target_device_pointer(const struct query_target *target, uint64_t *value);
unsigned int query_target_host_pointer(const struct query_target *target, bool listed,
				       uint64_t *value);

LOOKUP_INLINE unsigned int query_target_detail(const struct query_target *target, uint64_t word,
					       uint64_t *value)
{
	*value = load_acquire(&lookup_detail(target->found.slot)->words[word]);
	return lookup_is_same(&target->found) ? LONG : UNANSWERED;
}

/* Get the value of an attribute. Returns its size. */
LOOKUP_INLINE unsigned int query_target_value(const struct query_target *target,
					      CUpointer_attribute attribute, bool listed,
					      uint64_t *value)
{
	const struct query_attribute *row = &query_attributes[attribute];
	uint64_t traits = target->traits, detail;
	enum allocation_kind kind;

	if (__builtin_expect((unsigned int)attribute >= QUERY_ATTRIBUTES, 0))
		return UNANSWERED;
	detail = row->detail;
	switch ((enum query_source)row->source) {
	case QUERY_FIELD:
		*value = *(const uint64_t *)((const char *)target + detail);
		return LONG;
	case QUERY_TRAIT:
		*value = !!(traits & detail);
		return WORD;
	case QUERY_SYNC:
		*value = !!(traits & detail);
		return traits & TRAIT_SYNC_KNOWN ? WORD : UNANSWERED;
	case QUERY_MEMORY_TYPE:
		*value = traits & TRAIT_HOST ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		return WORD;
	case QUERY_ORDINAL:
		*value = (uint32_t)traits_device(traits);
		return WORD;
	case QUERY_POOL:
		kind = traits_kind(traits);
		if (kind == ALLOCATION_POOL || kind == ALLOCATION_SHARED)
			return query_target_detail(target, 0, value);
		*value = 0;
		return LONG;
	case QUERY_RANGE:
		if (traits_kind(traits) == ALLOCATION_MAPPED)
			return query_target_detail(target, detail, value);
		*value = detail ? target->found.size : target->address - target->found.offset;
		return LONG;
	case QUERY_DEVICE_POINTER:
		return query_target_device_pointer(target, value);
	case QUERY_HOST_POINTER:
		return query_target_host_pointer(target, listed, value);
	case QUERY_DRIVER:
		break;
	}
	return UNANSWERED;
}

/* Destination of an answer, at any alignment. */
typedef uint64_t uint64_unaligned __attribute__((aligned(1), may_alias));
typedef uint32_t uint32_unaligned __attribute__((aligned(1), may_alias));

/* ---- queries.c ---- */

/* Compare an answer with the driver's. */
void queries_compare(const struct query_target *target, const char *query, bool same);

#endif
