/* SPDX-License-Identifier: BSD-3-Clause */
/* patterns.h -- shared by the patterns and the demonstration: the job, GPU buffers, channels
 *
 * Each pattern is written as in an application, over MPI and the CUDA driver API alone. A message's
 * content depends on sender, receiver, round, number in the round, and place; a receive buffer is
 * filled beforehand with bytes that all differ. A missing byte, or one from elsewhere or from
 * another round, is found.
 *
 * A failing call ends the job with a line on standard error. All functions are thread-safe unless
 * stated.
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

/* Options, and this rank. Constant while a pattern runs. */
struct job {
	const char *program; /* its name in messages */
	const char *pattern;
	int rank, ranks;
	int cases, number, repeat; /* cases of the job; the current one; its repetition */
	int rounds;		   /* after round 0 */
	size_t bytes;		   /* bytes of a message, or of a round's small messages together */
	size_t receive_more; /* bytes of an allocated receive buffer beyond those of its message */
	bool by_abort;	     /* how the pattern "crash" ends its last rank; 0: SIGKILL */
	bool spoil;	     /* the last rank spoils a byte before the check, which must find it */
	const char *json;
};

extern struct job job;

/* ---- failures.c ---- */

/* End the job with status 1. */
void fail(const char *what, const char *why) __attribute__((noreturn));
void check_cuda(CUresult result, const char *call);
void check_mpi(int result, const char *call);

#define CUDA(call) check_cuda(call, #call)
#define MPI(call)  check_mpi(call, #call)

/* ---- results.c ---- */

/* Write each rank's results to its file, if any. One thread. */
void write_results(void);

/* ---- buffers.c ---- */

struct message {
	int sender, receiver; /* in MPI_COMM_WORLD */
	int round;
	int number; /* number among the messages of this sender and receiver in this round */
};

static inline struct message message(int sender, int receiver, int round, int number)
{
	return (struct message){ sender, receiver, round, number };
}

static inline void *pointer(CUdeviceptr at)
{
	return (void *)(uintptr_t)at;
}

void open_gpu(void);
void use_gpu(void); /* of a further thread */
void close_gpu(void);
/* Reset the counters. While no other thread runs. */
void reset_counts(void);

CUdeviceptr allocate(size_t bytes);
void release(CUdeviceptr buffer);
/* Count memory that another function allocated; `ns`: its time. */
void note_allocation(CUdeviceptr at, uint64_t ns);
void note_release(CUdeviceptr at, uint64_t ns);
uint64_t now_ns(void);
/* Of `rounds` times, at most MAX_ROUNDS; 0: none. One thread. */
uint64_t median_ns(const uint64_t *ns, int rounds);

/* `bytes` is a multiple of 4 everywhere. */
void fill(CUdeviceptr buffer, size_t bytes, struct message message);
void poison(CUdeviceptr buffer, size_t bytes, struct message message);
void check(CUdeviceptr buffer, size_t bytes, struct message message);
/* Sum of `count` messages, as unsigned numbers of 4 bytes. */
void check_sum(CUdeviceptr buffer, size_t bytes, const struct message *messages, int count);

struct counts {
	uint64_t checked_bytes, wrong;
	uint64_t allocation_ns;	   /* of allocations and frees */
	uint64_t addresses_reused; /* allocations at an address that was freed before */
	int rounds;		   /* done after round 0: fewer than requested if a job dies */
	uint64_t send_ns[MAX_ROUNDS + 1];
};

const struct counts *counts(void);

/* Rounds 0 to job.rounds; round 0, the first use, is measured apart: MPI_Pcontrol gives the
 * witness 2 * case until its end, then 2 * case + 1. This and the two functions below: one
 * thread. */
void begin_round(int round);
/* Time in between is in the send path of this round; times add up. All ranks start together. */
void begin_sending(void);
void end_sending(void);

/* ---- channels.c ---- */

/* A message to and from one rank each, of one size, in flight at once. */
struct channel {
	CUdeviceptr send, receive;
	size_t bytes;
	int to, from; /* ranks */
	int number;   /* and tag of both messages */
};

/* With the other rank of the pair, in MPI_COMM_WORLD; `number` is the tag too. Without buffers. */
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
int run_allocating(void);
int run_small(void);
int run_sizes(void);
int run_random(void);
int run_freeing(void);
int run_pool(void);
int run_threads(void);
int run_windows(void);
int run_collectives(void);
int run_crash(void);

#endif
