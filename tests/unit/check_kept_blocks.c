/* SPDX-License-Identifier: BSD-3-Clause */
/* check_kept_blocks.c -- classes of kept memory, its length, exports of its pages */
#include "keep_fixture.h"

#include "memory/lookup.h"
#include "memory/queries.h"

#define MIB ((uint64_t)1 << 20)

static void set_up(void)
{
	set_up_with("inf", "inf");
}

CASE(blocks, .set_up = set_up);

static void keep_at(uint64_t base, uint64_t size)
{
	allocate(base, size);
	ck_assert(keeps(base));
}

static CUresult never_called(unsigned int count, CUpointer_attribute *attributes, void **data,
			     CUdeviceptr address)
{
	(void)count;
	(void)attributes;
	(void)data;
	(void)address;
	ck_abort_msg("the driver is called");
}

/* RANGE_SIZE at the address. */
static uint64_t size_at(uint64_t address)
{
	CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_RANGE_SIZE;
	uint64_t size = 0;
	void *data = &size;

	ck_assert_int_eq(queries_get_list(never_called, 1, &attribute, &data, address),
			 CUDA_SUCCESS);
	return size;
}

static const struct {
	uint64_t kept, wanted;
	bool fits;
} cases[] = {
	{ MIB + 2, MIB + 1, true },
	{ 2 * MIB, MIB + 1, true },
	{ 2 * MIB, MIB, false }, /* it would share a block */
	{ MIB, MIB - 65535, true },
	{ MIB, (640 << 10) + 1, true }, /* half more */
	{ MIB, 640 << 10, false },
	{ 96 << 10, 64 << 10, true },
	{ 96 << 10, (64 << 10) - 4096, false },
	{ 512, 1, true },
	{ 1024, 513, true },
	{ 1000, 513, true },
	{ 1000, 1001, false },
	{ 1024, 512, false },
	{ 9216, 8192, true },
	{ 12288, 8192, true },
	{ 12800, 8192, false },
	{ 2 * MIB + 1, 2 * MIB, false }, /* another block */
	{ 2 * MIB + 2, 2 * MIB + 1, true },
	{ 2 * MIB + 1, 2 * MIB + 2, false },
	{ 64 * MIB, 62 * MIB + 1, true },
	{ 64 * MIB, 62 * MIB, false },
};

LOOP_TEST(blocks, memory_for_which_the_driver_takes_as_much_is_reused, 0,
	  sizeof(cases) / sizeof(cases[0]))
{
	keep_at(HOME, cases[_i].kept);
	ck_assert_uint_eq(reuse(cases[_i].wanted), cases[_i].fits ? HOME : 0);
	if (!cases[_i].fits)
		return;
	ck_assert_uint_eq(size_at(HOME + cases[_i].wanted - 1), cases[_i].kept);
	ck_assert(keeps(HOME));
	ck_assert_uint_eq(reuse(cases[_i].kept), HOME);
	ck_assert_uint_eq(gpu.frees, 0);
}

TEST(blocks, the_size_comes_first_and_then_the_smallest)
{
	keep_at(HOME, 4 * MIB);
	keep_at(HOME + 8 * MIB, 3 * MIB + 512);
	keep_at(HOME + 16 * MIB, 3 * MIB);
	keep_at(HOME + 24 * MIB, 3 * MIB + 512);
	ck_assert_uint_eq(reuse(3 * MIB), HOME + 16 * MIB);
	ck_assert_uint_eq(reuse(3 * MIB), HOME + 24 * MIB);
	ck_assert_uint_eq(reuse(3 * MIB), HOME + 8 * MIB);
	ck_assert_uint_eq(reuse(3 * MIB), HOME);
	ck_assert_uint_eq(reuse(3 * MIB), 0);
}

TEST(blocks, of_larger_small_memory_the_smallest_serves)
{
	keep_at(HOME, 96 << 10);
	keep_at(HOME + BLOCK, 80 << 10);
	keep_at(HOME + 2 * BLOCK, 88 << 10);
	ck_assert_uint_eq(reuse(64 << 10), HOME + BLOCK);
	ck_assert_uint_eq(reuse(64 << 10), HOME + 2 * BLOCK);
	ck_assert_uint_eq(reuse(64 << 10), HOME);
	ck_assert_uint_eq(reuse(64 << 10), 0);
}

TEST(blocks, a_size_beyond_all_addresses_is_left_to_the_driver)
{
	keep_at(HOME, 4 * MIB);
	for (uint64_t less = 0; less < 8 * MIB; less += MIB / 2)
		ck_assert_uint_eq(reuse(UINT64_MAX - less), 0);
	ck_assert_uint_eq(reuse((uint64_t)1 << ADDRESS_BITS), 0);
}

/* UCX sees no free of kept memory, and keeps base and length of its first use. */
TEST(blocks, reused_memory_has_the_length_of_its_whole_block)
{
	const uint64_t asked = 3 * MIB + 100;

	keep_at(HOME, 4 * MIB);
	ck_assert_uint_eq(reuse(asked), HOME);
	ck_assert_uint_eq(standin_program_events.last_allocated.size, 4 * MIB);
	ck_assert_uint_eq(size_at(HOME + 4 * MIB - 1), 4 * MIB);
	ck_assert_uint_eq(keep_visible(HOME + 4 * MIB - 1), HOME + 4 * MIB - 1);
	ck_assert_uint_eq(kept_live(0), 4 * MIB);
	ck_assert(keeps(HOME));
	ck_assert_uint_eq(standin_program_events.last_freeing.size, 4 * MIB);
	ck_assert_uint_eq(keep_visible(HOME + asked - 1), KEEP_ABSENT);
}

/* ---- exports of whole pages ---- */

static const struct {
	uint64_t address, size;
	bool absent;
} exports[] = {
	{ 0, 4096, true },		 /* freed memory alone */
	{ 0, 8192, false },		 /* the program has its second page */
	{ 4096, 4096, false },		 /* bytes in its middle */
	{ 8192, 4096, false },		 /* freed bytes, and no memory */
	{ 4096 + 512, 512, true },	 /* behind the program's memory */
	{ 16384, 4096, false },		 /* no memory: the driver decides */
	{ 0, (uint64_t)1 << 47, false }, /* freed memory and the program's */
	{ 0, 0, true },			 /* the driver refuses it at freed memory, too */
	{ 4096, UINT64_MAX, false },	 /* no range */
	{ 20480, 4096, false },		 /* the program's before freed memory of one bucket */
};

LOOP_TEST(blocks, an_export_succeeds_if_the_program_has_any_byte_of_its_range, 0,
	  sizeof(exports) / sizeof(exports[0]))
{
	allocate(HOME, 4096);
	allocate(HOME + 4096, 512);
	allocate(HOME + 4096 + 512, 3584);
	allocate(HOME + 8192, 512);
	allocate(HOME + 20480 + 1024, 512);
	allocate(HOME + 20480 + 512, 512);
	ck_assert(keeps(HOME) && keeps(HOME + 4096 + 512) && keeps(HOME + 20480 + 1024));
	ck_assert_uint_eq(keep_exported(HOME + exports[_i].address, exports[_i].size),
			  exports[_i].absent ? KEEP_ABSENT : HOME + exports[_i].address);
}

TEST(blocks, one_small_allocation_among_many_freed_ones_can_be_exported)
{
	for (uint64_t i = 0; i < 4096; i++)
		allocate(HOME + i * 512, 512);
	for (uint64_t i = 0; i < 4096; i++)
		ck_assert(i == 2777 || keeps(HOME + i * 512));
	for (uint64_t page = 0; page < BLOCK; page += 4096)
		ck_assert_uint_eq(keep_exported(HOME + page, 4096),
				  page == 2777 * 512 / 4096 * 4096 ? HOME + page : KEEP_ABSENT);
	ck_assert_uint_eq(keep_exported(HOME, BLOCK), HOME);
}

TEST(blocks, pitched_memory_and_host_memory_are_equal)
{
	const struct keep_request kept = { ALLOCATION_PITCHED, 4, 4096, 1024 },
				  wanted = { ALLOCATION_PITCHED, 4, 4000, 1024 };
	size_t pitch;

	allocate_pitched(HOME, &kept, 4096);
	ck_assert(keeps(HOME));
	allocate_host(HOME + 8 * MIB, 4 * MIB, 1);
	ck_assert(keeps_host(HOME + 8 * MIB));
	ck_assert_uint_eq(reuse_request(&wanted, &pitch), 0);
	ck_assert_uint_eq(reuse(4 * MIB), 0);
	ck_assert_uint_eq(
		reuse_request(&(struct keep_request){ ALLOCATION_HOST, 1, 3 * MIB, 0 }, NULL), 0);
	ck_assert_uint_eq(reuse_request(&kept, &pitch), HOME);
}

SUITE("kept blocks")
