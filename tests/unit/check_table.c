/* SPDX-License-Identifier: BSD-3-Clause */
/* check_table.c -- lookup from any address to its allocation, also during allocations and frees */
#include "suite.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>

#include "memory/lookup.h"
#include "memory/table.h"

#define BLOCK ((uint64_t)2 << 20)
#define HOME  ((uint64_t)0x7f1200000000)

static int put(uint64_t base, uint64_t size)
{
	struct allocation allocation = { .base = base, .size = size, .buffer_id = base ^ size };

	return table_insert(&allocation);
}

static uint64_t base_of(uint64_t address)
{
	struct allocation found;

	return memory_find(address, &found) ? found.base : 0;
}

CASE(traits);

TEST(traits, a_copy_s_fields_are_the_bits_of_the_record)
{
	static const struct {
		struct allocation fields;
		uint64_t traits;
	} cases[] = {
		{ { .device = -1 }, UINT32_MAX },
		{ { .device = 5, .kind = ALLOCATION_EXTERNAL },
		  5 | (uint64_t)ALLOCATION_EXTERNAL << TRAIT_KIND_SHIFT },
		{ { .rdma_capable = true }, TRAIT_RDMA_CAPABLE },
		{ { .accessible = true }, TRAIT_ACCESSIBLE },
		{ { .host = true }, TRAIT_HOST },
		{ { .managed = true }, TRAIT_MANAGED },
		{ { .described = true }, TRAIT_DESCRIBED },
		{ { .used = true }, TRAIT_USED },
		{ { .integrated = true }, TRAIT_INTEGRATED },
		{ { .hidden = true }, TRAIT_HIDDEN },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		ck_assert_uint_eq(cases[i].fields.traits, cases[i].traits);
}

CASE(single);

TEST(single, every_address_inside_is_found_and_none_outside)
{
	static const struct {
		uint64_t base, size;
	} cases[] = {
		{ HOME, 1 },
		{ HOME + 512, 1000 },
		{ HOME + BLOCK - 512, 512 },
		{ HOME + BLOCK, BLOCK },
		{ HOME + 2 * BLOCK, 3000000 },
		{ HOME + 8 * BLOCK + 4096, 5 * BLOCK },
		{ ((uint64_t)1 << 30) - 512, 1024 },
		{ ((uint64_t)1 << 48) - 512, 512 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		ck_assert_int_eq(put(cases[i].base, cases[i].size), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t base = cases[i].base, end = base + cases[i].size;

		ck_assert_uint_eq(base_of(base), base);
		ck_assert_uint_eq(base_of(base + cases[i].size / 2), base);
		ck_assert_uint_eq(base_of(end - 1), base);
		ck_assert_uint_ne(base_of(end), base);
		ck_assert_uint_ne(base_of(base - 1), base);
	}
	ck_assert_uint_eq(base_of(0), 0);
	ck_assert_uint_eq(base_of(UINT64_MAX), 0);
}

TEST(single, unusual_addresses_are_refused)
{
	ck_assert_int_eq(put(HOME, 0), -EINVAL);
	ck_assert_int_eq(put((uint64_t)1 << 48, 512), -EINVAL);
	ck_assert_int_eq(put(((uint64_t)1 << 48) - 512, 1024), -EINVAL);
	ck_assert_int_eq(put(HOME, UINT64_MAX), -EINVAL);
}

TEST(single, an_id_never_comes_back)
{
	struct allocation first = { .base = HOME, .size = 4096 }, second = first, taken;

	ck_assert_int_eq(table_insert(&first), 0);
	ck_assert(memory_is_live(&first));
	ck_assert(table_mark_used(&first));
	ck_assert(!table_mark_used(&first));
	ck_assert(table_take(HOME, first.id, &taken));
	ck_assert(!memory_is_live(&first));
	ck_assert_int_eq(table_insert(&second), 0);
	ck_assert_uint_ne(first.id, second.id);
	ck_assert(!memory_is_live(&first));
	ck_assert(!table_take(HOME, first.id, &taken));
	ck_assert(!table_mark_used(&first));
	/* What was noted about it does not either, in its slot. */
	table_set_keep_key(HOME, 7);
	ck_assert(table_take(HOME, second.id, &taken));
	ck_assert_uint_eq(taken.keep_key, 7);
	ck_assert_int_eq(table_insert(&first), 0);
	ck_assert_uint_eq(first.slot, second.slot);
	ck_assert(table_take(HOME, first.id, &taken));
	ck_assert_uint_eq(taken.keep_key, 0);
	ck_assert_int_eq(table_insert(&second), 0);
	ck_assert(table_mark_used(&second));
}

/* Random allocations and frees in `blocks` blocks, on multiples of `unit`, mostly up to `small`
 * bytes long, against a list with linear search. */
struct mix {
	unsigned int live, rounds, blocks, unit, small,
		large_of; /* one in large_of is up to 5 blocks long; 0: none */
};

static const struct mix mixes[] = {
	{ 200, 5000, 32, 512, 20000, 4 },
	{ 200, 5000, 32, 512, 20000, 4 },
	/* Many in one block: repeated divisions. */
	{ 1500, 4000, 2, 512, 1500, 0 },
	{ 1500, 4000, 2, 1, 1500, 50 },
	/* Adjacent, down to 1 byte. */
	{ 600, 6000, 1, 1, 3, 0 },
};

static void run_mix(const struct mix *mix, unsigned int seed)
{
	static struct {
		uint64_t base, size;
	} list[1500];
	struct allocation taken;
	/* The smallest allocations share one page. */
	uint64_t extent = mix->small < 8 ? 4096 : mix->blocks * BLOCK;

	for (unsigned int round = 0; round < mix->rounds; round++) {
		unsigned int i = (unsigned int)rand_r(&seed) % mix->live;
		uint64_t address =
			HOME + (uint64_t)rand_r(&seed) % (extent / mix->unit) * mix->unit;
		uint64_t size = mix->large_of && !((unsigned int)rand_r(&seed) % mix->large_of)
					? (uint64_t)rand_r(&seed) % (5 * BLOCK) + 1
					: (uint64_t)rand_r(&seed) % mix->small + 1;
		uint64_t probe = HOME + (uint64_t)rand_r(&seed) % (extent + extent / 4);
		uint64_t expected = 0;
		bool overlap = false;

		if (list[i].size) {
			ck_assert(table_take(list[i].base, 0, &taken));
			ck_assert_uint_eq(taken.size, list[i].size);
			list[i].size = 0;
		} else {
			for (unsigned int j = 0; j < mix->live; j++)
				overlap |= list[j].size && list[j].base < address + size &&
					   address < list[j].base + list[j].size;
			ck_assert(table_overlaps(address, size) == overlap);
			ck_assert_int_eq(put(address, size), overlap ? -EEXIST : 0);
			if (!overlap) {
				list[i].base = address;
				list[i].size = size;
			}
		}
		for (unsigned int j = 0; j < mix->live; j++) {
			if (list[j].size && probe - list[j].base < list[j].size)
				expected = list[j].base;
		}
		ck_assert_uint_eq(base_of(probe), expected);
	}
	for (unsigned int j = 0; j < mix->live; j++) {
		ck_assert(!list[j].size || table_take(list[j].base, 0, &taken));
		list[j].size = 0;
	}
	ck_assert(!table_overlaps(HOME, 64 * BLOCK));
}

LOOP_TEST(single, random_allocations_and_frees_agree_with_a_plain_list, 0,
	  sizeof(mixes) / sizeof(mixes[0]))
{
	run_mix(&mixes[_i], 12345 + (unsigned int)_i);
}

TEST(single, what_ends_leaves_its_memory_to_what_begins)
{
	uint32_t before = 0;

	/* The second pass makes no node. A node lost per division would add some hundreds. */
	for (int pass = 0; pass < 2; pass++) {
		before = index_nodes_made();
		for (unsigned int round = 0; round < 6; round++)
			run_mix(&mixes[2 + round % 3], round);
	}
	ck_assert_uint_eq(index_nodes_made(), before);
}

TEST(single, a_walk_sees_each_once_while_others_end_and_begin)
{
	struct allocation batch[7], taken;
	static bool seen[100];
	unsigned int count, total = 0;
	uint32_t cursor = 0;

	for (uint64_t i = 0; i < 100; i++)
		ck_assert_int_eq(put(HOME + i * 4096, 4096), 0);
	while ((count = memory_next(&cursor, batch, 7))) {
		for (unsigned int i = 0; i < count; i++) {
			uint64_t which = (batch[i].base - HOME) / 4096;

			if (which >= 100)
				continue;
			ck_assert(!seen[which]);
			seen[which] = true;
			total++;
			ck_assert(which % 3 || table_take(batch[i].base, batch[i].id, &taken));
		}
		ck_assert_int_eq(put(HOME + (1000 + total) * 4096, 1), 0);
	}
	ck_assert_uint_eq(total, 100);
}

/* Readers look up permanent allocations, and addresses that are reused with other sizes and
 * BUFFER_IDs: they must always find the former, and never a mixture of two records. */
static _Atomic bool stop;
static _Atomic unsigned int looks;

static void *read_all(void *unused)
{
	struct allocation found;

	while (!atomic_load(&stop)) {
		if (base_of(HOME + 4096 + 700) != HOME + 4096)
			return (void *)"a living allocation was not found";
		if (base_of(HOME + 9 * BLOCK + 5) != HOME + 8 * BLOCK)
			return (void *)"a large living allocation was not found";
		if (memory_find(HOME + 8192 + 100, &found) &&
		    found.buffer_id != (found.base ^ found.size))
			return (void *)"a mixture of two allocations was found";
		if (memory_find(HOME + 4 * BLOCK + 100, &found) &&
		    found.buffer_id != (found.base ^ found.size))
			return (void *)"a mixture of two large allocations was found";
		atomic_fetch_add_explicit(&looks, 1, memory_order_relaxed);
	}
	return unused;
}

CASE(many, .timeout = 300);

TEST(many, readers_are_right_while_addresses_are_used_again)
{
	struct allocation taken;
	pthread_t threads[2];
	void *complaint;
	unsigned int rounds = 0;

	ck_assert_int_eq(put(HOME + 4096, 1000), 0);
	ck_assert_int_eq(put(HOME + 8 * BLOCK, 2 * BLOCK), 0);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, read_all, NULL), 0);
	/* At least 2000 lookups must have run concurrently. */
	for (; rounds < 5000 || atomic_load(&looks) < 2000; rounds++) {
		require(!put(HOME + 8192, 512 + rounds % 4096));
		require(!put(HOME + 4 * BLOCK, BLOCK + rounds % 4096));
		require(!put(HOME, 4096));
		require(table_take(HOME, 0, &taken));
		require(table_take(HOME + 8192, 0, &taken));
		require(table_take(HOME + 4 * BLOCK, 0, &taken));
	}
	atomic_store(&stop, true);
	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i], &complaint);
		ck_assert_msg(!complaint, "%s", (const char *)complaint);
	}
}

/* Readers while nodes are reused: one block has permanent allocations, and others beside them force
 * its parts to be divided, emptied and reused for another block. */
#define PEOPLE 24
static uint64_t person(unsigned int i)
{
	return HOME + 16 * BLOCK + 65536 + i * 5000;
}

static void *look_for_people(void *argument)
{
	unsigned int seed = *(unsigned int *)argument;

	while (!atomic_load(&stop)) {
		unsigned int i = (unsigned int)rand_r(&seed) % PEOPLE;
		uint64_t offset = (uint64_t)rand_r(&seed) % 2500;

		if (base_of(person(i) + offset) != person(i))
			return (void *)"a living allocation among others was not found";
		/* A permanent allocation extends into blocks with short-lived ones. */
		if (base_of(HOME + 32 * BLOCK + offset * 512) != HOME + 30 * BLOCK)
			return (void *)"an allocation that reaches into the block was not found";
		atomic_fetch_add_explicit(&looks, 1, memory_order_relaxed);
	}
	return NULL;
}

TEST(many, readers_are_right_while_nodes_are_used_again)
{
	static unsigned int seeds[2] = { 1, 2 };
	unsigned int rounds = 0, seed = 3;
	struct allocation taken;
	pthread_t threads[2];
	void *complaint;

	for (unsigned int i = 0; i < PEOPLE; i++)
		ck_assert_int_eq(put(person(i), 2500), 0);
	ck_assert_int_eq(put(HOME + 30 * BLOCK, 2 * BLOCK + 2500 * 512), 0);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, look_for_people, &seeds[i]), 0);
	for (; rounds < 300 || atomic_load(&looks) < 20000; rounds++) {
		uint64_t at[3] = { person(0), HOME + 32 * BLOCK + 2500 * 512,
				   HOME + 40 * BLOCK + 1 };
		uint64_t made[180];
		unsigned int count = 0;

		/* More than fit in a node; some parts divide further. */
		for (unsigned int i = 0; i < 180; i++) {
			uint64_t address = at[i % 3] + (uint64_t)rand_r(&seed) % 100000;

			if (!put(address, 100))
				made[count++] = address;
		}
		ck_assert_uint_gt(count, 60);
		while (count--)
			require(table_take(made[count], 0, &taken));
	}
	atomic_store(&stop, true);
	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i], &complaint);
		ck_assert_msg(!complaint, "%s", (const char *)complaint);
	}
}

#define MAPPED ((size_t)64 << 20)

extern void __tsan_init(void) __attribute__((weak));

static char *map_anywhere(void)
{
	char *mapped = mmap(NULL, MAPPED, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(mapped, MAP_FAILED);
	return mapped;
}

/* The driver's next mapping is beside its last one, without the GiBs of the arenas between. */
TEST(single, reservations_are_away_from_the_mappings_of_others)
{
	char *before = map_anywhere(), *after;

	ck_assert_int_eq(put(HOME, BLOCK), 0);
	after = map_anywhere();
	/* Below code that is far down itself (Valgrind's) there is no such place, and
	 * ThreadSanitizer occupies it. */
	if ((uintptr_t)&lookup_records > (uintptr_t)1 << 40 && !__tsan_init)
		ck_assert_uint_le((size_t)labs(after - before), 2 * MAPPED);
}

SUITE("allocation table")
