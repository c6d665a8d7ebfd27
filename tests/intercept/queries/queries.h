/* SPDX-License-Identifier: BSD-3-Clause */
/* queries.h -- a random population of memory, and each query of it twice
 *
 * First through the client's function, which the preload intercepts, then through the driver's own:
 * results and all written bytes must agree. Threads share nothing here except where noted.
 */
#ifndef PEERPIN_TESTS_QUERIES_H
#define PEERPIN_TESTS_QUERIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/cuda_abi.h"

struct functions {
#define FUNCTION(symbol, ...) CUresult (*symbol)(__VA_ARGS__);
#include "memory/cuda_abi.def"
#undef FUNCTION
};

/* Shared by threads; filled before the first one starts. */
extern struct functions client, own;

/* Random numbers; step and phase for the report of a difference. */
struct dice {
	uint64_t state, seed;
	unsigned long step;
	const char *phase;
};

uint64_t throw(struct dice * dice, uint64_t below);
static inline bool chance(struct dice *dice, unsigned int percent)
{
	return throw(dice, 100) < percent;
}

/* Print seed, phase, step and message; exit. */
void fail(const struct dice *dice, const char *format, ...)
	__attribute__((format(printf, 2, 3), noreturn));
#define MUST(dice, call)                                                                           \
	do {                                                                                       \
		CUresult must_result = (call);                                                     \
		if (must_result != CUDA_SUCCESS)                                                   \
			fail(dice, "%s: %d", #call, (int)must_result);                             \
	} while (0)

/* ---- population.c ---- */

enum kind {
	DEVICE,
	PITCHED,
	MANAGED,
	POOL,
	MAPPED, /* beside it: a mapping without access, and a reserved range */
	HOST,
	REGISTERED, /* parts of mmap()ed pages */
	HEAP,
	PAGES,
	VARIABLE,
	KINDS
};

#define PARTS_MAX  3
#define POPULATION 48
#define GONE_MAX   64

struct member {
	enum kind kind;
	uint64_t address, size; /* DEVICE: of the driver's block; REGISTERED: of all pages */
	struct {
		uint64_t address, size;
	} parts[PARTS_MAX];
	int part_count;
	CUmodule module;
	bool in_context; /* allocated in a context that will be destroyed */
};

struct population {
	struct member members[POPULATION];
	int count;
	uint64_t gone[GONE_MAX]; /* addresses of freed memory */
	int gone_count;
};

void population_allocation(struct population *population, struct dice *dice);
void population_allocation_of(struct population *population, struct dice *dice, enum kind kind);
void population_free(struct population *population, struct dice *dice);
void population_end(struct population *population, struct dice *dice);
/* The context that these members were allocated in has been destroyed. */
void population_lose(struct population *population);
/* Register pages that were not registered, or unregister registered ones. */
void population_turn(struct population *population, struct dice *dice);
/* An address to query; `settled`: inside live memory, which no other thread changes. */
uint64_t population_address(const struct population *population, struct dice *dice, bool settled);

/* In the first part, all memory of the program; else NULL. Memory that the driver reports elsewhere
 * is kept (PEERPIN_KEEP): freed memory to the program. */
extern const struct population *whole_population;
bool population_has(const struct population *population, uint64_t address);

/* ---- ask.c ---- */

extern unsigned long kept_queries; /* so far, of freed memory that the driver still reports */

enum form { SINGLE, LIST, RANGE, RETAIN, FORMS };

#define LIST_MAX 20

struct query {
	enum form form;
	uint64_t address;
	unsigned int count;
	CUpointer_attribute names[LIST_MAX];
	int slots[LIST_MAX]; /* indices of the outputs; -1: null */
	bool null_names, null_data;
};

void query_make(struct query *query, struct dice *dice, uint64_t address);
/* Query both and compare; fail() on a difference. */
void query_ask(const struct query *query, const struct dice *dice);
/* Compare a single attribute. */
void query_attribute(CUpointer_attribute attribute, uint64_t address, const struct dice *dice);

#endif
