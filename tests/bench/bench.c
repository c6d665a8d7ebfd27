/* SPDX-License-Identifier: BSD-3-Clause */
/* bench.c -- pinned threads that start together, nine runs and their median; rows as a table for
 * people and as JSON; options
 */
#include "bench.h"

#include <errno.h>
#include <fnmatch.h>
#include <getopt.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- the clock and the threads ---- */

#define RUNS	     9
#define MOST_THREADS 1024
#define LONG_ENOUGH  20e6 /* ns: a thousand times the cost of a start */
#define QUICK	     0.2e6

struct worker {
	pthread_t id;
	const struct bench_operation *operation;
	unsigned int thread;
	uint64_t count;
	atomic_uint *missing; /* threads before the barrier */
	double ns;	      /* of all its operations */
	bool right;
};

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* CPUs of this process. */
static unsigned int measure_cpus(void)
{
	cpu_set_t allowed;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return 1;
	return (unsigned int)CPU_COUNT(&allowed);
}

/* The CPU at the thread's index in the process's mask. */
static void pin(unsigned int thread)
{
	cpu_set_t allowed, one;
	unsigned int place = 0;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return;
	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &allowed) && place++ == thread)
			CPU_SET(cpu, &one);
	}
	if (CPU_COUNT(&one))
		sched_setaffinity(0, sizeof(one), &one);
}

static void *work(void *argument)
{
	struct worker *worker = argument;
	const struct bench_operation *operation = worker->operation;
	uint64_t sum;
	double start;

	pin(worker->thread);
	if (operation->prepare)
		operation->prepare(operation->context, worker->thread);
	/* Spin: waking sleepers would show in the result. */
	atomic_fetch_sub(worker->missing, 1);
	while (atomic_load(worker->missing))
		;
	start = now();
	sum = operation->run(operation->context, worker->thread, worker->count);
	worker->ns = now() - start;
	worker->right = operation->check(operation->context, worker->thread, worker->count, sum);
	return NULL;
}

/* One run. Returns the mean ns of an operation; *shortest: the time of the fastest thread. */
static double run(const struct bench_operation *operation, unsigned int threads, uint64_t count,
		  double *shortest, bool *right)
{
	static struct worker workers[MOST_THREADS];
	atomic_uint missing = threads;
	double total = 0;

	bench_require(threads <= MOST_THREADS, "too many threads");
	for (unsigned int i = 0; i < threads; i++) {
		workers[i] = (struct worker){
			.operation = operation, .thread = i, .count = count, .missing = &missing
		};
		bench_require(!pthread_create(&workers[i].id, NULL, work, &workers[i]),
			      "no thread");
	}
	for (unsigned int i = 0; i < threads; i++) {
		pthread_join(workers[i].id, NULL);
		total += workers[i].ns;
		if (!i || workers[i].ns < *shortest)
			*shortest = workers[i].ns;
		if (!workers[i].right)
			*right = false;
	}
	return total / threads / (double)count;
}

/* Find the number of operations that takes long enough; warms caches and predictors. */
static uint64_t calibrate(const struct bench_operation *operation, unsigned int threads,
			  double long_enough, bool *right)
{
	uint64_t count = 100;
	double shortest, factor;
	bool enough = false;

	for (;;) {
		run(operation, threads, count, &shortest, right);
		/* Twice: the first may have been interrupted. */
		if ((shortest >= long_enough && enough) || !*right)
			return count;
		enough = shortest >= long_enough;
		if (enough)
			continue;
		/* Slightly more than needed, and at most a hundredfold. */
		factor = shortest > 0 ? 1.2 * long_enough / shortest : 100;
		if (factor > 100)
			factor = 100;
		count = (uint64_t)((double)count * factor) + 1;
	}
}

static int compare(const void *one, const void *other)
{
	double a = *(const double *)one, b = *(const double *)other;

	return (a > b) - (a < b);
}

/* As bench_measure(); false: a wrong answer. `quick`: a hundredth of the time. */
static bool measure(const struct bench_operation *ours, const struct bench_operation *peer,
		    struct bench_row *row, bool quick)
{
	double long_enough = quick ? QUICK : LONG_ENOUGH;
	double times[RUNS], peer_times[RUNS], shortest;
	uint64_t count, peer_count = 0;
	bool right = true;

	count = calibrate(ours, row->threads, long_enough, &right);
	if (peer)
		peer_count = calibrate(peer, row->threads, long_enough, &right);
	for (int i = 0; i < RUNS && right; i++) {
		times[i] = run(ours, row->threads, count, &shortest, &right);
		if (peer && right)
			peer_times[i] = run(peer, row->threads, peer_count, &shortest, &right);
	}
	if (!right)
		return false;
	qsort(times, RUNS, sizeof(times[0]), compare);
	row->ns = times[RUNS / 2];
	row->min_ns = times[0];
	row->max_ns = times[RUNS - 1];
	if (peer) {
		qsort(peer_times, RUNS, sizeof(peer_times[0]), compare);
		row->peer_ns = peer_times[RUNS / 2];
	}
	return true;
}

/* ---- the table ---- */

static double ratio_of(const struct bench_row *row)
{
	return row->peer_ns / row->ns;
}

/* `value` in `text`, or a dash. */
static const char *number(char *text, size_t size, double value)
{
	if (isnan(value))
		return "-";
	snprintf(text, size, "%.*f", value < 100 ? 1 : 0, value);
	return text;
}

static void print_header(FILE *file, const char *bench)
{
	fprintf(file, "%-50s %8s %3s %9s %17s %9s %6s\n", bench, "live", "thr", "ns", "min to max",
		"peer ns", "ratio");
}

static void print_row(FILE *file, const struct bench_row *row)
{
	char ns[24], range[48] = "-", peer[48], ratio[24];

	if (!isnan(row->min_ns))
		snprintf(range, sizeof(range), "%.1f to %.1f", row->min_ns, row->max_ns);
	fprintf(file, "%-50s %8llu %3u %9s %17s %9s %6s", row->name, (unsigned long long)row->live,
		row->threads, number(ns, sizeof(ns), row->ns), range,
		number(peer, sizeof(peer), row->peer_ns),
		number(ratio, sizeof(ratio), ratio_of(row)));
	fputc('\n', file);
	fflush(file);
}

/* ---- JSON ---- */

static void print_text(const char *name, const char *text)
{
	printf("\"%s\": \"", name);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			printf("\\%c", *text);
		else if ((unsigned char)*text >= ' ')
			putchar(*text);
	}
	putchar('"');
}

static void print_number(const char *name, double value)
{
	if (isnan(value))
		printf(", \"%s\": null", name);
	else
		printf(", \"%s\": %.3f", name, value);
}

static void print_json_row(const struct bench_row *row)
{
	putchar('{');
	print_text("case", row->name);
	printf(", \"live\": %llu, \"threads\": %u", (unsigned long long)row->live, row->threads);
	print_number("ns", row->ns);
	print_number("min_ns", row->min_ns);
	print_number("max_ns", row->max_ns);
	printf(", ");
	if (row->peer[0])
		print_text("peer", row->peer);
	else
		printf("\"peer\": null");
	print_number("peer_ns", row->peer_ns);
	print_number("ratio", ratio_of(row));
	putchar('}');
}

/* Name of the processor; not every architecture has one. */
static void read_processor(char *name, size_t size)
{
	FILE *file = fopen("/proc/cpuinfo", "r");
	char line[256];
	char *value;

	while (file && fgets(line, sizeof(line), file)) {
		value = strstr(line, ": ");
		if (strncmp(line, "model name", 10) || !value)
			continue;
		value[strcspn(value, "\n")] = '\0';
		snprintf(name, size, "%s", value + 2);
		break;
	}
	if (file)
		fclose(file);
}

static void print_machine(const char *more)
{
	struct utsname names;
	char processor[128];
	char text[512];

	uname(&names);
	snprintf(processor, sizeof(processor), "%s", names.machine);
	read_processor(processor, sizeof(processor));
	snprintf(text, sizeof(text), "%s, %u CPUs, %s %s%s%s", processor, measure_cpus(),
		 names.sysname, names.release, more ? ", " : "", more ? more : "");
	print_text("machine", text);
}

/* On standard output. `more`: about the machine, or NULL. */
static void print_json(const char *bench, const char *more, const struct bench_row *rows,
		       unsigned int count)
{
	putchar('{');
	print_text("bench", bench);
	printf(", ");
	print_machine(more);
	printf(", \"rows\": [\n");
	for (unsigned int i = 0; i < count; i++) {
		print_json_row(&rows[i]);
		printf(i + 1 < count ? ",\n" : "\n");
	}
	printf("]}\n");
}

/* ---- the bench ---- */

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
