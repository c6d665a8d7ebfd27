/* SPDX-License-Identifier: BSD-3-Clause */
/* check_busy.c -- protection domains that client MRs keep busy (registration/region.h) */
#include "suite.h"

#include "hits_fixture.h"
#include "registration/holds.h"
#include "report/callers.h"

CASE(client_mrs, .set_up = set_up_with_pin_limit);

static void drop(const void *at)
{
	require(registration_holds(at) && registration_drop(at) && !registration_drop(at));
}

/* As in the kernel, which counts memory regions: also that of freed memory is one. */
LOOP_TEST(client_mrs, keep_their_protection_domain_busy_until_deregistered_also_after_a_free, 0, 2)
{
	uint32_t key;

	prime(1);
	key = get(AT(0), 0);
	ck_assert(key && hit(AT(1), 0) == key);
	if (_i)
		end(buffer(0));
	for (unsigned int left = 2; left; left--) {
		ck_assert(!registration_pd_closing(&pd));
		/* Nothing has changed. */
		ck_assert_uint_eq(standin_registered(), _i ? 1 : 2);
		ck_assert(_i || standin_covers(key, buffer(0)));
		ck_assert_uint_ne(hit(AT(3), 1), 0);
		drop(AT(3));
		drop(AT(left - 1));
	}
	ck_assert_uint_eq(statistics_get(late_deregistrations), _i ? 2 : 0);
	ck_assert(registration_pd_closing(&pd));
	registration_pd_closed(&pd, true);
	ck_assert_uint_eq(standin_registered(), 0);
}

static uint64_t found(enum finding finding)
{
	return callers_at(1)->findings[finding].count;
}

/* Clients deregister in time in their own hook of the free, which runs inside the driver's. */
TEST(client_mrs, that_outlive_their_memory_are_found_with_their_caller)
{
	uint32_t client = callers_number((const void *)set_up_with_pin_limit);
	struct allocation ended;

	registration_pd_called_by(&pd, client);
	prime(1);
	ck_assert(client == 1 && get(AT(0), 0) && hit(AT(1), 0) && hit(AT(2), 0));
	memory_frees_here++;
	require(memory_freeing(FREE_DEVICE, buffer(0), &ended));
	drop(AT(0));
	memory_frees_here--;
	ck_assert_uint_eq(found(FINDING_outlived), 0);
	drop(AT(1));
	ck_assert_uint_eq(found(FINDING_outlived), 1);
	ck_assert_uint_eq(callers_at(1)->findings[FINDING_outlived].bytes, BLOCK);
	ck_assert_uint_eq(found(FINDING_leaked), 0);
	registration_count_leaked();
	ck_assert_uint_eq(found(FINDING_outlived), 2);
	ck_assert_uint_eq(found(FINDING_leaked), 1);
}

TEST(client_mrs, in_memory_that_was_requested_before_are_found)
{
	registration_pd_called_by(&pd, callers_number((const void *)set_up_with_pin_limit));
	begin(buffer(0), BLOCK);
	ck_assert_uint_ne(ask(0, buffer(0), 4096), 0);
	ck_assert_uint_eq(found(FINDING_repeated), 0);
	ck_assert_uint_ne(ask(1, buffer(0), 4096), 0);
	ck_assert_uint_eq(found(FINDING_repeated), 1);
}

TEST(client_mrs, of_a_device_that_is_closed_were_leaked)
{
	registration_pd_called_by(&pd, callers_number((const void *)set_up_with_pin_limit));
	prime(1);
	ck_assert(get(AT(0), 0) && get(AT(1), 1));
	end(buffer(1));
	registration_context_closing(DEVICE);
	ck_assert_uint_eq(found(FINDING_leaked), 2);
	ck_assert_uint_eq(found(FINDING_outlived), 1);
	drop(AT(0));
	registration_count_leaked();
	ck_assert_uint_eq(found(FINDING_leaked), 2);
	ck_assert_uint_eq(found(FINDING_outlived), 1);
}

/* An import is no memory region of its own, and its unimport does not reach peerpin. */
LOOP_TEST(client_mrs, that_are_imports_keep_no_protection_domain_busy, 0, 2)
{
	struct registration_keys keys;

	prime(0);
	ck_assert(hit_in(&pd, AT(0), buffer(0), BLOCK, &keys));
	registration_imported(AT(1), DEVICE, keys.kernel_handle);
	ck_assert(!registration_pd_closing(&pd));
	drop(AT(0));
	if (_i)
		end(buffer(0));
	ck_assert(registration_pd_closing(&pd));
	ck_assert_uint_eq(standin_registered(), 0);
	registration_pd_closed(&pd, true);
	drop(AT(1));
}

TEST(client_mrs, once_deregistered_leave_their_regions_to_others)
{
	uint32_t used = 0;

	for (unsigned int i = 0; i < 100; i++) {
		begin(buffer(20), BLOCK);
		ck_assert_uint_ne(get(AT(i % 4), 20), 0);
		end(buffer(20));
		if (i == 20)
			used = holds_regions.used;
		if (i >= 3)
			drop(AT((i + 1) % 4));
	}
	ck_assert_uint_eq(holds_regions.used, used);
}

/* The client's MRs are gone with the device; it may still deregister one. */
TEST(client_mrs, deregistered_after_the_end_of_their_device_change_no_other)
{
	struct ibv_pd next = { .context = DEVICE, .handle = 2 };

	ck_assert_uint_ne(get(AT(0), 0), 0);
	ck_assert_uint_ne(get(AT(1), 1), 0);
	end(buffer(0));
	ck_assert_ptr_eq(registration_pd_of(AT(0)), &pd);
	ck_assert_ptr_eq(registration_pd_of(AT(1)), &pd);
	registration_context_closing(DEVICE);
	ck_assert_ptr_null(registration_pd_of(AT(0)));
	ck_assert_ptr_null(registration_pd_of(AT(1)));
	registration_pd_opened(&next, false);
	for (unsigned int i = 1; i < 4; i++)
		ck_assert_uint_ne(get_in(&next, AT(10 + i), buffer(i), BLOCK), 0);
	drop(AT(0));
	drop(AT(1));
	ck_assert(!evict_all());
	for (unsigned int i = 1; i < 4; i++) {
		ck_assert(!registration_pd_closing(&next));
		drop(AT(10 + i));
	}
	ck_assert(registration_pd_closing(&next));
}

SUITE("busy")
