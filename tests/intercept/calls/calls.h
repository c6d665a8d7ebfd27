/* SPDX-License-Identifier: BSD-3-Clause */
/* calls.h -- programs in rows: their language, their events, and the processes that run them
 *
 * The head of the file `rows` explains the language. Each row is a process of its own. A failing
 * statement ends it with status 1, after a line on standard error.
 */
#ifndef PEERPIN_TESTS_CALLS_H
#define PEERPIN_TESTS_CALLS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define TIME_OUT     300 /* seconds of a row, and of a child */
#define ARGUMENTS    10
#define CHILD_STATUS 3

#define require(condition)                                                                         \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)
#define require_cuda(call) require((call) == CUDA_SUCCESS)
#define until(condition)                                                                           \
	do {                                                                                       \
		while (!(condition))                                                               \
			nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);                  \
	} while (0)

/* ---- language.c ---- */

/* Run the statements of a row. `line`: of the file, for messages. */
void language_run(const char *text, const char *name, unsigned int line);

/* The variable of that name, which comes into being. A name that begins with "_" is the thread's.
 */
uint64_t *variable(const char *name);

/* errno after the thread's last call, which begins with UNTOUCHED. */
#define UNTOUCHED 12345
extern __thread int call_errno;

/* Statements that "at" has registered for an occasion; each list runs once. */
enum occasion {
	AT_ALLOCATED,
	AT_FREEING,
	AT_EXIT,
	AT_FORK,
	AT_CALLOC,
	AT_EXPORTED, /* this and later ones: by hooks.c */
	AT_DRIVER_ALLOCATES,
	AT_DRIVER_FREES,
	OCCASIONS
};
void language_at(enum occasion occasion);

/* A thread of a row ("thread N"). */
struct job {
	pthread_t thread;
	const char *from, *to;
	unsigned int number;
	_Atomic pid_t id;
	_Atomic bool done;
	bool cancelled;
};
struct job *job_of(uint64_t number);

/* ---- events.c ---- */

/* Arguments beyond `count` are 0. A call returns 0 if it succeeds, a check whether it holds. The
 * first argument of an event with a place is a variable's address. */
struct event {
	const char *name;
	enum { CALL, PLACE, CHECK } kind;
	uint64_t (*act)(const uint64_t *arguments, unsigned int count);
};
const struct event *event_find(const char *name);

/* The driver's own function, which bypasses peerpin. */
void *raw_function(const char *name);

/* A counter of peerpin or of the adapter ("adapter.NAME" where both have it); false: no such name.
 * `since_mark`: what it has grown by since mark(). */
bool reading(const char *name, bool since_mark, uint64_t *value);
void mark(void);

bool constant(const char *name, uint64_t *value);
bool thread_sleeps(pid_t thread);
void set_up(void);
void enter_context(void);
/* In a child: counters, which are its parent's, have not changed since mark(). */
void same_counts(void);

#endif
