/* SPDX-License-Identifier: BSD-3-Clause */
/* check_registration.c -- domains, regions and client MRs against an adapter that counts */
#include "suite.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"
#include "registration/methods.h"
#include "registration/objects.h"
#include "registration_fixture.h"

CASE(registration, .set_up = set_up);

TEST(registration, nothing_is_registered_before_a_client_asks)
{
	begin(HOME, BLOCK);
	begin(HOME + BLOCK, BLOCK);
	ck_assert_uint_eq(standin_registrations(), 0);
}

TEST(registration, the_first_request_registers_its_granules_and_activates_the_domain)
{
	uint32_t key;

	begin(HOME, 64 * BLOCK);
	begin(HOME + 64 * BLOCK, 3000000);
	key = ask(0, HOME + 100, BLOCK / 2);
	ck_assert(standin_covers(key, HOME));
	ck_assert(standin_covers(key, HOME + BLOCK / 2 + GRANULE - 1));
	ck_assert(!standin_covers(key, HOME + BLOCK / 2 + GRANULE));
	ck_assert_uint_eq(statistics_get(synchronous), 1);
	await("registrations_background", 1);
	ck_assert(standin_covers(ask(1, HOME + 64 * BLOCK + 2999999, 1),
				 HOME + 64 * BLOCK + 2999999));
	ck_assert_uint_eq(statistics_tallied(TALLY_hits), 1);
}

TEST(registration, an_allocation_in_an_active_domain_is_registered_in_the_background)
{
	enable_domain();
	begin(HOME, BLOCK);
	await("registrations_background", 1);
	ck_assert(standin_covers(ask(0, HOME, BLOCK), HOME));
	ck_assert_uint_eq(statistics_tallied(TALLY_hits), 1);
	ck_assert_uint_eq(standin_registrations(), 2);
}

TEST(registration, each_handle_is_its_own_and_all_share_the_key)
{
	uint32_t key;

	begin(HOME, BLOCK);
	key = ask(0, HOME, BLOCK);
	ck_assert_uint_eq(ask(1, HOME + 4096, 4096), key);
	ck_assert_uint_eq(ask(2, HOME, BLOCK), key);
	ck_assert_uint_eq(standin_registrations(), 1);
	for (int i = 0; i < 3; i++) {
		ck_assert(registration_holds(&client_mrs[i]));
		ck_assert(registration_drop(&client_mrs[i]));
		ck_assert(!registration_drop(&client_mrs[i]));
	}
	/* Lazy unpinning: the idle region stays registered. */
	ck_assert_uint_eq(standin_registered(), 1);
	ck_assert_uint_eq(ask(3, HOME, 1), key);
}

TEST(registration, a_free_revokes_handles_and_deregisters_before_it_returns)
{
	uint32_t before, after;

	begin(HOME, BLOCK);
	before = ask(0, HOME, BLOCK);
	end(HOME);
	ck_assert_uint_eq(standin_registered(), 0);
	begin(HOME, BLOCK);
	after = ask(1, HOME, BLOCK);
	ck_assert_uint_ne(after, 0);
	ck_assert_uint_ne(after, before);
	ck_assert(registration_drop(&client_mrs[0]));
	ck_assert_uint_eq(statistics_get(late_deregistrations), 1);
	ck_assert_uint_eq(statistics_get(revoked), 1);
	ck_assert(standin_covers(after, HOME));
}

TEST(registration, allocations_of_one_granule_share_a_region_until_the_last_is_freed)
{
	uint32_t key;

	for (uint64_t i = 0; i < 4; i++)
		begin(HOME + i * 1024, 1000);
	key = ask(0, HOME, 1000);
	ck_assert_uint_eq(ask(1, HOME + 1024, 1000), key);
	await("allocations", 4);
	ck_assert_uint_eq(standin_registrations(), 1);
	end(HOME);
	ck_assert(standin_covers(key, HOME + 1024));
	ck_assert_uint_eq(statistics_get(revoked), 0);
	ck_assert(registration_drop(&client_mrs[0]));
	ck_assert_uint_eq(ask(2, HOME + 1024, 1000), key);
	for (uint64_t i = 1; i < 4; i++)
		end(HOME + i * 1024);
	ck_assert_uint_eq(standin_registered(), 0);
}

/* B also covers granules without A. If A used B's region, or the region outlived B, a valid key
 * would cover the next owner of those granules. */
TEST(registration, a_region_never_outlives_the_last_allocation_in_one_of_its_granules)
{
	uint32_t key_a, key_b;

	begin(HOME, 1000);
	begin(HOME + 4096, 100000);
	key_b = ask(0, HOME + 4096, 100000);
	key_a = ask(1, HOME, 1000);
	ck_assert_uint_ne(key_a, key_b);
	end(HOME + 4096);
	ck_assert(!standin_covers(key_b, HOME + 65536));
	ck_assert(standin_covers(key_a, HOME));
	ck_assert(!standin_covers(key_a, HOME + 65536));
}

TEST(registration, access_flags_are_kept_apart)
{
	struct registration_keys keys, other;

	begin(HOME, BLOCK);
	ck_assert(ask_in(&pd, 0, HOME, 4096, RIGHTS, &keys));
	ck_assert(ask_in(&pd, 1, HOME, 4096, IBV_ACCESS_LOCAL_WRITE, &other));
	ck_assert_uint_ne(keys.lkey, other.lkey);
	ck_assert(ask_in(&pd, 2, HOME, 4096, RIGHTS | IBV_ACCESS_RELAXED_ORDERING, &other));
	ck_assert_uint_ne(keys.lkey, other.lkey);
	ck_assert_uint_eq(standin_registrations(), 3);
}

TEST(registration, a_parent_domain_is_known_by_its_handle)
{
	struct ibv_pd parent = pd;
	struct registration_keys keys, same;

	begin(HOME, BLOCK);
	ck_assert(ask_in(&pd, 0, HOME, 4096, RIGHTS, &keys));
	ck_assert(ask_in(&parent, 1, HOME, 4096, RIGHTS, &same));
	ck_assert_uint_eq(keys.lkey, same.lkey);
}

TEST(registration, what_cannot_be_shared_is_left_to_the_client_and_counted)
{
	struct registration_request request = request_in(&pd, 0, HOME, 4096, RIGHTS);
	struct ibv_pd unknown = { .context = DEVICE, .handle = 9 };
	struct registration_keys keys;

	begin(HOME, BLOCK);
	standin_allocate(HOME + 4 * BLOCK, BLOCK, NULL, false);
	memory_allocated(ALLOCATION_DEVICE, HOME + 4 * BLOCK, BLOCK);
	request.iova = HOME + 4096;
	ck_assert(!registration_request(&request, &keys));
	ck_assert_uint_eq(statistics_get(forwarded_address), 1);
	ck_assert(!ask_in(&pd, 0, HOME, 4096, RIGHTS | IBV_ACCESS_ON_DEMAND, &keys));
	ck_assert(!ask_in(&pd, 0, HOME, 4096, RIGHTS | IBV_ACCESS_ZERO_BASED, &keys));
	ck_assert(!ask_in(&pd, 0, HOME, 4096, RIGHTS | IBV_ACCESS_MW_BIND, &keys));
	ck_assert_uint_eq(statistics_get(forwarded_flags), 3);
	ck_assert(!ask_in(&pd, 0, HOME, BLOCK + 1, RIGHTS, &keys));
	ck_assert(!ask_in(&pd, 0, HOME + 1, UINT64_MAX, RIGHTS, &keys));
	ck_assert(!ask_in(&pd, 0, HOME - 1, 2, RIGHTS, &keys));
	ck_assert_uint_eq(statistics_get(forwarded_range), 3);
	ck_assert(!ask_in(&unknown, 0, HOME, 4096, RIGHTS, &keys));
	ck_assert_uint_eq(statistics_get(forwarded_domain), 1);
	ck_assert(!ask_in(&pd, 0, HOME + 4 * BLOCK, 4096, RIGHTS, &keys));
	ck_assert_uint_eq(statistics_get(forwarded_capability), 1);
	ck_assert_uint_eq(statistics_get(forwarded), 9);
	ck_assert_uint_eq(standin_registrations(), 0);
	ck_assert(!registration_holds(&client_mrs[0]));
}

TEST(registration, host_memory_is_nobody_s_concern)
{
	struct registration_request request = { .pd = &pd, .address = HOME, .length = 4096 };

	ck_assert(!registration_concerns(&request));
	request.length = 0;
	ck_assert(!registration_concerns(&request));
	begin(HOME, BLOCK);
	ck_assert(!registration_concerns(&request));
	request.length = 1;
	ck_assert(registration_concerns(&request));
	request.address = HOME - 4096;
	request.length = 8192;
	ck_assert(registration_concerns(&request));
}

TEST(registration, a_failed_registration_is_left_to_the_client)
{
	begin(HOME, BLOCK);
	standin_fail_with(-ENOMEM);
	ck_assert_uint_eq(ask(0, HOME, BLOCK), 0);
	ck_assert_uint_eq(statistics_get(forwarded_failed), 1);
	ck_assert_uint_eq(statistics_get(registrations_failed), 1);
	standin_fail_with(0);
	end(HOME);
	begin(HOME, BLOCK);
	ck_assert_uint_ne(ask(0, HOME, 4096), 0);
}

/* For example a thread without a context: another thread may have one. */
LOOP_TEST(registration, what_fails_for_a_reason_of_the_moment_is_tried_at_each_request, 0, 3)
{
	static const int errors[] = { PINNING_NO_CONTEXT, -EAGAIN, -EINTR };

	count_own_pins();
	begin(HOME, BLOCK);
	standin_fail_with(errors[_i]);
	/* The worker may try, too. */
	for (unsigned int tries = 1; tries <= 5; tries++) {
		ck_assert_uint_eq(ask(0, HOME, BLOCK), 0);
		ck_assert_uint_eq(own_pins, tries);
	}
	standin_fail_with(0);
	ck_assert_uint_ne(ask(0, HOME, BLOCK), 0);
}

TEST(registration, a_protection_domain_is_empty_before_the_kernel_ends_it)
{
	begin(HOME, BLOCK);
	ck_assert_uint_ne(ask(0, HOME, 4096), 0);
	ck_assert(registration_drop(&client_mrs[0]));
	registration_pd_closing(&pd);
	ck_assert_uint_eq(standin_registered(), 0);
	ck_assert_uint_eq(ask(0, HOME, 4096), 0);
	registration_pd_closed(&pd, true);
	ck_assert_uint_eq(ask(0, HOME, 4096), 0);
	registration_pd_opened(&pd, false);
	ck_assert_uint_ne(ask(0, HOME, 4096), 0);
}

TEST(registration, a_handle_given_out_again_while_its_owner_is_being_closed_is_another_s)
{
	struct ibv_pd next = pd;
	struct registration_request request = request_in(&next, 1, HOME, 4096, 1);
	struct registration_keys keys;

	begin(HOME, BLOCK);
	ck_assert_uint_ne(ask(0, HOME, 4096), 0);
	ck_assert(registration_drop(&client_mrs[0]));
	/* The kernel reuses the pd's handle before the closing thread reports the close. */
	registration_pd_closing(&pd);
	registration_pd_opened(&next, false);
	ck_assert(registration_request(&request, &keys));
	registration_pd_closed(&pd, true);
	ck_assert_uint_eq(statistics_get(internal_errors), 0);
	ck_assert_uint_eq(statistics_get(revoked), 0);
	ck_assert_uint_eq(standin_registered(), 1);
	ck_assert(registration_drop(&client_mrs[1]));
}

/* Of four allocations, each 4 blocks behind the one before: both threads register. */
static atomic_bool stand_for_pair[4];

static int pin_noted(const struct pin_request *request, struct pin_result *result)
{
	atomic_store(&stand_for_pair[(request->base - HOME) / (4 * BLOCK)], request->own_blocks);
	return standin_method.pin(request, result);
}

/* What a failure there would say (pinning.c). A small allocation shares its block; VMM and pool
 * memory has no context. */
TEST(registration, large_allocations_of_a_context_stand_for_gpu_and_adapter)
{
	static struct CUctx_st *const any = (struct CUctx_st *)0x7000;
	static const struct {
		uint64_t size;
		CUcontext context;
	} memories[] = { { BLOCK, NULL }, { 1000, any }, { BLOCK / 2, any }, { BLOCK, any } };
	static struct registration_method method = { .name = "noting", .pin = pin_noted };

	method.unpin = standin_method.unpin;
	registration_forced_method = &method;
	for (unsigned int i = 0; i < 4; i++) {
		uint64_t base = HOME + 4 * i * BLOCK;

		standin_allocate(base, memories[i].size, memories[i].context, true);
		memory_allocated(ALLOCATION_DEVICE, base, memories[i].size);
		/* By a part as well. */
		ck_assert_uint_ne(ask((int)i, base, 512), 0);
		ck_assert_int_eq(atomic_load(&stand_for_pair[i]), i == 3);
	}
}

TEST(registration, a_protection_domain_serves_as_before_after_a_refused_end)
{
	uint32_t key;

	begin(HOME, BLOCK);
	begin(HOME + BLOCK, BLOCK);
	key = ask(0, HOME, 4096);
	await("registrations_background", 1);
	ck_assert(!registration_pd_closing(&pd));
	ck_assert(standin_covers(key, HOME));
	ck_assert(registration_drop(&client_mrs[0]));
	ck_assert(registration_pd_closing(&pd));
	ck_assert_uint_eq(standin_registered(), 0);
	registration_pd_closed(&pd, false);
	key = ask(0, HOME, 4096);
	ck_assert_uint_eq(ask(1, HOME, 4096), key);
	ck_assert_uint_ne(ask(2, HOME + BLOCK, 4096), 0);
}

TEST(registration, closing_a_device_ends_everything_on_it)
{
	struct ibv_pd other = { .context = (struct ibv_context *)0x6000, .handle = 1 };
	struct registration_keys keys;

	registration_pd_opened(&other, false);
	begin(HOME, BLOCK);
	ck_assert_uint_ne(ask(0, HOME, 4096), 0);
	ck_assert(ask_in(&other, 1, HOME, 4096, RIGHTS, &keys));
	registration_context_closing(DEVICE);
	ck_assert_uint_eq(standin_registered(), 1);
	ck_assert(standin_covers(keys.lkey, HOME));
	ck_assert(registration_drop(&client_mrs[0]));
}

TEST(registration, a_forked_child_touches_nothing_of_its_parent_s)
{
	int status;
	pid_t child;

	begin(HOME, BLOCK);
	ck_assert_uint_ne(ask(0, HOME, 4096), 0);
	child = fork();
	if (!child)
		_exit(process_is_passive() && registration_holds(&client_mrs[0]) &&
				      registration_drop(&client_mrs[0]) &&
				      !registration_drop(&client_mrs[0]) &&
				      !registration_drop(&client_mrs[1]) && standin_registered() == 1
			      ? 0
			      : 1);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_assert(!process_is_passive());
	ck_assert(registration_drop(&client_mrs[0]));
}

SUITE("registration")
