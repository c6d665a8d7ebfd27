/* SPDX-License-Identifier: BSD-3-Clause */
/* limits.c -- how much is kept, and what goes first; settings */
#include "keep.h"

#include <string.h>

#define LIMIT_8M "PEERPIN_KEEP=8M PEERPIN_KEEP_HOST=8M"
#define AUTO	 "PEERPIN_KEEP=auto PEERPIN_SIM_MEMORY=64M"
#define IN_A_JOB " OMPI_COMM_WORLD_RANK=0 PMIX_NAMESPACE=keep-auto-"

static bool is_kept(CUdeviceptr address)
{
	return tag(address) && !query_tag(address);
}

/* The driver counts whole blocks of 2 MiB. */
static void what_fits_is_kept_and_one_byte_more_is_not(unsigned int unused)
{
	CUdeviceptr memory;
	size_t free_before;

	(void)unused;
	begin();
	memory = keep(8 * MIB);
	require(own("kept_bytes") == 8 * MIB);
	require(allocate(8 * MIB) == memory);
	require_cuda(cuMemFree_v2(memory));
	require(own("kept_bytes") == 8 * MIB && own("kept_bytes_peak") == 8 * MIB);
	free_before = free_bytes();
	memory = allocate(8 * MIB + 1);
	require_cuda(cuMemFree_v2(memory));
	/* It took no kept memory with it. */
	require(!tag(memory) && free_bytes() == free_before && own("kept_released") == 0);
	memory = allocate_host(8 * MIB + 1);
	free_host(memory);
	require(!tag(memory) && own("kept_host_bytes") == 0);
	memory = keep_host(8 * MIB);
	require(own("kept_host_bytes") == 8 * MIB && own("kept_bytes") == 8 * MIB);
	release_all();
	expect_no_kept();
}

/* One byte less than a block counts as a block. */
static void blocks_count_not_bytes(unsigned int unused)
{
	CUdeviceptr first, second;

	(void)unused;
	begin();
	first = allocate(6 * MIB - 1);
	second = allocate(2 * MIB - 1);
	require_cuda(cuMemFree_v2(first));
	require_cuda(cuMemFree_v2(second));
	require(own("kept_bytes") == 8 * MIB && is_kept(first) && is_kept(second));
	first = keep(100000);
	require(own("kept_released") == 1 && own("kept_bytes") == 2 * MIB + 100000);
}

static void the_least_recently_kept_goes_first(unsigned int host)
{
	CUdeviceptr memory[5];

	begin();
	for (int i = 0; i < 5; i++)
		memory[i] = obtain(host, host ? 2 * MIB + (size_t)i : 2 * MIB - (size_t)i);
	for (int i = 0; i < 3; i++)
		give_up(host, memory[i]);
	/* The first is used and kept again: now the most recent one. */
	require(obtain(host, 2 * MIB) == memory[0]);
	give_up(host, memory[0]);
	require(own("kept_released") == 0);
	give_up(host, memory[3]);
	if (host) {
		/* Bytes count: four of 2 MiB and some are more than 8 MiB. */
		require(own("kept_released") == 1 && !tag(memory[1]));
		require(is_kept(memory[2]) && is_kept(memory[0]) && is_kept(memory[3]));
		return;
	}
	require(own("kept_released") == 0 && own("kept_bytes") == 8 * MIB);
	require_cuda(cuMemFree_v2(memory[4]));
	require(own("kept_released") == 1 && !tag(memory[1]));
	require(is_kept(memory[2]) && is_kept(memory[0]) && is_kept(memory[3]));
	require(is_kept(memory[4]));
	/* A large one needs the room of three. */
	keep(5 * MIB);
	require(own("kept_released") == 4 && is_kept(memory[4]));
	require(!tag(memory[2]) && !tag(memory[0]) && !tag(memory[3]));
	expect_no_errors();
}

/* 1 % of 1 GiB. */
static void a_percentage_is_of_the_gpu_s_memory(unsigned int unused)
{
	CUdeviceptr memory;

	(void)unused;
	begin();
	memory = allocate(11 * MIB);
	require_cuda(cuMemFree_v2(memory));
	require(!tag(memory) && own("kept") == 0);
	keep(10 * MIB);
	require(own("kept_bytes") == 10 * MIB);
	keep(MIB - 1);
	require(own("kept_released") == 1 && own("kept_bytes") == MIB - 1);
}

static void each_gpu_has_its_own_limit(unsigned int unused)
{
	CUdeviceptr first, second;
	size_t bytes, total;
	CUcontext other;

	(void)unused;
	begin();
	first = keep(8 * MIB);
	require_cuda(cuCtxCreate_v2(&other, 0, 1));
	second = keep(8 * MIB);
	require(own("kept_bytes") == 16 * MIB && own("kept_released") == 0);
	require_cuda(cuMemGetInfo_v2(&bytes, &total));
	require(bytes == total);
	keep(2 * MIB);
	require(!tag(second) && is_kept(first) && own("kept_released") == 1);
	require_cuda(cuMemGetInfo_v2(&bytes, &total));
	require(bytes == total);
	require_cuda(cuCtxSetCurrent(context));
	require_cuda(cuMemGetInfo_v2(&bytes, &total));
	require(bytes == total && free_bytes() == total - 8 * MIB);
	require(allocate(8 * MIB) == first);
}

/* Of 64 MiB. Freed memory counts as free. */
static void auto_keeps_up_to_half_of_what_is_free(unsigned int unused)
{
	CUdeviceptr live, memory;

	(void)unused;
	begin();
	keep(32 * MIB);
	release_all();
	memory = allocate(34 * MIB);
	require_cuda(cuMemFree_v2(memory));
	require(!tag(memory));
	live = allocate(40 * MIB);
	memory = allocate(14 * MIB);
	require_cuda(cuMemFree_v2(memory));
	require(!tag(memory));
	keep(12 * MIB);
	require(own("kept_bytes") == 12 * MIB);
	require_cuda(cuMemFree_v2(live));
	expect_no_errors();
}

/* Other ranks of the job have used this GPU, and are live. */
static void auto_is_shared_by_the_processes_of_the_job(unsigned int others)
{
	CUdeviceptr memory;
	int used[2], ends[2];
	char byte;

	require(!pipe(used) && !pipe(ends));
	for (unsigned int i = 0; i < others; i++) {
		if (!fork()) {
			close(ends[1]);
			begin();
			keep(UNIT);
			require(write(used[1], "", 1) == 1 && !read(ends[0], &byte, 1));
			_exit(0);
		}
		require(read(used[0], &byte, 1) == 1);
	}
	begin();
	memory = allocate(64 * MIB / 2 / (others + 1) + UNIT);
	require_cuda(cuMemFree_v2(memory));
	require(!tag(memory));
	keep(64 * MIB / 2 / (others + 1) / UNIT * UNIT);
}

static void the_host_s_limit_alone_keeps_host_memory_alone(unsigned int unused)
{
	CUdeviceptr memory;

	(void)unused;
	begin();
	memory = allocate(UNIT);
	require_cuda(cuMemFree_v2(memory));
	require(!tag(memory) && own("kept") == 0);
	memory = keep_host(UNIT);
	require(allocate_host(UNIT) == memory && own("reused") == 1);
}

static void the_gpu_s_limit_alone_keeps_gpu_memory_alone(unsigned int unused)
{
	CUdeviceptr memory;

	(void)unused;
	begin();
	memory = allocate_host(UNIT);
	free_host(memory);
	require(!tag(memory) && own("kept") == 0);
	memory = keep(UNIT);
	require(allocate(UNIT) == memory && own("reused") == 1);
}

/* The runner's file for errors has the message. */
static void a_bad_value_is_reported_and_keeps_nothing(unsigned int host)
{
	char text[4096] = "";
	CUdeviceptr memory;

	begin();
	memory = obtain(host, UNIT);
	give_up(host, memory);
	require(!tag(memory) && own("kept") == 0);
	require(pread(STDERR_FILENO, text, sizeof(text) - 1, 0) > 0);
	require(strstr(text, host ? "PEERPIN_KEEP_HOST=5%" : "PEERPIN_KEEP=12Q"));
}

const struct test limit_tests[] = {
	TEST(what_fits_is_kept_and_one_byte_more_is_not, 0, LIMIT_8M),
	TEST(blocks_count_not_bytes, 0, LIMIT_8M),
	TEST(the_least_recently_kept_goes_first, 0, LIMIT_8M),
	TEST(the_least_recently_kept_goes_first, 1, LIMIT_8M),
	TEST(a_percentage_is_of_the_gpu_s_memory, 0, "PEERPIN_KEEP=1% PEERPIN_SIM_MEMORY=1G"),
	TEST(each_gpu_has_its_own_limit, 0, LIMIT_8M " PEERPIN_SIM_DEVICES=2"),
	TEST(auto_keeps_up_to_half_of_what_is_free, 0, AUTO),
	TEST(auto_is_shared_by_the_processes_of_the_job, 0, AUTO IN_A_JOB "0"),
	TEST(auto_is_shared_by_the_processes_of_the_job, 3, AUTO IN_A_JOB "3"),
	TEST(the_host_s_limit_alone_keeps_host_memory_alone, 0, "PEERPIN_KEEP_HOST=64M"),
	TEST(the_gpu_s_limit_alone_keeps_gpu_memory_alone, 0, "PEERPIN_KEEP=64M"),
	TEST(a_bad_value_is_reported_and_keeps_nothing, 0,
	     "PEERPIN_KEEP=12Q PEERPIN_LOG_LEVEL=warn"),
	TEST(a_bad_value_is_reported_and_keeps_nothing, 1,
	     "PEERPIN_KEEP_HOST=5% PEERPIN_LOG_LEVEL=warn"),
	{ .name = NULL },
};
