/* SPDX-License-Identifier: BSD-3-Clause */
/* query_lists.c -- several attributes at once
 *
 * Most lists ask for plain facts, all of which are read before the first is stored. Of other lists what only the driver
 * knows goes to the driver, in a list of its own. A list with a wrong argument is the driver's whole.
 */
#include "memory/queries.h"
#include "memory/query_target.h"

struct facts {
	uint64_t traits, buffer_id, context, base, size;
	bool has_pool, is_mapped; /* then more is to be read */
};

/* False: they are not of one moment. */
LOOKUP_INLINE bool read_facts(const struct query_target *target, struct facts *facts)
{
	enum allocation_kind kind = traits_kind(target->traits);

	facts->traits = target->traits;
	facts->buffer_id = lookup_load(&target->record->buffer_id);
	facts->context = lookup_load(&target->record->context);
	facts->base = target->address - target->found.offset;
	facts->size = target->found.size;
	facts->has_pool = kind == ALLOCATION_POOL || kind == ALLOCATION_SHARED;
	facts->is_mapped = kind == ALLOCATION_MAPPED;
	return lookup_is_same(&target->found);
}

/* False: it is not among them. */
LOOKUP_INLINE bool deliver_fact(void *data, CUpointer_attribute attribute, const struct facts *facts)
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

/* The driver refuses a null one before it stores anything (measured). */
LOOKUP_INLINE bool is_complete(unsigned int count, void *const *data)
{
	bool complete = true;

	for (unsigned int i = 0; i < count; i++)
		complete &= data[i] != NULL;
	return complete;
}

/* True: the list has been answered. Otherwise what stands before the first attribute that is no plain fact has been stored,
 * which is what the driver does, too (measured), and whoever answers the whole list does again. */
static __attribute__((noinline)) bool answer_plainly(unsigned int count,
						     const CUpointer_attribute *attributes, void *const *data,
						     const struct query_target *target)
{
	struct facts facts;

	if (!read_facts(target, &facts))
		return false;
	for (unsigned int i = 0; i < count; i++) {
		if (!deliver_fact(data[i], attributes[i], &facts))
			return false;
	}
	return true;
}

/* The same of what is not CUDA's. */
static __attribute__((noinline)) bool answer_nothing(unsigned int count,
						     const CUpointer_attribute *attributes, void *const *data)
{
	for (unsigned int i = 0; i < count; i++) {
		switch (attributes[i]) {
		case CU_POINTER_ATTRIBUTE_CONTEXT:
		case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
			*(uint64_unaligned *)data[i] = 0;
			break;
		case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		case CU_POINTER_ATTRIBUTE_MAPPED:
		case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
			*(uint32_unaligned *)data[i] = 0;
			break;
		case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
			*(uint32_unaligned *)data[i] = (uint32_t)-2;
			break;
		default:
			return false;
		}
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
	/* What only the driver knows. */
	unsigned int rest;
	CUpointer_attribute rest_attributes[LIST_MAX];
	void *rest_data[LIST_MAX];
};

/* False: there is nothing to answer. */
static bool sort(struct list *list, const struct query_target *target)
{
	for (unsigned int i = 0; i < list->count; i++) {
		list->sizes[i] = (unsigned char)query_target_value(target, list->attributes[i], true,
								   &list->values[i]);
		if (list->sizes[i])
			continue;
		list->rest_attributes[list->rest] = list->attributes[i];
		list->rest_data[list->rest++] = list->data[i];
	}
	return list->rest < list->count;
}

static bool overlap(const void *one, const void *other)
{
	return (uintptr_t)one - (uintptr_t)other < LONG || (uintptr_t)other - (uintptr_t)one < LONG;
}

/* Whether the driver would store one of its values where one of ours goes: which of them stays is a matter of the order in
 * which it stores. */
static bool is_mixed_up(const struct list *list)
{
	for (unsigned int i = 0; i < list->rest; i++) {
		for (unsigned int j = 0; j < list->count; j++) {
			if (list->sizes[j] && overlap(list->rest_data[i], list->data[j]))
				return true;
		}
	}
	return false;
}

static bool answer_mixed(__typeof__(cuPointerGetAttributes) *forward, unsigned int count,
			 CUpointer_attribute *attributes, void **data, const struct query_target *target)
{
	struct list list;

	list.count = count;
	list.attributes = attributes;
	list.data = data;
	list.rest = 0;
	if (!sort(&list, target) || is_mixed_up(&list))
		return false;
	/* Where the driver refuses its part, what it does with the whole list is its own affair. */
	if (list.rest &&
	    forward(list.rest, list.rest_attributes, list.rest_data, target->address) != CUDA_SUCCESS)
		return false;
	if (!query_target_holds(target))
		return false;
	for (unsigned int i = 0; i < count; i++) {
		if (list.sizes[i] == LONG)
			*(uint64_unaligned *)data[i] = list.values[i];
		else if (list.sizes[i] == WORD)
			*(uint32_unaligned *)data[i] = (uint32_t)list.values[i];
	}
	return true;
}

/* True: the list has been answered, with CUDA_SUCCESS. */
LOOKUP_INLINE bool answer(__typeof__(cuPointerGetAttributes) *forward, unsigned int count,
			  CUpointer_attribute *attributes, void **data, const struct query_target *target)
{
	if (!is_complete(count, data))
		return false;
	if (target->record ? answer_plainly(count, attributes, data, target)
			   : answer_nothing(count, attributes, data))
		return true;
	return answer_mixed(forward, count, attributes, data, target);
}

/* ---- verification ---- */

/* One value, and room behind it: what is not stored keeps the pattern. */
struct slot {
	uint64_t words[4];
};

#define PATTERN 0xa5a5a5a5a5a5a5a5u

static bool are_same(const struct slot *ours, const struct slot *theirs, unsigned int count)
{
	uint64_t difference = 0;

	for (unsigned int i = 0; i < count; i++) {
		for (unsigned int j = 0; j < 4; j++)
			difference |= ours[i].words[j] ^ theirs[i].words[j];
	}
	return !difference;
}

/* What would have been answered goes where nobody looks but the comparison; the client gets what the driver says. */
static __attribute__((noinline)) CUresult get_verified(__typeof__(cuPointerGetAttributes) *forward,
						       unsigned int count, CUpointer_attribute *attributes,
						       void **data, const struct query_target *target)
{
	struct slot ours[LIST_MAX], theirs[LIST_MAX];
	void *our_data[LIST_MAX], *their_data[LIST_MAX];
	bool answered;

	for (unsigned int i = 0; i < count; i++) {
		for (unsigned int j = 0; j < 4; j++)
			ours[i].words[j] = theirs[i].words[j] = PATTERN;
		our_data[i] = data[i] ? &ours[i] : NULL;
		their_data[i] = data[i] ? &theirs[i] : NULL;
	}
	answered = answer(forward, count, attributes, our_data, target);
	if (answered) {
		queries_count(target);
		answered = forward(count, attributes, their_data, target->address) == CUDA_SUCCESS &&
			   are_same(ours, theirs, count);
		queries_compare(target, "a list", answered);
	} else {
		queries_pass(target->address);
	}
	return forward(count, attributes, data, target->address);
}

CUresult queries_get_list(__typeof__(cuPointerGetAttributes) *forward, unsigned int count,
			  CUpointer_attribute *attributes, void **data, CUdeviceptr address)
{
	struct query_target target;

	if (__builtin_expect(
		    attributes && data && count - 1 < LIST_MAX && query_target_find(&target, address), 1)) {
		if (__builtin_expect(queries_are_verified(), 0))
			return get_verified(forward, count, attributes, data, &target);
		if (answer(forward, count, attributes, data, &target)) {
			queries_count(&target);
			return CUDA_SUCCESS;
		}
	}
	queries_pass(address);
	return forward(count, attributes, data, address);
}
