/* SPDX-License-Identifier: BSD-3-Clause */
/* check_dma_buf.c -- dma-buf exports: the context that is current, the thread's state afterwards */
#include "suite.h"

#include "pinning_fixture.h"

START_TEST(the_allocation_s_context_is_current_during_the_export_alone)
{
	static const CUcontext before[] = { NULL, &other, &of_other_device };

	if (before[_i])
		stack[depth++] = before[_i];
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(nic.dma_bufs, 1);
	ck_assert_uint_eq(gpu.pushes, 1);
	ck_assert_uint_eq(retains, 1);
}
END_TEST

START_TEST(a_destroyed_context_stays_current)
{
	stack[depth++] = &other;
	other.alive = false;
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_int_eq(pin(NULL), 0);
	ck_assert_uint_eq(nic.dma_bufs, 2);
}
END_TEST

START_TEST(what_is_current_already_is_not_pushed)
{
	stack[depth++] = &own;
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(gpu.pushes, 0);
}
END_TEST

static void destroy_own(void)
{
	own.alive = false;
}

START_TEST(a_context_that_is_destroyed_meanwhile_does_not_stay_current)
{
	stack[depth++] = &other;
	gpu.during = destroy_own;
	gpu.pop_fails_once_dead = _i;
	ck_assert_int_eq(pin(&own), 0);
}
END_TEST

START_TEST(memory_of_a_destroyed_context_is_not_exported)
{
	stack[depth++] = &other;
	own.alive = false;
	request.context = &own;
	ck_assert_int_eq(pin_by(dma_buf_pin, &request), PINNING_NO_CONTEXT);
	ck_assert_uint_eq(gpu.exports, 0);
}
END_TEST

START_TEST(memory_without_a_context_takes_the_current_one_of_its_device)
{
	stack[depth++] = &other;
	ck_assert_int_eq(pin(NULL), 0);
	ck_assert_uint_eq(gpu.pushes, 0);
	ck_assert_uint_eq(nic.dma_bufs, 1);
}
END_TEST

START_TEST(otherwise_it_takes_the_primary_one)
{
	if (_i)
		stack[depth++] = &of_other_device;
	ck_assert_int_eq(pin(NULL), 0);
	ck_assert_uint_eq(gpu.pushes, 1);
	ck_assert_uint_eq(retains, 1);
	ck_assert_uint_eq(nic.dma_bufs, 1);
}
END_TEST

START_TEST(nobody_brings_a_primary_context_to_life)
{
	primary.alive = false;
	retains = 0;
	request.context = NULL;
	ck_assert_int_eq(pin_by(dma_buf_pin, &request), PINNING_NO_CONTEXT);
	ck_assert_uint_eq(gpu.exports, 0);
	ck_assert(!primary.alive);
	/* A missing context does not mark dma-buf as failed for the pair (GPU, adapter). */
	ck_assert_int_eq(pin(NULL), 0);
	ck_assert_uint_eq(nic.peers, 1);
	ck_assert_uint_eq(statistics_get(pinning_fallbacks), 1);
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(nic.dma_bufs, 1);
}
END_TEST

START_TEST(a_driver_that_lacks_contexts_calls_exports_in_the_current_one)
{
	standin_driver.cuCtxPushCurrent_v2 = NULL;
	standin_driver.cuDevicePrimaryCtxRetain = NULL;
	stack[depth++] = &own;
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_int_eq(pin(NULL), 0);
	ck_assert_uint_eq(nic.dma_bufs, 2);
	request.context = &other;
	ck_assert_int_eq(pin_by(dma_buf_pin, &request), PINNING_NO_CONTEXT);
	depth = 0;
	request.context = NULL;
	ck_assert_int_eq(pin_by(dma_buf_pin, &request), PINNING_NO_CONTEXT);
}
END_TEST

static void program_releases(void)
{
	release(0);
	ck_assert(primary.alive);
	/* The driver frees a context's memory with the last release of the context. */
	standin_free(HOME + 8 * BLOCK);
}

START_TEST(memory_that_our_own_release_has_ended_is_not_recorded_any_longer)
{
	struct allocation found;

	standin_allocate(HOME + 8 * BLOCK, BLOCK, &primary, true);
	memory_allocated(ALLOCATION_DEVICE, HOME + 8 * BLOCK, BLOCK);
	standin_allocate(HOME + 9 * BLOCK, BLOCK, &own, true);
	memory_allocated(ALLOCATION_DEVICE, HOME + 9 * BLOCK, BLOCK);
	/* No event for an allocation without a context and unknown to the driver: it may be the
	 * one in flight. */
	standin_allocate(HOME, BLOCK, NULL, true);
	memory_allocated(ALLOCATION_POOL, HOME, BLOCK);
	standin_free(HOME);
	ck_assert_int_eq(pin(NULL), 0);
	ck_assert_uint_eq(standin_events.freeing, 0);
	gpu.during = program_releases;
	ck_assert_int_eq(pin(NULL), 0);
	ck_assert(!primary.alive);
	ck_assert_uint_eq(retains, 0);
	ck_assert(!memory_find(HOME + 8 * BLOCK, &found));
	ck_assert(memory_find(HOME + 9 * BLOCK, &found));
	ck_assert(memory_find(HOME, &found));
	ck_assert_uint_eq(standin_events.freeing, 1);
}
END_TEST

START_TEST(captures_are_not_disturbed_where_the_driver_knows_them)
{
	standin_driver.cuThreadExchangeStreamCaptureMode = NULL;
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(nic.dma_bufs, 1);
}
END_TEST

START_TEST(only_whole_pages_are_exported)
{
	request.context = &own;
	request.length = BLOCK - 1000;
	ck_assert_int_eq(pin_by(dma_buf_pin, &request), -EINVAL);
	request.length = BLOCK;
	request.base = HOME + 512;
	ck_assert_int_eq(pin_by(dma_buf_pin, &request), -EINVAL);
	ck_assert_uint_eq(gpu.exports, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("dma-buf");
	TCase *contexts = tcase_create("contexts");

	tcase_add_checked_fixture(contexts, set_up, tear_down);
	tcase_add_loop_test(contexts, the_allocation_s_context_is_current_during_the_export_alone,
			    0, 3);
	tcase_add_test(contexts, a_destroyed_context_stays_current);
	tcase_add_test(contexts, what_is_current_already_is_not_pushed);
	tcase_add_loop_test(contexts, a_context_that_is_destroyed_meanwhile_does_not_stay_current,
			    0, 2);
	tcase_add_test(contexts, memory_of_a_destroyed_context_is_not_exported);
	tcase_add_test(contexts, memory_without_a_context_takes_the_current_one_of_its_device);
	tcase_add_loop_test(contexts, otherwise_it_takes_the_primary_one, 0, 2);
	tcase_add_test(contexts, nobody_brings_a_primary_context_to_life);
	tcase_add_test(contexts, a_driver_that_lacks_contexts_calls_exports_in_the_current_one);
	tcase_add_test(contexts, memory_that_our_own_release_has_ended_is_not_recorded_any_longer);
	tcase_add_test(contexts, captures_are_not_disturbed_where_the_driver_knows_them);
	tcase_add_test(contexts, only_whole_pages_are_exported);
	suite_add_tcase(suite, contexts);
	return suite_run(suite);
}
