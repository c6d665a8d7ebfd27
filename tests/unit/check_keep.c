/* SPDX-License-Identifier: BSD-3-Clause */
/* check_keep.c -- frees that keep memory, allocations that reuse it, what the program sees of it */
#include <sys/resource.h>

#include "keep_fixture.h"
#include "memory/lookup.h"

static void set_up(void)
{
	set_up_with("inf", "inf");
}

CASE(keep, .set_up = set_up);

/* Far more sizes than bins: requests that share a bin with kept memory differ from it in one
 * field. */
TEST(keep, memory_in_the_bin_of_another_request_is_told_apart)
{
	enum { SIZES = 4000 };
	static struct CUctx_st others[8];

	for (uint64_t i = 1; i <= SIZES; i++) {
		allocate_host(HOME + i * 8192, i, 0);
		require(keeps_host(HOME + i * 8192));
	}
	for (unsigned int i = 0; i < 8 * SIZES; i++) {
		enter(&first);
		require(!reuse_request(ALLOCATION_HOST, i / SIZES + 1, i % SIZES + 1));
		require(!reuse_request(ALLOCATION_DEVICE, 0, i % SIZES + 1));
		others[i % 8].alive = true;
		enter(&others[i % 8]);
		require(!reuse_request(ALLOCATION_HOST, 0, i / 8 + 1));
	}
	enter(&first);
	for (uint64_t i = 1; i <= SIZES; i++)
		require(reuse_request(ALLOCATION_HOST, 0, i) == HOME + i * 8192);
}

static void must_be_the_program_s_again(void)
{
	struct allocation *freed = &standin_program_events.last_freeing;
	struct allocation *again = &standin_program_events.last_allocated;

	ck_assert(is_found(HOME));
	ck_assert_uint_eq(reuse(4096), 0);
	ck_assert_uint_eq(statistics_get(kept) + statistics_get(frees), 0);
	ck_assert_uint_eq(statistics_get(kept_bytes), 0);
	ck_assert_uint_eq(standin_program_events.freeing, 1);
	ck_assert_uint_eq(standin_program_events.allocated, 2);
	ck_assert_uint_eq(freed->event_id, freed->id);
	ck_assert_uint_gt(again->event_id, freed->event_id);
	ck_assert_uint_eq(again->id, freed->id);
	ck_assert_uint_eq(standin_events.freeing, 0);
	ck_assert_uint_eq(standin_events.allocated, 1);
}

TEST(keep, without_memory_for_an_entry_the_driver_s_free_decides)
{
	struct rlimit limit, little = { .rlim_cur = 1 };
	bool kept;

	allocate(HOME, 4096);
	ck_assert_int_eq(getrlimit(RLIMIT_DATA, &limit), 0);
	little.rlim_max = limit.rlim_max;
	ck_assert_int_eq(setrlimit(RLIMIT_DATA, &little), 0);
	if (standin_more_memory())
		return;
	kept = keeps(HOME);
	setrlimit(RLIMIT_DATA, &limit);
	ck_assert(!kept);
	must_be_the_program_s_again();
}

/* ---- records of kept memory ---- */

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

TEST(keep, each_free_and_each_reuse_has_the_event_id_of_its_allocation)
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

TEST(keep, a_hidden_record_serves_no_query)
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

TEST(keep, a_walk_returns_kept_memory_as_hidden_with_its_attributes)
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

TEST(keep, memory_whose_free_the_driver_refused_is_kept_later)
{
	struct allocation ended = { 0 };

	allocate_host(HOME, 4096, 4);
	ck_assert(memory_freeing(FREE_HOST, HOME, &ended));
	memory_free_refused(&ended);
	ck_assert(keeps_host(HOME));
	ck_assert_uint_eq(reuse_request(ALLOCATION_HOST, 4, 4096), HOME);
}

/* ---- settings ---- */

CASE(settings);

/* _i: nothing is to be kept; a bypassing caller is found first. */
LOOP_TEST(settings, nothing_is_kept, 0, 2)
{
	setenv("PEERPIN_KEEP", _i ? "64M" : "0", 1);
	if (_i)
		keep_end();
	ck_assert(!keep_is_on());
}

SUITE("keep")
