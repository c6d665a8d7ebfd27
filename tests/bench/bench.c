/* SPDX-License-Identifier: BSD-3-Clause */
/* bench.c -- options and rows; measure.c has the clock */
#include "bench.h"

#include <errno.h>
#include <fnmatch.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "measure.h"
#include "print.h"

#define ROWS	    1024
#define MOST_COUNTS 32

/* Set in a child that this program started again. */
#define PART_VARIABLE "BENCH_PART"
#define ROWS_VARIABLE "BENCH_ROWS"

static const struct bench *bench;
static bool json, quick, failed;
static const char *only;
static unsigned int counts[MOST_COUNTS + 1];
static struct bench_row rows[ROWS];
static unsigned int row_count;
static int to_parent = -1; /* a part's rows go there */
static char **own_arguments;

/* ---- options ---- */

static void help(void)
{
	printf("usage: %s [OPTION...]\n\n%s\n"
	       "  --json          one JSON object on standard output; the table goes to standard "
	       "error\n"
	       "  --only PATTERN  only cases whose name has PATTERN in it; * and ? are as in a "
	       "shell\n"
	       "  --threads LIST  numbers of threads, with commas between them\n"
	       "  --quick         few operations: whether it works, not how fast\n"
	       "  --help          this text\n",
	       bench->name, bench->about);
}

static void refuse(const char *option, const char *value, const char *reason)
{
	fprintf(stderr, "%s: %s %s: %s\n", bench->name, option, value, reason);
	exit(2);
}

static void add_count(unsigned int count)
{
	unsigned int used = 0;

	while (counts[used])
		used++;
	if (used < MOST_COUNTS)
		counts[used] = count;
}

static void read_threads(const char *list)
{
	unsigned int cpus = measure_cpus();
	const char *rest = list;
	unsigned long count;
	char reason[80];
	char *end;

	memset(counts, 0, sizeof(counts));
	for (;;) {
		count = strtoul(rest, &end, 10);
		if (end == rest || *rest == '-' || !count || (*end && *end != ','))
			refuse("--threads", list,
			       "wanted are numbers from 1 up, with commas between them");
		if (count > cpus) {
			snprintf(reason, sizeof(reason), "this process may use %u CPU%s", cpus,
				 cpus == 1 ? "" : "s");
			refuse("--threads", list, reason);
		}
		add_count((unsigned int)count);
		if (!*end)
			return;
		rest = end + 1;
	}
}

void bench_begin(const struct bench *of, int argc, char **argv)
{
	static const struct option options[] = { { "json", no_argument, NULL, 'j' },
						 { "only", required_argument, NULL, 'o' },
						 { "threads", required_argument, NULL, 't' },
						 { "quick", no_argument, NULL, 'q' },
						 { "help", no_argument, NULL, 'h' },
						 { NULL, 0, NULL, 0 } };
	int option;

	bench = of;
	own_arguments = argv;
	if (bench_part())
		to_parent = atoi(getenv(ROWS_VARIABLE));
	for (const unsigned int *count = bench->threads; *count; count++) {
		if (*count <= measure_cpus())
			add_count(*count);
	}
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'j':
			json = true;
			break;
		case 'o':
			only = optarg;
			break;
		case 't':
			read_threads(optarg);
			break;
		case 'q':
			quick = true;
			break;
		case 'h':
			help();
			exit(0);
		default:
			fprintf(stderr, "%s: --help tells the options\n", bench->name);
			exit(2);
		}
	}
	if (optind < argc)
		refuse("what is", argv[optind], "this takes options only; --help tells them");
}

bool bench_is_quick(void)
{
	return quick;
}

bool bench_wants(const char *name)
{
	char pattern[256];

	if (!only)
		return true;
	snprintf(pattern, sizeof(pattern), "*%s*", only);
	return !fnmatch(pattern, name, 0);
}

bool bench_wants_in(const char *name, const char *mode)
{
	char row[sizeof(((struct bench_row *)0)->name)];

	snprintf(row, sizeof(row), "%s, %s", name, mode);
	return bench_wants(row);
}

void bench_each_threads(void (*each)(unsigned int threads, void *argument), void *argument)
{
	for (const unsigned int *count = counts; *count; count++)
		each(*count, argument);
}

/* ---- help for benches ---- */

void bench_fail(const char *format, ...)
{
	va_list arguments;

	failed = true;
	fprintf(stderr, "%s: ", bench->name);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
}

void bench_require(bool good, const char *what)
{
	if (good)
		return;
	bench_fail("%s", what);
	/* A part may start threads and install handlers. */
	fflush(NULL);
	_exit(1);
}

void *bench_memory(uint64_t size)
{
	void *memory = malloc(size + 1);

	bench_require(memory, "out of memory");
	memset(memory, 1, size + 1); /* not zero only, which the compiler would leave to calloc */
	memset(memory, 0, size);
	return memory;
}

uint64_t bench_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u; /* splitmix64 */

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

struct bench_row bench_row(const char *name, uint64_t live, unsigned int threads)
{
	struct bench_row row = { .live = live,
				 .threads = threads,
				 .ns = NAN,
				 .min_ns = NAN,
				 .max_ns = NAN,
				 .peer_ns = NAN };

	snprintf(row.name, sizeof(row.name), "%s", name);
	return row;
}

void bench_measure(const struct bench_operation *ours, const struct bench_operation *peer,
		   struct bench_row *row)
{
	if (!measure(ours, peer, row, quick))
		bench_fail("wrong answers: %s, %llu live, %u threads", row->name,
			   (unsigned long long)row->live, row->threads);
}

void bench_report(struct bench_row row)
{
	if (!row.threads)
		row.threads = 1;
	if (to_parent >= 0) {
		/* Below PIPE_BUF: atomic. */
		bench_require(write(to_parent, &row, sizeof(row)) == sizeof(row), "a row was lost");
		return;
	}
	bench_require(row_count < ROWS, "too many rows");
	if (!row_count)
		print_header(json ? stderr : stdout, bench->name);
	rows[row_count++] = row;
	print_row(json ? stderr : stdout, &row);
}

/* Fork; rows of the child go to to_parent. */
static pid_t start_part(int *rows_from)
{
	int ends[2];
	pid_t child;

	bench_require(!pipe(ends), "no pipe");
	fflush(NULL);
	child = fork();
	bench_require(child >= 0, "no process for a part");
	close(ends[child ? 1 : 0]);
	if (child)
		*rows_from = ends[0];
	else
		to_parent = ends[1];
	return child;
}

static void await_part(pid_t child, const char *name)
{
	int status;

	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (status)
		bench_fail("a part of the bench%s%s failed, with status 0x%x", *name ? ", " : "",
			   name, (unsigned int)status);
}

static void change_environment(const char *const *changes)
{
	char name[64];
	size_t length;

	for (; *changes; changes++) {
		length = strcspn(*changes, "=");
		snprintf(name, sizeof(name), "%.*s", (int)length, *changes);
		if ((*changes)[length])
			setenv(name, *changes + length + 1, 1);
		else
			unsetenv(name);
	}
}

void bench_again(const char *part, const char *const *changes,
		 void (*receive)(struct bench_row row, void *argument), void *argument)
{
	struct bench_row row;
	int rows_from = -1;
	char number[16];
	pid_t child = start_part(&rows_from);

	if (!child) {
		change_environment(changes);
		snprintf(number, sizeof(number), "%d", to_parent);
		setenv(ROWS_VARIABLE, number, 1);
		setenv(PART_VARIABLE, part, 1);
		execv("/proc/self/exe", own_arguments);
		_exit(127);
	}
	while (read(rows_from, &row, sizeof(row)) == sizeof(row))
		receive(row, argument);
	close(rows_from);
	await_part(child, part);
}

const char *bench_part(void)
{
	return getenv(PART_VARIABLE);
}

int bench_end(void)
{
	if (to_parent >= 0)
		return failed ? EXIT_FAILURE : EXIT_SUCCESS;
	if (!row_count)
		bench_fail("nothing to measure%s",
			   only ? ": no case has --only's pattern in its name" : "");
	if (json)
		print_json(bench->name, bench->add_to_machine ? bench->add_to_machine() : NULL,
			   rows, row_count);
	return failed || fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
