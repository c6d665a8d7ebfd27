/* SPDX-License-Identifier: BSD-3-Clause */
/* check_hidden.c -- records of kept memory: hidden from queries and requests, restored by a reuse
 */
#include "keep_fixture.h"

#include "memory/lookup.h"

/* The record at HOME, hidden or not. */
static struct record *record(void)
{
	struct found found;

	ck_assert(lookup(HOME, &found));
	return found.record;
}

static struct allocation allocate_4096(void)
{
	struct allocation allocation;

	allocate(HOME, 4096);
	ck_assert(memory_find(HOME, &allocation));
	return allocation;
}

static void set_up(void)
{
	set_up_with("64M", "64M");
}

CASE(hidden, .set_up = set_up);

TEST(hidden, each_free_and_each_reuse_has_the_event_id_of_its_allocation)
{
	struct allocation *allocated = &standin_program_events.last_allocated;
	struct allocation *freed = &standin_program_events.last_freeing;
	struct allocation first_one = allocate_4096(), reused;
	uint64_t id = first_one.id;

	first_one.event_id = allocated->event_id;
	ck_assert_uint_eq(first_one.event_id, id);
	ck_assert(memory_is_visible(&first_one));
	ck_assert(keeps(HOME));
	ck_assert_uint_eq(freed->event_id, id);
	ck_assert(!memory_is_visible(&first_one));
	ck_assert(memory_is_live(&first_one));
	ck_assert_uint_eq(reuse(4096), HOME);
	reused = *allocated;
	ck_assert_uint_eq(reused.id, id);
	ck_assert_uint_gt(reused.event_id, id);
	ck_assert(!reused.hidden);
	ck_assert(memory_is_visible(&reused));
	ck_assert(!memory_is_visible(&first_one));
	ck_assert(keeps(HOME));
	ck_assert_uint_eq(freed->event_id, reused.event_id);
	ck_assert_uint_eq(reuse(4096), HOME);
	ck_assert_uint_gt(allocated->event_id, reused.event_id);
	ck_assert_uint_eq(standin_events.allocated, 1);
	ck_assert_uint_eq(standin_events.freeing, 0);
	ck_assert_uint_eq(standin_program_events.allocated, 3);
	ck_assert_uint_eq(standin_program_events.freeing, 2);
}

TEST(hidden, a_release_is_an_event_of_the_driver_alone)
{
	struct allocation allocation = allocate_4096();

	ck_assert(keeps(HOME));
	keep_release_context(NULL);
	ck_assert_uint_eq(standin_events.freeing, 1);
	ck_assert_uint_eq(standin_events.last_freeing.id, allocation.id);
	ck_assert(standin_events.last_freeing.hidden);
	ck_assert(standin_events.last_freeing.rdma_capable);
	ck_assert_uint_eq(standin_program_events.freeing, 1);
	ck_assert(!memory_is_live(&allocation));
	ck_assert_uint_eq(statistics_get(frees), 1);
}

TEST(hidden, a_hidden_record_serves_no_query)
{
	struct allocation allocation = allocate_4096(), found;

	ck_assert(load_acquire(&record()->traits) & TRAIT_DESCRIBED);
	ck_assert(!table_is_address_hidden(HOME));
	ck_assert(keeps(HOME));
	ck_assert(!memory_find(HOME, &found));
	ck_assert(!memory_find(HOME + 4095, &found));
	ck_assert_uint_eq(load_acquire(&record()->traits) & TRAIT_DESCRIBED, 0);
	ck_assert(table_is_address_hidden(HOME));
	ck_assert(table_is_address_hidden(HOME + 4095));
	ck_assert(!table_is_address_hidden(HOME + 4096));
	ck_assert_uint_eq(load_acquire(&record()->traits) & TRAIT_RDMA_CAPABLE, 0);
	ck_assert(memory_find_live(HOME, allocation.id, &found));
	ck_assert(found.hidden && found.described && found.rdma_capable);
	ck_assert_uint_eq(reuse(4096), HOME);
	ck_assert(load_acquire(&record()->traits) & TRAIT_DESCRIBED);
	ck_assert(!table_is_address_hidden(HOME));
}

TEST(hidden, use_by_an_adapter_is_known_after_a_reuse)
{
	struct allocation allocation = allocate_4096(), found;

	ck_assert(table_mark_used(&allocation));
	ck_assert(keeps(HOME));
	ck_assert_uint_eq(load_acquire(&record()->traits) & TRAIT_USED, 0);
	ck_assert_uint_eq(reuse(4096), HOME);
	ck_assert(memory_find(HOME, &found));
	ck_assert(found.used && found.rdma_capable && found.described);
}

TEST(hidden, a_walk_returns_kept_memory_as_hidden_with_its_attributes)
{
	struct allocation batch[4], before = allocate_4096();
	uint32_t cursor = 0;

	allocate_in(&of_second_gpu, HOME + BLOCK, 4096);
	ck_assert(keeps(HOME));
	ck_assert_uint_eq(memory_next(&cursor, batch, 4), 2);
	ck_assert_uint_eq(batch[0].base, HOME);
	ck_assert(batch[0].hidden);
	ck_assert(batch[0].rdma_capable && batch[0].accessible && batch[0].described);
	ck_assert_uint_eq(batch[0].id, before.id);
	ck_assert_int_eq(batch[0].kind, ALLOCATION_DEVICE);
	ck_assert(!batch[1].hidden);
	ck_assert_int_eq(batch[1].device, 1);
}

TEST(hidden, new_memory_over_kept_memory_ends_it_as_a_missed_free)
{
	struct allocation before = allocate_4096();

	ck_assert(keeps(HOME));
	standin_free(HOME);
	allocate(HOME, 8192);
	ck_assert_uint_eq(statistics_get(missed_frees), 1);
	ck_assert_uint_eq(statistics_get(frees), 1);
	ck_assert_uint_eq(standin_events.freeing, 1);
	ck_assert_uint_eq(standin_events.last_freeing.id, before.id);
	ck_assert_uint_eq(standin_program_events.freeing, 1);
	ck_assert(!memory_is_live(&before));
	ck_assert_uint_eq(reuse(4096), 0);
	ck_assert(is_found(HOME));
	ck_assert_uint_eq(keep_visible(HOME), HOME);
	keep_release_context(NULL);
	ck_assert_uint_eq(gpu.frees, 0);
}

TEST(hidden, memory_that_ended_with_its_context_is_not_reused)
{
	allocate_4096();
	ck_assert(keeps(HOME));
	standin_free(HOME); /* by a call that peerpin does not intercept */
	ck_assert_uint_eq(reuse(4096), 0);
	ck_assert_uint_eq(standin_events.freeing, 1);
	ck_assert_uint_eq(statistics_get(reused), 0);
	ck_assert_uint_eq(statistics_get(kept_bytes), 0);
}

TEST(hidden, memory_whose_free_the_driver_refused_is_kept_later)
{
	struct allocation ended = { 0 };

	allocate_host(HOME, 4096, 4);
	ck_assert(memory_freeing(FREE_HOST, HOME, &ended));
	memory_free_refused(&ended);
	ck_assert(keeps_host(HOME));
	ck_assert_uint_eq(reuse_request(ALLOCATION_HOST, 4, 4096), HOME);
}

SUITE("hidden")
