/* SPDX-License-Identifier: BSD-3-Clause */
/* queries.h -- a random population of memory, and queries of it that are asked twice
 *
 * Once through the function that a client finds, which the preload answers, and once through the
 * driver's own: results and every byte that is written have to agree. Nothing here is shared by
 * threads but what says so.
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

/* Filled before any thread begins. */
extern struct functions client, own;

/* A source of numbers, and where it stands, for the report of a difference. */
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

/* Ends the program, with the place and what is wrong there. */
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
	MAPPED, /* and beside it without access, and reserved */
	HOST,
	REGISTERED, /* parts of pages of our own */
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
	uint64_t address, size; /* of REGISTERED: of all of the pages */
	struct {
		uint64_t address, size;
	} parts[PARTS_MAX];
	int part_count;
	CUmodule module;
	bool in_context; /* that will be destroyed */
};

struct population {
	struct member members[POPULATION];
	int count;
	uint64_t gone[GONE_MAX]; /* where something was */
	int gone_count;
};

void population_allocation(struct population *population, struct dice *dice);
void population_allocation_of(struct population *population, struct dice *dice, enum kind kind);
void population_free(struct population *population, struct dice *dice);
void population_end(struct population *population, struct dice *dice);
/* The context that these members were allocated in has been destroyed. */
void population_lose(struct population *population);
/* Pages are registered that were nobody's, or the other way around. */
void population_turn(struct population *population, struct dice *dice);
/* An address to ask about; `settled`: inside living memory, so that no other thread can change what
 * it is. */
uint64_t population_address(const struct population *population, struct dice *dice, bool settled);

/* ---- ask.c ---- */

enum form { SINGLE, LIST, RANGE, RETAIN, FORMS };

#define LIST_MAX 20

struct query {
	enum form form;
	uint64_t address;
	unsigned int count;
	CUpointer_attribute names[LIST_MAX];
	int slots[LIST_MAX]; /* where the answer goes; -1: null */
	bool null_names, null_data;
};

void query_make(struct query *query, struct dice *dice, uint64_t address);
/* Asks both and compares; fails the program if they differ. */
void query_ask(const struct query *query, const struct dice *dice);
/* That a single attribute reads the same by both ways. */
void query_attribute(CUpointer_attribute attribute, uint64_t address, const struct dice *dice);

#endif
