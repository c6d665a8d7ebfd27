/* SPDX-License-Identifier: BSD-3-Clause */
/* collectives.c -- broadcast, gather, exchange and sum over all ranks, in new buffers each round */
#include "patterns.h"

enum { BROADCAST, GATHERED, EXCHANGED, SUM };

#define RANKS_MAX 64

static CUdeviceptr part(CUdeviceptr buffer, int rank)
{
	return buffer + (CUdeviceptr)rank * job.bytes;
}

static void broadcast(CUdeviceptr buffer, int round)
{
	int root = round % job.ranks;
	struct message sent = message(root, root, round, BROADCAST);

	if (job.rank == root)
		fill(buffer, job.bytes, sent);
	else
		poison(buffer, job.bytes, sent);
	begin_sending();
	MPI(MPI_Bcast(pointer(buffer), (int)job.bytes, MPI_BYTE, root, MPI_COMM_WORLD));
	end_sending();
	check(buffer, job.bytes, sent);
}

static void gather(CUdeviceptr send, CUdeviceptr receive, int round)
{
	fill(send, job.bytes, message(job.rank, job.rank, round, GATHERED));
	for (int rank = 0; rank < job.ranks; rank++)
		poison(part(receive, rank), job.bytes, message(rank, rank, round, GATHERED));
	begin_sending();
	MPI(MPI_Allgather(pointer(send), (int)job.bytes, MPI_BYTE, pointer(receive), (int)job.bytes,
			  MPI_BYTE, MPI_COMM_WORLD));
	end_sending();
	for (int rank = 0; rank < job.ranks; rank++)
		check(part(receive, rank), job.bytes, message(rank, rank, round, GATHERED));
}

static void exchange(CUdeviceptr send, CUdeviceptr receive, int round)
{
	for (int rank = 0; rank < job.ranks; rank++) {
		fill(part(send, rank), job.bytes, message(job.rank, rank, round, EXCHANGED));
		poison(part(receive, rank), job.bytes, message(rank, job.rank, round, EXCHANGED));
	}
	begin_sending();
	MPI(MPI_Alltoall(pointer(send), (int)job.bytes, MPI_BYTE, pointer(receive), (int)job.bytes,
			 MPI_BYTE, MPI_COMM_WORLD));
	end_sending();
	for (int rank = 0; rank < job.ranks; rank++)
		check(part(receive, rank), job.bytes, message(rank, job.rank, round, EXCHANGED));
}

static void sum(CUdeviceptr send, CUdeviceptr receive, int round)
{
	struct message addends[RANKS_MAX];

	for (int rank = 0; rank < job.ranks; rank++)
		addends[rank] = message(rank, rank, round, SUM);
	fill(send, job.bytes, addends[job.rank]);
	poison(receive, job.bytes, addends[job.rank]);
	begin_sending();
	MPI(MPI_Allreduce(pointer(send), pointer(receive), (int)(job.bytes / sizeof(uint32_t)),
			  MPI_UINT32_T, MPI_SUM, MPI_COMM_WORLD));
	end_sending();
	check_sum(receive, job.bytes, addends, job.ranks);
}

int run_collectives(void)
{
	size_t bytes = job.bytes * (size_t)job.ranks;

	if (job.ranks > RANKS_MAX)
		fail("collectives", "too many ranks");
	for (int round = 0; round <= job.rounds; round++) {
		CUdeviceptr send, receive;

		begin_round(round);
		send = allocate(bytes);
		receive = allocate(bytes);
		broadcast(send, round);
		gather(send, receive, round);
		exchange(send, receive, round);
		sum(send, receive, round);
		release(receive);
		release(send);
	}
	return 0;
}
