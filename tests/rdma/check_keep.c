/* SPDX-License-Identifier: BSD-3-Clause */
/* check_keep.c -- kept memory (PEERPIN_KEEP) and a real adapter: keys across free and reuse, and
 * after the release
 *
 * Runs under the preload, with PEERPIN_KEEP of KEPT pieces. Each test is a process of its own.
 */
#include <check.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "gpu.h"
#include "loopback.h"
#include "unit/preload.h"
#include "unit/suite.h"

#define MIB   ((size_t)1 << 20)
#define PIECE (4 * MIB)
#define KEPT  2
#define BYTES 4096
#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

static struct loopback loopback;
static struct ibv_mr *host;
static unsigned char message[BYTES];

static void open_all(void)
{
	gpu_open();
	loopback_open(&loopback);
	host = ibv_reg_mr(loopback.pd, message, BYTES, IBV_ACCESS_LOCAL_WRITE);
	ck_assert_ptr_nonnull(host);
}

static void close_all(void)
{
	gpu_close();
	ck_assert_int_eq(ibv_dereg_mr(host), 0);
	ck_assert_int_eq(loopback_kernel_regions(), 0);
	ck_assert_uint_eq(statistic("internal_errors"), 0);
	loopback_close(&loopback);
}

static struct ibv_mr *must_register(uint64_t address, size_t length)
{
	struct ibv_mr *mr = ibv_reg_mr(loopback.pd, (void *)address, length, ACCESS);

	ck_assert_msg(mr, "ibv_reg_mr: %s", strerror(errno));
	return mr;
}

/* From host memory to the middle of the piece, as another host would. */
static enum ibv_wc_status write_by(uint32_t rkey, uint64_t address, int byte)
{
	memset(message, byte, BYTES);
	loopback_connect(&loopback);
	return loopback_write(&loopback, message, host->lkey, address + MIB, rkey, BYTES);
}

/* The piece has `inside` where write_by() writes, and `outside` before and behind it. */
static void check_piece(uint64_t address, unsigned char outside, unsigned char inside)
{
	static unsigned char found[3 * BYTES];

	gpu_read(found, address + MIB - BYTES, sizeof(found));
	for (size_t i = 0; i < sizeof(found); i++)
		require(found[i] == (i / BYTES == 1 ? inside : outside));
}

static uint64_t allocate_again(uint64_t address)
{
	ck_assert_uint_eq(gpu_allocate(PIECE), address);
	ck_assert_uint_gt(statistic("reused"), 0);
	return address;
}

CASE(keys, .set_up = open_all, .tear_down = close_all);

TEST(keys, a_client_mr_held_across_free_and_reuse_reaches_the_new_allocation)
{
	uint64_t address;
	struct ibv_mr *mr, *later;

	address = gpu_allocate(PIECE);
	mr = must_register(address, PIECE);
	for (int round = 0; round < 3; round++) {
		gpu_fill(address, (unsigned char)(0x10 + round), PIECE);
		ck_assert_int_eq(write_by(mr->rkey, address, 0xa0 + round), IBV_WC_SUCCESS);
		check_piece(address, (unsigned char)(0x10 + round), (unsigned char)(0xa0 + round));
		/* And back: the adapter reads what the GPU has written. */
		gpu_fill(address, (unsigned char)(0x20 + round), PIECE);
		ck_assert_int_eq(loopback_read(&loopback, message, host->lkey, address + MIB,
					       mr->rkey, BYTES),
				 IBV_WC_SUCCESS);
		for (size_t i = 0; i < BYTES; i++)
			require(message[i] == 0x20 + round);
		gpu_free(address);
		allocate_again(address);
	}
	later = must_register(address, PIECE);
	ck_assert_ptr_ne(later, mr);
	ck_assert_uint_eq(later->rkey, mr->rkey);
	ck_assert_uint_eq(statistic("hits"), 1);
	ck_assert_uint_eq(statistic("registrations"), 1);
	ck_assert_uint_eq(statistic("deregistrations"), 0);
	ck_assert_uint_eq(statistic("revoked"), 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_int_eq(write_by(later->rkey, address, 0xb0), IBV_WC_SUCCESS);
	ck_assert_int_eq(ibv_dereg_mr(later), 0);
	gpu_free(address);
}

/* ---- releases: the key is dead at the adapter; the deregistration of the client MR succeeds ----
 */

TEST(keys, a_key_lives_within_the_limit_and_is_dead_beyond_it)
{
	uint64_t address[KEPT + 1];
	struct ibv_mr *mr[KEPT + 1];

	for (int i = 0; i <= KEPT; i++) {
		address[i] = gpu_allocate(PIECE);
		mr[i] = must_register(address[i], PIECE);
	}
	for (int i = 0; i <= KEPT; i++) {
		/* docs/limits.md: kept memory is reachable by its keys. */
		ck_assert_uint_eq(statistic("kept_released"), 0);
		gpu_free(address[i]);
		if (i < KEPT)
			ck_assert_int_eq(write_by(mr[i]->rkey, address[i], 0xa0), IBV_WC_SUCCESS);
	}
	ck_assert_uint_eq(statistic("kept"), KEPT + 1);
	ck_assert_uint_eq(statistic("kept_released"), 1);
	ck_assert_uint_eq(statistic("deregistrations"), 1);
	ck_assert_int_eq(loopback_kernel_regions(), KEPT + 1); /* and one of host memory */
	/* The least recently kept is released. */
	ck_assert_int_eq(write_by(mr[0]->rkey, address[0], 0xa1), IBV_WC_REM_ACCESS_ERR);
	for (int i = 1; i <= KEPT; i++)
		ck_assert_int_eq(write_by(mr[i]->rkey, address[i], 0xa1), IBV_WC_SUCCESS);
	for (int i = 0; i <= KEPT; i++)
		ck_assert_int_eq(ibv_dereg_mr(mr[i]), 0);
	ck_assert_uint_eq(statistic("late_deregistrations"), 1);
}

/* More than the driver has without the kept piece. */
static uint64_t allocate_most(void)
{
	return gpu_allocate(gpu_free_memory() - PIECE / 2);
}

static uint64_t end_the_context(void)
{
	gpu_close();
	gpu_open();
	return gpu_allocate(PIECE);
}

/* Each returns new memory, at the address of the kept piece. */
static uint64_t (*const releases[])(void) = { allocate_most, end_the_context };

LOOP_TEST(keys, the_key_of_released_memory_does_not_reach_the_next_allocation_at_the_address, 0,
	  sizeof(releases) / sizeof(releases[0]))
{
	uint64_t address, again;
	struct ibv_mr *mr;

	address = gpu_allocate(PIECE);
	mr = must_register(address, PIECE);
	gpu_free(address);
	ck_assert_int_eq(write_by(mr->rkey, address, 0xa0), IBV_WC_SUCCESS);
	again = releases[_i]();
	ck_assert_uint_eq(again, address); /* otherwise this test shows nothing */
	ck_assert_uint_eq(statistic("reused"), 0);
	ck_assert_uint_eq(statistic("kept_released"), 1);
	ck_assert_uint_eq(statistic("deregistrations"), 1);
	gpu_fill(again, 0x5a, PIECE);
	ck_assert_int_eq(write_by(mr->rkey, again, 0xa1), IBV_WC_REM_ACCESS_ERR);
	check_piece(again, 0x5a, 0x5a);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_uint_eq(statistic("late_deregistrations"), 1);
	gpu_free(again);
}

/* ---- others ---- */

/* The kernel takes no work requests by a file that was opened with other capabilities. */
static void open_with_limit(void)
{
	loopback_limit_pinned(2 * PIECE);
	open_all();
}

CASE(limit, .set_up = open_with_limit, .tear_down = close_all);

TEST(limit, kept_memory_takes_no_room_from_registrations)
{
	uint64_t kept, larger;
	struct ibv_mr *held, *mr;

	kept = gpu_allocate(PIECE);
	larger = gpu_allocate(PIECE + MIB);
	held = must_register(kept, PIECE);
	gpu_free(kept);
	/* Without PEERPIN_KEEP the free has revoked the client MR, and there is room. */
	mr = must_register(larger, PIECE + MIB);
	ck_assert_int_eq(write_by(mr->rkey, larger, 0xa0), IBV_WC_SUCCESS);
	ck_assert_int_eq(write_by(held->rkey, kept, 0xa0), IBV_WC_REM_ACCESS_ERR);
	ck_assert_int_eq(ibv_dereg_mr(held), 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	gpu_free(larger);
}

SUITE("kept memory on a real adapter")
