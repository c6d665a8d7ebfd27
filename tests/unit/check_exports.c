/* SPDX-License-Identifier: BSD-3-Clause */
/* check_exports.c -- which allocations a dma-buf of the program contains */
#include "suite.h"

#include <stdio.h>
#include <unistd.h>

#include "registration_fixture.h"

#define SMALL ((uint64_t)1000)
#define PAGE  ((uint64_t)4096)

/* Returns a descriptor for a dma-buf of the page at `address`, with the allocations up to the id
 * `youngest`. */
static int export_page(uint64_t address, uint64_t youngest)
{
	int fd = fileno(tmpfile());

	memory_exported(fd, address, PAGE, youngest);
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

/* The first allocation of the block has been freed. */
TEST(exports, an_export_may_begin_where_nothing_is)
{
	int fd;

	begin(HOME + 0x400, SMALL);
	fd = export_page(HOME, memory_youngest());
	ck_assert(ask_exported(fd, HOME + 0x400));
	ck_assert(!ask_exported(fd, HOME));
	ck_assert_uint_eq(statistics_get(bypassed_freed), 1);
}

TEST(exports, what_an_export_begins_with_may_end)
{
	int fd;

	begin(HOME, SMALL);
	begin(HOME + 0x400, SMALL);
	fd = export_page(HOME, memory_youngest());
	end(HOME);
	ck_assert(ask_exported(fd, HOME + 0x400));
	/* Later memory at the address is not in the dma-buf. */
	begin(HOME, SMALL);
	ck_assert(!ask_exported(fd, HOME));
	ck_assert_uint_eq(statistics_get(bypassed_freed), 1);
	ck_assert(ask_exported(fd, HOME + 0x400));
}

TEST(exports, what_begins_during_an_export_is_perhaps_not_in_it)
{
	uint64_t youngest;
	int fd;

	begin(HOME, SMALL);
	youngest = memory_youngest();
	end(HOME);
	begin(HOME, SMALL);
	fd = export_page(HOME, youngest);
	ck_assert(!ask_exported(fd, HOME));
	ck_assert_uint_eq(statistics_get(bypassed_freed), 1);
	fd = export_page(HOME, memory_youngest());
	ck_assert(ask_exported(fd, HOME));
}

TEST(exports, a_dma_buf_is_bypassed_from_other_memory_at_its_address)
{
	struct registration_request request = request_in(&pd, 0, HOME, SMALL, RIGHTS);
	struct registration_keys keys;
	struct found_export found;

	request.dma_buf = true;
	begin(HOME, BLOCK);
	ck_assert(memory_find_export(export_page(HOME, memory_youngest()), &found));
	request.youngest = found.youngest;
	/* As another thread may do before peerpin serves the request. */
	end(HOME);
	begin(HOME, BLOCK);
	ck_assert(!registration_request(&request, &keys));
}

TEST(exports, a_file_that_is_no_export_is_not_known)
{
	struct found_export found;

	begin(HOME, SMALL);
	export_page(HOME, memory_youngest());
	ck_assert(!memory_find_export(fileno(tmpfile()), &found));
	ck_assert(!memory_find_export(-1, &found));
}

SUITE("exports")
