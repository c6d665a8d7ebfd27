/* SPDX-License-Identifier: BSD-3-Clause */
/* check_rounded.c -- requests whose range a client has rounded beyond its allocation */
#include "registration_fixture.h"

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)

/* Addresses where the driver may place memory of the next size: multiples of 512. */
static uint64_t place(uint64_t size)
{
	static uint64_t next = HOME;
	uint64_t base = size > MIB ? (next + BLOCK - 1) / BLOCK * BLOCK : next;

	next = base + (size + 511) / 512 * 512;
	return base;
}

static uint64_t round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

static uint64_t state = 1;

static uint64_t random_below(uint64_t below)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (state >> 33) % below;
}

static bool request_by(bool dma_buf, int handle, uint64_t address, uint64_t length,
		       struct registration_keys *keys)
{
	struct registration_request request = request_in(&pd, handle, address, length, RIGHTS);

	request.dma_buf = dma_buf;
	request.youngest = dma_buf ? memory_youngest() : 0;
	return registration_hit(&request, keys) || registration_request(&request, keys);
}

/* The first request registers, the next ones hit, and the free ends all. */
static void serve_until_the_free(bool dma_buf, uint64_t size, uint64_t offset, uint64_t unit)
{
	uint64_t base = place(size), address = (base + offset) / unit * unit;
	uint64_t length = round_up(base + size, unit) - address;
	uint64_t hits = statistics_tallied(TALLY_hits);
	struct registration_keys keys;

	begin(base, size);
	for (int i = 0; i < 4; i++) {
		ck_assert(request_by(dma_buf, i, address, length, &keys));
		ck_assert(standin_covers(keys.lkey, address + length - 1));
	}
	ck_assert_uint_eq(statistics_tallied(TALLY_hits), hits + 3);
	end(base);
	ck_assert(!standin_covers(keys.lkey, base));
	for (int i = 0; i < 4; i++)
		ck_assert(registration_drop(&client_mrs[i]));
	ck_assert_uint_eq(standin_registered(), 0);
}

CASE(off, .set_up = set_up_off);

TEST(off, a_range_rounded_to_16_bytes_is_served_and_ends_with_its_allocation)
{
	static const uint64_t sizes[] = {
		1, 8, 12, 1000, 4040, 99992, 1000004, MIB + 8, 3 * MIB + 8
	};

	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		serve_until_the_free(i % 2, sizes[i], 0, 16);
	for (unsigned int i = 0; i < 200; i++) {
		uint64_t size = 1 + random_below((uint64_t)1 << random_below(24));

		serve_until_the_free(i % 2, size, random_below(size), 16);
	}
}

TEST(off, a_range_rounded_to_pages_is_served_in_memory_larger_than_a_block)
{
	serve_until_the_free(false, 3515624, 0, PAGE);
	serve_until_the_free(true, BLOCK + 1, 0, PAGE);
	for (unsigned int i = 0; i < 200; i++) {
		uint64_t size = BLOCK + 1 + random_below((uint64_t)1 << random_below(24));

		serve_until_the_free(i % 2, size, random_below(size), PAGE);
	}
}

static void forward(uint64_t address, uint64_t length)
{
	struct registration_keys keys;

	for (int dma_buf = 0; dma_buf < 2; dma_buf++)
		ck_assert(!request_by(dma_buf, 0, address, length, &keys));
	ck_assert_uint_eq(standin_registrations(), 0);
}

/* The driver places small allocations behind the end of one of 1 to 2 MiB (measured). */
TEST(off, a_range_that_may_hold_a_part_of_another_allocation_is_forwarded)
{
	const uint64_t large = HOME + BLOCK, larger = HOME + 2 * BLOCK;

	begin(HOME, 1000);
	begin(HOME + 1024, 1000);
	begin(HOME + 2048, 100);
	begin(large, MIB + 1);
	begin(larger, BLOCK + 1);
	forward(HOME, 4096);
	forward(HOME, 1025);
	forward(HOME + 2048, 257);
	forward(HOME + 992, 48);
	forward(large, MIB + 4 * KIB);
	forward(larger, BLOCK + 4 * KIB + 1);
	ck_assert_uint_eq(statistics_get(forwarded_range), 2 * 6);
}

static void allocate_as(enum allocation_kind kind, uint64_t base, uint64_t size)
{
	standin_allocate(base, size, NULL, true);
	memory_allocated(kind, base, size);
}

TEST(off, pool_memory_is_served_to_the_next_256_bytes_and_external_memory_to_its_end)
{
	struct registration_keys keys;

	allocate_as(ALLOCATION_POOL, HOME, 3 * MIB + 8);
	allocate_as(ALLOCATION_EXTERNAL, HOME + 4 * BLOCK, 3 * MIB + 8);
	forward(HOME, 3 * MIB + 4 * KIB);
	forward(HOME + 4 * BLOCK, 3 * MIB + 16);
	ck_assert(request_by(true, 0, HOME, 3 * MIB + 256, &keys));
	ck_assert(request_by(false, 1, HOME + 4 * BLOCK, 3 * MIB + 8, &keys));
}

TEST(off, a_free_leaves_the_rounded_range_of_its_neighbour)
{
	struct registration_keys keys;

	begin(HOME, 1000);
	begin(HOME + 1024, 1000);
	ck_assert(request_by(false, 0, HOME, 1008, &keys));
	end(HOME + 1024);
	ck_assert(standin_covers(keys.lkey, HOME + 1007));
	ck_assert(registration_holds(&client_mrs[0]));
	end(HOME);
	ck_assert_uint_eq(standin_registered(), 0);
	ck_assert_uint_eq(statistics_get(revoked), 1);
}

SUITE("rounded")
