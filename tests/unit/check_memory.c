/* SPDX-License-Identifier: BSD-3-Clause */
/* check_memory.c -- records of allocations and frees, against the stand-in driver */
#include "suite.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include "memory/memory.h"
#include "memory/queries.h"
#include "memory/table.h"
#include "report/statistics.h"
#include "standin.h"
#include "../pointer_attributes.h"

#define HOME  ((uint64_t)0x7f1200000000)
#define UNIT  ((uint64_t)2 << 20)
#define FIRST ((CUcontext)0x1000)
#define OTHER ((CUcontext)0x2000)

static void begin(uint64_t base, uint64_t size, CUcontext context)
{
	standin_allocate(base, size, context, true);
	memory_allocated(ALLOCATION_DEVICE, base, size);
}

static bool is_tracked(uint64_t base)
{
	struct allocation found;

	return memory_find(base, &found) && found.base == base;
}

CASE(memory, .set_up = standin_reset);

static int integrated;
static unsigned int questions;

static CUresult tell_integrated(int *value, CUdevice_attribute attribute, CUdevice device)
{
	ck_assert_int_eq(attribute, CU_DEVICE_ATTRIBUTE_INTEGRATED);
	ck_assert_int_eq(device, 0);
	questions++;
	*value = integrated;
	return CUDA_SUCCESS;
}

static struct allocation host_memory(uint64_t base)
{
	struct allocation found;

	standin_allocate(base, 5000, FIRST, false);
	memory_allocated(ALLOCATION_HOST, base, 5000);
	ck_assert(memory_find(base, &found));
	ck_assert_int_eq(found.kind, ALLOCATION_HOST);
	ck_assert(!found.rdma_capable);
	return found;
}

LOOP_TEST(memory, an_integrated_gpu_s_host_memory_is_for_adapters, 0, 2)
{
	struct allocation ended;

	integrated = _i;
	standin_driver.cuDeviceGetAttribute = tell_integrated;
	ck_assert_int_eq(host_memory(HOME).integrated, _i);
	ck_assert_uint_eq(standin_events.allocated, (unsigned int)_i);
	ck_assert_int_eq(host_memory(HOME + 16384).integrated, _i);
	ck_assert_uint_eq(questions, 1);
	ck_assert(memory_freeing(FREE_HOST, HOME, &ended));
	ck_assert_int_eq(ended.integrated, _i);
	ck_assert_uint_eq(standin_events.freeing, (unsigned int)_i);
	/* A refused free restores the record with all its attributes. */
	memory_free_refused(&ended);
	ck_assert_uint_eq(standin_events.allocated, 3 * (unsigned int)_i);
	begin(HOME + 32768, 5000, FIRST);
	ck_assert(memory_find(HOME + 32768, &ended));
	ck_assert(!ended.integrated);
}

TEST(memory, where_the_driver_does_not_say_the_host_s_memory_is_not_for_adapters)
{
	ck_assert(!host_memory(HOME).integrated);
	ck_assert_uint_eq(standin_events.allocated, 0);
}

/* The driver reports the larger range, as for memory suballocated from the middle of a block. */
static struct pointer_attributes answer;

static CUresult tell_all(unsigned int count, CUpointer_attribute *attributes, void **data,
			 CUdeviceptr address)
{
	(void)address;
	for (unsigned int i = 0; i < count; i++)
		pointer_attributes_read(&answer, attributes[i], data[i]);
	return CUDA_SUCCESS;
}

TEST(memory, what_is_as_large_as_the_driver_says_ends_with_the_range_that_it_is_in)
{
	struct allocation found;

	begin(HOME + UNIT, 5000, FIRST);
	answer = (struct pointer_attributes){
		.buffer_id = 7, .memory_type = CU_MEMORYTYPE_DEVICE, .base = HOME, .size = UNIT
	};
	standin_attributes = tell_all;
	memory_allocated(ALLOCATION_SHARED, HOME + 4096, 0);
	ck_assert(memory_find(HOME + UNIT - 1, &found) && found.base == HOME + 4096);
	ck_assert_uint_eq(found.size, UNIT - 4096);
	ck_assert(is_tracked(HOME + UNIT));
	ck_assert_uint_eq(statistics_get(missed_frees), 0);
	/* An address outside the reported range gets no record. */
	memory_allocated(ALLOCATION_SHARED, HOME - 4096, 0);
	ck_assert(!is_tracked(HOME - 4096));
	ck_assert_uint_eq(statistics_get(missed_frees), 0);
}

/* Pools and mappings may contain host memory, pools also managed memory: neither was measured. */
TEST(memory, only_a_device_s_pools_and_mappings_are_described)
{
	static const enum allocation_kind kinds[] = { ALLOCATION_POOL, ALLOCATION_MAPPED };
	struct allocation found;

	standin_attributes = tell_all;
	for (unsigned int i = 0; i < 6; i++) {
		answer = (struct pointer_attributes){
			.buffer_id = 7,
			.memory_type = i / 2 == 1 ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
			.managed = i / 2 == 2,
			.base = HOME + i * UNIT,
			.size = 5000,
		};
		memory_allocated(kinds[i % 2], answer.base, 5000);
		ck_assert(memory_find(answer.base, &found));
		ck_assert_int_eq(found.described, i < 2);
	}
}

#ifndef __SANITIZE_THREAD__ /* ThreadSanitizer needs memory of its own. */
static CUresult tell_access(unsigned long long *flags, const CUmemLocation *location,
			    CUdeviceptr address)
{
	(void)location;
	(void)address;
	*flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	return CUDA_SUCCESS;
}

/* Not at the start of a block: each allocation needs an index node. */
static uint64_t mapped(unsigned int i)
{
	uint64_t base = HOME + i * ((uint64_t)2 << 20) + 4096;

	standin_allocate(base, 4096, NULL, true);
	memory_allocated(ALLOCATION_MAPPED, base, 4096);
	return base;
}

TEST(memory, what_cannot_be_recorded_again_when_its_access_ends_is_told_as_freeing)
{
	struct rlimit little = { .rlim_cur = 4096 }, limit;
	uint64_t base = mapped(0);
	unsigned int i = 1;

	standin_driver.cuMemGetAccess = tell_access;
	memory_access_settled(base, 4096);
	ck_assert_uint_eq(standin_events.allocated, 1);
	ck_assert_int_eq(getrlimit(RLIMIT_DATA, &limit), 0);
	little.rlim_max = limit.rlim_max;
	ck_assert_int_eq(setrlimit(RLIMIT_DATA, &little), 0);
	if (standin_more_memory())
		return;
	for (; i < 10000 && !statistics_get(untracked); i++)
		mapped(i);
	memory_access_ending(base, 4096, 0);
	setrlimit(RLIMIT_DATA, &limit);
	ck_assert_uint_lt(i, 10000);
	ck_assert_uint_eq(standin_events.freeing, 1);
	ck_assert_uint_eq(standin_events.last_freeing.base, base);
	ck_assert(!is_tracked(base));
	ck_assert_uint_eq(statistics_get(untracked), 2);
}
#endif

#define DRIVERS_ID 77

static CUresult get_forwarded(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
	(void)attribute;
	(void)address;
	*(uint64_t *)data = DRIVERS_ID;
	return CUDA_SUCCESS;
}

/* Other memory has the address, unknown to the record. */
TEST(memory, verification_counts_an_answer_that_the_driver_would_not_give)
{
	uint64_t id = 0;

	store_relaxed(&queries_mode, QUERIES_VERIFY);
	standin_allocate(HOME, 5000, FIRST, true);
	standin_describe(HOME, 0, false);
	memory_allocated(ALLOCATION_DEVICE, HOME, 5000);
	for (unsigned int other = 0; other < 2; other++) {
		ck_assert_int_eq(
			queries_get(get_forwarded, &id, CU_POINTER_ATTRIBUTE_BUFFER_ID, HOME),
			CUDA_SUCCESS);
		ck_assert_uint_eq(id, DRIVERS_ID);
		ck_assert_uint_eq(statistics_get(verify_checks), other + 1);
		ck_assert_uint_eq(statistics_get(verify_disagreements), other);
		standin_free(HOME);
		standin_allocate(HOME, 5000, FIRST, true);
	}
}

SUITE("memory")
