/* SPDX-License-Identifier: BSD-3-Clause */
/* fixed.c -- patterns over lasting buffers: halo exchange, two communicators, persistent requests
 *
 * A registration cache registers in round 0 only.
 */
#include "patterns.h"

/* A message to and from each neighbour in the ring. Number 0 goes up, number 1 down: with two ranks
 * both neighbours are the same. */
int run_halo(void)
{
	int above = (job.rank + 1) % job.ranks, below = (job.rank + job.ranks - 1) % job.ranks;
	struct channel halo[2];

	for (int i = 0; i < 2; i++) {
		int to = i ? below : above, from = i ? above : below;

		halo[i] = (struct channel){
			.bytes = job.bytes,
			.communicator = MPI_COMM_WORLD,
			.to = to,
			.from = from,
			.world_to = to,
			.world_from = from,
			.number = i,
			.tag = i,
		};
	}
	allocate_channels(halo, 2);
	for (int round = 0; round <= job.rounds; round++) {
		begin_round(round);
		exchange_channels(halo, 2, round);
	}
	release_channels(halo, 2);
	return 0;
}

/* The second one numbers the ranks backwards. Both use one tag: only the communicator distinguishes
 * the messages. */
static struct channel channel_on(MPI_Comm communicator, int number)
{
	struct channel channel = pair_channel(job.bytes, number);

	channel.communicator = communicator;
	channel.tag = 0;
	if (number) {
		channel.to = job.ranks - 1 - channel.world_to;
		channel.from = channel.to;
	}
	return channel;
}

/* Both at once; the second one's buffers are new in every other round. */
int run_communicators(void)
{
	MPI_Comm communicators[2];
	struct channel channels[2];

	MPI(MPI_Comm_dup(MPI_COMM_WORLD, &communicators[0]));
	MPI(MPI_Comm_split(MPI_COMM_WORLD, 0, job.ranks - job.rank, &communicators[1]));
	for (int i = 0; i < 2; i++)
		channels[i] = channel_on(communicators[i], i);
	allocate_channels(channels, 2);
	for (int round = 0; round <= job.rounds; round++) {
		begin_round(round);
		if (round && round % 2 == 0) {
			release_channels(&channels[1], 1);
			allocate_channels(&channels[1], 1);
		}
		exchange_channels(channels, 2, round);
	}
	release_channels(channels, 2);
	for (int i = 0; i < 2; i++)
		MPI(MPI_Comm_free(&communicators[i]));
	return 0;
}

#define PERSISTENT	  2
#define ROUNDS_OF_REQUEST 3

static void make_requests(struct channel *channels, MPI_Request *requests)
{
	allocate_channels(channels, PERSISTENT);
	for (int i = 0; i < PERSISTENT; i++) {
		const struct channel *channel = &channels[i];

		MPI(MPI_Recv_init((void *)(uintptr_t)channel->receive, (int)channel->bytes,
				  MPI_BYTE, channel->from, channel->tag, channel->communicator,
				  &requests[2 * i]));
		MPI(MPI_Send_init((void *)(uintptr_t)channel->send, (int)channel->bytes, MPI_BYTE,
				  channel->to, channel->tag, channel->communicator,
				  &requests[2 * i + 1]));
	}
}

static void end_requests(struct channel *channels, MPI_Request *requests)
{
	for (int i = 0; i < 2 * PERSISTENT; i++)
		MPI(MPI_Request_free(&requests[i]));
	release_channels(channels, PERSISTENT);
}

/* Requests are restarted; after some rounds they and their buffers are replaced. */
int run_persistent(void)
{
	struct channel channels[PERSISTENT];
	MPI_Request requests[2 * PERSISTENT];

	for (int i = 0; i < PERSISTENT; i++)
		channels[i] = pair_channel(job.bytes, i);
	make_requests(channels, requests);
	for (int round = 0; round <= job.rounds; round++) {
		begin_round(round);
		if (round && round % ROUNDS_OF_REQUEST == 0) {
			end_requests(channels, requests);
			make_requests(channels, requests);
		}
		prepare_channels(channels, PERSISTENT, round);
		begin_sending();
		MPI(MPI_Startall(2 * PERSISTENT, requests));
		MPI(MPI_Waitall(2 * PERSISTENT, requests, MPI_STATUSES_IGNORE));
		end_sending();
		check_channels(channels, PERSISTENT, round);
	}
	end_requests(channels, requests);
	return 0;
}
