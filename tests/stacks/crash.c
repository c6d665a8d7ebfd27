/* SPDX-License-Identifier: BSD-3-Clause */
/* crash.c -- the last rank crashes while messages are in flight */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "patterns.h"

/* Ends the others if the launcher does not. */
#define PATIENCE_S 60

static void die_under_way(const struct channel *channel)
{
	MPI_Request requests[2];

	MPI(MPI_Irecv((void *)(uintptr_t)channel->receive, (int)channel->bytes, MPI_BYTE,
		      channel->from, channel->number, MPI_COMM_WORLD, &requests[0]));
	MPI(MPI_Isend((void *)(uintptr_t)channel->send, (int)channel->bytes, MPI_BYTE, channel->to,
		      channel->number, MPI_COMM_WORLD, &requests[1]));
	if (job.by_abort)
		abort();
	raise(SIGKILL);
}

/* New buffers in each round. Each rank's results contain its checked rounds. A wrong byte ends the
 * job before its last rank ends, with another status, since no sum follows. */
int run_crash(void)
{
	struct channel channel = pair_channel(job.bytes, 0);
	int last = (job.rounds + 1) / 2;

	for (int round = 0; round < last; round++) {
		begin_round(round);
		allocate_channels(&channel, 1);
		exchange_channels(&channel, 1, round);
		release_channels(&channel, 1);
	}
	if (counts()->wrong)
		fail("crash", "bytes were wrong before it");
	begin_round(last);
	allocate_channels(&channel, 1);
	prepare_channels(&channel, 1, last);
	write_results();
	if (job.rank == 0) {
		printf("patterns: crash: rank %d dies in round %d by %s\n", job.ranks - 1, last,
		       job.by_abort ? "abort" : "SIGKILL");
		fflush(stdout);
	}
	alarm(PATIENCE_S);
	begin_sending();
	if (job.rank == job.ranks - 1)
		die_under_way(&channel);
	use_channels(&channel, 1);
	/* Ranks without a crashed partner: the job cannot continue. */
	MPI_Barrier(MPI_COMM_WORLD);
	fail("crash", "the job went on without its last rank");
}
