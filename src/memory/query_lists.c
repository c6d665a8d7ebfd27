/* SPDX-License-Identifier: BSD-3-Clause */
/* query_lists.c -- pointer queries of several attributes
 *
 * Most lists hold plain facts only, all read before the first is stored. In other lists, attributes
 * that only the driver can answer go to the driver as a list of their own. A list with a wrong
 * argument is forwarded whole.
 */
#include "base/atomics.h"
#include "memory/queries.h"
#include "memory/query_target.h"
#include "report/statistics.h"

struct facts {
	uint64_t traits, buffer_id, context, base, size;
	bool has_pool, is_mapped; /* struct details has the rest */
};

/* False: the facts are not of one moment. */
LOOKUP_INLINE bool query_lists_read_facts(const struct query_target *target, struct facts *facts)
{
	enum allocation_kind kind = traits_kind(target->traits);

	facts->traits = target->traits;
	facts->buffer_id = load_acquire(&target->record->buffer_id);
	facts->context = load_acquire(&target->record->context);
	facts->base = target->address - target->found.offset;
	facts->size = target->found.size;
	facts->has_pool = kind == ALLOCATION_POOL || kind == ALLOCATION_SHARED;
	facts->is_mapped = kind == ALLOCATION_MAPPED;
	return lookup_is_same(&target->found);
}

/* False: the attribute is no plain fact. */
LOOKUP_INLINE bool query_lists_store_fact(void *data, CUpointer_attribute attribute,
					  const struct facts *facts)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*(uint64_unaligned *)data = facts->buffer_id;
		return true;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(uint32_unaligned *)data =
			facts->traits & TRAIT_HOST ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		return true;
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*(uint64_unaligned *)data = facts->context;
		return true;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*(uint32_unaligned *)data = !!(facts->traits & TRAIT_MANAGED);
		return true;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(uint32_unaligned *)data = (uint32_t)traits_device(facts->traits);
		return true;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		if (facts->has_pool)
			return false;
		*(uint64_unaligned *)data = 0;
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(uint64_unaligned *)data = facts->base;
		return !facts->is_mapped;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(uint64_unaligned *)data = facts->size;
		return !facts->is_mapped;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*(uint32_unaligned *)data = !!(facts->traits & TRAIT_IPC_CAPABLE);
		return true;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		*(uint32_unaligned *)data = !!(facts->traits & TRAIT_RDMA_CAPABLE);
		return true;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*(uint32_unaligned *)data = !!(facts->traits & TRAIT_MAPPED);
		return true;
	default:
		return false;
	}
}

/* The driver refuses a NULL before it stores any value (measured). */
LOOKUP_INLINE bool query_lists_is_complete(unsigned int count, void *const *data)
{
	bool complete = true;

	for (unsigned int i = 0; i < count; i++)
		complete &= data[i] != NULL;
	return complete;
}

/* True: the list is answered. False: values before the first attribute that is no plain fact are
 * stored. The driver stores them, too (measured), and an answer to the whole list overwrites
 * them. */
static __attribute__((noinline)) bool
query_lists_answer_facts(unsigned int count, const CUpointer_attribute *attributes,
			 void *const *data, const struct query_target *target)
{
	struct facts facts;

	if (!query_lists_read_facts(target, &facts))
		return false;
	for (unsigned int i = 0; i < count; i++) {
		if (!query_lists_store_fact(data[i], attributes[i], &facts))
			return false;
	}
	return true;
}

/* ---- any list ---- */

#define LIST_MAX 24

struct list {
	unsigned int count;
	CUpointer_attribute *attributes;
	void **data;
	uint64_t values[LIST_MAX];
	unsigned char sizes[LIST_MAX];
	/* attributes that only the driver can answer */
	unsigned int rest;
	CUpointer_attribute rest_attributes[LIST_MAX];
	void *rest_data[LIST_MAX];
};

/* False: peerpin can answer no attribute. */
static bool query_lists_sort(struct list *list, const struct query_target *target)
{
	for (unsigned int i = 0; i < list->count; i++) {
		list->sizes[i] = (unsigned char)query_target_value(target, list->attributes[i],
								   true, &list->values[i]);
		if (list->sizes[i])
			continue;
		list->rest_attributes[list->rest] = list->attributes[i];
		list->rest_data[list->rest++] = list->data[i];
	}
	return list->rest < list->count;
}

static bool query_lists_overlap(const void *one, const void *other)
{
	return (uintptr_t)one - (uintptr_t)other < LONG || (uintptr_t)other - (uintptr_t)one < LONG;
}

/* True if the driver would store a value where peerpin stores one: the driver's order decides which
 * value stays. */
static bool query_lists_is_ambiguous(const struct list *list)
{
	for (unsigned int i = 0; i < list->rest; i++) {
		for (unsigned int j = 0; j < list->count; j++) {
			if (list->sizes[j] &&
			    query_lists_overlap(list->rest_data[i], list->data[j]))
				return true;
		}
	}
	return false;
}

static bool query_lists_answer_mixed(__typeof__(cuPointerGetAttributes) *forward,
				     unsigned int count, CUpointer_attribute *attributes,
				     void **data, const struct query_target *target)
{
	struct list list;

	list.count = count;
	list.attributes = attributes;
	list.data = data;
	list.rest = 0;
	if (!query_lists_sort(&list, target) || query_lists_is_ambiguous(&list))
		return false;
	/* After a refusal of its part, the driver answers the whole list. */
	if (list.rest && forward(list.rest, list.rest_attributes, list.rest_data,
				 target->address) != CUDA_SUCCESS)
		return false;
	if (!lookup_is_same(&target->found))
		return false;
	for (unsigned int i = 0; i < count; i++) {
		if (list.sizes[i] == LONG)
			*(uint64_unaligned *)data[i] = list.values[i];
		else if (list.sizes[i] == WORD)
			*(uint32_unaligned *)data[i] = (uint32_t)list.values[i];
	}
	return true;
}

/* True: the list is answered, with CUDA_SUCCESS. */
LOOKUP_INLINE bool query_lists_answer(__typeof__(cuPointerGetAttributes) *forward,
				      unsigned int count, CUpointer_attribute *attributes,
				      void **data, const struct query_target *target)
{
	if (!query_lists_is_complete(count, data))
		return false;
	if (query_lists_answer_facts(count, attributes, data, target))
		return true;
	return query_lists_answer_mixed(forward, count, attributes, data, target);
}

/* ---- verification ---- */

/* One value, and room behind it. Bytes without a store keep the pattern. */
struct answer_buffer {
	uint64_t words[4];
};

#define PATTERN 0xa5a5a5a5a5a5a5a5u

static bool query_lists_are_equal(const struct answer_buffer *own,
				  const struct answer_buffer *driver_values, unsigned int count)
{
	uint64_t difference = 0;

	for (unsigned int i = 0; i < count; i++) {
		for (unsigned int j = 0; j < 4; j++)
			difference |= own[i].words[j] ^ driver_values[i].words[j];
	}
	return !difference;
}

/* Write peerpin's answer to a buffer for the comparison only; the client gets the driver's
 * answer. */
static __attribute__((noinline)) CUresult
query_lists_get_verified(__typeof__(cuPointerGetAttributes) *forward, unsigned int count,
			 CUpointer_attribute *attributes, void **data,
			 const struct query_target *target)
{
	struct answer_buffer own[LIST_MAX], driver_values[LIST_MAX];
	void *own_data[LIST_MAX], *driver_data[LIST_MAX];
	bool answered;

	for (unsigned int i = 0; i < count; i++) {
		for (unsigned int j = 0; j < 4; j++)
			own[i].words[j] = driver_values[i].words[j] = PATTERN;
		own_data[i] = data[i] ? &own[i] : NULL;
		driver_data[i] = data[i] ? &driver_values[i] : NULL;
	}
	answered = query_lists_answer(forward, count, attributes, own_data, target);
	if (answered) {
		statistics_tally(TALLY_queries_answered);
		answered =
			forward(count, attributes, driver_data, target->address) == CUDA_SUCCESS &&
			query_lists_are_equal(own, driver_values, count);
		queries_compare(target, "a list", answered);
	} else {
		statistics_tally(TALLY_queries_forwarded);
	}
	return forward(count, attributes, data, target->address);
}

CUresult queries_get_list(__typeof__(cuPointerGetAttributes) *forward, unsigned int count,
			  CUpointer_attribute *attributes, void **data, CUdeviceptr address)
{
	struct query_target target;

	if (__builtin_expect(attributes && data && count - 1 < LIST_MAX &&
				     query_target_find(&target, address),
			     1)) {
		if (__builtin_expect(queries_are_verified(), 0))
			return query_lists_get_verified(forward, count, attributes, data, &target);
		if (query_lists_answer(forward, count, attributes, data, &target)) {
			statistics_tally(TALLY_queries_answered);
			return CUDA_SUCCESS;
		}
	}
	statistics_tally(TALLY_queries_forwarded);
	return forward(count, attributes, data, address);
}
