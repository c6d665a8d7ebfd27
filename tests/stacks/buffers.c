/* SPDX-License-Identifier: BSD-3-Clause */
/* buffers.c -- GPU memory: allocated and counted, filled with messages and checked; times of rounds
 *
 * Only the driver's copies access GPU memory.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "patterns.h"

#define CHUNK_WORDS    4096
#define CHUNK_BYTES    (CHUNK_WORDS * sizeof(uint64_t))
#define REMEMBERED_MAX 4096

static struct counts all;
static CUdevice device;
static CUcontext context;
static int current_round;
static uint64_t sending_since;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUdeviceptr freed[REMEMBERED_MAX]; /* under lock: each address once */
static unsigned int freed_count;

static _Thread_local uint64_t chunk[CHUNK_WORDS], expected[CHUNK_WORDS];

static void add(uint64_t *counter, uint64_t value)
{
	__atomic_fetch_add(counter, value, __ATOMIC_RELAXED);
}

const struct counts *counts(void)
{
	return &all;
}

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

void open_gpu(void)
{
	int count;

	CUDA(cuInit(0));
	CUDA(cuDeviceGetCount(&count));
	if (count < 1)
		fail("cuDeviceGetCount", "no GPU");
	CUDA(cuDeviceGet(&device, job.rank % count));
	CUDA(cuDevicePrimaryCtxRetain(&context, device));
	CUDA(cuCtxSetCurrent(context));
}

void use_gpu(void)
{
	CUDA(cuCtxSetCurrent(context));
}

void close_gpu(void)
{
	CUDA(cuDevicePrimaryCtxRelease(device));
}

/* Addresses beyond the capacity are not remembered: the count is a lower bound. */
void note_release(CUdeviceptr at, uint64_t ns)
{
	add(&all.allocation_ns, ns);
	pthread_mutex_lock(&lock);
	if (freed_count < REMEMBERED_MAX)
		freed[freed_count++] = at;
	pthread_mutex_unlock(&lock);
}

void note_allocation(CUdeviceptr at, uint64_t ns)
{
	add(&all.allocation_ns, ns);
	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < freed_count; i++) {
		if (freed[i] == at) {
			freed[i] = freed[--freed_count];
			add(&all.addresses_reused, 1);
			break;
		}
	}
	pthread_mutex_unlock(&lock);
}

CUdeviceptr allocate(size_t bytes)
{
	uint64_t start = now_ns();
	CUdeviceptr at;

	CUDA(cuMemAlloc(&at, bytes));
	note_allocation(at, now_ns() - start);
	return at;
}

void release(CUdeviceptr buffer)
{
	uint64_t start = now_ns();

	CUDA(cuMemFree(buffer));
	note_release(buffer, now_ns() - start);
}

static uint64_t mix(uint64_t word)
{
	word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ULL;
	word = (word ^ (word >> 27)) * 0x94d049bb133111ebULL;
	return word ^ (word >> 31);
}

/* Independent of the place: computed once for a message. */
static uint64_t seed_of(struct message message)
{
	uint64_t ranks = (uint64_t)message.sender << 32 | (uint32_t)message.receiver;

	return mix(ranks + 1) ^
	       mix(((uint64_t)message.round << 32 | (uint32_t)message.number) + 0x10001);
}

static size_t words_of(size_t bytes)
{
	return (bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t);
}

/* Each half apart. */
static uint64_t add_halves(uint64_t a, uint64_t b)
{
	return (uint32_t)(a + b) | ((a >> 32) + (b >> 32)) << 32;
}

/* Sums of message words from the byte `at` on, as many as fit; returns the number of bytes. */
static size_t make_words(uint64_t *words, size_t at, size_t bytes, const struct message *messages,
			 int count)
{
	size_t made = bytes - at < CHUNK_BYTES ? bytes - at : CHUNK_BYTES;

	memset(words, 0, words_of(made) * sizeof(*words));
	for (int m = 0; m < count; m++) {
		uint64_t seed = seed_of(messages[m]) + at / sizeof(*words);

		for (size_t i = 0; i < words_of(made); i++) {
			uint64_t word = (seed + i) * 0x9e3779b97f4a7c15ULL;

			words[i] = add_halves(words[i], word ^ (word >> 29));
		}
	}
	return made;
}

/* `flip` is combined with every word. */
static void write_message(CUdeviceptr buffer, size_t bytes, struct message message, uint64_t flip)
{
	size_t made;

	for (size_t at = 0; at < bytes; at += made) {
		made = make_words(chunk, at, bytes, &message, 1);
		for (size_t i = 0; i < words_of(made); i++)
			chunk[i] ^= flip;
		CUDA(cuMemcpyHtoD(buffer + at, chunk, made));
	}
}

void fill(CUdeviceptr buffer, size_t bytes, struct message message)
{
	write_message(buffer, bytes, message, 0);
}

void poison(CUdeviceptr buffer, size_t bytes, struct message message)
{
	write_message(buffer, bytes, message, ~0ULL);
}

struct mistake {
	size_t wrong, first; /* bytes; the place of the first of them */
	unsigned char found, wanted;
};

/* Differing bytes. `base`: the place of their first one. */
static void look_closely(struct mistake *mistake, const uint64_t *found, const uint64_t *wanted,
			 size_t bytes, size_t base)
{
	const unsigned char *found_bytes = (const unsigned char *)found;
	const unsigned char *wanted_bytes = (const unsigned char *)wanted;

	for (size_t i = 0; i < bytes; i++) {
		if (found_bytes[i] == wanted_bytes[i])
			continue;
		if (!mistake->wrong++) {
			mistake->first = base + i;
			mistake->found = found_bytes[i];
			mistake->wanted = wanted_bytes[i];
		}
	}
}

static void spoil_byte(CUdeviceptr at)
{
	unsigned char byte;

	CUDA(cuMemcpyDtoH(&byte, at, 1));
	byte ^= 1;
	CUDA(cuMemcpyHtoD(at, &byte, 1));
}

/* In the pattern "crash": the last checked round. */
static int spoiled_round(void)
{
	return strcmp(job.pattern, "crash") ? job.rounds : (job.rounds + 1) / 2 - 1;
}

void check_sum(CUdeviceptr buffer, size_t bytes, const struct message *messages, int count)
{
	struct mistake mistake = { 0 };
	size_t made;

	if (job.spoil && job.rank == job.ranks - 1 && messages[0].round == spoiled_round())
		spoil_byte(buffer + bytes / 2);
	for (size_t at = 0; at < bytes; at += made) {
		made = make_words(expected, at, bytes, messages, count);
		CUDA(cuMemcpyDtoH(chunk, buffer + at, made));
		if (memcmp(chunk, expected, made))
			look_closely(&mistake, chunk, expected, made, at);
	}
	add(&all.checked_bytes, bytes);
	add(&all.wrong, mistake.wrong);
	if (mistake.wrong)
		fprintf(stderr,
			"%s: %s: rank %d: round %d: message %d from rank %d: %zu of %zu "
			"bytes are "
			"wrong, "
			"first that at %zu: 0x%02x in place of 0x%02x\n",
			job.program, job.pattern, job.rank, messages[0].round, messages[0].number,
			messages[0].sender, mistake.wrong, bytes, mistake.first, mistake.found,
			mistake.wanted);
}

void check(CUdeviceptr buffer, size_t bytes, struct message message)
{
	check_sum(buffer, bytes, &message, 1);
}

void reset_counts(void)
{
	memset(&all, 0, sizeof(all));
	freed_count = 0;
}

void begin_round(int round)
{
	current_round = round;
	if (round == 1)
		MPI_Pcontrol(2 * job.number + 1);
}

void begin_sending(void)
{
	MPI(MPI_Barrier(MPI_COMM_WORLD));
	sending_since = now_ns();
}

void end_sending(void)
{
	all.send_ns[current_round] += now_ns() - sending_since;
	all.rounds = current_round;
}

static int compare_times(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

uint64_t median_ns(const uint64_t *ns, int rounds)
{
	static uint64_t sorted[MAX_ROUNDS];

	memcpy(sorted, ns, rounds * sizeof(*sorted));
	qsort(sorted, rounds, sizeof(*sorted), compare_times);
	return rounds ? (sorted[(rounds - 1) / 2] + sorted[rounds / 2]) / 2 : 0;
}
