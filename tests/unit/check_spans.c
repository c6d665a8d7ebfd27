/* SPDX-License-Identifier: BSD-3-Clause */
/* check_spans.c -- requests for several adjacent mappings: which are served, by which region, and
 * when there are too many
 */
#include <errno.h>

#include "spans_fixture.h"

#include "registration/holds.h"

CASE(spans, .set_up = set_up_spans);

TEST(spans, one_region_serves_requests_for_several_mappings)
{
	uint32_t key;

	map_all(3);
	key = use(0, 3);
	ck_assert_uint_ne(key, 0);
	ck_assert_uint_eq(use(0, 3), key);
	ck_assert_uint_eq(get_in(&pd, AT(0), at(0) + 100, 3 * BLOCK - 200), key);
	ck_assert_uint_eq(standin_registrations(), 1);
	ck_assert_uint_eq(statistics_get(pinned_bytes), 3 * BLOCK);
	ck_assert_uint_eq(statistics_get(requested_bytes), 3 * BLOCK);
	ck_assert_uint_eq(statistic("hits"), 2);
	ck_assert_uint_eq(statistics_get(synchronous), 1);
	ck_assert_uint_eq(statistics_get(forwarded), 0);
	for (unsigned int i = 0; i < 3; i++)
		ck_assert(is_used(i));
}

TEST(spans, a_dma_buf_from_before_a_mapping_does_not_hold_it)
{
	uint64_t before, after;

	map(0);
	before = memory_youngest();
	map(1);
	after = memory_youngest();
	ck_assert(!by_dma_buf(at(0), 2 * BLOCK, before));
	ck_assert(by_dma_buf(at(0), 2 * BLOCK, after));
	ck_assert_uint_eq(standin_registrations(), 1);
	unmap(1);
	map(1);
	ck_assert(!by_dma_buf(at(0), 2 * BLOCK, after));
	ck_assert(by_dma_buf(at(0), BLOCK, after));
}

/* Another thread's calls, while a request waits without the lock. */
static CUresult replace_second(int *value, CUdevice_attribute attribute, CUdevice device)
{
	(void)value;
	(void)attribute;
	(void)device;
	standin_driver.cuDeviceGetAttribute = NULL;
	unmap(1);
	map(1);
	ck_assert_uint_ne(get_span(AT(60), 0, 2), 0);
	return CUDA_ERROR_INVALID_VALUE;
}

TEST(spans, a_dma_buf_does_not_hold_a_mapping_that_another_thread_has_replaced)
{
	uint64_t youngest;

	map_all(2);
	youngest = memory_youngest();
	standin_driver.cuDeviceGetAttribute = replace_second;
	ck_assert(!by_dma_buf(at(0), 2 * BLOCK, youngest));
	ck_assert(!standin_driver.cuDeviceGetAttribute);
	ck_assert_uint_eq(statistics_get(forwarded_freed), 1);
	ck_assert(by_dma_buf(at(0), 2 * BLOCK, memory_youngest()));
}

TEST(spans, a_longer_request_registers_anew_and_the_shorter_region_stays_idle)
{
	uint32_t shorter, longer;

	map_all(2);
	shorter = use(0, 2);
	map(2);
	longer = use(0, 3);
	ck_assert(longer && longer != shorter);
	ck_assert_uint_eq(use(0, 2), shorter);
	ck_assert_uint_eq(standin_registered(), 2);
	ck_assert(evict_all());
	ck_assert_uint_eq(standin_registered(), 0);
	ck_assert_uint_eq(statistics_get(evictions), 2);
	ck_assert_uint_ne(use(0, 3), 0);
}

TEST(spans, requests_in_one_mapping_do_not_use_it)
{
	struct registration_keys keys;

	map_all(2);
	ck_assert_uint_ne(get_span(AT(0), 0, 2), 0);
	for (unsigned int i = 0; i < 2; i++) {
		ck_assert_uint_ne(use(i, 1), 0);
		ck_assert_uint_ne(use(i, 1), 0);
	}
	ck_assert_uint_eq(standin_registrations(), 3);
	ck_assert_uint_eq(statistics_get(requested_bytes), 2 * BLOCK);
	/* Nor does it take their hits. */
	ck_assert_uint_ne(use(0, 2), 0);
	ck_assert(hit_in(&pd, AT(1), at(0), BLOCK, &keys));
}

TEST(spans, what_is_not_a_run_of_mappings_is_forwarded)
{
	map(0);
	map(2);
	map_as(3, 1, true);
	map_as(4, 1, false);
	begin(at(5), BLOCK);
	begin(at(6), BLOCK);
	map(7);
	without_access[8] = true;
	map(8);
	map(10);
	begin(at(11), BLOCK);
	ck_assert_uint_eq(use(0, 3), 0); /* a hole */
	ck_assert_uint_eq(use(2, 2), 0); /* two GPUs */
	ck_assert_uint_eq(use(3, 2), 0); /* the second one is not for adapters */
	ck_assert_uint_eq(use(4, 2), 0);
	ck_assert_uint_eq(use(5, 2), 0); /* no mappings */
	ck_assert_uint_eq(use(6, 2), 0);
	ck_assert_uint_eq(use(7, 2), 0); /* without access */
	ck_assert_uint_eq(use(10, 2), 0);
	ck_assert_uint_eq(get_in(&pd, AT(0), at(2) + 1, UINT64_MAX), 0);
	ck_assert_uint_eq(statistics_get(forwarded_capability), 1);
	ck_assert_uint_eq(statistics_get(forwarded_range), 8);
	ck_assert_uint_eq(standin_registrations(), 0);
	/* Not by address: by a dma-buf. */
	ck_assert(by_dma_buf(at(3), 2 * BLOCK, memory_youngest()));
	ck_assert_uint_eq(use(3, 2), 0);
}

TEST(spans, verify_mode_checks_each_mapping)
{
	map_all(3);
	memory_verify_always();
	ck_assert_uint_ne(use(0, 3), 0);
	standin_free(at(2));
	standin_allocate(at(2), BLOCK, NULL, true);
	ck_assert_uint_eq(use(0, 3), 0);
	ck_assert_uint_eq(statistics_get(forwarded_verify), 1);
	ck_assert_uint_eq(standin_registered(), 0);
	ck_assert_uint_ne(use(0, 2), 0);
}

TEST(spans, failures_end_further_tries)
{
	map_all(20);
	standin_fail_with(-EINVAL);
	for (unsigned int i = 0; i < 10; i++)
		ck_assert_uint_eq(use(2 * i, 2), 0);
	ck_assert_uint_eq(standin_attempts(), 3);
	ck_assert_uint_eq(statistics_get(forwarded_failed), 10);
	standin_fail_with(0);
	/* Requests in one mapping do not suffer. */
	ck_assert_uint_ne(use(0, 1), 0);
}

TEST(spans, failures_of_one_range_do_not_end_others)
{
	map_all(8);
	standin_fail_with(-EINVAL);
	for (unsigned int i = 0; i < 5; i++)
		ck_assert_uint_eq(use(4, 2), 0);
	ck_assert_uint_eq(standin_attempts(), 3);
	standin_fail_with(0);
	ck_assert_uint_eq(use(4, 2), 0);
	ck_assert_uint_ne(use(2, 2), 0);
	ck_assert_uint_ne(use(6, 2), 0);
}

TEST(spans, failures_of_others_do_not_end_further_tries_once_spans_work)
{
	map_all(8);
	ck_assert_uint_ne(use(0, 2), 0);
	standin_fail_with(-EINVAL);
	for (unsigned int i = 0; i < 5; i++)
		ck_assert_uint_eq(use(4, 2), 0);
	ck_assert_uint_eq(standin_attempts(), 4);
	standin_fail_with(0);
	ck_assert_uint_ne(use(2, 2), 0);
	ck_assert_uint_ne(use(6, 2), 0);
}

TEST(spans, a_lack_of_memory_ends_no_further_tries)
{
	map_all(20);
	standin_fail_with(-ENOMEM);
	for (unsigned int i = 0; i < 9; i++)
		ck_assert_uint_eq(use(2 * i, 2), 0);
	standin_fail_with(0);
	ck_assert_uint_ne(use(18, 2), 0);
}

TEST(spans, a_mapping_has_any_number_of_them)
{
	map_all(MAPPINGS);
	for (unsigned int round = 0; round < 2; round++) {
		for (unsigned int i = 2; i < MAPPINGS; i++)
			ck_assert_uint_ne(use(0, i), 0);
		/* From different mappings, all over the last one. */
		for (unsigned int i = 0; i < MAPPINGS - 1; i++)
			ck_assert_uint_ne(use(i, MAPPINGS - i), 0);
	}
	ck_assert_uint_eq(standin_registrations(), 2 * MAPPINGS - 3);
	ck_assert_uint_eq(statistic("hits"), 2 * MAPPINGS - 3);
	unmap(MAPPINGS - 1);
	ck_assert_uint_eq(standin_registered(), MAPPINGS - 2);
	unmap(0);
	ck_assert_uint_eq(standin_registered(), 0);
}

TEST(spans, client_mrs_of_any_number_stay)
{
	map_all(MAPPINGS);
	for (unsigned int i = 0; i < 40; i++)
		ck_assert_uint_ne(get_span(AT(i), 0, i + 2), 0);
	ck_assert_uint_ne(use(0, 1), 0);
	unmap(0);
	ck_assert_uint_eq(statistics_get(revoked), 40);
	ck_assert_uint_eq(standin_registered(), 0);
}

static void set_up_speculating(void)
{
	setenv("PEERPIN_PREREGISTER", "all", 1);
	set_up_mappings();
}

CASE(speculating, .set_up = set_up_speculating);

TEST(speculating, mappings_of_a_requested_span_are_not_registered_in_the_background)
{
	map_all(4);
	ck_assert_uint_ne(get_span(AT(0), 0, 3), 0);
	await("registrations_background", 1);
	map(4);
	await("registrations_background", 2);
	ck_assert_uint_eq(standin_registered(), 3);
	/* Requests in one mapping are served as ever. */
	ck_assert_uint_ne(use(1, 1), 0);
	ck_assert_uint_eq(standin_registered(), 4);
}

static void set_up_large(void)
{
	piece = (uint64_t)1 << 30;
	setenv("PEERPIN_PIN_LIMIT", "3G", 1);
	set_up_spans();
}

CASE(large, .set_up = set_up_large);

TEST(large, a_request_registers_its_granules_and_no_more)
{
	map_all(4);
	ck_assert_uint_ne(get_in(&pd, AT(0), at(1) - 100, 200), 0);
	ck_assert_uint_eq(statistics_get(pinned_bytes), 2 * GRANULE);
	ck_assert_uint_ne(get_in(&pd, AT(1), at(1) - 1, GRANULE), 0);
	ck_assert_uint_eq(standin_registrations(), 1);
	ck_assert_uint_ne(get_in(&pd, AT(2), at(1) - GRANULE - 1, GRANULE + 2), 0);
	ck_assert_uint_eq(statistics_get(pinned_bytes), 5 * GRANULE);
	ck_assert_uint_ne(get_in(&pd, AT(3), at(0) + GRANULE, piece), 0);
	ck_assert_uint_eq(statistics_get(pinned_bytes), 5 * GRANULE + piece);
	unmap(0);
	ck_assert_uint_eq(standin_registered(), 0);
}

static void *request_around(void *granules)
{
	uint64_t bytes = (uintptr_t)granules * GRANULE;

	require(get_in(&pd, AT((uintptr_t)granules), at(1) - bytes / 2, bytes));
	return NULL;
}

TEST(large, a_request_does_not_wait_for_a_longer_one)
{
	pthread_t longer, shorter;

	map_all(2);
	standin_block(true);
	ck_assert_int_eq(pthread_create(&longer, NULL, request_around, (void *)8), 0);
	standin_await_blocked(1);
	ck_assert_int_eq(pthread_create(&shorter, NULL, request_around, (void *)2), 0);
	standin_await_blocked(2);
	standin_block(false);
	ck_assert_int_eq(pthread_join(shorter, NULL), 0);
	ck_assert_int_eq(pthread_join(longer, NULL), 0);
	ck_assert_uint_eq(statistics_get(waited), 0);
}

TEST(large, requests_for_parts_do_not_depend_on_it)
{
	map_all(2);
	for (unsigned int i = 0; i < 32; i++)
		ck_assert_uint_ne(get_in(&pd, AT(i), at(1) - (i + 1) * GRANULE, 40 * GRANULE), 0);
	ck_assert_uint_eq(standin_registrations(), 32);
	ck_assert_uint_ne(get_in(&pd, AT(40), at(0), GRANULE), 0);
	ck_assert_uint_eq(standin_registrations(), 33);
}

TEST(large, its_bytes_count_once)
{
	map_all(4);
	ck_assert_uint_ne(use(0, 3), 0);
	ck_assert_uint_eq(statistics_get(over_pin_limit), 0);
	/* Evicts the first. */
	ck_assert_uint_ne(use(1, 3), 0);
	ck_assert_uint_eq(standin_registered(), 1);
	ck_assert_uint_eq(statistics_get(evictions), 1);
	ck_assert_uint_eq(use(0, 4), 0);
	ck_assert_uint_eq(statistics_get(forwarded_pin_limit), 1);
	for (unsigned int i = 0; i < 40; i++)
		ck_assert_uint_eq(get_in(&pd, AT(1), at(0) + i * GRANULE, 4 * piece - i * GRANULE),
				  0);
	ck_assert_uint_eq(statistics_get(evictions), 1);
	/* Within the limit, of mappings beyond it. */
	ck_assert_uint_ne(get_in(&pd, AT(0), at(0) + piece / 2, 3 * piece), 0);
	ck_assert_uint_eq(statistics_get(forwarded), 41);
	ck_assert_uint_eq(statistics_get(forwarded_pin_limit), 41);
}

SUITE("spans")
