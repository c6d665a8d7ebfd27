/* SPDX-License-Identifier: BSD-3-Clause */
/* check_wholes.c -- requests for a part that register the whole, because it takes no longer */
#include <errno.h>

#include "hits_fixture.h"

#include "registration/adapter.h"
#include "registration/cost.h"
#include "registration/region_choice.h"

#define GIB   ((uint64_t)1 << 30)
#define LARGE (100 * GIB)
#define OTHER (HOME + 200 * GIB)
#define MS    1000000ull

static struct registration_method method;
static _Atomic uint64_t last_length; /* of the last registration, begun */
static int whole_error;		     /* 0: requests can register the whole */

static int pin(const struct pin_request *request, struct pin_result *result)
{
	last_length = request->length;
	return request->length >= LARGE && request->by_address && whole_error
		       ? whole_error
		       : standin_method.pin(request, result);
}

static void set_up_with_worker(void)
{
	set_up();
	method = (struct registration_method){ .name = "wholes",
					       .pin = pin,
					       .unpin = standin_method.unpin };
	registration_forced_method = &method;
}

static void set_up_wholes(void)
{
	setenv("PEERPIN_PREREGISTER", "off", 1);
	set_up_with_worker();
}

/* As a client: a registration and its end. */
static void use(uint64_t address, uint64_t length)
{
	uint32_t key = get_in(&pd, AT(100), address, length);

	ck_assert_uint_ne(key, 0);
	ck_assert(standin_covers(key, address) && standin_covers(key, address + length - 1));
	ck_assert(registration_drop(AT(100)));
}

static struct adapter *adapter;

/* Registrations took these times; no other times are known. */
static void learn(uint64_t part_ns, uint64_t whole_ns)
{
	if (!adapter) {
		begin(HOME, GRANULE);
		use(HOME, GRANULE);
		end(HOME);
	}
	pthread_mutex_lock(&registration_lock);
	adapter = adapter_find(pd.context);
	for (unsigned int i = 0; i < COST_CLASSES; i++)
		adapter->costs[i] = (struct cost){ 0 };
	for (unsigned int i = 0; i < 4; i++) {
		cost_add_request(adapter, 0, GRANULE, part_ns);
		cost_add_request(adapter, 0, LARGE + 2 * GRANULE, whole_ns);
	}
	ck_assert_int_eq(cost_is_equal(adapter, 0, GRANULE, LARGE), part_ns == whole_ns);
	pthread_mutex_unlock(&registration_lock);
}

/* A request for a page in OTHER, whose whole takes `whole_ns`, registers `length`. */
static void check_registers(uint64_t whole_ns, uint64_t length)
{
	learn(MS, whole_ns);
	begin(OTHER, LARGE);
	use(OTHER + GIB, 4096);
	ck_assert_uint_eq(last_length, length);
}

CASE(wholes, .set_up = set_up_wholes);

TEST(wholes, a_whole_that_takes_no_longer_replaces_the_part)
{
	check_registers(MS, LARGE);
	use(OTHER, LARGE);
	ck_assert_uint_eq(statistics_tallied(TALLY_hits), 1);
}

TEST(wholes, a_whole_that_takes_longer_does_not)
{
	check_registers(MS + MS / 30, GRANULE);
}

/* The times of requests by address, which may include an export, say nothing of it. */
TEST(wholes, a_clients_own_dma_buf_registers_its_part)
{
	struct registration_request request;
	struct registration_keys keys;

	learn(MS, MS);
	begin(OTHER, LARGE);
	request = request_in(&pd, 1, OTHER, 4096, RIGHTS);
	request.dma_buf = true;
	request.youngest = memory_youngest();
	ck_assert(registration_request(&request, &keys));
	ck_assert_uint_eq(last_length, GRANULE);
	ck_assert_uint_eq(adapter->costs[16].count, 4);
}

/* _i: the errors of a lack of space, and of an adapter that cannot. */
LOOP_TEST(wholes, a_part_serves_where_the_whole_fails, 0, 2)
{
	begin(HOME + 400 * GIB, 2 * LARGE);
	use(HOME + 400 * GIB, 2 * LARGE);
	whole_error = _i ? -EINVAL : -ENOMEM;
	check_registers(MS, GRANULE);
	/* No second attempt, and none for another allocation. */
	ck_assert_uint_eq(adapter->costs[36].count, 0);
	use(OTHER + 2 * GIB, 4096);
	ck_assert_uint_eq(statistics_get(bypassed), 0);
	ck_assert_uint_eq(statistics_get(evictions), 0);
	ck_assert_uint_eq(statistics_get(registrations_failed), 1);
	/* A request for the whole is an attempt, and evicts. */
	ck_assert_uint_eq(get_in(&pd, AT(0), OTHER, LARGE), 0);
	ck_assert_uint_eq(statistics_get(evictions) != 0, whole_error == -ENOMEM);
}

static void *use_whole(void *unused)
{
	require(get_in(&pd, AT(50), OTHER, LARGE));
	return unused;
}

TEST(wholes, a_request_does_not_wait_for_another_threads_whole)
{
	pthread_t thread;

	learn(MS, MS);
	begin(OTHER, LARGE);
	standin_block_at(OTHER);
	ck_assert_int_eq(pthread_create(&thread, NULL, use_whole, NULL), 0);
	standin_await_blocked(1);
	use(OTHER + GIB, 4096);
	ck_assert_uint_eq(last_length, GRANULE);
	standin_block_at(0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

static void set_up_own_keys(void)
{
	pd_by_key = true;
	set_up_wholes();
}

CASE(own_keys, .set_up = set_up_own_keys);

TEST(own_keys, with_unique_keys_there_are_parts_alone)
{
	check_registers(MS, GRANULE);
}

CASE(with_worker, .set_up = set_up_with_worker);

TEST(with_worker, a_whole_that_failed_for_a_part_follows_enough_of_them)
{
	whole_error = -EAGAIN;
	learn(MS, MS);
	hold_up_worker();
	begin(OTHER, LARGE);
	for (unsigned int i = 0; i < REGION_PARTS_ENOUGH; i++)
		use(OTHER + i * GIB, 4096);
	ck_assert_uint_eq(statistics_get(registrations_failed), 1);
	standin_block_at(0);
	await("registrations_background", 2);
	ck_assert_uint_ne(get_in(&pd, AT(0), OTHER, LARGE), 0);
}

static void set_up_room_for_one(void)
{
	setenv("PEERPIN_PIN_LIMIT", "107374313472", 1); /* LARGE and 2 granules */
	set_up_wholes();
}

CASE(room_for_one, .set_up = set_up_room_for_one);

TEST(room_for_one, the_whole_evicts_nothing)
{
	learn(MS, MS);
	/* One granule more than the allocation's size leaves. */
	begin(HOME, 2 * GRANULE);
	use(HOME, 2 * GRANULE);
	begin(OTHER + 4096, LARGE);
	use(OTHER + GIB, 4096);
	ck_assert_uint_eq(last_length, GRANULE);
	ck_assert_uint_eq(statistics_get(evictions), 0);
	/* And does so once there is room. */
	end(HOME);
	learn(MS, MS);
	use(OTHER + 2 * GIB, 4096);
	ck_assert_uint_eq(last_length, LARGE + GRANULE);
}

SUITE("wholes")
