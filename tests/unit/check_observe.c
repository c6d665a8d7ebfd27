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

/* ---- rows: calls of a program, and what they add up to ----
 *
 * Places and lengths are in KiB. begin:PLACE,LENGTH and end:PLACE of memory (map: VMM memory);
 * freeing:PLACE, then freed or refused; use:MR,PLACE,LENGTH; drop:MR; close: the device.
 * NUMBER=VALUE: a finding's count, or a sum; reused=SIZE,VALUE: allocations that kept memory would
 * have served. "N*" repeats. */

static const struct {
	const char *name;
	enum finding finding;
} findings[] = { { "repeated", FINDING_repeated },
		 { "outlived", FINDING_outlived },
		 { "leaked", FINDING_leaked },
		 { "oversized", FINDING_oversized },
		 { "sync-missing", FINDING_sync_missing } };

static uint64_t reused(uint64_t size)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < SIZES; i++) {
		if (!size || observe_conclude()->sizes[i].size == size)
			sum += observe_conclude()->sizes[i].reused.count;
	}
	return sum;
}

static uint64_t number_of(const char *name)
{
	const struct observed *observed = observe_conclude();
	const struct {
		const char *name;
		uint64_t value;
	} numbers[] = { { "made", observed->kinds[0].made.count },
			{ "ended", observed->kinds[0].ended.count },
			{ "pinned", observed->pinned >> 10 },
			{ "pinned-peak", observed->pinned_peak >> 10 },
			{ "memory", observed->memory >> 10 },
			{ "freed", observed->freed[ALLOCATION_DEVICE].count },
			{ "unknown-frees", observed->unknown_frees },
			{ "first", observed->saving.first.count },
			{ "served", observed->saving.served.count },
			{ "repeated-ns", found(FINDING_repeated).ns } };

	for (size_t i = 0; i < sizeof(findings) / sizeof(*findings); i++) {
		if (!strcmp(findings[i].name, name))
			return found(findings[i].finding).count;
	}
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		if (!strcmp(numbers[i].name, name))
			return numbers[i].value;
	}
	ck_abort_msg("%s is no number", name);
	return 0;
}

/* False: not so. */
static bool run_word(const char *word)
{
	static struct observed_free pending;
	static char mrs[8];
	unsigned long a = 0, b = 0, c = 0;
	char name[32] = "", sign = 0;

	require(sscanf(word, "%31[a-z-]%c%lu,%lu,%lu", name, &sign, &a, &b, &c) >= 1);
	if (sign == '=')
		return !strcmp(name, "reused") ? reused(a << 10) == b
		       : !strcmp(name, "kept-at-most")
			       ? observe_conclude()->kept <= (uint64_t)a << 10
			       : number_of(name) == a;
	if (!strcmp(name, "begin") || !strcmp(name, "map"))
		observe_allocated(*name == 'm' ? ALLOCATION_MAPPED : ALLOCATION_DEVICE,
				  HOME + (a << 10), b << 10, 10);
	else if (!strcmp(name, "end"))
		end(HOME + (a << 10));
	else if (!strcmp(name, "freeing"))
		observe_freeing(HOME + (a << 10), &pending);
	else if (!strcmp(name, "freed") || !strcmp(name, "refused"))
		observe_freed(&pending, *name == 'f', 10, false, 0);
	else if (!strcmp(name, "use"))
		use(&mrs[a], HOME + (b << 10), c << 10);
	else if (!strcmp(name, "drop"))
		observe_deregistered(&mrs[a], 50);
	else if (!strcmp(name, "close"))
		observe_device_closing(&device, 1);
	else
		return false;
	return true;
}

static const char *const rows[][2] = {
	{ "a registration counts until its end",
	  "begin:0,4096 use:0,0,1024 drop:0 use:1,1024,1024 drop:1 use:0,0,1024 drop:0 end:0 "
	  "repeated=1 repeated-ns=150 outlived=0 leaked=0 made=3 ended=3 pinned=0 "
	  "pinned-peak=1024 memory=0" },
	/* As UCX does in its hook of the free. */
	{ "a deregistration inside the free is in time",
	  "begin:0,1024 use:0,0,1024 freeing:0 drop:0 freed outlived=0" },
	{ "a refused free changes nothing",
	  "begin:0,1024 freeing:0 refused use:0,0,1024 end:0 outlived=1 freed=1" },
	{ "memory at an address of other memory ends it, without a free",
	  "begin:0,2048 use:0,0,1024 begin:1024,2048 use:1,1024,1024 end:0 end:1024 "
	  "freed=1 outlived=1 unknown-frees=1" },
	{ "one range over several mappings is not oversized",
	  "map:0,2048 map:2048,2048 use:0,0,4096 oversized=0 use:1,0,5120 oversized=1 "
	  "sync-missing=0" },
	{ "a closed device leaks what it has",
	  "begin:0,1024 use:0,0,1024 close leaked=1 pinned=0" },
	/* Small parts beside each other join; a large part is the whole. */
	{ "the saving follows the ranges of peerpin",
	  "begin:0,65536 use:0,0,64 use:1,64,64 use:2,128,64 use:3,192,64 first=4 use:0,0,256 "
	  "served=1 use:1,0,32768 use:2,64512,1024 served=2" },
	{ "kept memory serves equal sizes",
	  "10*begin:0,3072+end:0 begin:0,3072 begin:8192,3072 begin:65536,65536 reused=4096,10 "
	  "reused=0,10" },
	{ "all memory of a program that frees all is kept",
	  "begin:0,1024 end:0 3*begin:0,65536+begin:65536,65536+end:0+end:65536 reused=0,4" },
	/* As kept memory does, sizes of a former phase give way. */
	{ "memory that was freed long ago is no longer kept",
	  "begin:0,65536 begin:65536,65536 begin:131072,65536 begin:196608,65536 end:0 end:65536 "
	  "end:131072 end:196608 8*begin:0,204800+end:0 reused=204800,7 kept-at-most=393216 "
	  "begin:0,65536 reused=65536,1" },
};

LOOP_TEST(observe, run_rows, 0, sizeof(rows) / sizeof(*rows))
{
	char word[128];
	int length = 0;

	for (const char *text = rows[_i][1]; sscanf(text, "%127s%n", word, &length) == 1;
	     text += length) {
		const char *repeated = strchr(word, '*') ? strchr(word, '*') + 1 : word;

		for (int times = repeated == word ? 1 : atoi(word); times; times--) {
			for (const char *at = repeated - 1; at; at = strchr(at + 1, '+')) {
				if (!run_word(at + 1))
					ck_abort_msg("%s: not so: %s, before \"%s\"", rows[_i][0],
						     word, text + length);
			}
		}
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
