/* SPDX-License-Identifier: BSD-3-Clause */
/* ask.c -- one query to the client's function and to the driver's own, compared */
#include <stdio.h>
#include <string.h>

#include "queries.h"

#define PATTERN	   0xa5
#define SLOT_BYTES 32 /* the largest answer has 12 */

unsigned long kept_queries;

struct answer {
	CUresult result;
	unsigned char slots[LIST_MAX][SLOT_BYTES];
};

static CUpointer_attribute any_attribute(struct dice *dice)
{
	if (chance(dice, 4))
		return (CUpointer_attribute)(chance(dice, 50) ? 100 : -1);
	if (chance(dice, 4))
		return (CUpointer_attribute) throw(dice, 26);
	return (CUpointer_attribute)(1 + throw(dice, 21));
}

/* The driver refuses lists with tokens: most lists have none. */
static CUpointer_attribute listed_attribute(struct dice *dice)
{
	CUpointer_attribute attribute =
		chance(dice, 1) ? any_attribute(dice) : (CUpointer_attribute)(1 + throw(dice, 21));

	return attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS && chance(dice, 95)
		       ? CU_POINTER_ATTRIBUTE_MEMORY_TYPE
		       : attribute;
}

void query_make(struct query *query, struct dice *dice, uint64_t address)
{
	*query = (struct query){ .form = (enum form) throw(dice, FORMS),
				 .address = address,
				 .count = 1 };
	if (query->form == LIST)
		query->count = chance(dice, 2) ? 0 : 1 + (unsigned int) throw(dice, LIST_MAX);
	else if (query->form == RANGE)
		query->count = 2;
	for (unsigned int i = 0; i < query->count; i++) {
		query->names[i] =
			query->form == LIST ? listed_attribute(dice) : any_attribute(dice);
		query->slots[i] = (int)i;
		if (query->form == LIST && i && chance(dice, 3))
			query->slots[i] = (int) throw(dice, i); /* shared output */
		if (chance(dice, query->form == LIST ? 1 : query->form == RANGE ? 20 : 6))
			query->slots[i] = -1;
	}
	query->null_names = chance(dice, 1);
	query->null_data = chance(dice, 1);
}

static void *slot(struct answer *answer, int index)
{
	return index < 0 ? NULL : answer->slots[index];
}

static CUresult list(const struct functions *functions, const struct query *query,
		     struct answer *answer)
{
	CUpointer_attribute names[LIST_MAX];
	void *data[LIST_MAX];

	memcpy(names, query->names, sizeof(names));
	for (unsigned int i = 0; i < query->count; i++)
		data[i] = slot(answer, query->slots[i]);
	return functions->cuPointerGetAttributes(query->count, query->null_names ? NULL : names,
						 query->null_data ? NULL : data, query->address);
}

static void ask_one(const struct functions *functions, const struct query *query,
		    struct answer *answer)
{
	CUmemGenericAllocationHandle handle;

	memset(answer, PATTERN, sizeof(*answer));
	switch (query->form) {
	case SINGLE:
		answer->result = functions->cuPointerGetAttribute(slot(answer, query->slots[0]),
								  query->names[0], query->address);
		break;
	case LIST:
		answer->result = list(functions, query, answer);
		break;
	case RANGE:
		answer->result = functions->cuMemGetAddressRange_v2(slot(answer, query->slots[0]),
								    slot(answer, query->slots[1]),
								    query->address);
		break;
	case RETAIN:
		answer->result = functions->cuMemRetainAllocationHandle(
			slot(answer, query->slots[0]), (void *)(uintptr_t)query->address);
		if (answer->result == CUDA_SUCCESS) {
			memcpy(&handle, answer->slots[0], sizeof(handle));
			if (client.cuMemRelease(handle) != CUDA_SUCCESS)
				answer->result = CUDA_ERROR_NOT_READY; /* not a query result */
		}
		break;
	case FORMS:
		break;
	}
}

/* ---- freed memory ---- */

#define ABSENT ((uint64_t)0x2000) /* no process has memory there */

/* True if the program has freed the memory and the driver still reports it. */
static bool is_kept(uint64_t address)
{
	CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_BUFFER_ID;
	uint64_t id = 0;
	void *data = &id;

	return whole_population && !population_has(whole_population, address) &&
	       own.cuPointerGetAttributes(1, &attribute, &data, address) == CUDA_SUCCESS && id;
}

/* Store an entry's value as the driver does. No value at an address without memory has a byte of
 * the pattern, but for the address itself. */
static void merge(const struct query *query, unsigned int entry, const unsigned char *value,
		  struct answer *answer)
{
	unsigned char *to = answer->slots[query->slots[entry]];
	uint64_t stored;

	memcpy(&stored, value, sizeof(stored));
	if (stored == ABSENT && query->names[entry] == CU_POINTER_ATTRIBUTE_HOST_POINTER) {
		memcpy(to, &query->address, sizeof(query->address));
		return;
	}
	for (int i = 0; i < SLOT_BYTES; i++)
		to[i] = value[i] == PATTERN ? to[i] : value[i];
}

/* The driver's answer. At kept memory, its answer at freed memory: the answer at any address
 * without memory, except that a list stores the address itself as the host pointer (measured). */
static void ask_driver(const struct query *query, struct answer *answer)
{
	struct query absent = *query;
	struct answer apart;

	if (!is_kept(query->address)) {
		ask_one(&own, query, answer);
		return;
	}
	kept_queries++;
	absent.address = ABSENT;
	for (unsigned int i = 0; i < query->count; i++)
		absent.slots[i] = query->slots[i] < 0 ? -1 : (int)i;
	ask_one(&own, &absent, &apart);
	memset(answer, PATTERN, sizeof(*answer));
	answer->result = apart.result;
	for (unsigned int i = 0; i < query->count; i++) {
		if (query->slots[i] >= 0)
			merge(query, i, apart.slots[i], answer);
	}
}

static const char *bytes(const unsigned char *from, char *text)
{
	for (int i = 0; i < 16; i++)
		sprintf(text + 2 * i, "%02x", from[i]);
	return text;
}

void query_ask(const struct query *query, const struct dice *dice)
{
	static const char *const forms[] = { "cuPointerGetAttribute", "cuPointerGetAttributes",
					     "cuMemGetAddressRange_v2",
					     "cuMemRetainAllocationHandle" };
	struct answer from_client, from_driver;
	char one[40], other[40];

	ask_one(&client, query, &from_client);
	ask_driver(query, &from_driver);
	if (from_client.result != from_driver.result)
		fail(dice, "%s, %u entries, the first %d, at 0x%llx: %d, but the driver says %d",
		     forms[query->form], query->count, (int)query->names[0],
		     (unsigned long long)query->address, (int)from_client.result,
		     (int)from_driver.result);
	for (int i = 0; i < LIST_MAX; i++) {
		if (memcmp(from_client.slots[i], from_driver.slots[i], SLOT_BYTES) != 0)
			fail(dice,
			     "%s, %u entries, entry %d of attribute %d, at 0x%llx (%d): %s, but "
			     "the driver "
			     "writes %s",
			     forms[query->form], query->count, i, (int)query->names[i],
			     (unsigned long long)query->address, (int)from_driver.result,
			     bytes(from_client.slots[i], one), bytes(from_driver.slots[i], other));
	}
}

void query_attribute(CUpointer_attribute attribute, uint64_t address, const struct dice *dice)
{
	struct query query = {
		.form = SINGLE, .address = address, .count = 1, .names = { attribute }
	};

	query_ask(&query, dice);
	query.form = LIST;
	query_ask(&query, dice);
}
