/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * patterns.h -- what the patterns of communication have in common: the job, GPU buffers, channels
 *
 * Each pattern is written as an application would be, over MPI and the CUDA driver API alone. What
 * a message consists of depends on who sends it to whom, in which round, as which of the round's
 * messages, and on the place in it; a receive buffer is filled beforehand with what differs in each
 * byte. So a byte that did not arrive, came from elsewhere or from another round is found.
 *
 * A failing call ends the job with a line on standard error. Threads may use all of this at once,
 * but for what says otherwise.
 */
#ifndef PEERPIN_TESTS_STACKS_PATTERNS_H
#define PEERPIN_TESTS_STACKS_PATTERNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>
#include <mpi.h>

#define MAX_ROUNDS 1000
/* A pattern that this MPI library does not allow. */
#define STATUS_SKIPPED 77

/* What was asked for, and who this rank is. Constant while a pattern runs. */
struct job {
	const char *pattern;
	int rank, ranks;
	int cases, number, repeat; /* all that one start is for; this one among them; of this
				      pattern and size */
	int rounds;		   /* after round 0 */
	size_t bytes; /* of a message, or of a round's messages together where they are small ones
		       */
	size_t receive_more; /* bytes of an allocated receive buffer beyond those of its message */
	bool by_abort;	     /* how the pattern "crash" ends its last rank, otherwise by SIGKILL */
	bool spoil;	     /* the last rank spoils a byte before it checks: it must be found */
	const char *json;
	const char *turn_from, *turn_to; /* NULL: no turns are taken */
};

extern struct job job;

/* ---- patterns.c ---- */

/* Ends the job with status 1. */
void fail(const char *what, const char *why) __attribute__((noreturn));
void check_cuda(CUresult result, const char *call);
void check_mpi(int result, const char *call);

#define CUDA(call) check_cuda(call, #call)
#define MPI(call)  check_mpi(call, #call)

/* ---- results.c ---- */

/* Each rank's results so far, to its file if one is asked for. By one thread. */
void write_results(void);

/* ---- turns.c: jobs that are to be compared do a case each, one after the other ---- */

/* Waits for this job's first turn, or does nothing where no turns are taken. */
void begin_turns(void);
/* Lets all others have theirs. */
void yield_turn(void);
/* The same, and then the others have it for good. */
void end_turns(void);

/* ---- buffers.c ---- */

struct message {
	int sender, receiver; /* in MPI_COMM_WORLD */
	int round;
	int number; /* among the messages from this sender to this receiver in this round */
};

void open_gpu(void);
void use_gpu(void); /* in a further thread */
void close_gpu(void);
/* Begins to count anew. By one thread, as no others run. */
void reset_counts(void);

CUdeviceptr allocate(size_t bytes);
void release(CUdeviceptr buffer);
/* Memory of another making counts, too; `ns` is what it took. */
void note_allocation(CUdeviceptr at, uint64_t ns);
void note_release(CUdeviceptr at, uint64_t ns);
uint64_t now_ns(void);

/* `bytes` is a multiple of 8 everywhere. */
void fill(CUdeviceptr buffer, size_t bytes, struct message message);
void poison(CUdeviceptr buffer, size_t bytes, struct message message);
void check(CUdeviceptr buffer, size_t bytes, struct message message);
/* What has been summed up from `count` messages, as unsigned numbers of 8 bytes. */
void check_sum(CUdeviceptr buffer, size_t bytes, const struct message *messages, int count);

struct counts {
	uint64_t messages, checked_bytes, wrong;
	uint64_t allocations, allocation_ns; /* the time of freeing, too */
	uint64_t addresses_reused; /* allocations where one of the program's had been freed */
	int rounds;		   /* done after round 0: fewer than asked for where a job dies */
	uint64_t send_ns[MAX_ROUNDS + 1];
};

const struct counts *counts(void);

/* Rounds are counted from 0 to job.rounds; round 0, the first use of everything, is measured apart:
 * what MPI_Pcontrol tells a witness of registrations is 2 * case up to its end, and then 2 * case
 * + 1. By one thread, as the two that follow. */
void begin_round(int round);
/* What lies between is time in the send path of this round; several such times are added. All ranks
 * begin together. */
void begin_sending(void);
void end_sending(void);

/* ---- channels.c ---- */

/* A message to one rank and one from a rank, of the same size, under way at the same time. */
struct channel {
	CUdeviceptr send, receive;
	size_t bytes;
	MPI_Comm communicator;
	int to, from;		  /* in the communicator */
	int world_to, world_from; /* the same ranks in MPI_COMM_WORLD */
	int number, tag;	  /* of both messages */
};

/* With the other rank of this one's pair, in MPI_COMM_WORLD; `number` is the tag, too. Without
 * buffers. */
struct channel pair_channel(size_t bytes, int number);
void allocate_channels(struct channel *channels, int count);
void release_channels(struct channel *channels, int count);

/* fill and poison; MPI_Irecv, MPI_Isend and MPI_Waitall; check. */
void prepare_channels(const struct channel *channels, int count, int round);
void use_channels(const struct channel *channels, int count);
void check_channels(const struct channel *channels, int count, int round);
/* prepare, use, measured, and check; by one thread. */
void exchange_channels(const struct channel *channels, int count, int round);

/* ---- the patterns: each runs all rounds and returns 0, or STATUS_SKIPPED ---- */

int run_halo(void);
int run_communicators(void);
int run_persistent(void);
int run_allocating(void);
int run_small(void);
int run_freeing(void);
int run_pool(void);
int run_threads(void);
int run_windows(void);
int run_crash(void);

#endif
