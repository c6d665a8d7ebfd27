/* SPDX-License-Identifier: BSD-3-Clause */
/* bench.h -- the harness of the benches: options, threads, times, goals, tables
 *
 * A bench measures operations. One is run nine times, after a count of iterations has been found
 * that keeps each thread busy for at least 20 ms; the median is the result, minimum and maximum
 * stand beside it. What it is compared with is run in turn with it, so that both see the same state
 * of the machine. Times are what one operation takes as a thread sees it, with as many threads as
 * told working at the same time.
 */
#ifndef PEERPIN_TESTS_BENCH_H
#define PEERPIN_TESTS_BENCH_H

#include <stdbool.h>
#include <stdint.h>

/* One thing that is timed. `run` does it `count` times and returns a sum of all answers, so that
 * none can be left out; `check`, whose time is not taken, says whether the sum is right. `prepare`,
 * if there is one, is called on each thread before the clock starts. Threads count from 0. */
struct bench_operation {
	void (*prepare)(void *context, unsigned int thread);
	uint64_t (*run)(void *context, unsigned int thread, uint64_t count);
	bool (*check)(void *context, unsigned int thread, uint64_t count, uint64_t sum);
	void *context;
};

/* A line of the table. Set: name, live and, where nothing is timed, bytes or the figure; the rest
 * comes from bench_measure() and bench_report(). What is not known is NAN, or an empty text. No
 * pointers: rows travel between processes. */
struct bench_row {
	char name[80];
	uint64_t live;	      /* allocations */
	unsigned int threads; /* 0 is taken as 1 */
	double ns, min_ns, max_ns;
	char peer[32];
	double peer_ns;
	double bytes;  /* of memory, for each allocation */
	double figure; /* what is counted instead of timed, in `unit` */
	char unit[8];
	double peer_figure;
	double alone_ratio; /* ns to those of the row with one thread */
	double goal_ns, goal_ratio, goal_alone_ratio, goal_bytes;
	double goal_most, goal_least; /* of the figure */
};

/* The first whose pattern (as of a shell) fits the name, and whose bounds the row, is a row's goal.
 * 0: no bound, no goal. */
struct bench_goal {
	const char *pattern;
	unsigned int threads_from, threads_to;
	uint64_t live_from, live_to;
	double ns, ratio, alone_ratio, bytes;
	double over_peer;    /* ns are to be at most so many more than the peer's */
	double most, least;  /* the figure is to be at most, at least so many */
	double most_of_peer; /* the figure is to be at most so many times the peer's */
};

struct bench {
	const char *name;
	const char *about;		/* for --help: ends with a line feed */
	const struct bench_goal *goals; /* ended by one without a pattern */
	const unsigned int
		*threads; /* default list, ended by 0; those beyond the CPUs are left out */
	const char *(*add_to_machine)(
		void); /* NULL, or what else the machine has; may return NULL */
};

/* Reads the options; does not return after --help or a bad one. */
void bench_begin(const struct bench *bench, int argc, char **argv);

bool bench_is_quick(void);
bool bench_wants(const char *name); /* whether --only leaves it in */

/* Calls `each` with every number of threads that is asked for. */
void bench_each_threads(void (*each)(unsigned int threads, void *argument), void *argument);

/* A row of which nothing else is known. */
struct bench_row bench_row(const char *name, uint64_t live, unsigned int threads);

/* Fills in the row's times. `peer` may be NULL; else the row's peer has its name. A wrong answer
 * fails the bench. */
void bench_measure(const struct bench_operation *ours, const struct bench_operation *peer,
		   struct bench_row *row);

void bench_report(struct bench_row row);

/* Runs `part` in a process of its own, whose rows are reported here: it begins with nothing
 * allocated. */
void bench_apart(void (*part)(void *argument), void *argument);

/* Runs this program again from its beginning, with `changes` to its environment: "NAME=value", or
 * "NAME", which takes it away; ended by NULL. There bench_part() is `part`, and each row that it
 * reports goes to `hear` here. */
void bench_again(const char *part, const char *const *changes,
		 void (*hear)(struct bench_row row, void *argument), void *argument);

/* NULL: this is not such a run. */
const char *bench_part(void);

/* Says what is wrong; the bench goes on, and fails at its end. */
void bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* For what cannot fail, or leaves nothing to measure. */
void bench_require(bool good, const char *what);

/* Memory of zeros that has its pages already, so that they are nobody's growth later. */
void *bench_memory(uint64_t size);

/* A sequence of numbers, the same in each run. */
uint64_t bench_random(uint64_t *state);

/* Prints what is left to print; returns main's status. */
int bench_end(void);

#endif
