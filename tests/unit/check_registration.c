/* SPDX-License-Identifier: BSD-3-Clause */
/* check_registration.c -- registration beside calls that the rows of tests/unit/states do not make:
 * events inside the driver's and the adapter's functions, times, random programs of several threads
 */
#include "suite.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

#include "base/system.h"
#include "memory/table.h"
#include "hits_fixture.h"
#include "registration/background.h"
#include "registration/entry.h"
#include "registration/objects.h"
#include "spans_fixture.h"

CASE(sync, .set_up = set_up_eager);
CASE(off, .set_up = set_up_off);

static bool frees;

static CUresult free_in_first_request(int *value, CUdevice_attribute attribute, CUdevice device)
{
	(void)value, (void)attribute, (void)device;
	if (frees) {
		frees = false;
		end(HOME);
	}
	return CUDA_ERROR_INVALID_VALUE;
}

/* In the driver's call, without the lock. */
TEST(sync, a_free_in_the_first_request_loses_no_rescan)
{
	begin(HOME, BLOCK);
	for (uint64_t i = 1; i < 5; i++)
		begin(HOME + i * 2 * BLOCK, BLOCK);
	standin_driver.cuDeviceGetAttribute = free_in_first_request;
	frees = true;
	ck_assert_uint_eq(ask(1, HOME, 100), 0);
	ck_assert(!frees);
	await("registrations_background", 4);
	ck_assert_uint_ne(ask(1, HOME + 2 * BLOCK, 100), 0);
}

/* The thread that marked the first one had stopped before. */
TEST(sync, a_late_mark_leaves_the_slot_to_the_next_allocation)
{
	struct allocation first, second;

	begin(HOME, BLOCK);
	ck_assert(memory_find(HOME, &first));
	end(HOME);
	begin(HOME, BLOCK);
	ck_assert(memory_find(HOME, &second));
	ck_assert_uint_eq(first.slot, second.slot);
	ck_assert(background_set_queued(&second));
	ck_assert(background_set_queued(&first));
	ck_assert(background_is_queued(&second));
	background_unqueue(&second);
}

static struct registration_method method;
static _Atomic unsigned int attempts;
static pthread_t freeing;

static bool has_entry(const struct allocation *allocation)
{
	bool has;

	pthread_mutex_lock(&registration_mutex);
	has = entry_of(domain_find(protection_domain_find(pd.context, pd.handle), RIGHTS),
		       allocation);
	pthread_mutex_unlock(&registration_mutex);
	return has;
}

static void *free_it(void *unused)
{
	(void)unused;
	end(HOME);
	return NULL;
}

/* The free waits for this registration, which then has no use. */
static int pin_without_room(const struct pin_request *request, struct pin_result *result)
{
	struct allocation allocation;

	(void)request, (void)result;
	if (!attempts++) {
		require(memory_find(HOME, &allocation));
		require(!pthread_create(&freeing, NULL, free_it, NULL));
		while (has_entry(&allocation))
			sched_yield();
	}
	return -ENOMEM;
}

static void set_up_limited_off(void)
{
	setenv("PEERPIN_PIN_LIMIT", "64M", 1);
	set_up_off();
}

CASE(limited_off, .set_up = set_up_limited_off);

TEST(limited_off, a_registration_without_room_ends_with_its_allocation)
{
	for (uint64_t i = 1; i < 5; i++) {
		begin(HOME + i * 2 * BLOCK, BLOCK);
		ck_assert_uint_ne(ask(1, HOME + i * 2 * BLOCK, BLOCK), 0);
		ck_assert(registration_drop(&client_mrs[1]));
	}
	begin(HOME, BLOCK);
	method = (struct registration_method){ .name = "full",
					       .pin = pin_without_room,
					       .unpin = standin_method.unpin };
	registration_forced_method = &method;
	ck_assert_uint_eq(ask(2, HOME, BLOCK), 0);
	ck_assert_int_eq(pthread_join(freeing, NULL), 0);
	ck_assert_uint_eq(attempts, 1);
	ck_assert_uint_eq(standin_registered(), 4);
}

static _Atomic bool setting, let_set, is_set;

static CUresult set_slowly(const void *value, CUpointer_attribute attribute, CUdeviceptr address)
{
	(void)value, (void)attribute, (void)address;
	setting = true;
	while (!let_set)
		sched_yield();
	is_set = true;
	return CUDA_SUCCESS;
}

static void *ask_first(void *unused)
{
	ask(0, HOME, 4096);
	return unused;
}

static void *let_it_set(void *unused)
{
	nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
	let_set = true;
	return unused;
}

TEST(off, no_client_gets_keys_before_sync_memops_is_set)
{
	struct registration_request request = request_in(&pd, 1, HOME, 4096, RIGHTS);
	struct registration_keys keys;
	pthread_t first, timer;
	bool served, set;

	standin_driver.cuPointerSetAttribute = set_slowly;
	begin(HOME, BLOCK);
	pthread_create(&first, NULL, ask_first, NULL);
	while (!setting)
		sched_yield();
	pthread_create(&timer, NULL, let_it_set, NULL);
	served = registration_hit(&request, &keys);
	set = is_set;
	let_set = true;
	pthread_join(first, NULL);
	pthread_join(timer, NULL);
	ck_assert(!served || set);
}

static void set_up_small_pin_limit(void)
{
	setenv("PEERPIN_PIN_LIMIT", "4M", 1);
	set_up_off();
}

static int unpins;

static int unpin_and_ask(struct ibv_mr *mr)
{
	/* A concurrent request of another client. */
	if (++unpins == 2)
		ask(9, HOME + 20 * BLOCK, 4096);
	return standin_method.unpin(mr);
}

static uint64_t pinned_now, pinned_most;

static int pin_and_count(const struct pin_request *request, struct pin_result *result)
{
	int error = standin_method.pin(request, result);

	if (!error)
		pinned_now += request->length;
	if (pinned_now > pinned_most)
		pinned_most = pinned_now;
	return error;
}

CASE(small_pin_limit, .set_up = set_up_small_pin_limit);

TEST(small_pin_limit, two_clients_that_make_room_keep_to_the_pin_limit)
{
	struct registration_method method = { .name = "counting",
					      .pin = pin_and_count,
					      .unpin = unpin_and_ask };

	registration_forced_method = &method;
	for (uint64_t i = 0; i < 2; i++) {
		begin(HOME + 2 * i * BLOCK, BLOCK);
		ck_assert_uint_ne(ask(0, HOME + 2 * i * BLOCK, 4096), 0);
		registration_drop(&client_mrs[0]);
	}
	begin(HOME + 10 * BLOCK, 2 * BLOCK);
	begin(HOME + 20 * BLOCK, BLOCK);
	pinned_now = pinned_most = 0;
	ask(1, HOME + 10 * BLOCK, 2 * BLOCK);
	ck_assert_int_eq(unpins, 2);
	/* Counted from 0: both earlier regions have been evicted. */
	ck_assert_uint_le(pinned_most, 2 * BLOCK);
}

/* ---- spans ---- */

CASE(spans, .set_up = set_up_spans);

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

static _Atomic bool over;

static void *request_spans(void *argument)
{
	const char *mr = argument;

	while (!over) {
		for (unsigned int i = 0; i < 2; i++) {
			if (get_span(mr, i, 2))
				require(registration_drop(mr));
		}
	}
	return NULL;
}

/* _i 1: by a loss of access. */
LOOP_TEST(spans, mappings_end_beside_requests, 0, 2)
{
	struct pending_frees *frees;
	pthread_t threads[3];

	map_all(3);
	for (unsigned int i = 0; i < 3; i++)
		require(!pthread_create(&threads[i], NULL, request_spans, AT(i)));
	await("hits", 1);
	for (unsigned int i = 0; i < 1000; i++) {
		if (_i)
			memory_access_ending(at(i % 3), BLOCK, 0);
		else
			frees = unmapping(i % 3, 1);
		/* Both spans need the second one. */
		require(i % 3 != 1 || !standin_registered());
		if (_i) {
			set_access(i % 3, false);
			set_access(i % 3, true);
		} else {
			standin_free(at(i % 3));
			memory_frees_settled(frees, false);
			map(i % 3);
		}
	}
	over = true;
	for (unsigned int i = 0; i < 3; i++)
		require(!pthread_join(threads[i], NULL));
	ck_assert_uint_eq(statistics_get(forwarded_failed), 0);
	ck_assert_uint_ne(use(0, 3), 0);
	memory_frees_settled(unmapping(0, 3), false);
	ck_assert_uint_eq(standin_registered(), 0);
	ck_assert_uint_eq(statistics_get(internal_errors), 0);
}

/* As between the end of a record and its event, in another thread. */
TEST(spans, another_mapping_at_the_address_is_not_served)
{
	struct allocation before, after;

	map_all(3);
	ck_assert_uint_ne(use(0, 3), 0);
	ck_assert(table_take(at(1), 0, &before));
	after = before;
	ck_assert_int_eq(table_insert(&after), 0);
	ck_assert_uint_eq(use(0, 3), 0);
	ck_assert_uint_eq(statistics_get(forwarded_freed), 1);
	registration_freeing(&before);
	ck_assert_uint_eq(standin_registered(), 0);
	ck_assert_uint_ne(use(0, 3), 0);
}

/* ---- adapters ---- */

static void set_up_buffers(void)
{
	set_up_off();
	for (unsigned int i = 0; i < BUFFERS; i++)
		begin(buffer(i), BLOCK);
}

CASE(refusals, .set_up = set_up_buffers);

#define OTHER_DEVICE ((struct ibv_context *)0x6000)

CASE(pin_limit, .set_up = set_up_with_pin_limit);

/* LRU reference: buffers in order of use, the least recent first. */
struct model {
	unsigned int order[FIT], held;
	unsigned int registrations;
};

static void model_use(struct model *model, unsigned int which)
{
	unsigned int at = 0;

	while (at < model->held && model->order[at] != which)
		at++;
	if (at == model->held) {
		model->registrations++;
		if (model->held < FIT)
			model->held++;
		else
			at = 0;
	}
	for (; at + 1 < model->held; at++)
		model->order[at] = model->order[at + 1];
	model->order[model->held - 1] = which;
}

/* The number of buffers with about the same number of uses doubles at each step. */
static unsigned int pick_zipf(unsigned int random)
{
	unsigned int below = 2u << random % 4;

	return random / 4 % below;
}

TEST(pin_limit, evictions_are_in_nearly_the_exact_order)
{
	struct model model = { .held = 0 };
	unsigned int seed = 7, which;

	for (unsigned int i = 0; i < 5000; i++) {
		which = pick_zipf((unsigned int)rand_r(&seed));
		ck_assert(standin_covers(get(AT(0), which), buffer(which)));
		ck_assert(registration_drop(AT(0)));
		ck_assert_uint_le(standin_registered(), FIT);
		model_use(&model, which);
	}
	ck_assert_uint_le(standin_registrations(), model.registrations * 105 / 100);
}

static char adapter; /* stands for the struct of libibverbs */
#define ADAPTER ((struct ibv_device *)&adapter)

static const char *name_it(struct ibv_device *device)
{
	return device == ADAPTER ? "mlx5_0" : NULL;
}

static unsigned int limit_queries, bar1_queries;

static CUresult count_bar1(int *value, CUdevice_attribute attribute, CUdevice device)
{
	(void)value, (void)attribute, (void)device;
	bar1_queries++;
	return CUDA_ERROR_INVALID_DEVICE;
}

static int has_room_for_eight(struct ibv_context *context, struct ibv_device_attr *attributes)
{
	limit_queries++;
	ck_assert_ptr_eq(context->device, ADAPTER);
	attributes->max_mr = 8;
	return 0;
}

TEST(refusals, an_adapter_that_is_open_twice_has_its_room_once)
{
	struct ibv_context contexts[2] = { { .device = ADAPTER }, { .device = ADAPTER } };
	struct ibv_pd both[2] = { { .context = &contexts[0], .handle = 1 },
				  { .context = &contexts[1], .handle = 2 } };
	struct registration_keys keys;

	standin_verbs.ibv_query_device = has_room_for_eight;
	standin_verbs.ibv_get_device_name = name_it;
	standin_driver.cuDeviceGetAttribute = count_bar1;
	for (unsigned int i = 0; i < 2; i++)
		registration_pd_opened(&both[i], false);
	for (unsigned int i = 0; i < BUFFERS; i++) {
		ck_assert(ask_in(&both[i % 2], 0, buffer(i), BLOCK, RIGHTS, &keys));
		ck_assert(registration_drop(&client_mrs[0]));
		/* A quarter of the adapter's room is reserved for client registrations. */
		ck_assert_uint_le(standin_registered(), 6);
	}
	ck_assert_uint_eq(standin_registered(), 6);
	/* Queried once for each context, and once for the GPU. */
	ck_assert_uint_eq(limit_queries, 2);
	ck_assert_uint_eq(bar1_queries, 1);
}

#define MANY 60000u

static CUresult know_all(unsigned int count, CUpointer_attribute *attributes, void **data,
			 CUdeviceptr address)
{
	for (unsigned int i = 0; i < count; i++) {
		if (attributes[i] == CU_POINTER_ATTRIBUTE_BUFFER_ID)
			*(uint64_t *)data[i] = address;
		else if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
			*(int *)data[i] = 0;
		else if (attributes[i] == CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE)
			*(unsigned int *)data[i] = 1;
	}
	return CUDA_SUCCESS;
}

static unsigned int unpinned;

static int pin_many(const struct pin_request *request, struct pin_result *result)
{
	static struct ibv_mr all;

	(void)request;
	result->mr = &all;
	return 0;
}

static int unpin_many(struct ibv_mr *mr)
{
	(void)mr;
	unpinned++;
	return 0;
}

/* A scan for victims holds the lock. */
TEST(refusals, one_scan_skips_the_regions_of_other_adapters)
{
	struct registration_method method = { .name = "many",
					      .pin = pin_many,
					      .unpin = unpin_many };
	struct ibv_pd other = { .context = OTHER_DEVICE, .handle = 1 };
	uint64_t began = system_clock(), registered;
	struct registration_keys keys;

	registration_forced_method = &method;
	standin_attributes = know_all;
	registration_pd_opened(&other, false);
	for (unsigned int i = 0; i < 2 * MANY; i++) {
		memory_allocated(ALLOCATION_DEVICE, buffer(BUFFERS + i), BLOCK);
		ck_assert(ask_in(i < MANY ? &other : &pd, 0, buffer(BUFFERS + i), BLOCK, RIGHTS,
				 &keys));
		ck_assert(registration_drop(&client_mrs[0]));
	}
	registered = system_clock();
	ck_assert(registration_evict(DEVICE, MANY * BLOCK));
	ck_assert_uint_eq(unpinned, MANY);
	/* Measured: 0.1 of the registration time; 40 times that time with a scan per victim. */
	ck_assert_uint_lt(system_clock() - registered, registered - began);
}

SUITE("registration")
