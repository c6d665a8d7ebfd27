/* SPDX-License-Identifier: BSD-3-Clause */
/* windows.c -- one-sided operations on GPU memory, with fences and with locks
 *
 * Each round makes a window and frees it. Its memory has three parts: one that the rank below puts
 * into, one that it gets, and one to which it and the rank above add.
 */
#include "patterns.h"

enum { PUT, GOT, SUM, PARTS };

static int above(void)
{
	return (job.rank + 1) % job.ranks;
}

static int below(void)
{
	return (job.rank + job.ranks - 1) % job.ranks;
}

/* Initial sum: a message of this rank to itself. */
static struct message own(int round)
{
	return message(job.rank, job.rank, round, SUM);
}

/* Each neighbour adds a message: number SUM from below, PARTS from above. */
static void check_own_sum(CUdeviceptr at, int round)
{
	const struct message added[] = {
		own(round),
		message(below(), job.rank, round, SUM),
		message(above(), job.rank, round, PARTS),
	};

	check_sum(at, job.bytes, added, 3);
}

struct memory {
	CUdeviceptr window;
	CUdeviceptr put, got, up, down; /* put, destination of get, added above and below */
};

static void prepare(const struct memory *memory, int round)
{
	int me = job.rank;

	poison(memory->window + PUT * job.bytes, job.bytes, message(below(), me, round, PUT));
	fill(memory->window + GOT * job.bytes, job.bytes, message(me, below(), round, GOT));
	fill(memory->window + SUM * job.bytes, job.bytes, own(round));
	fill(memory->put, job.bytes, message(me, above(), round, PUT));
	poison(memory->got, job.bytes, message(above(), me, round, GOT));
	fill(memory->up, job.bytes, message(me, above(), round, SUM));
	fill(memory->down, job.bytes, message(me, below(), round, PARTS));
}

static void use(const struct memory *memory)
{
	int bytes = (int)job.bytes, words = (int)(job.bytes / sizeof(uint32_t));
	MPI_Win window;

	MPI(MPI_Win_create(pointer(memory->window), (MPI_Aint)(PARTS * job.bytes), 1, MPI_INFO_NULL,
			   MPI_COMM_WORLD, &window));
	MPI(MPI_Win_fence(0, window));
	MPI(MPI_Put(pointer(memory->put), bytes, MPI_BYTE, above(), PUT * (MPI_Aint)job.bytes,
		    bytes, MPI_BYTE, window));
	MPI(MPI_Get(pointer(memory->got), bytes, MPI_BYTE, above(), GOT * (MPI_Aint)job.bytes,
		    bytes, MPI_BYTE, window));
	MPI(MPI_Win_fence(MPI_MODE_NOSUCCEED, window));
	for (int i = 0; i < 2; i++) {
		int to = i ? below() : above();

		MPI(MPI_Win_lock(MPI_LOCK_SHARED, to, 0, window));
		MPI(MPI_Accumulate(pointer(i ? memory->down : memory->up), words, MPI_UINT32_T, to,
				   SUM * (MPI_Aint)job.bytes, words, MPI_UINT32_T, MPI_SUM,
				   window));
		MPI(MPI_Win_unlock(to, window));
	}
	/* Collective: afterwards no rank adds to this rank's memory. */
	MPI(MPI_Win_free(&window));
}

/* Creating a window registers its memory: time in the send path. */
int run_windows(void)
{
	struct memory memory = {
		.put = allocate(job.bytes),
		.got = allocate(job.bytes),
		.up = allocate(job.bytes),
		.down = allocate(job.bytes),
	};

	for (int round = 0; round <= job.rounds; round++) {
		begin_round(round);
		memory.window = allocate(PARTS * job.bytes);
		prepare(&memory, round);
		begin_sending();
		use(&memory);
		end_sending();
		check(memory.window + PUT * job.bytes, job.bytes,
		      message(below(), job.rank, round, PUT));
		check(memory.got, job.bytes, message(above(), job.rank, round, GOT));
		check_own_sum(memory.window + SUM * job.bytes, round);
		release(memory.window);
	}
	/* Each gets its own memory again: a driver, and peerpin, reuse the last freed one first. */
	release(memory.down);
	release(memory.up);
	release(memory.got);
	release(memory.put);
	return 0;
}
