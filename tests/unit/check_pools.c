/* SPDX-License-Identifier: BSD-3-Clause */
/* check_pools.c -- background registration of memory that only dma-bufs reach: pools, and VMM
 * memory without the flag
 *
 * In sync mode every background registration is complete when the allocation returns.
 */
#include "suite.h"

#include <errno.h>

#include "registration/region.h"
#include "registration_fixture.h"

static struct ibv_pd other = { .context = DEVICE, .handle = 2 };
static struct ibv_pd third = { .context = DEVICE, .handle = 3 };

static void begin_kind(enum allocation_kind kind, uint64_t base, uint64_t size)
{
	standin_allocate(base, size, NULL, false);
	standin_describe(base, 0, false);
	memory_allocated(kind, base, size);
	if (kind == ALLOCATION_MAPPED)
		memory_access_settled(base, size);
}

static void begin_pool(uint64_t base, uint64_t size)
{
	begin_kind(ALLOCATION_POOL, base, size);
}

/* A client's request by its own dma-buf of the memory. */
static bool ask_by_dma_buf(struct ibv_pd *in, uint64_t address, uint64_t length)
{
	struct registration_request request = request_in(in, 9, address, length, RIGHTS);
	struct registration_keys keys;

	request.dma_buf = true;
	request.youngest = memory_youngest();
	return registration_request(&request, &keys) && registration_drop(&client_mrs[9]);
}

/* Background registrations of `count` new allocations that no client requests. */
static uint64_t made_for_sizes(uint64_t count, uint64_t size, uint64_t step)
{
	uint64_t before;

	await_rescans();
	before = statistics_get(registrations_background);
	for (uint64_t i = 0; i < count; i++)
		begin_pool(HOME + (100 + 8 * i) * BLOCK, size + i * step);
	for (uint64_t i = 0; i < count; i++)
		end(HOME + (100 + 8 * i) * BLOCK);
	return statistics_get(registrations_background) - before;
}

static uint64_t made_for(uint64_t count, uint64_t size)
{
	return made_for_sizes(count, size, 0);
}

static bool is_queued(uint64_t base)
{
	struct allocation allocation;

	require(memory_find(base, &allocation));
	return background_is_queued(&allocation);
}

CASE(sync, .set_up = set_up_eager);
CASE(all, .set_up = set_up);

static CUresult get_access(unsigned long long *flags, const CUmemLocation *location,
			   CUdeviceptr address)
{
	(void)location;
	(void)address;
	*flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	return CUDA_SUCCESS;
}

LOOP_TEST(sync, new_memory_is_registered_after_a_request_by_dma_buf, 0, 2)
{
	enum allocation_kind kind = _i ? ALLOCATION_MAPPED : ALLOCATION_POOL;

	standin_driver.cuMemGetAccess = get_access;
	for (uint64_t i = 0; i < 20; i++) {
		begin_kind(kind, HOME, BLOCK);
		ck_assert_uint_eq(statistics_get(registrations_background), i);
		ck_assert(ask_by_dma_buf(&pd, HOME, BLOCK));
		if (_i)
			memory_frees_settled(memory_range_freeing(HOME, BLOCK), false);
		else
			end(HOME);
		standin_free(HOME);
		ck_assert_uint_eq(standin_registered(), 0);
	}
	ck_assert_uint_eq(statistics_tallied(TALLY_hits), 19);
}

TEST(sync, live_memory_is_registered_after_the_request)
{
	enable_domain();
	begin_pool(HOME, BLOCK);
	begin_pool(HOME + 2 * BLOCK, BLOCK);
	ck_assert(ask_by_dma_buf(&pd, HOME, BLOCK));
	await_rescans();
	ck_assert_uint_eq(statistics_get(registrations_background), 1);
	ck_assert(ask_by_dma_buf(&pd, HOME + 2 * BLOCK, BLOCK));
	ck_assert_uint_eq(statistics_tallied(TALLY_hits), 1);
}

/* Nor by a request that fails, or is by dma-buf for memory that adapters reach by address. */
TEST(all, before_such_a_request_nothing_is_queued)
{
	struct registration_request request;
	struct registration_keys keys;

	enable_domain();
	begin_pool(HOME, BLOCK);
	ck_assert_uint_eq(ask(1, HOME, BLOCK), 0);
	ck_assert_uint_eq(statistics_get(forwarded_capability), 1);
	ck_assert(ask_by_dma_buf(&pd, HOME + 1000 * BLOCK, BLOCK));
	standin_fail_with(EIO);
	ck_assert(!ask_by_dma_buf(&pd, HOME, BLOCK));
	standin_fail_with(0);
	/* The worker alone is held up: a queued allocation stays queued. */
	hold_up_worker();
	begin_pool(HOME + 2 * BLOCK, BLOCK);
	ck_assert(!is_queued(HOME + 2 * BLOCK));
	request = request_in(&pd, 9, HOME, BLOCK, RIGHTS);
	ck_assert(!registration_request(&request, &keys));
	begin_pool(HOME + 4 * BLOCK, BLOCK);
	ck_assert(!is_queued(HOME + 4 * BLOCK));
	ck_assert(ask_by_dma_buf(&pd, HOME, BLOCK));
	begin_pool(HOME + 6 * BLOCK, BLOCK);
	ck_assert(is_queued(HOME + 6 * BLOCK));
	standin_block_at(0);
	/* All sizes, also those that were live before. */
	begin_pool(HOME + 8 * BLOCK, 3 * BLOCK);
	await("registrations_background", 5);
}

/* The export of a managed pool crashes the driver. */
TEST(sync, memory_that_is_not_described_is_never_queued)
{
	begin_pool(HOME, BLOCK);
	ck_assert(ask_by_dma_buf(&pd, HOME, BLOCK));
	standin_allocate(HOME + 2 * BLOCK, BLOCK, NULL, false);
	memory_allocated(ALLOCATION_POOL, HOME + 2 * BLOCK, BLOCK);
	rescan_first_domain();
	ck_assert_uint_eq(statistics_get(registrations_background), 0);
}

TEST(sync, requests_by_address_are_forwarded_as_before)
{
	begin_pool(HOME, BLOCK);
	ck_assert(ask_by_dma_buf(&pd, HOME, BLOCK));
	begin_pool(HOME + 2 * BLOCK, BLOCK);
	ck_assert_uint_eq(statistics_get(registrations_background), 1);
	ck_assert_uint_eq(ask(1, HOME + 2 * BLOCK, BLOCK), 0);
	ck_assert_uint_eq(statistics_get(forwarded_capability), 1);
}

TEST(sync, only_domains_with_such_requests_take_part)
{
	struct registration_keys keys;
	struct allocation found;

	registration_pd_opened(&other, false);
	registration_pd_opened(&third, false);
	begin(HOME + 1000 * BLOCK, BLOCK);
	ck_assert(ask_in(&other, 1, HOME + 1000 * BLOCK, BLOCK, RIGHTS, &keys));
	ck_assert(registration_drop(&client_mrs[1]));
	ck_assert(ask_in(&third, 1, HOME + 1000 * BLOCK, BLOCK, RIGHTS, &keys));
	begin_pool(HOME, BLOCK);
	ck_assert(ask_by_dma_buf(&pd, HOME, BLOCK));
	ck_assert_uint_eq(made_for(1, BLOCK), 1);
	/* The size that one domain has stopped registering is unknown in the other one. */
	ck_assert_uint_gt(made_for(40, 3 * BLOCK), 0);
	ck_assert_uint_eq(made_for(1, 3 * BLOCK), 0);
	ck_assert(ask_by_dma_buf(&other, HOME, BLOCK));
	ck_assert_uint_eq(made_for(1, 3 * BLOCK), 1);
	/* The end of the domains ends that. */
	ck_assert(registration_pd_closing(&pd));
	registration_pd_closed(&pd, true);
	ck_assert(memory_find(HOME, &found));
	ck_assert(domain_may_reach(&found));
	ck_assert(registration_pd_closing(&other));
	registration_pd_closed(&other, true);
	ck_assert(!domain_may_reach(&found));
}

SUITE("pools")
