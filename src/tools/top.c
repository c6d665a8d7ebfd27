/* SPDX-License-Identifier: BSD-3-Clause */
/* top.c -- peerpin top: options, and the plain output for pipes
 *
 * Exit status: 0; 1 no chosen process was found, or output failed; 2 wrong usage.
 */
#include "tools/top.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/options.h"
#include "tools/units.h"

/* clang-format off */
static const char help[] =
	"usage: peerpin top [options] [PID...]\n"
	"\n"
	"Shows your processes on this host that use peerpin, one line each: pinned bytes now and at peak,\n"
	"registrations, requests, hits, waits and failures. It only reads, and does not affect the\n"
	"processes. Press q to quit.\n"
	"\n"
	"  --once, -n COUNT    print once, or so many times, and end\n"
	"  --json              print one JSON object in a line each time\n"
	"  --interval SECONDS  interval of refreshes (default: 1)\n"
	"  --job JOB           only processes of this job\n"
	"  -h, --help          print this\n"
	"  --version           print the version\n"
	"\n"
	"Without a terminal, one of --once, -n, --json and --interval is required.\n"
	"\n"
	"Exit status: 0; 1 if no chosen process exists, or if with --once none uses peerpin; 2 for wrong\n"
	"usage.\n";
/* clang-format on */

static const struct tool tool = { .name = "top", .help = help, .letters = "n:" };

static struct top_choice choice;
static int once, json;
static long rounds; /* 0: until output fails */
static double interval = 1;
static bool has_interval;

static bool top_parse_interval(const char *word)
{
	char *end;

	errno = 0;
	interval = strtod(word, &end);
	return end != word && !*end && !errno && isfinite(interval) && interval >= 0.05 &&
	       interval <= 86400;
}

static bool top_parse_rounds(const char *word)
{
	char *end;

	errno = 0;
	rounds = strtol(word, &end, 10);
	return end != word && !*end && !errno && rounds > 0;
}

/* Return the exit status, or -1 to continue. */
static int top_parse_processes(char **words)
{
	char *end;

	for (; *words; words++) {
		choice.processes = grown(choice.processes, choice.count, sizeof(*choice.processes));
		errno = 0;
		choice.processes[choice.count] = strtol(*words, &end, 10);
		if (end == *words || *end || errno || choice.processes[choice.count++] <= 0)
			return options_refuse(&tool, "not a process number: ", *words);
	}
	return -1;
}

static int top_parse(int count, char **words)
{
	enum { INTERVAL = OPTION_FIRST, JOB };
	static const struct option known[] = {
		{ "once", no_argument, &once, true },
		{ "json", no_argument, &json, true },
		{ "interval", required_argument, NULL, INTERVAL },
		{ "job", required_argument, NULL, JOB },
		{ "help", no_argument, NULL, OPTION_HELP },
		{ "version", no_argument, NULL, OPTION_VERSION },
		{ NULL, 0, NULL, 0 },
	};
	int option, status = -1;

	while ((option = options_next(&tool, known, count, words, &status)) >= 0) {
		if (option == INTERVAL && !top_parse_interval(optarg))
			return options_refuse(&tool, "--interval takes 0.05 to 86400 seconds, not ",
					      optarg);
		has_interval |= option == INTERVAL;
		if (option == 'n' && !top_parse_rounds(optarg))
			return options_refuse(&tool, "-n takes a number from 1 on, not ", optarg);
		if (option == JOB)
			choice.job = clean_text(optarg); /* as in records */
	}
	rounds = once ? 1 : rounds;
	if (status < 0 && !rounds && !json && !has_interval && !isatty(STDOUT_FILENO))
		return options_refuse(&tool,
				      "standard output is no terminal: add --once, -n, --json "
				      "or --interval",
				      "");
	return status < 0 ? top_parse_processes(words + optind) : status;
}

static bool top_print(const struct snapshot *now)
{
	if (json) {
		json_t *object = top_json(now);

		json_dumpf(object, stdout, JSON_COMPACT);
		putchar('\n');
		json_decref(object);
	} else {
		top_rows(now, 0, 0, "\n", stdout);
		if (rounds != 1)
			putchar('\n');
	}
	return options_print_out(&tool);
}

static void top_sleep(double seconds)
{
	struct timespec time = { .tv_sec = (time_t)seconds,
				 .tv_nsec = (long)(fmod(seconds, 1) * 1e9) };

	while (nanosleep(&time, &time) && errno == EINTR)
		;
}

/* Report chosen processes of which none exists, nor its snapshot. */
static bool top_has_process(void)
{
	struct snapshot now = { 0 };
	bool exists = !choice.count;

	for (size_t i = 0; i < choice.count && !exists; i++)
		exists = !kill((pid_t)choice.processes[i], 0) || errno != ESRCH;
	if (!exists) {
		snapshot_update(&now, &choice);
		exists = now.records.count > 0;
		snapshot_free(&now);
	}
	if (!exists)
		fprintf(stderr, "peerpin top: no process has the number %ld%s\n",
			choice.processes[0], choice.count > 1 ? ", nor the others" : "");
	return exists;
}

/* Print one block per interval, until output fails or `rounds` blocks are printed. */
static int top_print_plain(void)
{
	struct snapshot now = { 0 };
	bool going, found;

	snapshot_update(&now, &choice);
	going = top_print(&now);
	found = now.records.count > 0;
	while (going && (!rounds || --rounds)) {
		top_sleep(interval);
		snapshot_update(&now, &choice);
		going = top_print(&now);
	}
	snapshot_free(&now);
	return going && found ? 0 : 1;
}

int main(int count, char **words)
{
	int status = top_parse(count, words);

	if (status < 0 && !top_has_process())
		status = 1;
	if (status < 0 && (rounds || json || !isatty(STDOUT_FILENO)))
		status = top_print_plain();
	else if (status < 0)
		status = top_on_terminal(&choice, interval);
	free(choice.processes);
	return status;
}
