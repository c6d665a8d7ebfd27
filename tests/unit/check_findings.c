/* SPDX-License-Identifier: BSD-3-Clause */
/* check_findings.c -- faults of clients: client MRs that outlive their memory, or leak */
#include "suite.h"

#include "hits_fixture.h"
#include "report/callers.h"

CASE(client_mrs, .set_up = set_up_with_pin_limit);

static void drop(const void *at)
{
	require(registration_holds(at) && registration_drop(at) && !registration_drop(at));
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

SUITE("findings")
