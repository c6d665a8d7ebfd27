/* SPDX-License-Identifier: BSD-3-Clause */
/* check_pressure.c -- a real adapter while others free and allocate at the same addresses, and
 * while it runs out of room
 *
 * Runs under the preload. Each test is a process of its own.
 */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu.h"
#include "loopback.h"
#include "unit/preload.h"
#include "unit/suite.h"

#define MIB    ((size_t)1 << 20)
#define PIECE  ((uint32_t)(64 << 10))
#define ROUNDS 20
#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

/* ---- others at the same addresses ---- */

/* Every address of a thread, to show their reuse. */
static _Atomic uint64_t seen[64];
static _Atomic unsigned int again;

static void note(uint64_t address)
{
	for (size_t i = 0; i < sizeof(seen) / sizeof(seen[0]); i++) {
		uint64_t nobody = 0;

		if (atomic_compare_exchange_strong(&seen[i], &nobody, address))
			return;
		if (nobody == address) {
			atomic_fetch_add(&again, 1);
			return;
		}
	}
}

struct traffic {
	unsigned char number;
	const char *complaint;
};

/* Allocate, write and read all of a buffer through the adapter by its keys, and free. The data must
 * be its own, byte by byte. */
static const char *round_trip(struct loopback *loopback, unsigned char *host,
			      struct ibv_mr *host_mr, unsigned char fill)
{
	const char *complaint = NULL;
	uint64_t address = gpu_allocate(MIB);
	struct ibv_mr *mr = ibv_reg_mr(loopback->pd, (void *)address, MIB, ACCESS);
	size_t half = MIB / 2;

	note(address);
	if (!mr)
		return "a registration was refused";
	for (size_t offset = 0; offset < MIB && !complaint; offset += PIECE) {
		memset(host, fill, PIECE);
		if (loopback_write(loopback, host, host_mr->lkey, address + offset, mr->rkey,
				   PIECE) != IBV_WC_SUCCESS)
			complaint = "a write was refused";
	}
	/* The GPU fills one half, the adapter the other. */
	gpu_read(host + PIECE, address, half);
	for (size_t i = 0; i < half && !complaint; i++) {
		if (host[PIECE + i] != fill)
			complaint = "the GPU has other bytes than were written";
	}
	gpu_fill(address + half, (unsigned char)~fill, half);
	for (size_t offset = half; offset < MIB && !complaint; offset += PIECE) {
		memset(host, 0, PIECE);
		if (loopback_read(loopback, host, host_mr->lkey, address + offset, mr->rkey,
				  PIECE) != IBV_WC_SUCCESS)
			complaint = "a read was refused";
		for (size_t i = 0; i < PIECE && !complaint; i++) {
			if (host[i] != (unsigned char)~fill)
				complaint = "the adapter read other bytes than the GPU has";
		}
	}
	/* Before the free or after it, as MPI libraries do. */
	if (fill % 2)
		gpu_free(address);
	if (ibv_dereg_mr(mr) && !complaint)
		complaint = "a deregistration failed";
	if (fill % 2 == 0)
		gpu_free(address);
	return complaint;
}

static void *exchange(void *argument)
{
	struct traffic *traffic = argument;
	unsigned char *host = malloc(PIECE + MIB);
	struct loopback loopback;
	struct ibv_mr *host_mr;

	gpu_join();
	loopback_open(&loopback);
	loopback_connect(&loopback);
	host_mr = ibv_reg_mr(loopback.pd, host, PIECE, IBV_ACCESS_LOCAL_WRITE);
	for (unsigned int round = 0; host_mr && round < ROUNDS && !traffic->complaint; round++)
		traffic->complaint = round_trip(&loopback, host, host_mr,
						(unsigned char)(traffic->number * 64 + round));
	if (host_mr)
		ibv_dereg_mr(host_mr);
	else
		traffic->complaint = "host memory could not be registered";
	loopback_close(&loopback);
	free(host);
	return NULL;
}

CASE(traffic, .timeout = 300);

TEST(traffic, data_through_keys_is_right_while_addresses_are_reused)
{
	struct traffic traffic[3];
	pthread_t threads[3];

	gpu_open();
	for (unsigned char i = 0; i < 3; i++) {
		traffic[i] = (struct traffic){ .number = i };
		ck_assert_int_eq(pthread_create(&threads[i], NULL, exchange, &traffic[i]), 0);
	}
	for (int i = 0; i < 3; i++) {
		pthread_join(threads[i], NULL);
		ck_assert_msg(!traffic[i].complaint, "thread %d: %s", i, traffic[i].complaint);
	}
	/* Otherwise this test shows nothing. */
	ck_assert_uint_gt(again, ROUNDS);
	ck_assert_uint_ge(statistic("hits") + statistic("waited") +
				  statistic("synchronous_queued") + statistic("synchronous"),
			  3 * ROUNDS);
	ck_assert_uint_eq(statistic("internal_errors"), 0);
	ck_assert_uint_eq(statistic("pinned_bytes"), 0);
	ck_assert_int_eq(loopback_kernel_regions(), 0);
}

CASE(room);

/* ---- no room ---- */

TEST(room, an_adapter_out_of_room_is_given_some)
{
	struct loopback loopback;
	uint64_t buffers[8];
	struct ibv_mr *mr;

	gpu_open();
	loopback_open(&loopback);
	for (int i = 0; i < 8; i++)
		buffers[i] = gpu_allocate(2 * MIB);
	loopback_limit_pinned(8 * MIB);
	for (int i = 0; i < 24; i++) {
		mr = ibv_reg_mr(loopback.pd, (void *)buffers[i % 8], 2 * MIB, ACCESS);
		ck_assert_msg(mr, "request %d: %s", i, strerror(errno));
		ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	}
	ck_assert_uint_gt(statistic("evictions"), 0);
	/* Served requests, not retries of the client's own. */
	ck_assert_uint_eq(statistic("forwarded"), 0);
	ck_assert_uint_le(statistic("pinned_bytes"), 8 * MIB);
	ck_assert_int_le(loopback_kernel_regions(), 4);
	loopback_close(&loopback);
}

TEST(room, a_client_s_own_registration_does_not_fail_for_idle_regions)
{
	struct loopback loopback;
	char *host = malloc(6 * MIB);
	uint64_t address;
	struct ibv_mr *mr;

	gpu_open();
	loopback_open(&loopback);
	address = gpu_allocate(6 * MIB);
	loopback_limit_pinned(8 * MIB);
	mr = ibv_reg_mr(loopback.pd, (void *)address, 6 * MIB, ACCESS);
	ck_assert_ptr_nonnull(mr);
	/* While it is held the kernel refuses, as without peerpin. */
	errno = 0;
	ck_assert_ptr_null(ibv_reg_mr(loopback.pd, host, 6 * MIB, ACCESS));
	ck_assert_int_eq(errno, ENOMEM);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	/* Deregistered: without peerpin there would be room now. */
	mr = ibv_reg_mr(loopback.pd, host, 6 * MIB, ACCESS);
	ck_assert_msg(mr, "%s", strerror(errno));
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	/* More than one if the worker registers the memory again before the client tries again. */
	ck_assert_uint_ge(statistic("evictions"), 1);
	gpu_free(address);
	free(host);
	loopback_close(&loopback);
}

TEST(room, an_impossible_size_fails_as_without_the_library)
{
	struct loopback loopback;
	uint64_t address;
	struct ibv_mr *mr;

	gpu_open();
	loopback_open(&loopback);
	address = gpu_allocate(16 * MIB);
	loopback_limit_pinned(8 * MIB);
	errno = 0;
	ck_assert_ptr_null(ibv_reg_mr(loopback.pd, (void *)address, 16 * MIB, ACCESS));
	ck_assert_int_eq(errno, ENOMEM);
	/* A part fits, though its allocation does not. */
	mr = ibv_reg_mr(loopback.pd, (void *)address, 4 * MIB, ACCESS);
	ck_assert_msg(mr, "%s", strerror(errno));
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	gpu_free(address);
	ck_assert_int_eq(loopback_kernel_regions(), 0);
	loopback_close(&loopback);
}

SUITE("pressure on a real adapter")
