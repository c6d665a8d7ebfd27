/* SPDX-License-Identifier: BSD-3-Clause */
/* check_parts.c -- requests in large allocations: which bytes a client waits for, when it registers
 * the whole, which requests hit, and how parts end
 */
#include <errno.h>

#include "hits_fixture.h"
#include "keep_fixture.h"

#include "registration/methods.h"
#include "registration/policy.h"
#include "registration/region.h"

#define GIB   ((uint64_t)1 << 30)
#define KIB   ((uint64_t)1 << 10)
#define LARGE (100 * GIB)
#define OTHER (HOME + 200 * GIB)

static struct registration_method method;
static _Atomic unsigned int wholes; /* registrations of LARGE bytes, begun */
static _Atomic bool whole_waits;
#define WAITING (7 * GRANULE) /* bytes of the part that waits */

/* Bytes that the last client waited for. */
static _Atomic uint64_t last_length;

static int pin(const struct pin_request *request, struct pin_result *result)
{
	last_length = request->length;
	if (request->length >= LARGE) {
		wholes++;
		while (whole_waits)
			sched_yield();
	}
	return standin_method.pin(request, result);
}

static void set_up_parts(void)
{
	set_up();
	method = (struct registration_method){ .name = "parts",
					       .pin = pin,
					       .unpin = standin_method.unpin };
	registration_forced_method = &method;
	wholes = 0;
	begin(HOME, LARGE);
}

static bool hits(uint64_t address, uint64_t length)
{
	struct registration_keys keys;

	if (!hit_in(&pd, AT(200), address, length, &keys))
		return false;
	require(standin_covers(keys.lkey, address));
	require(standin_covers(keys.lkey, address + length - 1));
	return registration_drop(AT(200));
}

/* As a client: a registration and its end. */
static void use(uint64_t address, uint64_t length)
{
	uint32_t key = get_in(&pd, AT(100), address, length);

	ck_assert_uint_ne(key, 0);
	ck_assert(standin_covers(key, address) && standin_covers(key, address + length - 1));
	ck_assert(registration_drop(AT(100)));
}

/* Requests elsewhere until there are enough parts, and one more, which registers the whole. */
static void request_whole(unsigned int parts)
{
	for (unsigned int i = parts; i <= POLICY_PARTS; i++)
		use(HOME + 60 * GIB + i * GIB, 4096);
	ck_assert_uint_eq(last_length, LARGE);
}

CASE(parts, .set_up = set_up_parts);

TEST(parts, a_first_request_registers_its_granules_and_no_more)
{
	use(HOME + 10 * GIB + 100, 64 * KIB);
	ck_assert_uint_eq(last_length, 2 * GRANULE);
	ck_assert_uint_eq(statistics_get(pinned_bytes), 2 * GRANULE);
	ck_assert_uint_eq(statistics_get(requested_bytes), LARGE);
	use(HOME + 10 * GIB + 200, 60 * KIB);
	ck_assert_uint_eq(statistics_get(registrations), 1);
	background_queue_all();
	worker_wake();
	begin(OTHER, BLOCK);
	await("registrations_background", 1);
	ck_assert_uint_eq(wholes, 0);
}

/* The allocation was requested, though not the region that the worker was registering. */
TEST(parts, a_part_beside_the_worker_s_whole_is_no_waste)
{
	use(HOME, 4096);
	end(HOME);
	for (unsigned int round = 1; round < 8; round++) {
		whole_waits = true;
		begin(HOME, LARGE);
		while (wholes < round)
			sched_yield();
		use(HOME + GIB, 4096);
		ck_assert_uint_eq(last_length, GRANULE);
		whole_waits = false;
		await("registrations_background", round);
		end(HOME);
	}
	ck_assert_uint_eq(statistics_get(never_used), 0);
}

TEST(parts, hits_are_inside_the_part)
{
	const uint64_t at = HOME + GIB;

	use(at + 4096, 1);
	ck_assert(hits(at, GRANULE));
	ck_assert(hits(at + GRANULE - 1, 1));
	ck_assert(!hits(at - 1, 1));
	ck_assert(!hits(at - 1, 2));
	ck_assert(!hits(at + GRANULE - 1, 2));
	ck_assert(!hits(at + GRANULE, 1));
	ck_assert(!hits(at, UINT64_MAX));
	ck_assert(!hits(at + 1, UINT64_MAX));
	ck_assert(!hits(HOME, LARGE));
}

TEST(parts, after_four_parts_a_request_registers_the_whole)
{
	for (unsigned int i = 0; i < POLICY_PARTS; i++) {
		use(HOME + i * GIB, 4096);
		ck_assert_uint_eq(last_length, GRANULE);
	}
	use(HOME + 50 * GIB, 4096);
	ck_assert_uint_eq(last_length, LARGE);
	/* The parts have ended. */
	ck_assert_uint_eq(standin_registered(), 1);
	ck_assert(hits(HOME, 4096) && hits(HOME, LARGE));
	ck_assert_uint_eq(statistics_get(registrations), POLICY_PARTS + 1);
	ck_assert_uint_eq(statistics_get(registrations_background) + statistics_get(evictions), 0);
}

TEST(parts, near_requests_are_joined_up_to_twice_their_bytes)
{
	use(HOME + GIB, 2 * GRANULE);
	use(HOME + GIB + 4 * GRANULE, 2 * GRANULE);
	ck_assert_uint_eq(last_length, 6 * GRANULE);
	ck_assert_uint_eq(standin_registered(), 1);
	ck_assert(hits(HOME + GIB, 6 * GRANULE));
	/* Too far from it. */
	use(HOME + GIB + 20 * GRANULE, GRANULE);
	ck_assert_uint_eq(last_length, GRANULE);
	ck_assert_uint_eq(standin_registered(), 2);
	/* The nearer one. */
	use(HOME + GIB + 18 * GRANULE, GRANULE);
	ck_assert_uint_eq(last_length, 3 * GRANULE);
	ck_assert_uint_eq(standin_registered(), 2);
}

TEST(parts, a_joined_part_leaves_one_with_a_client_mr)
{
	uint32_t key = get_in(&pd, AT(0), HOME, GRANULE);

	use(HOME + GRANULE, GRANULE);
	ck_assert_uint_eq(last_length, 2 * GRANULE);
	ck_assert(standin_covers(key, HOME));
	ck_assert_uint_eq(standin_registered(), 2);
	ck_assert(registration_drop(AT(0)));
}

TEST(parts, views_of_one_allocation_make_few_registrations)
{
	for (unsigned int round = 0; round < 2; round++) {
		for (uint64_t i = 0; i < 1265; i++)
			use(HOME + i * 64 * 1024 * KIB + i % 7 * 512, 1024 * KIB + i % 5 * 512);
		ck_assert_uint_eq(statistics_get(registrations), POLICY_PARTS + 1);
	}
}

/* A request for the first `bytes` of a new allocation of `size` registers `length`. */
static void check_registers(uint64_t size, uint64_t bytes, uint64_t length)
{
	begin(OTHER, size);
	use(OTHER, bytes);
	ck_assert_uint_eq(last_length, length);
}

static int pin_no_large(const struct pin_request *request, struct pin_result *result)
{
	last_length = request->length;
	return request->length >= LARGE ? -ENOMEM : standin_method.pin(request, result);
}

TEST(parts, where_the_whole_fails_parts_serve)
{
	method.pin = pin_no_large;
	for (unsigned int i = 0; i < 40; i++)
		use(HOME + i * GIB, 4096);
	ck_assert_uint_eq(last_length, GRANULE);
	ck_assert_uint_eq(statistics_get(registrations_failed), 1);
	ck_assert_uint_eq(statistics_get(forwarded) + statistics_get(evictions), 0);
}

static void set_up_parts_off(void)
{
	setenv("PEERPIN_PREREGISTER", "off", 1);
	set_up_parts();
}

CASE(off, .set_up = set_up_parts_off);

/* ---- client MRs ---- */

TEST(parts, a_client_mr_keeps_its_part_beside_the_whole)
{
	uint32_t key = get_in(&pd, AT(0), HOME, 4096);

	request_whole(1);
	ck_assert_uint_eq(standin_registered(), 2);
	ck_assert(standin_covers(key, HOME));
	use(HOME + 2 * GIB, 4096);
	ck_assert(registration_drop(AT(0)));
	/* The whole has the hits: no part replaces it. */
	use(HOME, 4096);
	ck_assert(hits(HOME, LARGE));
	end(HOME);
	ck_assert_uint_eq(standin_registered(), 0);
}

static void *use_waiting_part(void *unused)
{
	(void)unused;
	require(get_in(&pd, AT(50), HOME + 3 * GIB, WAITING));
	return NULL;
}

/* Returns once another thread registers a part. */
static pthread_t begin_waiting_part(void)
{
	pthread_t thread;

	standin_block_at(HOME + 3 * GIB);
	ck_assert_int_eq(pthread_create(&thread, NULL, use_waiting_part, NULL), 0);
	standin_await_blocked(1);
	return thread;
}

TEST(parts, a_request_inside_of_a_part_does_not_wait_for_all_of_it)
{
	pthread_t thread = begin_waiting_part();

	use(HOME + 3 * GIB + GRANULE, 4096);
	ck_assert_uint_eq(last_length, GRANULE);
	standin_block_at(0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	/* The longer one has the hits, and its client MR. */
	ck_assert(hits(HOME + 3 * GIB, WAITING));
	ck_assert(registration_drop(AT(50)));
}

/* _i: an adapter without space, and one that cannot. */
LOOP_TEST(parts, a_part_that_failed_serves_no_shorter_request, 0, 2)
{
	standin_fail_with(_i ? -EINVAL : -ENOMEM);
	ck_assert_uint_eq(get_in(&pd, AT(0), HOME, 4 * GIB), 0);
	standin_fail_with(0);
	use(HOME + GIB, 4096);
	ck_assert_uint_eq(last_length, GRANULE);
	ck_assert_uint_eq(statistics_get(forwarded), 1);
}

TEST(parts, a_part_does_not_replace_the_whole_for_hits)
{
	pthread_t thread;

	use(HOME, 4096);
	thread = begin_waiting_part();
	request_whole(1);
	ck_assert(hits(HOME, LARGE));
	standin_block_at(0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert(hits(HOME, LARGE));
	ck_assert(registration_drop(AT(50)));
}

TEST(parts, a_sixteenth_registers_the_whole)
{
	use(HOME, LARGE / POLICY_TIMES - GRANULE);
	ck_assert_uint_eq(last_length, LARGE / POLICY_TIMES - GRANULE);
	use(HOME + 50 * GIB, LARGE / POLICY_TIMES);
	ck_assert_uint_eq(last_length, LARGE);
}

TEST(parts, a_free_revokes_the_client_mrs_of_parts_and_whole)
{
	ck_assert_uint_ne(get_in(&pd, AT(0), HOME, 4096), 0);
	ck_assert_uint_ne(get_in(&pd, AT(1), HOME + GIB, 4096), 0);
	request_whole(2);
	ck_assert_uint_ne(get_in(&pd, AT(2), HOME + 2 * GIB, 4096), 0);
	end(HOME);
	ck_assert_uint_eq(standin_registered(), 0);
	ck_assert_uint_eq(statistics_get(revoked), 3);
	begin(HOME, LARGE);
	ck_assert(!hits(HOME, 4096));
	for (unsigned int i = 0; i < 3; i++)
		ck_assert(registration_drop(AT(i)));
	ck_assert_uint_eq(statistics_get(late_deregistrations), 3);
}

TEST(parts, a_closing_protection_domain_ends_parts)
{
	use(HOME, 4096);
	registration_pd_closing(&pd);
	ck_assert_uint_eq(standin_registered(), 0);
	registration_pd_closed(&pd, true);
	registration_pd_opened(&pd, false);
	use(HOME, 4096);
	ck_assert(evict_all());
	ck_assert(!hits(HOME, 4096));
	use(HOME, 4096);
}

TEST(parts, failures_of_parts_are_tried_three_times)
{
	standin_fail_with(-EINVAL);
	for (unsigned int i = 0; i < 10; i++)
		ck_assert_uint_eq(get_in(&pd, AT(0), HOME + i * GIB, 4096), 0);
	ck_assert_uint_le(standin_attempts(), 3 + 1); /* the worker's */
	ck_assert_uint_eq(statistics_get(forwarded_failed), 10);
}

static void set_up_limited(void)
{
	setenv("PEERPIN_PIN_LIMIT", "64M", 1);
	set_up_parts();
}

CASE(limited, .set_up = set_up_limited);

TEST(limited, requests_beyond_the_pin_limit_register_their_own_bytes)
{
	for (unsigned int i = 0; i < 200; i++) {
		use(HOME + i * GIB / 2, 4 * 1024 * KIB);
		ck_assert_uint_eq(last_length, 4 * 1024 * KIB);
	}
	ck_assert_uint_eq(wholes, 0);
	ck_assert_uint_le(standin_registered(), 16);
	/* Most of an allocation that does not fit. */
	begin(OTHER, 50 * BLOCK);
	use(OTHER, 30 * BLOCK);
	ck_assert_uint_eq(last_length, 30 * BLOCK);
	ck_assert_uint_eq(statistics_get(forwarded), 0);
}

TEST(limited, parts_beyond_the_pin_limit_are_not_in_the_way)
{
	use(HOME + 90 * GIB, 4096);
	for (unsigned int i = 0; i < 40; i++)
		ck_assert_uint_eq(get_in(&pd, AT(0), HOME + i * GIB, 64 * BLOCK), 0);
	use(HOME + 39 * GIB + BLOCK, 4096);
	ck_assert_uint_eq(last_length, GRANULE);
	use(HOME + 90 * GIB, 4096);
	ck_assert_uint_eq(statistics_get(registrations), 2);
	ck_assert_uint_eq(statistics_get(forwarded), 40);
	ck_assert_uint_eq(statistics_get(forwarded_pin_limit), 40);
	ck_assert_uint_eq(statistics_get(evictions), 0);
}

/* Their bytes fit. */
TEST(limited, a_further_part_takes_the_place_of_an_idle_one)
{
	for (unsigned int i = 0; i < 200; i++)
		use(HOME + i * GIB / 2, 4096);
	ck_assert_uint_eq(standin_registered(), POLICY_PARTS);
	ck_assert_uint_eq(statistics_get(registrations), 200);
	ck_assert_uint_eq(statistics_get(forwarded), 0);
	ck_assert_uint_eq(statistics_get(evictions), 0);
	/* The least recently used of them. */
	for (unsigned int i = 0; i < POLICY_PARTS; i++)
		use(HOME + (199 - i) * GIB / 2, 4096);
	ck_assert_uint_eq(statistics_get(registrations), 200);
	end(HOME);
	ck_assert_uint_eq(standin_registered(), 0);
}

/* While a neighbour alone named the region, a late hit of this allocation would end with the
 * neighbour. */
TEST(limited, a_granule_whose_place_is_taken_ends_for_all_allocations)
{
	end(HOME);
	begin(HOME, 4096);
	begin(HOME + 4096, 100 * GIB);
	use(HOME + 4096, 4096);
	use(HOME, 4096);
	ck_assert_uint_eq(standin_registered(), 1);
	for (unsigned int i = 1; i <= POLICY_PARTS; i++)
		use(HOME + i * GIB / 2, 4096);
	ck_assert_uint_eq(standin_registered(), POLICY_PARTS);
	use(HOME, 4096);
	ck_assert_uint_eq(standin_registered(), POLICY_PARTS + 1);
	end(HOME);
	end(HOME + 4096);
	ck_assert_uint_eq(standin_registered(), 0);
}

TEST(limited, requests_are_forwarded_while_client_mrs_hold_all_parts)
{
	uint32_t keys[POLICY_PARTS];

	for (unsigned int i = 0; i < POLICY_PARTS; i++)
		keys[i] = get_in(&pd, AT(i), HOME + i * GIB / 2, 4096);
	for (unsigned int i = POLICY_PARTS; i < 40; i++)
		ck_assert_uint_eq(get_in(&pd, AT(i), HOME + i * GIB / 2, 4096), 0);
	ck_assert_uint_eq(statistics_get(forwarded), 40 - POLICY_PARTS);
	for (unsigned int i = 0; i < POLICY_PARTS; i++)
		ck_assert(standin_covers(keys[i], HOME + i * GIB / 2));
	ck_assert(registration_drop(AT(0)));
	ck_assert_uint_ne(get_in(&pd, AT(0), HOME + 40 * GIB, 4096), 0);
	for (unsigned int i = 1; i < POLICY_PARTS; i++)
		ck_assert(standin_covers(keys[i], HOME + i * GIB / 2));
	end(HOME);
	ck_assert_uint_eq(standin_registered(), 0);
}

/* A request inside a longer part is served by it, whatever parts are beside and inside. */
TEST(limited, parts_inside_longer_ones)
{
	for (unsigned int i = 0; i < 8; i++) {
		for (unsigned int k = 0; k < 8; k++)
			use(HOME + i * BLOCK + k * GRANULE, (i + k) % 5 * GRANULE + 1);
	}
	for (unsigned int i = 0; i < POLICY_PARTS; i++)
		use(HOME + i * BLOCK + GRANULE, BLOCK);
	standin_fail_with(-EIO);
	for (unsigned int i = 0; i < POLICY_PARTS; i++) {
		for (uint64_t at = GRANULE; at < BLOCK; at += GRANULE / 2)
			use(HOME + i * BLOCK + at, BLOCK + GRANULE - at);
	}
	ck_assert_uint_eq(statistics_get(forwarded), 0);
}

/* Each failure is paid beside the client's own registration. */
TEST(limited, after_failures_few_requests_try)
{
	standin_fail_with(-EIO);
	for (unsigned int i = 0; i < 320; i++)
		ck_assert_uint_eq(get_in(&pd, AT(0), HOME + i * GRANULE, 4096), 0);
	ck_assert_uint_eq(standin_attempts(), 3 + 320 / 32 - 1);
	ck_assert_uint_eq(statistics_get(forwarded_failed), 320);
	standin_fail_with(0);
	for (unsigned int i = 0; i < 32; i++)
		get_in(&pd, AT(i), HOME, 4096);
	use(HOME, 4096);
	use(HOME + GIB, 4096);
}

TEST(off, any_part_of_a_block_registers_the_whole)
{
	check_registers(BLOCK, 4096, BLOCK);
	use(OTHER, BLOCK);
	ck_assert_uint_eq(statistics_tallied(TALLY_hits), 1);
}

TEST(off, a_request_in_more_than_a_block_registers_a_part)
{
	check_registers(32 * GRANULE + 16 * GRANULE, 2 * GRANULE, 2 * GRANULE);
}

TEST(off, a_clients_own_dma_buf_registers_the_whole)
{
	struct registration_request request;
	struct registration_keys keys;

	begin(OTHER, 2 * GRANULE);
	request = request_in(&pd, 1, OTHER, 4096, RIGHTS);
	request.dma_buf = true;
	request.youngest = memory_youngest();
	ck_assert(registration_request(&request, &keys));
	ck_assert_uint_eq(last_length, 2 * GRANULE);
}

static int pin_no_whole(const struct pin_request *request, struct pin_result *result)
{
	last_length = request->length;
	return request->length > GRANULE ? -ENOMEM : standin_method.pin(request, result);
}

TEST(off, a_part_serves_where_the_whole_has_no_room)
{
	method.pin = pin_no_whole;
	use(HOME, GRANULE);
	for (unsigned int i = 0; i < 8; i++) {
		begin(OTHER + i * GIB, 2 * GRANULE);
		use(OTHER + i * GIB, 4096);
		ck_assert_uint_eq(last_length, GRANULE);
	}
	/* One attempt on each of these allocations. */
	ck_assert_uint_eq(statistics_get(registrations_failed), 8);
	ck_assert_uint_eq(statistics_get(forwarded) + statistics_get(evictions), 0);
}

static void *use_part(void *unused)
{
	require(get_in(&pd, AT(51), OTHER + BLOCK / 2, BLOCK / 8));
	return unused;
}

static void *use_whole(void *unused)
{
	require(get_in(&pd, AT(50), OTHER, BLOCK));
	return unused;
}

TEST(off, a_request_waits_for_another_threads_short_whole)
{
	pthread_t threads[2];

	begin(OTHER, BLOCK);
	standin_block_at(OTHER);
	ck_assert_int_eq(pthread_create(&threads[0], NULL, use_whole, NULL), 0);
	standin_await_blocked(1);
	ck_assert_int_eq(pthread_create(&threads[1], NULL, use_part, NULL), 0);
	await("requests", 2);
	standin_block_at(0);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	ck_assert_uint_eq(standin_registrations(), 1);
}

static void set_up_unique_keys(void)
{
	pd_by_key = true;
	set_up_parts_off();
}

CASE(unique_keys, .set_up = set_up_unique_keys);

TEST(unique_keys, each_request_registers_its_part)
{
	check_registers(2 * GRANULE, 4096, GRANULE);
}

static void set_up_room_for_less(void)
{
	setenv("PEERPIN_PIN_LIMIT", "2M", 1);
	set_up_parts_off();
}

CASE(room_for_less, .set_up = set_up_room_for_less);

TEST(room_for_less, a_part_suffices_where_the_whole_would_evict)
{
	use(HOME, GRANULE);
	check_registers(BLOCK, BLOCK / 8, BLOCK / 8);
	ck_assert_uint_eq(statistics_get(evictions) + statistics_get(over_pin_limit), 0);
	end(HOME);
	end(OTHER);
	check_registers(BLOCK, BLOCK / 8, BLOCK);
}

static bool fails_whole;

static int pin_parts(const struct pin_request *request, struct pin_result *result)
{
	return fails_whole && request->length > GRANULE ? -EIO
							: standin_method.pin(request, result);
}

TEST(off, failures_of_the_whole_are_none_of_parts)
{
	uint64_t base = OTHER;

	method.pin = pin_parts;
	begin(base, 64 * GRANULE);
	fails_whole = true;
	for (unsigned int i = 0; i < 64; i++) {
		ck_assert_uint_eq(get_in(&pd, AT(0), base, 64 * GRANULE), 0);
		use(base + i * GRANULE, 4096);
	}
	ck_assert_uint_eq(statistics_get(forwarded_failed), 64);
}

TEST(off, failures_of_a_whole_are_tried_three_times)
{
	begin(OTHER, GRANULE);
	standin_fail_with(-EIO);
	for (unsigned int i = 0; i < 160; i++)
		ck_assert_uint_eq(get_in(&pd, AT(0), OTHER, 4096), 0);
	ck_assert_uint_eq(standin_attempts(), 3);
}

static void set_up_kept(void)
{
	set_up_with("25%", "0");
	gpu.total = 1000 * GIB;
	standin_with_registration = true;
	registration_pd_opened(&pd, false);
}

CASE(kept, .set_up = set_up_kept);

TEST(kept, parts_of_kept_memory_serve_its_reuse)
{
	keep_in_the_end(HOME, LARGE);
	ck_assert_uint_eq(reuse(LARGE), HOME);
	use(HOME + GIB, 4096);
	ck_assert(keeps(HOME));
	ck_assert(!hits(HOME + GIB, 4096));
	ck_assert_uint_eq(get_in(&pd, AT(0), HOME + GIB, 4096), 0);
	ck_assert_uint_eq(reuse(LARGE), HOME);
	ck_assert(hits(HOME + GIB, 4096));
	ck_assert_uint_eq(standin_registrations(), 1);
	ck_assert(keeps(HOME));
	keep_release_context(&first);
	ck_assert_uint_eq(standin_registered(), 0);
}

SUITE("parts")
