/* SPDX-License-Identifier: BSD-3-Clause */
/* allocating.c -- patterns with fixed buffers, and with changing ones: in every iteration, many
 * small ones, of any size, while others send
 *
 * A driver reuses the last freed address. A stale registration would send or receive freed memory.
 */
#include "patterns.h"

/* A message to and from each neighbour in the ring. Number 0 goes up, number 1 down: with two ranks
 * both neighbours are the same. */
int run_halo(void)
{
	int above = (job.rank + 1) % job.ranks, below = (job.rank + job.ranks - 1) % job.ranks;
	struct channel halo[2];

	for (int i = 0; i < 2; i++)
		halo[i] = (struct channel){
			.bytes = job.bytes,
			.to = i ? below : above,
			.from = i ? above : below,
			.number = i,
		};
	allocate_channels(halo, 2);
	for (int round = 0; round <= job.rounds; round++) {
		begin_round(round);
		exchange_channels(halo, 2, round);
	}
	release_channels(halo, 2);
	return 0;
}

/* Even rounds get the previous round's addresses. In odd rounds an allocation of the same size
 * comes first and moves the buffers. */
int run_allocating(void)
{
	struct channel channel = pair_channel(job.bytes, 0);

	for (int round = 0; round <= job.rounds; round++) {
		CUdeviceptr other = 0;

		begin_round(round);
		if (round % 2)
			other = allocate(job.bytes);
		allocate_channels(&channel, 1);
		exchange_channels(&channel, 1, round);
		release_channels(&channel, 1);
		if (other)
			release(other);
	}
	return 0;
}

#define UNIT  sizeof(uint32_t) /* of the size of a buffer */
#define SMALL 32

/* A round's bytes in many buffers, an allocation each; each round replaces a quarter of them. */
int run_small(void)
{
	size_t bytes = job.bytes / SMALL / UNIT * UNIT;
	struct channel channels[SMALL];

	for (int i = 0; i < SMALL; i++)
		channels[i] = pair_channel(bytes ? bytes : UNIT, i);
	allocate_channels(channels, SMALL);
	for (int round = 0; round <= job.rounds; round++) {
		begin_round(round);
		for (int i = round % 4; round && i < SMALL; i += 4) {
			release_channels(&channels[i], 1);
			allocate_channels(&channels[i], 1);
		}
		exchange_channels(channels, SMALL, round);
	}
	release_channels(channels, SMALL);
	return 0;
}

#define SIZES 8

/* Equal on both ranks of a pair. */
static uint64_t any_number(int seed)
{
	uint64_t number = ((uint64_t)(job.rank / 2) << 32 | (uint32_t)seed) * 0x9e3779b97f4a7c15u;

	return number ^ number >> 29;
}

/* Equal on both ranks of a pair: from 1 KiB or half of the bytes to job.bytes, a multiple of 4, and
 * rarely of the unit to which clients round. */
static size_t any_size(int seed)
{
	uint64_t number = any_number(seed);
	size_t least = 1024, most = job.bytes;

	for (; most > 2 * least && number % 2; number /= 2)
		most /= 2;
	least = most > 2 * least ? most / 2 : least < most ? least : most;
	return (least + number % (most - least + 1)) / UNIT * UNIT;
}

/* All buffers are replaced in each round. Half of them have the size of the round before. */
int run_sizes(void)
{
	struct channel channels[SIZES];

	for (int round = 0; round <= job.rounds; round++) {
		begin_round(round);
		for (int i = 0; i < SIZES; i++)
			channels[i] = pair_channel(any_size(i % 2 ? i : SIZES * round + i), i);
		allocate_channels(channels, SIZES);
		exchange_channels(channels, SIZES, round);
		release_channels(channels, SIZES);
	}
	return 0;
}

#define LIVE	  8 /* channels at a time */
#define REPLACED  2 /* of them, in each round */
#define EXCHANGED 4 /* the replaced ones, and others that stay */

/* Several buffers of any size are live; each round frees some and allocates others of any size, so
 * that memory at an address has another length than before, and neighbours that stay. */
int run_random(void)
{
	struct channel channels[LIVE], chosen[EXCHANGED];

	for (int i = 0; i < LIVE; i++) {
		channels[i] = pair_channel(any_size(i), i);
		allocate_channels(&channels[i], 1);
	}
	for (int round = 0; round <= job.rounds; round++) {
		int first = (int)(any_number(round) % LIVE);

		begin_round(round);
		for (int i = 0; round && i < REPLACED; i++)
			release_channels(&channels[(first + i) % LIVE], 1);
		for (int i = 0; i < EXCHANGED; i++) {
			struct channel *channel = &channels[(first + i) % LIVE];

			if (round && i < REPLACED) {
				*channel = pair_channel(any_size(LIVE * round + i), channel->number);
				allocate_channels(channel, 1);
			}
			chosen[i] = *channel;
		}
		exchange_channels(chosen, EXCHANGED, round);
	}
	release_channels(channels, LIVE);
	return 0;
}

enum { EARLY, LATE, LONG, KINDS };

/* A long message is in flight in both directions. Meanwhile short ones are exchanged, their buffers
 * freed and allocated again, usually at the same addresses, and exchanged. */
static void free_under_way(struct channel *channels, int round)
{
	struct channel *late = &channels[LATE], *early = &channels[EARLY],
		       *longer = &channels[LONG];
	MPI_Request requests[2];

	allocate_channels(early, 1);
	prepare_channels(early, 1, round);
	prepare_channels(longer, 1, round);
	begin_sending();
	MPI(MPI_Irecv((void *)(uintptr_t)longer->receive, (int)longer->bytes, MPI_BYTE,
		      longer->from, longer->number, MPI_COMM_WORLD, &requests[0]));
	MPI(MPI_Isend((void *)(uintptr_t)longer->send, (int)longer->bytes, MPI_BYTE, longer->to,
		      longer->number, MPI_COMM_WORLD, &requests[1]));
	use_channels(early, 1);
	check_channels(early, 1, round);
	release_channels(early, 1);
	allocate_channels(late, 1);
	prepare_channels(late, 1, round);
	use_channels(late, 1);
	MPI(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
	end_sending();
	check_channels(late, 1, round);
	check_channels(longer, 1, round);
	release_channels(late, 1);
}

/* Allocations happen while messages are in flight: the send path includes them. */
int run_freeing(void)
{
	struct channel channels[KINDS];

	for (int i = 0; i < KINDS; i++)
		channels[i] = pair_channel(i == LONG ? 4 * job.bytes : job.bytes, i);
	allocate_channels(&channels[LONG], 1);
	for (int round = 0; round <= job.rounds; round++) {
		begin_round(round);
		free_under_way(channels, round);
	}
	release_channels(&channels[LONG], 1);
	return 0;
}
