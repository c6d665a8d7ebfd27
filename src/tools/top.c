/* SPDX-License-Identifier: BSD-3-Clause */
/* top.c -- peerpin top: options, and the plain output for pipes
 *
 * Exit status: 0; 1 no chosen process was found, or output failed; 2 wrong usage.
 */
#include "tools/top.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/options.h"
#include "tools/units.h"

static const char help[] =
	"usage: peerpin top [options] [PID...]\n"
	"\n"
	"Shows the processes of yours on this host that use peerpin, one line each: what "
	"is pinned now and was at peak,\n"
	"registrations, requests, hits, waits and failures. It only reads: the processes "
	"do not notice. q ends it.\n"
	"\n"
	"  --once              print once, and end\n"
	"  --json              print JSON, one object in a line each time\n"
	"  --interval SECONDS  how often (default 1)\n"
	"  --job JOB           only processes of this job\n"
	"  -h, --help          print this\n"
	"  --version           print the version\n"
	"\n"
	"Exit status: 0; 1 if with --once no process that was asked for uses peerpin; 2 for a "
	"wrong use.\n";

static const struct tool tool = { "top", help };

struct options {
	struct top_choice choice;
	bool once, json;
	double interval;
};

static bool top_parse_interval(const char *word, double *interval)
{
	char *end;

	errno = 0;
	*interval = strtod(word, &end);
	return end != word && !*end && !errno && isfinite(*interval) && *interval >= 0.05 &&
	       *interval <= 86400;
}

/* Return the exit status, or -1 to continue. */
static int top_parse_processes(struct options *options, char **words)
{
	size_t count = 0;
	long *processes;
	char *end;

	while (words[count])
		count++;
	processes = zeroed(count, sizeof(*processes));
	options->choice.processes = processes;
	for (; *words; words++) {
		errno = 0;
		processes[options->choice.count] = strtol(*words, &end, 10);
		if (end == *words || *end || errno || processes[options->choice.count] <= 0)
			return options_refuse(&tool, "not a process number: ", *words);
		options->choice.count++;
	}
	return -1;
}

static int top_parse(struct options *options, int count, char **words)
{
	enum { ONCE = OPTION_FIRST, JSON, INTERVAL, JOB };
	static const struct option known[] = {
		{ "once", no_argument, NULL, ONCE },
		{ "json", no_argument, NULL, JSON },
		{ "interval", required_argument, NULL, INTERVAL },
		{ "job", required_argument, NULL, JOB },
		{ "help", no_argument, NULL, OPTION_HELP },
		{ "version", no_argument, NULL, OPTION_VERSION },
		{ NULL, 0, NULL, 0 },
	};
	int option, status = -1;

	while ((option = options_next(&tool, known, count, words, &status)) >= 0) {
		switch (option) {
		case ONCE:
			options->once = true;
			break;
		case JSON:
			options->json = true;
			break;
		case INTERVAL:
			if (!top_parse_interval(optarg, &options->interval))
				return options_refuse(
					&tool, "--interval takes 0.05 to 86400 seconds, not ",
					optarg);
			break;
		case JOB:
			options->choice.job = optarg;
			break;
		}
	}
	if (status >= 0)
		return status;
	return top_parse_processes(options, words + optind);
}

static bool top_print(const struct options *options, const struct look *now,
		      const struct look *before)
{
	if (options->json) {
		json_t *json = top_json(now, before);

		json_dumpf(json, stdout, JSON_COMPACT);
		putchar('\n');
		json_decref(json);
	} else {
		top_rows(now, before, 0, 0, "\n", stdout);
		if (!options->once)
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

/* Print one block per interval until output fails, or one block in all (--once). */
static int top_print_plain(const struct options *options)
{
	struct look now, before;
	bool going, found;

	top_look(&now, NULL, &options->choice);
	going = top_print(options, &now, NULL);
	found = now.records.count > 0;
	while (going && !options->once) {
		before = now;
		top_sleep(options->interval);
		top_look(&now, &before, &options->choice);
		going = top_print(options, &now, &before);
		top_forget(&before);
	}
	top_forget(&now);
	return going && found ? 0 : 1;
}

int main(int count, char **words)
{
	struct options options = { .interval = 1 };
	int status = top_parse(&options, count, words);

	if (status >= 0) {
		free((void *)options.choice.processes);
		return status;
	}
	if (options.once || options.json || !isatty(STDOUT_FILENO))
		status = top_print_plain(&options);
	else
		status = top_on_terminal(&options.choice, options.interval);
	free((void *)options.choice.processes);
	return status;
}
