/* SPDX-License-Identifier: BSD-3-Clause */
/* check_kept.c -- how much is kept and for how long: limits, worth, releases, refusals, ranks */
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/job_file.h"
#include "job_fixture.h"
#include "keep_fixture.h"

static uint64_t at(uint64_t number)
{
	return HOME + (number << 30);
}

static void keep_one_of(CUcontext context, unsigned int number, uint64_t size)
{
	allocate_in(context, at(number), size);
	require(keeps(at(number)));
}

static void keep_one(unsigned int number, uint64_t size)
{
	keep_one_of(&first, number, size);
}

static bool keeps_or_ends_one(unsigned int number, uint64_t size)
{
	allocate(at(number), size);
	return keeps_or_ends(at(number));
}

static void set_up(void)
{
	set_up_with("8M", "2M");
}

CASE(kept, .set_up = set_up);

/* ---- limits ---- */

CASE(shares, .tear_down = remove_folder);

static const struct {
	const char *setting;
	uint64_t limit; /* of the first GPU */
	unsigned int others;
} shares[] = { { "10%", 20 * MIB, 0 }, { "auto", 30 * MIB, 0 }, { "auto", 10 * MIB, 2 } };

static void be_a_rank(const char *setting);

/* As another rank. */
static void use_gpu(uint64_t hash)
{
	job_file_share(hash);
}

/* Of 200 MiB, of which 60 MiB are free. */
LOOP_TEST(shares, a_share_is_of_the_gpu_s_memory_or_of_what_is_free, 0, 3)
{
	uint64_t limit = shares[_i].limit;

	be_a_rank(shares[_i].setting);
	for (unsigned int i = 0; i < shares[_i].others; i++)
		start_rank(use_gpu, 1);
	gpu.total = 200 * MIB;
	gpu.unused = 60 * MIB - 2 * MIB; /* and the memory that is freed first */
	gpu.info_result = CUDA_ERROR_INVALID_VALUE;
	ck_assert(!keeps_or_ends_one(0, 512));
	gpu.info_result = CUDA_SUCCESS;
	/* Later the limit is determined again. */
	while (!keeps_or_ends_one(0, 2 * MIB))
		sched_yield();
	/* The limit may have been determined while the memory was neither free nor kept. */
	ck_assert_uint_ge(kept_limit(0, 0), limit);
	ck_assert_uint_le(kept_limit(0, 0), limit + MIB);
}

/* ---- releases ---- */

TEST(kept, failed_frees_are_counted_and_logged_once)
{
	int log = memfd_create("log", 0);
	char text[4096] = "", *line;

	ck_assert(dup2(log, 1) == 1 && dup2(log, 2) == 2);
	gpu.free_result = CUDA_ERROR_INVALID_VALUE;
	keep_one(0, 4096);
	keep_one(1, 4096);
	keep_release_context(&first);
	ck_assert_uint_eq(gpu.frees, 2);
	ck_assert_uint_eq(statistics_get(kept_released), 2);
	ck_assert_uint_eq(statistics_get(kept_bytes), 0);
	ck_assert_int_gt(pread(log, text, sizeof(text) - 1, 0), 0);
	line = strstr(text, "could not be freed");
	ck_assert_ptr_nonnull(line);
	ck_assert_ptr_null(strstr(line + 1, "could not be freed"));
	ck_assert_uint_eq(reuse(4096), 0);
}

/* ---- refusals ---- */

/* Number of calls if the driver refuses each one. */
static unsigned int calls(int device, uint64_t bytes)
{
	struct keep_refusal refusal = { 0 };
	unsigned int number = 0;

	do {
		require(++number < 1000);
		refusal.ended = keep_releases_ended;
	} while (keep_retry(&refusal, device, bytes));
	keep_settled(&refusal);
	return number;
}

static _Atomic bool is_done;

static void *free_often(void *number)
{
	uint64_t next = at(*(unsigned int *)number), address;

	for (enter(&first); !is_done; keeps_or_ends(address)) {
		address = reuse(4096);
		if (address)
			continue;
		address = next += 4096;
		standin_allocate(address, 4096, &first, false);
		standin_describe(address, 0, false);
		memory_allocated(ALLOCATION_DEVICE, address, 4096);
	}
	return NULL;
}

TEST(kept, a_driver_that_refuses_for_ever_is_not_called_for_ever_though_others_free)
{
	static unsigned int numbers[] = { 100, 200 };
	pthread_t threads[2];

	standin_with_threads = true;
	for (int i = 0; i < 2; i++)
		ck_assert(!pthread_create(&threads[i], NULL, free_often, &numbers[i]));
	for (int i = 0; i < 100; i++) {
		while (!kept_bytes(0))
			sched_yield();
		require(calls(0, 0) <= 3);
	}
	is_done = true;
	for (int i = 0; i < 2; i++)
		ck_assert(!pthread_join(threads[i], NULL));
}

/* ---- ranks of a job ---- */

#define HASH(device) (0x5000u + 2 * (unsigned int)(device) + 1)

static CUresult get_uuid(CUuuid *uuid, CUdevice device)
{
	const uint64_t words[2] = { 0x5000u + 2 * (unsigned int)device, 0 };

	memcpy(uuid, words, sizeof(words));
	return CUDA_SUCCESS;
}

static void be_a_rank(const char *setting)
{
	become_rank("keep");
	set_up_with(setting, "0");
	gpu.total = gpu.unused = 128 * MIB;
}

static void set_up_ranks(void)
{
	be_a_rank("64M");
	standin_driver.cuDeviceGetUuid_v2 = get_uuid;
}

CASE(ranks, .set_up = set_up_ranks, .tear_down = remove_folder);

/* As another rank. */
static void mark(int device)
{
	job_file_want(HASH(device));
}

CASE(asking, .tear_down = remove_folder);

/* _i: with a size, or with auto; alone on the GPU, or with another rank. */
LOOP_TEST(asking, a_refused_call_asks_the_ranks_of_its_gpu_and_does_not_answer_itself, 0, 4)
{
	bool is_alone = _i < 2;

	be_a_rank(_i % 2 ? "auto" : "64M");
	standin_driver.cuDeviceGetUuid_v2 = get_uuid;
	if (!is_alone)
		start_rank(use_gpu, HASH(0));
	keep_one(0, 4096);
	ck_assert_uint_eq(calls(0, 128 * MIB + 1), 1); /* more than there is */
	ck_assert_uint_eq(job_file_wanted(HASH(0)), 0);
	if (is_alone)
		ck_assert_uint_eq(calls(0, 4096), 2);
	else
		ck_assert_uint_gt(calls(0, 128 * MIB), 2);
	ck_assert_uint_eq(job_file_wanted(HASH(0)) > 0, !is_alone);
	ck_assert_uint_eq(job_file_wanted(HASH(1)), 0);
	keep_one(0, 4096);
}

/* Kept by the first context, the second, the first again, and on the second GPU. */
static void keep_for_ranks(void)
{
	keep_one(0, 4096);
	keep_one_of(&second, 1, 4096);
	keep_one(2, 4096);
	keep_one_of(&of_second_gpu, 3, 4096);
}

TEST(ranks, another_rank_s_request_is_answered_by_frees_of_that_gpu)
{
	const uint64_t order[] = { at(3), at(0), at(2), at(1) };

	keep_for_ranks();
	gpu.query_result = CUDA_ERROR_NOT_READY;
	allocate_in(&of_second_gpu, at(4), 512);
	for (mark(1); keeps(at(4)); mark(1)) {
		enter(&of_second_gpu);
		require(reuse(512) == at(4));
		enter(&first);
	}
	must_have_freed(1, order);
	allocate(at(5), 512);
	ck_assert(keeps(at(5)));
	ck_assert_uint_eq(reuse(512), at(5));
	for (mark(0); keeps(at(5)); mark(0))
		require(reuse(512) == at(5));
	must_have_freed(3, order);
	/* It ends after a while. */
	while (!keeps(at(5)))
		sched_yield();
	ck_assert_uint_eq(reuse(512), at(5));
	ck_assert_uint_eq(gpu.frees, 3);
}

TEST(ranks, another_rank_s_request_is_answered_by_allocations_of_an_idle_context)
{
	const uint64_t order[] = { at(0), at(2), at(1) };

	keep_for_ranks();
	gpu.query_result = CUDA_ERROR_NOT_READY;
	while (gpu.queries < 3 && !gpu.frees) {
		mark(0);
		require(!reuse(MIB));
	}
	ck_assert_uint_eq(gpu.frees, 0);
	gpu.query_result = CUDA_SUCCESS;
	while (!gpu.frees) {
		mark(0);
		require(!reuse(MIB));
	}
	must_have_freed(2, order);
	enter(&second);
	while (gpu.frees == 2) {
		mark(0);
		require(!reuse(MIB));
	}
	must_have_freed(3, order);
	ck_assert_uint_eq(first.waits + second.waits, 3);
}

SUITE("kept")
