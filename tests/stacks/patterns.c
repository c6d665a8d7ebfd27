/* SPDX-License-Identifier: BSD-3-Clause */
/* patterns.c -- MPI ranks exchange GPU memory in an application's pattern, and check every byte
 *
 * Standard output is the same in each successful run: times and counts are in each rank's JSON.
 * Messages from host memory connect the ranks first, so that round 0 shows the first use of GPU
 * memory, not of the network.
 *
 * A job starts slowly on an emulated machine, so one job can run several cases: each pattern with
 * each size, repeated as requested. Output and results equal those of separate jobs.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "patterns.h"

#define MAX_BYTES  ((size_t)256 << 20)
#define CHOSEN_MAX 16

struct job job = { .program = "patterns", .rounds = 4, .by_abort = true };

static size_t sizes[CHOSEN_MAX] = { 1 << 20 };
static int size_count = 1;
static size_t chosen[CHOSEN_MAX]; /* indexes of patterns */
static int chosen_count;
static int repeats = 1;
static bool context_stays; /* else it ends before MPI does */

static const struct {
	const char *name;
	int (*run)(void);
	const char *what;
} patterns[] = {
	{ "halo", run_halo, "neighbours in a ring, fixed buffers" },
	{ "allocating", run_allocating, "buffers allocated and freed in each round" },
	{ "pool", run_pool, "parts of pools that grow, by cuMemAlloc and by cuMemMap" },
	{ "small", run_small, "many small buffers, N bytes together, some replaced in each round" },
	{ "sizes", run_sizes, "buffers of any size up to N bytes, replaced in each round" },
	{ "random", run_random, "buffers of any size up to N bytes, of which some are replaced in each round" },
	{ "threads", run_threads,
	  "four threads with buffers of their own (skipped where MPI does not allow it)" },
	{ "freeing", run_freeing,
	  "a buffer freed and its address used again while a message is under way" },
	{ "windows", run_windows,
	  "one-sided operations with fences and locks, a window for each round" },
	{ "collectives", run_collectives,
	  "broadcast, gather, exchange and sum over all ranks, buffers of each round's own" },
	{ "crash", run_crash, "the last rank dies in the middle" },
};

#define PATTERNS (sizeof(patterns) / sizeof(patterns[0]))

static void print_usage(void)
{
	printf("usage: patterns PATTERN[,...] [--rounds N] [--bytes N[,...]] [--json FILE] "
	       "[--crash "
	       "abort|kill]\n"
	       "                [--spoil]\n"
	       "       patterns --list\n\n"
	       "Run it with an even number of MPI ranks.\n\n"
	       "  --rounds N    rounds after a first one (default 4, at most %d)\n"
	       "  --bytes N     bytes of a message, a multiple of 4 (default 1048576, at most "
	       "%zu)\n"
	       "  --json FILE   each rank's results, times among them, to FILE.RANK, or where "
	       "there are "
	       "several\n"
	       "                patterns or sizes to FILE.PATTERN.BYTES.REPEAT.RANK\n"
	       "  --receive-more N  bytes that a receive buffer of an allocation of its own has "
	       "beyond its "
	       "message (default 0)\n"
	       "  --repeat N    all of it N times (default 1)\n"
	       "  --crash HOW   how the last rank of the pattern crash dies: abort (default) or "
	       "kill\n"
	       "  --context-stays  leave the context to the end of the process\n"
	       "  --spoil       spoil a byte in the last round: the program must find it\n"
	       "  --list        the patterns' names\n\npatterns:\n",
	       MAX_ROUNDS, MAX_BYTES);
	for (size_t i = 0; i < PATTERNS; i++)
		printf("  %-13s %s\n", patterns[i].name, patterns[i].what);
	printf("\nStatus: 0, 1 a byte was wrong or a call failed, 2 wrong usage, 77 this MPI "
	       "library allows "
	       "none of the patterns.\n");
}

static void refuse(const char *what, const char *value, const char *wanted)
{
	fprintf(stderr, "patterns: %s '%s': %s\n", what, value, wanted);
	exit(2);
}

static size_t read_number(const char *option, const char *text, size_t at_most)
{
	char wanted[80], *end;
	unsigned long long value = strtoull(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || !value || value > at_most) {
		snprintf(wanted, sizeof(wanted), "a number from 1 to %zu is wanted", at_most);
		refuse(option, text, wanted);
	}
	return value;
}

/* Read words between commas, in place. */
static int split(const char *option, char *text, const char **words)
{
	int count = 0;
	char *word;

	while ((word = strsep(&text, ","))) {
		if (count == CHOSEN_MAX)
			refuse(option, word, "that is one too many");
		words[count++] = word;
	}
	return count;
}

static void read_sizes(char *text)
{
	const char *words[CHOSEN_MAX];

	size_count = split("--bytes", text, words);
	for (int i = 0; i < size_count; i++) {
		sizes[i] = read_number("--bytes", words[i], MAX_BYTES);
		if (sizes[i] % 4)
			refuse("--bytes", words[i], "a multiple of 4 is wanted");
	}
}

static void list_patterns(void)
{
	for (size_t i = 0; i < PATTERNS; i++)
		printf("%s\n", patterns[i].name);
}

static void read_options(int argc, char **argv)
{
	static const struct option options[] = {
		{ "rounds", required_argument, NULL, 'r' },
		{ "bytes", required_argument, NULL, 'b' },
		{ "json", required_argument, NULL, 'j' },
		{ "crash", required_argument, NULL, 'c' },
		{ "receive-more", required_argument, NULL, 'm' },
		{ "context-stays", no_argument, NULL, 'k' },
		{ "spoil", no_argument, NULL, 's' },
		{ "list", no_argument, NULL, 'l' },
		{ "repeat", required_argument, NULL, 'n' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'r':
			job.rounds = (int)read_number("--rounds", optarg, MAX_ROUNDS);
			break;
		case 'b':
			read_sizes(optarg);
			break;
		case 'j':
			job.json = optarg;
			break;
		case 'c':
			job.by_abort = !strcmp(optarg, "abort");
			if (!job.by_abort && strcmp(optarg, "kill"))
				refuse("--crash", optarg, "abort or kill is wanted");
			break;
		case 'm':
			job.receive_more = read_number("--receive-more", optarg, MAX_BYTES);
			break;
		case 'n':
			repeats = (int)read_number("--repeat", optarg, 100);
			break;
		case 'k':
			context_stays = true;
			break;
		case 's':
			job.spoil = true;
			break;
		case 'l':
			list_patterns();
			exit(0);
		case 'h':
			print_usage();
			exit(0);
		default: /* getopt has named it */
			exit(2);
		}
	}
}

static size_t find_pattern(const char *name)
{
	for (size_t i = 0; i < PATTERNS; i++) {
		if (!strcmp(patterns[i].name, name))
			return i;
	}
	refuse("pattern", name, "there is none of this name (see --list)");
	return 0;
}

static void read_patterns(int argc, char **argv)
{
	const char *names[CHOSEN_MAX];

	if (optind == argc) {
		fprintf(stderr, "patterns: no pattern is named (see --help)\n");
		exit(2);
	}
	if (optind + 1 < argc)
		refuse("argument", argv[optind + 1], "patterns are parted by commas");
	chosen_count = split("pattern", argv[optind], names);
	for (int i = 0; i < chosen_count; i++)
		chosen[i] = find_pattern(names[i]);
}

/* Locks cost time: only the pattern "threads" requests them. */
static int wanted_threads(void)
{
	for (int i = 0; i < chosen_count; i++) {
		if (patterns[chosen[i]].run == run_threads)
			return MPI_THREAD_MULTIPLE;
	}
	return MPI_THREAD_FUNNELED;
}

static void connect_ranks(void)
{
	for (int distance = 1; distance < job.ranks; distance++) {
		int to = (job.rank + distance) % job.ranks,
		    from = (job.rank + job.ranks - distance) % job.ranks;
		int sent = job.rank, received = -1;

		MPI(MPI_Sendrecv(&sent, 1, MPI_INT, to, 0, &received, 1, MPI_INT, from, 0,
				 MPI_COMM_WORLD, MPI_STATUS_IGNORE));
		if (received != from)
			fail("MPI_Sendrecv", "another rank's number has come");
	}
}

/* Number of wrong bytes on all ranks. */
static uint64_t print_summary(void)
{
	uint64_t mine[] = { counts()->checked_bytes, counts()->wrong }, sums[2];

	MPI(MPI_Allreduce(mine, sums, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD));
	if (job.rank == 0)
		printf("patterns: %s: %d ranks, %d rounds, messages of %zu bytes: %" PRIu64
		       " bytes checked, %" PRIu64 " wrong\n",
		       job.pattern, job.ranks, job.rounds + 1, job.bytes, sums[0], sums[1]);
	return sums[1];
}

/* Returns 1 after a wrong byte, STATUS_SKIPPED if all patterns were skipped. A skipped one among
 * others leaves no results. */
static int run_all(void)
{
	bool has_run = false, wrong = false;

	job.cases = size_count * chosen_count * repeats;
	for (int i = 0; i < job.cases; i++) {
		size_t pattern = chosen[i % chosen_count];

		job.pattern = patterns[pattern].name;
		job.bytes = sizes[i / chosen_count % size_count];
		job.repeat = i / chosen_count / size_count;
		job.number = i;
		if (i)
			MPI_Pcontrol(2 * i);
		reset_counts();
		if (patterns[pattern].run() == STATUS_SKIPPED)
			continue;
		has_run = true;
		wrong |= print_summary() > 0;
		write_results();
	}
	MPI_Pcontrol(2 * job.cases);
	return wrong ? 1 : has_run ? 0 : STATUS_SKIPPED;
}

int main(int argc, char **argv)
{
	int status, provided;

	read_options(argc, argv);
	read_patterns(argc, argv);
	MPI_Init_thread(&argc, &argv, wanted_threads(), &provided);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
	if (job.ranks % 2) {
		fprintf(stderr, "patterns: an even number of ranks is wanted, not %d\n", job.ranks);
		MPI_Finalize();
		return 2;
	}
	open_gpu();
	connect_ranks();
	status = run_all();
	if (!context_stays)
		close_gpu();
	MPI_Finalize();
	return status;
}
