/* SPDX-License-Identifier: BSD-3-Clause */
/* spans_fixture.h -- adjacent mappings of the stand-in driver, and requests for several of them */
#ifndef PEERPIN_TESTS_SPANS_FIXTURE_H
#define PEERPIN_TESTS_SPANS_FIXTURE_H

#include "hits_fixture.h"

#include "memory/lookup.h"

#define MAPPINGS 64u

static _Atomic bool without_access[MAPPINGS];
static uint64_t piece = BLOCK; /* bytes of a mapping */

static uint64_t at(unsigned int i)
{
	return HOME + i * piece;
}

static CUresult get_access(unsigned long long *flags, const CUmemLocation *location,
			   CUdeviceptr address)
{
	(void)location;
	standin_called();
	*flags = without_access[(address - HOME) / piece] ? 0 : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	return CUDA_SUCCESS;
}

static void map_as(unsigned int i, int device, bool capable)
{
	standin_allocate(at(i), piece, NULL, capable);
	standin_describe(at(i), device, false);
	memory_allocated(ALLOCATION_MAPPED, at(i), piece);
	memory_access_settled(at(i), piece);
}

static void map(unsigned int i)
{
	map_as(i, 0, true);
}

static void map_all(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		map(i);
}

/* Until the driver's call. */
static struct pending_frees *unmapping(unsigned int i, unsigned int count)
{
	return memory_range_freeing(at(i), count * piece);
}

static inline void unmap(unsigned int i)
{
	struct pending_frees *frees = unmapping(i, 1);

	standin_free(at(i));
	memory_frees_settled(frees, false);
}

static inline void set_access(unsigned int i, bool accessible)
{
	if (!accessible)
		memory_access_ending(at(i), piece, 0);
	without_access[i] = !accessible;
	memory_access_settled(at(i), piece);
}

/* The local key of `count` mappings; 0: forwarded. */
static uint32_t get_span(const void *mr, unsigned int i, unsigned int count)
{
	return get_in(&pd, mr, at(i), count * piece);
}

static inline uint32_t use(unsigned int i, unsigned int count)
{
	uint32_t key = get_span(AT(100), i, count);

	if (key) {
		ck_assert(standin_covers(key, at(i)));
		ck_assert(standin_covers(key, at(i + count) - 1));
		ck_assert(registration_drop(AT(100)));
	}
	return key;
}

static inline bool by_dma_buf(uint64_t address, uint64_t length, uint64_t youngest)
{
	struct registration_request request = request_in(&pd, 9, address, length, RIGHTS);
	struct registration_keys keys;

	request.dma_buf = true;
	request.youngest = youngest;
	return registration_request(&request, &keys) && registration_drop(&client_mrs[9]);
}

static inline uint64_t statistic(const char *name)
{
	uint64_t value = 0;

	ck_assert_int_eq(statistics_find(name, &value), 0);
	return value;
}

static inline bool is_used(unsigned int i)
{
	struct found found;

	ck_assert(lookup(at(i), &found));
	return found.record->traits & TRAIT_USED;
}

static void set_up_mappings(void)
{
	set_up();
	standin_driver.cuMemGetAccess = get_access;
}

static inline void set_up_spans(void)
{
	setenv("PEERPIN_PREREGISTER", "off", 1);
	set_up_mappings();
}

#endif
