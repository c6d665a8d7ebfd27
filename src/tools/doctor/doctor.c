/* SPDX-License-Identifier: BSD-3-Clause */
/* doctor.c -- peerpin-doctor: does GPUDirect RDMA work on this machine; if not, why, and the fix */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/doctor/host.h"
#include "tools/doctor/checks.h"
#include "tools/doctor/rules.h"
#include "tools/output_file.h"
#include "tools/units.h"

#define GROUPS "kernel,gpu,rdma,limits,path,probe,software,program"

static const char usage[] =
	"usage: peerpin doctor [options] [PROGRAM [ARGUMENT...]]\n"
	"\n"
	"Reports whether GPUDirect RDMA works on this host, the reason if not, and the fix; with\n"
	"PROGRAM also whether peerpin can be loaded into it.\n"
	"\n"
	"  -v, --verbose    print every check, its sources, and why it matters\n"
	"  -q, --quiet      print only the verdict\n"
	"      --json       print one JSON object\n"
	"      --only LIST  run only these groups or checks (" GROUPS ")\n"
	"      --no-probe   do not register GPU memory\n"
	"      --deep       also transfer data by RDMA, without and with SYNC_MEMOPS, and measure\n"
	"                   what registrations cost\n"
	"      --limit S    limit calls that may hang to S seconds in sum (120); then: unknown\n"
	"      --job FILE   of statistics, or a folder of them: how many such ranks fit here\n"
	"      --merge      compare hosts: words are files of --json, one or more hosts each\n"
	"      --dump FILE  write all readings to FILE, for --from\n"
	"      --from FILE  examine the readings in FILE instead of this host\n"
	"      --sysroot D  read /sys, /proc, /dev and /etc below D (PEERPIN_SYSROOT)\n"
	"  -h, --help       print this help\n"
	"      --version    print the version\n"
	"\n"
	"Exit status: 0 it works for each GPU, 1 it fails for a GPU, 3 undecided, 2 wrong usage.\n"
	"With --only: 0 no check failed or is unknown, 1 a check failed, 3 a check is unknown.\n";

struct options {
	int verbose, quiet, json, no_probe, deep, merge;
	const char *only, *dump, *from, *sysroot, *limit, *job;
};

static struct options options;

__attribute__((noreturn, format(printf, 1, 2))) static void doctor_refuse(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fputs("peerpin doctor: ", stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
	exit(DOCTOR_USAGE);
}

/* Exits with an error if output was lost. */
static void doctor_finish(void)
{
	if (fflush(stdout) || ferror(stdout))
		doctor_refuse("standard output: %s", strerror(errno));
}

/* ---- selection of checks ---- */

static bool doctor_select_word(struct diagnosis *diagnosis, const char *word)
{
	bool found = false;

	for (unsigned int i = 0; i < check_count; i++) {
		if (!strcmp(word, checks[i].id) || !strcmp(word, checks[i].group)) {
			diagnosis->shown[i] = true;
			found = true;
		}
	}
	return found;
}

/* Omits the checks of a program or job if none is named. */
static void doctor_select_all(struct diagnosis *diagnosis)
{
	bool has_program = host_has(diagnosis->host, "option/program"),
	     has_job = host_has(diagnosis->host, "job/processes");

	for (unsigned int i = 0; i < check_count; i++)
		diagnosis->shown[i] = (has_program || strcmp(checks[i].group, "program")) &&
				      (has_job || strcmp(checks[i].id, "job"));
}

static void doctor_select_checks(struct diagnosis *diagnosis, const char *only)
{
	char *list, *rest = NULL;
	bool any = false;

	if (!only) {
		doctor_select_all(diagnosis);
		return;
	}
	diagnosis->partial = true;
	list = text_of("%s", only);
	for (char *word = strtok_r(list, ", ", &rest); word; word = strtok_r(NULL, ", ", &rest)) {
		if (!doctor_select_word(diagnosis, word))
			doctor_refuse("--only: there is no group or check \"%s\" (groups: %s; "
				      "peerpin doctor -v lists the checks)",
				      word, GROUPS);
		any = true;
	}
	if (!any)
		doctor_refuse("--only: no group or check is named (see peerpin doctor --help)");
}

/* ---- hosts ---- */

static struct host *doctor_open_recorded(const char *file)
{
	FILE *from = fopen(file, "re");
	struct host *host;
	char *text = NULL;
	size_t size = 0;
	unsigned int line;
	ssize_t length;

	if (!from)
		doctor_refuse("%s: %s", file, strerror(errno));
	length = getdelim(&text, &size, '\0', from);
	if (ferror(from))
		doctor_refuse("%s: %s", file, strerror(errno));
	fclose(from);
	if (length < 0 || strncmp(text, RECORD_FIRST_LINE, strlen(RECORD_FIRST_LINE)))
		doctor_refuse("%s: not written by peerpin doctor --dump", file);
	host = host_empty();
	if (!record_parse(host, text, &line)) {
		host_free(host);
		doctor_refuse("%s: line %u is malformed", file, line);
	}
	free(text);
	return host;
}

static struct host *doctor_open_live(char **program)
{
	const char *root = options.sysroot ? options.sysroot : getenv("PEERPIN_SYSROOT");
	struct host *host = host_live(root ? root : "");
	char *arguments = NULL;

	if (program[0])
		host_record(host, "option/program", "%s", program[0]);
	for (char **word = program; word[0] && *++word;)
		list_append(&arguments, "\n", *word);
	if (arguments)
		host_record(host, "option/arguments", "%s", arguments);
	if (options.no_probe)
		host_record(host, "option/probe", "off");
	if (options.deep)
		host_record(host, "option/deep", "on");
	if (options.limit)
		host_record(host, "option/limit", "%s", options.limit);
	return host;
}

static void doctor_dump(struct host *host, const char *file)
{
	struct output_file dump = { .tool = "doctor", .path = file };

	if (!output_file_open(&dump, true, 0600))
		exit(DOCTOR_USAGE);
	record_write_all(dump.to, host);
	if (!output_file_close(&dump))
		exit(DOCTOR_USAGE);
}

/* ---- run ---- */

/* Lowers FAIL to WARN if each GPU has a proved method: the failure prevents nothing then. */
static void doctor_soften(struct diagnosis *diagnosis, unsigned int which)
{
	struct finding *finding = &diagnosis->findings[which];

	if (finding->result == FAIL && !strstr("probe software program", checks[which].group) &&
	    every_gpu_works(diagnosis->host))
		finding->result = WARN;
}

/* Raises OK to UNKNOWN if the check read unreadable data: it treated them as absent. */
static void doctor_doubt(struct host *host, struct finding *finding)
{
	char *refused = host_take_refused(host);

	if (refused && finding->result == OK)
		finding_add(finding, UNKNOWN, text_of("%s cannot be read", refused));
}

static void doctor_check(struct diagnosis *diagnosis, unsigned int which)
{
	struct finding *finding = &diagnosis->findings[which];

	host_take_refused(diagnosis->host);
	rules_run(diagnosis->host, finding, checks[which].id);
	doctor_doubt(diagnosis->host, finding);
	if (!finding_text(finding))
		finding_set(finding, UNKNOWN, "nothing could be read");
	doctor_soften(diagnosis, which);
}

/* --dump runs all checks, so that the file holds the readings of every check and of the
 * conclusion. */
static void doctor_check_host(struct diagnosis *diagnosis, bool all)
{
	for (unsigned int i = 0; i < check_count; i++) {
		if (all || diagnosis->shown[i])
			doctor_check(diagnosis, i);
	}
	host_read(diagnosis->host, "identity/host");
}

static bool doctor_uses_colour(void)
{
	const char *terminal = getenv("TERM"), *none = getenv("NO_COLOR");

	return isatty(STDOUT_FILENO) && (!none || !*none) && terminal && strcmp(terminal, "dumb");
}

static int doctor_run(char **program)
{
	struct diagnosis diagnosis = { .host = options.from ? doctor_open_recorded(options.from)
							    : doctor_open_live(program) };
	bool written = true;

	if (options.job && !job_record(diagnosis.host, options.job)) {
		host_free(diagnosis.host);
		doctor_refuse("--job: no statistics in %s", options.job);
	}
	diagnosis.findings = zeroed(check_count, sizeof(*diagnosis.findings));
	diagnosis.shown = zeroed(check_count, sizeof(*diagnosis.shown));
	doctor_select_checks(&diagnosis, options.job && !options.only ? "job" : options.only);
	doctor_check_host(&diagnosis, options.dump);
	conclude(&diagnosis);
	if (options.json)
		written = print_json(&diagnosis);
	else if (options.quiet)
		print_conclusion(&diagnosis);
	else
		print_diagnosis(&diagnosis, options.verbose, doctor_uses_colour());
	if (options.dump)
		doctor_dump(diagnosis.host, options.dump);
	if (!written)
		doctor_refuse("standard output: %s", strerror(errno));
	doctor_finish();
	for (unsigned int i = 0; i < check_count; i++)
		free(diagnosis.findings[i].fixes);
	free(diagnosis.findings);
	free(diagnosis.shown);
	host_free(diagnosis.host);
	texts_free();
	return diagnosis.status;
}

enum {
	OPTION_ONLY = 256,
	OPTION_LIMIT,
	OPTION_DUMP,
	OPTION_FROM,
	OPTION_JOB,
	OPTION_SYSROOT,
	OPTION_VERSION
};

static const struct option long_options[] = {
	{ "verbose", no_argument, &options.verbose, true },
	{ "quiet", no_argument, &options.quiet, true },
	{ "json", no_argument, &options.json, true },
	{ "no-probe", no_argument, &options.no_probe, true },
	{ "deep", no_argument, &options.deep, true },
	{ "merge", no_argument, &options.merge, true },
	{ "only", required_argument, NULL, OPTION_ONLY },
	{ "limit", required_argument, NULL, OPTION_LIMIT },
	{ "dump", required_argument, NULL, OPTION_DUMP },
	{ "from", required_argument, NULL, OPTION_FROM },
	{ "job", required_argument, NULL, OPTION_JOB },
	{ "sysroot", required_argument, NULL, OPTION_SYSROOT },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, OPTION_VERSION },
	{ NULL, 0, NULL, 0 },
};

__attribute__((noreturn)) static void doctor_print_and_exit(const char *text)
{
	fputs(text, stdout);
	doctor_finish();
	exit(0);
}

static void doctor_take_option(int which, const char *word)
{
	const char **const texts[] = { &options.only, &options.limit, &options.dump,
				       &options.from, &options.job,   &options.sysroot };

	if (which >= OPTION_ONLY && which <= OPTION_SYSROOT)
		*texts[which - OPTION_ONLY] = optarg;
	else if (which == 'v')
		options.verbose = true;
	else if (which == 'q')
		options.quiet = true;
	else if (which == 'h')
		doctor_print_and_exit(usage);
	else if (which == OPTION_VERSION)
		doctor_print_and_exit("peerpin " PACKAGE_VERSION "\n");
	else if (which == ':')
		doctor_refuse("a value is missing after %s (see peerpin doctor --help)", word);
	else if (which)
		doctor_refuse("unknown option: %s (see peerpin doctor --help)", word);
	if (which == OPTION_LIMIT &&
	    (!*optarg || strlen(optarg) > 6 || strspn(optarg, "0123456789") != strlen(optarg)))
		doctor_refuse("--limit requires a number of seconds, not \"%s\"", optarg);
}

/* Warns of doctor options behind the program's name: they are the program's arguments, unused. */
static void doctor_warn_of_late_options(char *const *program)
{
	for (char *const *word = program; *word && word[1]; word++) {
		for (const struct option *known = long_options; known->name; known++) {
			if (!strncmp(word[1], "--", 2) && !strcmp(word[1] + 2, known->name))
				fprintf(stderr,
					"peerpin doctor: %s follows %s, and is an argument of it: "
					"options of doctor precede the program\n",
					word[1], program[0]);
		}
	}
}

int main(int count, char **words)
{
	int which, at = 1;

	opterr = 0;
	while ((which = getopt_long(count, words, "+:vqh", long_options, NULL)) != -1) {
		doctor_take_option(which, words[at]);
		at = optind;
	}
	if (options.merge) {
		which = merge_print_hosts(words + optind);
		doctor_finish();
		return which;
	}
	if (options.from && words[optind])
		doctor_refuse("--from excludes a program: remove %s", words[optind]);
	if (options.from && options.sysroot)
		doctor_refuse("--from and --sysroot exclude each other");
	doctor_warn_of_late_options(words + optind);
	return doctor_run(words + optind);
}
