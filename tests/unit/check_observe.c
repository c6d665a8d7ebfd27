/* SPDX-License-Identifier: BSD-3-Clause */
/* check_observe.c -- the recorder of observed calls counts exactly: in threads, in order and with
 * full tables
 */
#include "suite.h"

#include <pthread.h>
#include <stdio.h>

#include "base/system.h"
#include "observe/observe_tables.h"

#define HOME	UINT64_C(0x700000000000)
#define MIB	UINT64_C(0x100000)
#define THREADS 4
#define ROUNDS	2000

static const char pd, device;

static struct observed_registration request(const void *mr, uint64_t address, uint64_t length)
{
	return (struct observed_registration){ .mr = mr,
					       .pd = &pd,
					       .device = &device,
					       .address = address,
					       .length = length,
					       .access = 7 };
}

static void begin(uint64_t address, uint64_t size)
{
	observe_allocated(ALLOCATION_DEVICE, address, size, 10);
}

static bool end(uint64_t address)
{
	struct observed_free pending;

	observe_freeing(address, &pending);
	observe_freed(&pending, true, 10, false, 0);
	return pending.memory;
}

static void use(const void *mr, uint64_t address, uint64_t length)
{
	struct observed_registration wanted = request(mr, address, length);

	observe_registered(&wanted, true, 100);
}

static struct observed_sum found(enum finding finding)
{
	struct observed_sum sum = { 0 };
	const struct caller *caller;

	observe_conclude();
	for (uint32_t i = 0; (caller = callers_at(i)); i++) {
		sum.count += caller->findings[finding].count;
		sum.bytes += caller->findings[finding].bytes;
		sum.ns += caller->findings[finding].ns;
	}
	return sum;
}

static void set_up(void)
{
	observe_pd_allocated(&pd, "mlx5_0", NULL);
}

CASE(observe, .set_up = set_up);

TEST(observe, a_registration_counts_until_its_end)
{
	int mr[3];

	begin(HOME, 4 * MIB);
	use(&mr[0], HOME, MIB);
	observe_deregistered(&mr[0], 50);
	use(&mr[1], HOME + MIB, MIB);
	observe_deregistered(&mr[1], 50);
	use(&mr[0], HOME, MIB);
	observe_deregistered(&mr[0], 50);
	ck_assert(end(HOME));
	ck_assert_uint_eq(found(FINDING_repeated).count, 1);
	ck_assert_uint_eq(found(FINDING_repeated).ns, 150);
	ck_assert_uint_eq(found(FINDING_outlived).count, 0);
	ck_assert_uint_eq(found(FINDING_leaked).count, 0);
	ck_assert_uint_eq(observe_conclude()->kinds[0].made.count, 3);
	ck_assert_uint_eq(observe_conclude()->kinds[0].ended.count, 3);
	ck_assert_uint_eq(observe_conclude()->pinned, 0);
	ck_assert_uint_eq(observe_conclude()->pinned_peak, MIB);
	ck_assert_uint_eq(observe_conclude()->memory, 0);
}

/* As UCX does in its hook of the free. */
TEST(observe, a_deregistration_inside_the_free_is_in_time)
{
	struct observed_free pending;
	int mr;

	begin(HOME, MIB);
	use(&mr, HOME, MIB);
	observe_freeing(HOME, &pending);
	observe_deregistered(&mr, 50);
	observe_freed(&pending, true, 10, false, 0);
	ck_assert_uint_eq(found(FINDING_outlived).count, 0);
}

TEST(observe, a_refused_free_changes_nothing)
{
	struct observed_free pending;
	int mr;

	begin(HOME, MIB);
	observe_freeing(HOME, &pending);
	observe_freed(&pending, false, 10, false, 0);
	use(&mr, HOME, MIB);
	ck_assert(end(HOME));
	ck_assert_uint_eq(found(FINDING_outlived).count, 1);
	ck_assert_uint_eq(observe_conclude()->freed[ALLOCATION_DEVICE].count, 1);
}

TEST(observe, memory_at_an_address_of_other_memory_ends_it)
{
	int mr[2];

	begin(HOME, 2 * MIB);
	use(&mr[0], HOME, MIB);
	begin(HOME + MIB, 2 * MIB);
	use(&mr[1], HOME + MIB, MIB);
	ck_assert(!end(HOME));
	ck_assert(end(HOME + MIB));
	/* Of the first memory no free was seen. */
	ck_assert_uint_eq(found(FINDING_outlived).count, 1);
	ck_assert_uint_eq(observe_conclude()->unknown_frees, 1);
}

TEST(observe, one_range_over_several_mappings_is_not_oversized)
{
	int mr[2];

	observe_allocated(ALLOCATION_MAPPED, HOME, 2 * MIB, 10);
	observe_allocated(ALLOCATION_MAPPED, HOME + 2 * MIB, 2 * MIB, 10);
	use(&mr[0], HOME, 4 * MIB);
	ck_assert_uint_eq(found(FINDING_oversized).count, 0);
	use(&mr[1], HOME, 5 * MIB);
	ck_assert_uint_eq(found(FINDING_oversized).count, 1);
	ck_assert_uint_eq(found(FINDING_sync_missing).count, 0);
}

TEST(observe, a_closed_device_leaks_what_it_has)
{
	int mr[2];

	begin(HOME, MIB);
	use(&mr[0], HOME, MIB);
	observe_device_closing(&device, 1);
	ck_assert_uint_eq(found(FINDING_leaked).count, 1);
	ck_assert_uint_eq(observe_conclude()->pinned, 0);
}

/* What peerpin would serve: parts of one allocation that a region covers. */
TEST(observe, the_saving_follows_the_ranges_of_peerpin)
{
	const struct observed_saving *saving = &observe_conclude()->saving;
	int mr[4];

	begin(HOME, 64 * MIB);
	for (int i = 0; i < 4; i++)
		use(&mr[i], HOME + (uint64_t)i * 65536, 65536);
	/* Small parts beside each other join. */
	ck_assert_uint_eq(saving->first.count, 4);
	use(&mr[0], HOME, 4 * 65536);
	ck_assert_uint_eq(saving->served.count, 1);
	/* A large part is the whole. */
	use(&mr[1], HOME, 32 * MIB);
	use(&mr[2], HOME + 63 * MIB, MIB);
	ck_assert_uint_eq(saving->served.count, 2);
}

TEST(observe, kept_memory_serves_equal_sizes)
{
	const struct observed *observed;

	for (int i = 0; i < 10; i++) {
		begin(HOME, 3 * MIB);
		ck_assert(end(HOME));
	}
	/* One of these finds kept memory. */
	begin(HOME, 3 * MIB);
	begin(HOME + 8 * MIB, 3 * MIB);
	begin(HOME + 64 * MIB, 64 * MIB);
	observed = observe_conclude();
	for (uint32_t i = 0; i < SIZES; i++) {
		if (observed->sizes[i].size == 4 * MIB)
			ck_assert_uint_eq(observed->sizes[i].reused.count, 10);
		else
			ck_assert_uint_eq(observed->sizes[i].reused.count, 0);
	}
}

/* Freed memory is kept, and no longer the program's. */
TEST(observe, all_memory_of_a_program_that_frees_all_is_kept)
{
	const struct observed *observed = observe_conclude();
	uint64_t reused = 0;

	begin(HOME, MIB);
	ck_assert(end(HOME));
	for (int round = 0; round < 3; round++) {
		begin(HOME, 64 * MIB);
		begin(HOME + 64 * MIB, 64 * MIB);
		ck_assert(end(HOME) && end(HOME + 64 * MIB));
	}
	for (uint32_t i = 0; i < SIZES; i++)
		reused += observed->sizes[i].reused.count;
	ck_assert_uint_eq(reused, 4);
}

/* As kept memory does, sizes of a former phase give way. */
TEST(observe, memory_that_was_freed_long_ago_is_no_longer_kept)
{
	const struct observed *observed = observe_conclude();

	for (uint64_t i = 0; i < 4; i++)
		begin(HOME + i * 64 * MIB, 64 * MIB);
	for (uint64_t i = 0; i < 4; i++)
		ck_assert(end(HOME + i * 64 * MIB));
	for (int round = 0; round < 8; round++) {
		begin(HOME, 200 * MIB);
		ck_assert(end(HOME));
	}
	for (uint32_t i = 0; i < SIZES; i++) {
		if (observed->sizes[i].size == 200 * MIB)
			ck_assert_uint_eq(observed->sizes[i].reused.count, 7);
	}
	ck_assert_uint_le(observed->kept, 3 * 128 * MIB);
	begin(HOME, 64 * MIB);
	for (uint32_t i = 0; i < SIZES; i++) {
		if (observed->sizes[i].size == 64 * MIB)
			ck_assert_uint_eq(observed->sizes[i].reused.count, 1);
	}
}

TEST(observe, samples_of_frees_see_each_free_of_a_pattern)
{
	bool seen[16] = { false };

	for (unsigned int i = 0; i < 16 * OBSERVE_SAMPLE; i++)
		seen[i % 16] |= observe_samples_free();
	for (int i = 0; i < 16; i++)
		ck_assert(seen[i]);
}

TEST(observe, counts_stay_exact_where_the_tables_are_full)
{
	static char mrs[2 * MRS];

	for (uint64_t i = 0; i < MEMORIES + 100; i++)
		begin(HOME + i * MIB, MIB);
	for (uint64_t i = 0; i < MRS + 100; i++)
		use(&mrs[i], HOME + i * MIB, MIB);
	for (uint64_t i = 0; i < MRS + 100; i++)
		observe_deregistered(&mrs[i], 10);
	ck_assert_uint_eq(observe_conclude()->allocated[ALLOCATION_DEVICE].count, MEMORIES + 100);
	ck_assert_uint_eq(observe_conclude()->kinds[0].made.count +
				  observe_conclude()->kinds[1].made.count,
			  MRS + 100);
	ck_assert_uint_gt(observe_conclude()->lost, 0);
	for (uint64_t i = 0; i < MEMORIES + 100; i++)
		end(HOME + i * MIB);
	begin(HOME, MIB);
	use(&mrs[0], HOME, MIB);
	ck_assert(end(HOME));
	ck_assert_uint_eq(found(FINDING_outlived).count, 1);
}

TEST(observe, a_domain_without_room_is_counted)
{
	struct observed_registration wanted = request(&pd, HOME, MIB);

	begin(HOME, MIB);
	for (int i = 0; i < (int)DOMAINS + 2; i++) {
		wanted.access = i;
		observe_registered(&wanted, true, 100);
		observe_deregistered(&pd, 10);
	}
	ck_assert_uint_eq(observe_conclude()->lost, 2);
}

/* Time passes as the timeline's clock says. */
TEST(observe, the_timeline_has_all_of_the_run_in_a_bounded_number_of_intervals)
{
	struct observed_timeline *timeline =
		(struct observed_timeline *)&observe_conclude()->timeline;
	uint64_t registrations = 0, memory = 0, pinned = 0, interval = timeline->interval;
	char mr[5];

	for (int i = 0; i < 5; i++) {
		begin(HOME + (uint64_t)i * MIB, MIB);
		use(&mr[i], HOME + (uint64_t)i * MIB, MIB);
		timeline->end -= 300 * timeline->interval;
	}
	ck_assert(end(HOME));
	ck_assert_uint_le(timeline->count, SAMPLES);
	ck_assert_uint_ge(timeline->interval, 4 * interval);
	for (uint32_t i = 0; i < timeline->count; i++) {
		const struct observed_sample *sample = &timeline->samples[i];

		/* Levels last while nothing happens. */
		ck_assert_uint_ge(sample->memory, memory);
		ck_assert_uint_ge(sample->pinned[0], pinned);
		memory = sample->memory;
		pinned = sample->pinned[0];
		registrations += sample->registrations[0];
	}
	ck_assert_uint_eq(registrations, 5);
	ck_assert_uint_eq(memory, 5 * MIB);
	ck_assert_uint_eq(pinned, 5 * MIB);
	/* The drawn and the printed peak have one count. */
	ck_assert_uint_eq(pinned, observe_conclude()->pinned_peak);
	ck_assert_uint_eq(memory, observe_conclude()->memory_peak);
	ck_assert_uint_eq(timeline->level.memory, 4 * MIB);
}

static void *work(void *argument)
{
	uint64_t home = HOME + (uintptr_t)argument * (1 << 30);
	char mr[8];

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t address = home + (uint64_t)(i % 7) * 8 * MIB;

		begin(address, 8 * MIB);
		for (int j = 0; j < 8; j++)
			use(&mr[j], address + (uint64_t)j * MIB, MIB);
		for (int j = 0; j < 8; j++)
			observe_deregistered(&mr[j], 1);
		require(end(address));
	}
	return NULL;
}

TEST(observe, threads_count_together)
{
	pthread_t threads[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		require(!pthread_create(&threads[i], NULL, work, (void *)i));
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(observe_conclude()->allocated[ALLOCATION_DEVICE].count, THREADS * ROUNDS);
	ck_assert_uint_eq(observe_conclude()->freed[ALLOCATION_DEVICE].count, THREADS * ROUNDS);
	ck_assert_uint_eq(observe_conclude()->kinds[0].made.count, THREADS * ROUNDS * 8);
	ck_assert_uint_eq(observe_conclude()->kinds[0].ended.count, THREADS * ROUNDS * 8);
	ck_assert_uint_eq(found(FINDING_outlived).count + found(FINDING_repeated).count, 0);
	ck_assert_uint_eq(observe_conclude()->pinned + observe_conclude()->memory, 0);
	ck_assert_uint_eq(observe_conclude()->lost, 0);
}

/* With 1000 live allocations. The line is for docs/observe.md: no test can require a time. */
TEST(observe, a_call_costs)
{
	enum { LIVE = 1000, CALLS = 100000 };
	uint64_t begun, memory, registrations;
	char mr;

	for (uint64_t i = 0; i < LIVE; i++)
		begin(HOME + i * 8 * MIB, 8 * MIB);
	begun = system_clock();
	for (uint64_t i = 0; i < CALLS; i++) {
		end(HOME + i * 7919 % LIVE * 8 * MIB);
		begin(HOME + i * 7919 % LIVE * 8 * MIB, 8 * MIB);
	}
	memory = (system_clock() - begun) / CALLS / 2;
	begun = system_clock();
	for (uint64_t i = 0; i < CALLS; i++) {
		use(&mr, HOME + i * 7919 % LIVE * 8 * MIB, 8 * MIB);
		observe_deregistered(&mr, 1);
	}
	registrations = (system_clock() - begun) / CALLS / 2;
	printf("an allocation or free takes %llu ns longer, a registration or deregistration %llu "
	       "ns\n",
	       (unsigned long long)memory, (unsigned long long)registrations);
}

SUITE("observe")
