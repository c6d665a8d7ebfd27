/* SPDX-License-Identifier: BSD-3-Clause */
/* query_lists.c -- pointer queries of several attributes
 *
 * Attributes that only the driver can answer go to the driver as a list of their own. A list with a
 * wrong argument is forwarded whole.
 */
#include "base/atomics.h"
#include "memory/keep.h"
#include "memory/queries.h"
#include "memory/query_target.h"
#include "report/statistics.h"

#define LIST_MAX 24

LOOKUP_INLINE void query_lists_store(void *to, uint64_t value, unsigned int size)
{
	if (size == LONG)
		*(uint64_unaligned *)to = value;
	else if (size == WORD)
		*(uint32_unaligned *)to = (uint32_t)value;
}

/* The driver refuses a NULL before it stores any value (measured). */
LOOKUP_INLINE bool query_lists_is_complete(unsigned int count, void *const *data)
{
	bool complete = true;

	for (unsigned int i = 0; i < count; i++)
		complete &= data[i] != NULL;
	return complete;
}

/* True: the list is answered. False: values before the first attribute that only the driver can
 * answer are stored. The driver stores them, too (measured). */
static __attribute__((noinline)) bool
query_lists_answer_whole(unsigned int count, const CUpointer_attribute *attributes,
			 void *const *data, const struct query_target *target)
{
	for (unsigned int i = 0; i < count; i++) {
		uint64_t value;
		unsigned int size = query_target_value(target, attributes[i], true, &value);

		if (!size)
			return false;
		query_lists_store(data[i], value, size);
	}
	return true;
}

static bool query_lists_overlap(const void *one, const void *other)
{
	return (uintptr_t)one - (uintptr_t)other < LONG || (uintptr_t)other - (uintptr_t)one < LONG;
}

/* Forward the attributes that only the driver can answer. False: there are no others, the driver
 * refuses, or it would store a value where peerpin stores one, and its order decides which stays.
 */
static bool query_lists_answer_mixed(__typeof__(cuPointerGetAttributes) *forward,
				     unsigned int count, CUpointer_attribute *attributes,
				     void **data, const struct query_target *target)
{
	CUpointer_attribute rest_attributes[LIST_MAX];
	unsigned int sizes[LIST_MAX], rest = 0;
	uint64_t values[LIST_MAX];
	void *rest_data[LIST_MAX];

	for (unsigned int i = 0; i < count; i++) {
		sizes[i] = query_target_value(target, attributes[i], true, &values[i]);
		if (sizes[i])
			continue;
		rest_attributes[rest] = attributes[i];
		rest_data[rest++] = data[i];
	}
	if (rest == count)
		return false;
	for (unsigned int i = 0; i < rest * count; i++) {
		if (sizes[i % count] && query_lists_overlap(rest_data[i / count], data[i % count]))
			return false;
	}
	if ((rest && forward(rest, rest_attributes, rest_data, target->address) != CUDA_SUCCESS) ||
	    !lookup_is_same(&target->found))
		return false;
	for (unsigned int i = 0; i < count; i++)
		query_lists_store(data[i], values[i], sizes[i]);
	return true;
}

/* True: the list is answered, with CUDA_SUCCESS. */
LOOKUP_INLINE bool query_lists_answer(__typeof__(cuPointerGetAttributes) *forward,
				      unsigned int count, CUpointer_attribute *attributes,
				      void **data, const struct query_target *target)
{
	return query_lists_is_complete(count, data) &&
	       (query_lists_answer_whole(count, attributes, data, target) ||
		query_lists_answer_mixed(forward, count, attributes, data, target));
}

/* ---- verification ---- */

/* One value, and room behind it. Bytes without a store keep the pattern. */
struct answer_buffer {
	uint64_t words[4];
};

#define PATTERN 0xa5a5a5a5a5a5a5a5u

static void *query_lists_clear(struct answer_buffer *buffer)
{
	for (unsigned int i = 0; i < 4; i++)
		buffer->words[i] = PATTERN;
	return buffer;
}

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
		query_lists_clear(&own[i]);
		query_lists_clear(&driver_values[i]);
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

/* ---- kept memory ---- */

#define HIDDEN_LIST_MAX 64 /* entries of a longer list go to the driver as they are */

/* The driver stores values also before an attribute that it refuses (measured). */
static bool query_lists_is_stored(const struct answer_buffer *value)
{
	return value->words[0] != PATTERN;
}

/* For an unknown address a list stores the address itself as the host pointer (measured). Outputs
 * may overlap: the values go to buffers first, and from there in the driver's order. */
static __attribute__((noinline)) CUresult
query_lists_forward_hidden(__typeof__(cuPointerGetAttributes) *forward, unsigned int count,
			   CUpointer_attribute *attributes, void **data, CUdeviceptr address,
			   CUdeviceptr absent)
{
	struct answer_buffer values[HIDDEN_LIST_MAX];
	void *buffers[HIDDEN_LIST_MAX];
	CUresult result;

	if (!attributes || !data || count > HIDDEN_LIST_MAX)
		return forward(count, attributes, data, absent);
	for (unsigned int i = 0; i < count; i++)
		buffers[i] = data[i] ? query_lists_clear(&values[i]) : NULL;
	result = forward(count, attributes, buffers, absent);
	for (unsigned int i = 0; i < count; i++) {
		if (!data[i] || (unsigned int)attributes[i] >= QUERY_ATTRIBUTES ||
		    !query_lists_is_stored(&values[i]))
			continue;
		if (attributes[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER &&
		    values[i].words[0] == absent)
			values[i].words[0] = address;
		memcpy(data[i], &values[i], query_attributes[attributes[i]].bytes);
	}
	return result;
}

CUresult queries_forward_list(__typeof__(cuPointerGetAttributes) *forward, unsigned int count,
			      CUpointer_attribute *attributes, void **data, CUdeviceptr address)
{
	uint64_t visible = keep_visible(address);

	if (visible != address)
		return query_lists_forward_hidden(forward, count, attributes, data, address,
						  visible);
	return forward(count, attributes, data, address);
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
	return queries_forward_list(forward, count, attributes, data, address);
}
