/* SPDX-License-Identifier: BSD-3-Clause */
/* channels.c -- messages to and from one rank each, several in flight at once */
#include "patterns.h"

#define REQUESTS_MAX 256

struct channel pair_channel(size_t bytes, int number)
{
	int peer = job.rank ^ 1;

	return (struct channel){ .bytes = bytes, .to = peer, .from = peer, .number = number };
}

void allocate_channels(struct channel *channels, int count)
{
	for (int i = 0; i < count; i++) {
		channels[i].send = allocate(channels[i].bytes);
		channels[i].receive = allocate(channels[i].bytes + job.receive_more);
	}
}

void release_channels(struct channel *channels, int count)
{
	for (int i = 0; i < count; i++) {
		release(channels[i].send);
		release(channels[i].receive);
	}
}

static struct message outgoing(const struct channel *channel, int round)
{
	return (struct message){ job.rank, channel->to, round, channel->number };
}

static struct message incoming(const struct channel *channel, int round)
{
	return (struct message){ channel->from, job.rank, round, channel->number };
}

void prepare_channels(const struct channel *channels, int count, int round)
{
	for (int i = 0; i < count; i++) {
		fill(channels[i].send, channels[i].bytes, outgoing(&channels[i], round));
		poison(channels[i].receive, channels[i].bytes, incoming(&channels[i], round));
	}
}

void use_channels(const struct channel *channels, int count)
{
	MPI_Request requests[REQUESTS_MAX];

	if (2 * count > REQUESTS_MAX)
		fail("use_channels", "too many channels");
	for (int i = 0; i < count; i++)
		MPI(MPI_Irecv((void *)(uintptr_t)channels[i].receive, (int)channels[i].bytes,
			      MPI_BYTE, channels[i].from, channels[i].number, MPI_COMM_WORLD,
			      &requests[i]));
	for (int i = 0; i < count; i++)
		MPI(MPI_Isend((void *)(uintptr_t)channels[i].send, (int)channels[i].bytes, MPI_BYTE,
			      channels[i].to, channels[i].number, MPI_COMM_WORLD,
			      &requests[count + i]));
	MPI(MPI_Waitall(2 * count, requests, MPI_STATUSES_IGNORE));
}

void check_channels(const struct channel *channels, int count, int round)
{
	for (int i = 0; i < count; i++)
		check(channels[i].receive, channels[i].bytes, incoming(&channels[i], round));
}

void exchange_channels(const struct channel *channels, int count, int round)
{
	prepare_channels(channels, count, round);
	begin_sending();
	use_channels(channels, count);
	end_sending();
	check_channels(channels, count, round);
}
