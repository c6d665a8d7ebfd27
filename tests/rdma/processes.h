/* SPDX-License-Identifier: BSD-3-Clause */
/* processes.h -- a test's processes: forked before verbs are used, with a board that all map
 *
 * A process whose must() fails ends with a message; its test fails, and the other processes are
 * killed.
 */
#ifndef PEERPIN_TESTS_PROCESSES_H
#define PEERPIN_TESTS_PROCESSES_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>

#define PROCESSES_MOST 16

/* What a process needs to reach a queue pair and the memory of another. */
struct card {
	uint32_t number, key;
	uint64_t address;
	uint16_t lid;
	union ibv_gid gid;
};

enum board_word { WORD_STAGE, WORD_DONE, WORD_COUNT, WORDS };

struct board {
	uint32_t arrived, round;
	uint32_t words[WORDS];
	struct card cards[PROCESSES_MOST][PROCESSES_MOST]; /* of the first one, for the second */
	uint32_t keys[PROCESSES_MOST][4];
};

extern struct board *board;

/* Run `body` in `count` processes, and wait until all have returned from it. */
void processes_run(unsigned int count, void (*body)(unsigned int self));

/* The parts of processes_run(), for tests that act meanwhile. */
void processes_start(unsigned int count, void (*body)(unsigned int self));
void processes_kill(unsigned int process, bool reap);
void processes_end(void);
unsigned int processes_count(void);

/* Wait in a process until all have called it equally often. */
void processes_meet(void);

/* Set a word of the board; wait until it is at least `value`. In processes and in the test. */
void board_set(enum board_word word, uint32_t value);
void board_await(enum board_word word, uint32_t value);
uint32_t board_get(enum board_word word);

/* The test's program anew in this process, in which main() calls processes_enter() with the
 * function's name. */
void processes_exec(const char *body) __attribute__((noreturn));
void processes_enter(const char *body, void (*function)(void));

void processes_fail(const char *file, int line, const char *condition) __attribute__((noreturn));

#define must(condition)                                                                            \
	do {                                                                                       \
		if (!(condition))                                                                  \
			processes_fail(__FILE__, __LINE__, #condition);                            \
	} while (0)

#endif
