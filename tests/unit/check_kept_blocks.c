/* SPDX-License-Identifier: BSD-3-Clause */
/* check_kept_blocks.c -- larger kept memory: for which the driver takes as much, or little more */
#include "keep_fixture.h"

#include "memory/lookup.h"
#include "memory/queries.h"

#define MIB ((uint64_t)1 << 20)

static void set_up(void)
{
	set_up_with("inf", "inf");
}

CASE(blocks, .set_up = set_up);

static void set_up_limited(void)
{
	set_up_with("100m", "0");
}

CASE(limited, .set_up = set_up_limited);

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
	{ MIB, MIB - 65536, true }, /* a 16th more */
	{ MIB, MIB - 131072, false },
	{ 512, 1, true },
	{ 1024, 513, true },
	{ 1000, 513, true },
	{ 1000, 1001, false },
	{ 1024, 512, false },
	{ 9216, 8193, true },
	{ 9216, 8192, false },
	{ 2 * MIB + 1, 2 * MIB, false }, /* another block */
	{ 2 * MIB + 2, 2 * MIB + 1, true },
	{ 2 * MIB + 1, 2 * MIB + 2, false },
	{ 64 * MIB, 62 * MIB + 1, true },
	{ 64 * MIB, 62 * MIB, true }, /* a 32nd more */
	{ 64 * MIB, 60 * MIB, true },
	{ 64 * MIB, 58 * MIB, false }, /* more than a 16th of what the program has had */
};

LOOP_TEST(blocks, memory_for_which_the_driver_takes_as_much_is_reused, 0,
	  sizeof(cases) / sizeof(cases[0]))
{
	keep_at(HOME, cases[_i].kept);
	ck_assert_uint_eq(reuse(cases[_i].wanted), cases[_i].fits ? HOME : 0);
	if (!cases[_i].fits)
		return;
	ck_assert_uint_eq(size_at(HOME + cases[_i].wanted - 1), cases[_i].wanted);
	/* What the library has to know of it stays. */
	ck_assert(keeps(HOME));
	ck_assert_uint_eq(reuse(cases[_i].kept), HOME);
	ck_assert_uint_eq(size_at(HOME), cases[_i].kept);
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

/* A 16th of it is 64 MiB. */
static void allocate_a_gib(void)
{
	allocate(HOME + ((uint64_t)1 << 32), 1024 * MIB);
}

TEST(blocks, sizes_that_drift_get_up_to_half_more)
{
	allocate_a_gib();
	keep_at(HOME, 48 * MIB);
	ck_assert_uint_eq(reuse(30 * MIB), 0);
	ck_assert_uint_eq(reuse(30 * MIB + 1), HOME);
	ck_assert_uint_eq(size_at(HOME), 30 * MIB + 1);
	keep_at(HOME + 64 * MIB, 96 << 10);
	ck_assert_uint_eq(reuse(64 << 10), HOME + 64 * MIB);
	ck_assert_uint_eq(kept_cut(0), (16 * MIB) + (32 << 10));
	keep_at(HOME + 64 * MIB + (1 << 18), MIB);
	ck_assert_uint_eq(reuse(640 << 10), 0);
	ck_assert_uint_eq(reuse((640 << 10) + 1), HOME + 64 * MIB + (1 << 18));
}

TEST(blocks, of_larger_memory_the_smallest_serves)
{
	allocate_a_gib();
	keep_at(HOME, 40 * MIB);
	keep_at(HOME + 64 * MIB, 36 * MIB);
	keep_at(HOME + 128 * MIB, 44 * MIB);
	ck_assert_uint_eq(reuse(32 * MIB), HOME + 64 * MIB);
	ck_assert_uint_eq(reuse(32 * MIB), HOME);
	ck_assert_uint_eq(reuse(32 * MIB), HOME + 128 * MIB);
}

TEST(blocks, together_they_get_a_16th_more_than_the_program_has_had)
{
	allocate_a_gib();
	for (unsigned int i = 0; i < 5; i++)
		keep_at(HOME + i * 64 * MIB, 48 * MIB);
	for (unsigned int i = 0; i < 4; i++)
		ck_assert_uint_ne(reuse(32 * MIB), 0);
	ck_assert_uint_eq(kept_cut(0), 64 * MIB);
	ck_assert_uint_eq(kept_live(0), (1024 + 4 * 48) * MIB);
	/* What they have in excess is kept memory as well. */
	ck_assert_uint_eq(statistics_get(kept_bytes), (48 + 64) * MIB);
	/* It has had 1152 MiB by now. */
	ck_assert_uint_eq(reuse(38 * MIB), 0);
	ck_assert_uint_eq(reuse(40 * MIB), HOME);
	ck_assert(keeps(HOME + 64 * MIB));
	ck_assert_uint_eq(kept_cut(0), 56 * MIB);
	ck_assert_uint_eq(reuse(32 * MIB), HOME + 64 * MIB);
}

/* The program has had 576 KiB. */
TEST(blocks, small_memory_gets_no_more_than_the_16th_either)
{
	const uint64_t least = (64 << 10) + 1;

	for (uint64_t i = 0; i < 8; i++)
		allocate(HOME + i * MIB, 72 << 10);
	for (uint64_t i = 0; i < 8; i++)
		ck_assert(keeps(HOME + i * MIB));
	for (uint64_t i = 0; i < 4; i++)
		ck_assert_uint_ne(reuse(least), 0);
	ck_assert_uint_eq(reuse(least), 0);
	ck_assert_uint_ne(reuse(72 << 10), 0);
}

TEST(blocks, at_most_128_mib_more_are_given)
{
	allocate_a_gib();
	for (uint64_t i = 2; i < 5; i++)
		allocate(HOME + (i << 32), 1024 * MIB);
	keep_at(HOME, 512 * MIB);
	ck_assert_uint_eq(reuse(382 * MIB), 0);
	ck_assert_uint_eq(reuse(384 * MIB), HOME);
}

TEST(blocks, a_size_beyond_all_addresses_is_left_to_the_driver)
{
	keep_at(HOME, 4 * MIB);
	for (uint64_t less = 0; less < 8 * MIB; less += MIB / 2)
		ck_assert_uint_eq(reuse(UINT64_MAX - less), 0);
	ck_assert_uint_eq(reuse((uint64_t)1 << ADDRESS_BITS), 0);
}

TEST(blocks, the_room_is_that_of_the_bytes_asked_for)
{
	allocate_a_gib();
	keep_at(HOME, 48 * MIB);
	ck_assert_uint_eq(reuse(32 * MIB), HOME);
	/* 1.5 times 1072 MiB, without the live bytes. */
	ck_assert_uint_eq(kept_room(0, 0), (1608 - 1072) * MIB);
	allocate(HOME + ((uint64_t)2 << 32), 16 * MIB);
	ck_assert_uint_eq(kept_room(0, 0), (1608 - 1088) * MIB);
	allocate(HOME + ((uint64_t)3 << 32), 16 * MIB);
	ck_assert_uint_eq(kept_room(0, 0), (1632 - 1104) * MIB);
}

TEST(limited, memory_beyond_it_drives_out_no_other)
{
	allocate_a_gib();
	keep_at(HOME, 48 * MIB);
	ck_assert_uint_eq(reuse(32 * MIB), HOME);
	keep_at(HOME + 64 * MIB, 4 * MIB);
	allocate(HOME + 128 * MIB, 86 * MIB);
	ck_assert(!keeps(HOME + 128 * MIB));
	ck_assert_uint_eq(gpu.frees, 0);
}

TEST(limited, what_memory_has_in_excess_ends_with_its_free)
{
	allocate_a_gib();
	keep_at(HOME, 96 * MIB);
	ck_assert_uint_eq(reuse(88 * MIB), HOME);
	ck_assert(keeps(HOME));
	ck_assert_uint_eq(gpu.frees, 0);
}

TEST(limited, the_limit_includes_it)
{
	struct allocation ended;

	allocate_a_gib();
	keep_at(HOME, 48 * MIB);
	keep_at(HOME + 64 * MIB, 48 * MIB);
	ck_assert_uint_eq(reuse(32 * MIB), HOME + 64 * MIB);
	/* 16 MiB in excess leave 84. */
	keep_at(HOME + 128 * MIB, 36 * MIB);
	ck_assert_uint_eq(gpu.frees, 0);
	keep_at(HOME + 192 * MIB, 2 * MIB);
	ck_assert_uint_eq(gpu.frees, 1);
	ck_assert(memory_freeing(FREE_DEVICE, HOME + 64 * MIB, &ended));
	ck_assert_uint_eq(kept_cut(0), 0);
}

TEST(blocks, to_the_program_the_memory_has_the_bytes_that_it_asked_for)
{
	const uint64_t asked = 3 * MIB + 100;

	keep_at(HOME, 4 * MIB);
	ck_assert_uint_eq(memory_asked(&standin_program_events.last_freeing), 4 * MIB);
	ck_assert_uint_eq(reuse(asked), HOME);
	ck_assert_uint_eq(memory_asked(&standin_program_events.last_allocated), asked);
	ck_assert_uint_eq(keep_visible(HOME + asked - 1), HOME + asked - 1);
	ck_assert_uint_eq(keep_visible(HOME + asked), KEEP_ABSENT);
	ck_assert_uint_eq(keep_visible(HOME + 4 * MIB), HOME + 4 * MIB);
	ck_assert(keeps(HOME));
	ck_assert_uint_eq(memory_asked(&standin_program_events.last_freeing), asked);
	ck_assert_uint_eq(keep_visible(HOME + asked - 1), KEEP_ABSENT);
}

TEST(blocks, a_free_that_keeps_nothing_leaves_the_bytes_as_they_were)
{
	const uint64_t asked = 3 * MIB;

	keep_at(HOME, 4 * MIB);
	ck_assert_uint_eq(reuse(asked), HOME);
	gpu.wait_result = CUDA_ERROR_INVALID_VALUE;
	ck_assert(!keeps(HOME));
	ck_assert_uint_eq(size_at(HOME), asked);
	ck_assert_uint_eq(memory_asked(&standin_program_events.last_allocated), asked);
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

CASE(verified);

/* The driver's answers are those for the larger memory. */
TEST(verified, sizes_are_equal)
{
	setenv("PEERPIN_VERIFY", "1", 1);
	set_up();
	keep_at(HOME, 4 * MIB);
	ck_assert_uint_eq(reuse(3 * MIB), 0);
	ck_assert_uint_eq(reuse(4 * MIB), HOME);
}

SUITE("kept blocks")
