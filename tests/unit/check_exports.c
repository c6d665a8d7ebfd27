/* SPDX-License-Identifier: BSD-3-Clause */
/* check_exports.c -- which allocations a dma-buf of the program contains */
#include "suite.h"

#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "registration/objects.h"
#include "registration_fixture.h"

#define SMALL ((uint64_t)1000)
#define PAGE  ((uint64_t)4096)

static void record(int fd, uint64_t address, uint64_t youngest)
{
	memory_exported(fd, &(struct found_export){ address, PAGE, youngest, false });
}

/* Returns a descriptor for a dma-buf of the page at `address`, with the allocations up to the id
 * `youngest`. */
static int export_page(uint64_t address, uint64_t youngest)
{
	int fd = fileno(tmpfile());

	record(fd, address, youngest);
	return fd;
}

static bool ask_exported(int fd, uint64_t address)
{
	struct registration_request request = request_in(&pd, 0, address, SMALL, RIGHTS);
	struct registration_keys keys;
	struct found_export found;

	request.dma_buf = true;
	ck_assert(memory_find_export(fd, &found));
	ck_assert(found.address <= address && address + SMALL <= found.address + found.size);
	request.youngest = found.youngest;
	return registration_request(&request, &keys) && standin_covers(keys.lkey, address);
}

CASE(exports, .set_up = set_up_off);

TEST(exports, a_file_that_is_no_export_is_not_known)
{
	struct found_export found;

	begin(HOME, SMALL);
	export_page(HOME, memory_youngest());
	ck_assert(!memory_find_export(fileno(tmpfile()), &found));
	ck_assert(!memory_find_export(-1, &found));
}

/* ---- many exports ---- */

/* A new file, of an inode that no other file has had. */
static int new_file(void)
{
	int fd = (int)syscall(SYS_memfd_create, "export", 0);

	require(fd >= 0);
	return fd;
}

static void export_new(uint64_t address, unsigned int times)
{
	for (unsigned int i = 0; i < times; i++) {
		int fd = new_file();

		record(fd, address, memory_youngest());
		require(!close(fd));
	}
}

static bool is_known(int fd)
{
	struct found_export found;

	return memory_find_export(fd, &found) && found.address == HOME && found.size == PAGE;
}

TEST(exports, each_of_10000_exports_of_live_memory_is_known)
{
	enum { EXPORTS = 10000, KEPT = 500 };
	int fds[KEPT];

	begin(HOME, SMALL);
	for (int i = 0; i < KEPT; i++) {
		fds[i] = new_file();
		record(fds[i], HOME, memory_youngest());
		export_new(HOME, EXPORTS / KEPT - 1);
	}
	for (int i = 0; i < KEPT; i++)
		require(is_known(fds[i]));
	ck_assert(ask_exported(fds[0], HOME));
}

TEST(exports, exports_of_freed_memory_displace_none_of_live_memory)
{
	int fd = new_file();

	begin(HOME, SMALL);
	begin(HOME + BLOCK, SMALL);
	record(fd, HOME, memory_youngest());
	for (unsigned int i = 0; i < MEMORY_EXPORTS_MAX + 16; i++) {
		export_new(HOME + BLOCK, 1);
		/* Its successor at the address is younger than the export. */
		if (i % 4 == 0) {
			end(HOME + BLOCK);
			begin(HOME + BLOCK, SMALL);
		}
	}
	ck_assert(is_known(fd));
}

TEST(exports, beyond_the_limit_an_old_export_is_unknown)
{
	int fd = new_file(), newer;

	begin(HOME, SMALL);
	record(fd, HOME, memory_youngest());
	export_new(HOME, MEMORY_EXPORTS_MAX - 1);
	ck_assert(is_known(fd));
	newer = new_file();
	record(newer, HOME, memory_youngest());
	ck_assert(!is_known(fd));
	export_new(HOME, MEMORY_EXPORTS_MAX - 1);
	ck_assert(is_known(newer));
}

/* Several allocations in the range, one of which is not younger than the export. */
TEST(exports, an_export_lives_with_the_last_allocation_from_before_it)
{
	enum { PARTS = 4, STEP = 0x400 };
	uint64_t old;
	int fd = new_file();

	for (int part = 0; part < PARTS; part++) {
		for (int i = 0; i < PARTS; i++)
			begin(HOME + (uint64_t)i * STEP, SMALL);
		record(fd, HOME, memory_youngest());
		old = HOME + (uint64_t)part * STEP;
		for (int i = 0; i < PARTS; i++) {
			if (i != part) {
				end(HOME + (uint64_t)i * STEP);
				begin(HOME + (uint64_t)i * STEP, SMALL);
			}
		}
		export_new(HOME + BLOCK, 64);
		ck_assert(is_known(fd));
		end(old);
		begin(old, SMALL);
		export_new(HOME + BLOCK, 64);
		ck_assert(!is_known(fd));
		for (int i = 0; i < PARTS; i++)
			end(HOME + (uint64_t)i * STEP);
	}
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

#define FILES 500

/* Nanoseconds of a look-up of each of the first `count` files, the least of many: other processes
 * only add to it. */
static uint64_t time_of_look_ups(const int *fds, unsigned int count)
{
	struct found_export found;
	uint64_t least = UINT64_MAX, time;

	for (int i = 0; i < 100; i++) {
		time = now();
		for (unsigned int j = 0; j < FILES; j++)
			require(memory_find_export(fds[j % count], &found));
		time = now() - time;
		least = time < least ? time : least;
	}
	return least / FILES;
}

/* A walk over all takes some 100 times as long. */
TEST(exports, a_look_up_takes_no_longer_with_100000_exports)
{
	uint64_t with_few = 0, with_many;
	int fds[FILES];

	begin(HOME, SMALL);
	for (unsigned int i = 0; i < FILES; i++) {
		fds[i] = new_file();
		record(fds[i], HOME, memory_youngest());
		if (i == 9)
			with_few = time_of_look_ups(fds, 10);
		if (i >= 9)
			export_new(HOME, 100000 / FILES);
	}
	with_many = time_of_look_ups(fds, FILES);
	printf("look-up: %llu ns with 10 exports, %llu ns with 100000\n",
	       (unsigned long long)with_few, (unsigned long long)with_many);
	ck_assert_uint_lt(with_many, 10 * with_few);
}

SUITE("exports")
