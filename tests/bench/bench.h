/* SPDX-License-Identifier: BSD-3-Clause */
/* bench.h -- the harness of the benches: options, threads, times, tables
 *
 * A bench measures operations: nine runs of at least 20 ms on each thread, calibrated beforehand.
 * The result is the median, with minimum and maximum. Runs of the comparison alternate with them,
 * so that both meet the same state of the machine. A time is that of one operation on one thread,
 * while `threads` work at once.
 */
#ifndef PEERPIN_TESTS_BENCH_H
#define PEERPIN_TESTS_BENCH_H

#include <stdbool.h>
#include <stdint.h>

/* One timed operation. `run` does it `count` times and returns a sum of all answers, so that none
 * is optimised away; `check`, untimed, verifies the sum. `prepare` (or NULL) runs on each thread
 * before the clock starts. Threads count from 0. */
struct bench_operation {
	void (*prepare)(void *context, unsigned int thread);
	uint64_t (*run)(void *context, unsigned int thread, uint64_t count);
	bool (*check)(void *context, unsigned int thread, uint64_t count, uint64_t sum);
	void *context;
};

/* A row of the table. Set name and live; bench_measure() and bench_report() fill in the rest.
 * Unknown: NAN, or an empty text. No pointers: rows travel between processes. */
struct bench_row {
	char name[96];
	uint64_t live;	      /* allocations */
	unsigned int threads; /* 0 is taken as 1 */
	double ns, min_ns, max_ns;
	char peer[32];
	double peer_ns;
};

struct bench {
	const char *name;
	const char *about;	     /* text for --help, ending with a line feed */
	const unsigned int *threads; /* default list, ended by 0; limited to the CPUs */
	const char *(*add_to_machine)(
		void); /* NULL, or a text about the machine; may return NULL */
};

/* Read the options; exits after --help or a bad one. */
void bench_begin(const struct bench *bench, int argc, char **argv);

bool bench_is_quick(void);
bool bench_wants(const char *name);			 /* selected by --only */
bool bench_wants_in(const char *name, const char *mode); /* of the row "NAME, MODE" */

/* Call `each` for every requested number of threads. */
void bench_each_threads(void (*each)(unsigned int threads, void *argument), void *argument);

struct bench_row bench_row(const char *name, uint64_t live, unsigned int threads);

/* Measure the row's times. `peer` may be NULL; otherwise row->peer names it. A wrong answer fails
 * the bench. */
void bench_measure(const struct bench_operation *ours, const struct bench_operation *peer,
		   struct bench_row *row);

void bench_report(struct bench_row row);

/* Start this program again with `changes` to its environment ("NAME=value", or "NAME" to unset;
 * ended by NULL). There bench_part() is `part`, and its rows go to `receive` here. */
void bench_again(const char *part, const char *const *changes,
		 void (*receive)(struct bench_row row, void *argument), void *argument);

/* NULL: not such a child. */
const char *bench_part(void);

/* Report an error; the bench continues, and fails at its end. */
void bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A condition without which nothing can be measured. */
void bench_require(bool good, const char *what);

/* Zeroed memory with its pages present, so that they do not count as growth. */
void *bench_memory(uint64_t size);

/* Pseudo-random, the same in each run. */
uint64_t bench_random(uint64_t *state);

/* Print the rest; returns main's status. */
int bench_end(void);

#endif
