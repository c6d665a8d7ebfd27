/* SPDX-License-Identifier: BSD-3-Clause */
/* check_config.c -- settings from each source: messages about bad values, precedence */
#include "suite.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/config.h"
#include "base/config_reader.h"
#include "base/text.h"

static struct config config;
static struct config_place places[CONFIG_ROWS];
static struct config_reader reader;
static char complaint[512]; /* the last one */

static void keep(const char *line)
{
	snprintf(complaint, sizeof(complaint), "%s", line);
}

static void begin(void)
{
	config = config_defaults;
	memset(places, 0, sizeof(places));
	complaint[0] = '\0';
	reader = (struct config_reader){ .config = &config, .places = places, .complain = keep };
}

static unsigned int read_variable(char *variable)
{
	char *const environment[] = { "PATH=/bin", variable, NULL };

	begin();
	config_read_environment(&reader, environment);
	return reader.complaints;
}

static unsigned int read_text(const char *text)
{
	static char copy[4096];

	begin();
	snprintf(copy, sizeof(copy), "%s", text);
	config_read_text(&reader, "/a/file", copy);
	return reader.complaints;
}

static int read_file(const char *name)
{
	static char text[CONFIG_FILE_MOST + 1];

	return config_read_file(&reader, name, text);
}

static int read_file_of(const char *text, size_t size)
{
	char name[] = "/tmp/check_config.XXXXXX";
	int fd = mkstemp(name), error;

	begin();
	ck_assert_int_eq(write(fd, text, size), (ssize_t)size);
	close(fd);
	error = read_file(name);
	unlink(name);
	return error;
}

CASE(config);

TEST(config, what_is_built_in_holds_in_an_empty_environment)
{
	char *const environment[] = { NULL };

	begin();
	config_read_environment(&reader, environment);
	ck_assert_uint_eq(reader.complaints, 0);
	ck_assert(!config.disable);
	ck_assert_int_eq(config.preregister, PREREGISTER_AUTO);
	ck_assert_int_eq(config.log_level, LOG_WARN);
	ck_assert_int_eq(config.summary, SUMMARY_AUTO);
	ck_assert_ptr_null(config.stats_file);
	ck_assert_int_eq(places[CONFIG_ROW_log_level].origin, CONFIG_BUILT_IN);
}

/* ---- one variable: its complaint, or its value ---- */

#define SIZE_OF_4K "(a size of at least 4K, such as 1.5G or inf; 0: none): it is ignored"
#define SHARE	   "or a percentage from 1% to 100%; 0: none): it is ignored"
#define LIMIT	   "(auto, or a size of at least 4K, such as "
#define GONE	   " is no longer a setting, and is ignored"

static const struct {
	const char *variable; /* without PEERPIN_ */
	uint64_t value;
	const char *complaint; /* part of it; NULL: none */
} rows[] = {
	/* Sizes have units, fractions and words. */
	{ "KEEP_HOST=2M", 2 << 20, NULL },
	{ "KEEP_HOST=65536", 65536, NULL },
	{ "KEEP_HOST=1G", 1 << 30, NULL },
	{ "PIN_LIMIT=0", 0, NULL },
	{ "PIN_LIMIT=4K", 4096, NULL },
	{ "PIN_LIMIT=8192b", 8192, NULL },
	{ "PIN_LIMIT=64KB", 64 << 10, NULL },
	{ "PIN_LIMIT=64kib", 64 << 10, NULL },
	{ "PIN_LIMIT=1.5G", UINT64_C(3) << 29, NULL },
	{ "PIN_LIMIT=4.5K", 4608, NULL },
	{ "PIN_LIMIT=1.25T", UINT64_C(5) << 38, NULL },
	{ "PIN_LIMIT=1024t", CONFIG_SIZE_MOST, NULL },
	{ "PIN_LIMIT=2.000000001M", 2 << 20, NULL },
	{ "PIN_LIMIT=inf", CONFIG_SIZE_MOST, NULL },
	{ "PIN_LIMIT=auto", CONFIG_AUTO, NULL },
	/* A share is a size or a percentage. */
	{ "KEEP=0", 0, NULL },
	{ "KEEP=0%", 0, NULL },
	{ "KEEP=4G", UINT64_C(4) << 30, NULL },
	{ "KEEP=2M", 2 << 20, NULL },
	{ "KEEP=1%", CONFIG_SHARE | 1, NULL },
	{ "KEEP=10%", CONFIG_SHARE | 10, NULL },
	{ "KEEP=100%", CONFIG_SHARE | 100, NULL },
	{ "KEEP=inf", CONFIG_SIZE_MOST, NULL },
	{ "KEEP=Auto", CONFIG_AUTO, NULL },
	{ "KEEP=101%", 0, SHARE },
	{ "KEEP=lots", 0, SHARE },
	{ "KEEP=%", 0, SHARE },
	{ "KEEP=-1%", 0, SHARE },
	{ "KEEP=10%%", 0, SHARE },
	{ "KEEP=10.5%", 0, SHARE },
	{ "KEEP=10 %", 0, SHARE },
	{ "KEEP=10%G", 0, SHARE },
	{ "KEEP=", 0, SHARE },
	{ "KEEP=18446744073709551617%", 0, SHARE },
	{ "KEEP_HOST=10%", 0, SIZE_OF_4K },
	/* The summary has words, and is yes or no. */
	{ "SUMMARY=none", SUMMARY_NONE, NULL },
	{ "SUMMARY=auto", SUMMARY_AUTO, NULL },
	{ "SUMMARY=table", SUMMARY_TABLE, NULL },
	{ "SUMMARY=line", SUMMARY_LINE, NULL },
	{ "SUMMARY=0", SUMMARY_NONE, NULL },
	{ "SUMMARY=Off", SUMMARY_NONE, NULL },
	{ "SUMMARY=1", SUMMARY_AUTO, NULL },
	{ "SUMMARY=yes", SUMMARY_AUTO, NULL },
	{ "SUMMARY=2", SUMMARY_AUTO, "SUMMARY=2 is not allowed (" },
	{ "PREREGISTER=eager", PREREGISTER_EAGER, NULL },
	{ "PREREGISTER=sync", PREREGISTER_AUTO,
	  "environment: PEERPIN_PREREGISTER=sync is not allowed (auto, eager or off): it is "
	  "ignored" },
	{ "DISABLE=yes", true, NULL },
	/* A number without a unit is one of bytes, and can be a mistake: peerpin --keep 4. */
	{ "KEEP=4", 0,
	  "KEEP=4 (4 bytes) is not allowed (auto; or a size of at least 2M, such as 1.5G or "
	  "inf; " },
	{ "KEEP=1", 0, "KEEP=1 (1 byte) is not allowed (" },
	{ "KEEP=2047K", 0, "KEEP=2047K (2096128 bytes) is not allowed (" },
	{ "KEEP_HOST=16", 0, "KEEP_HOST=16 (16 bytes) is not allowed " SIZE_OF_4K },
	{ "PIN_LIMIT=4095", CONFIG_AUTO, "PIN_LIMIT=4095 (4095 bytes) is not allowed " LIMIT },
	/* No size. */
	{ "KEEP_HOST=2X", 0, SIZE_OF_4K },
	{ "KEEP_HOST=-1", 0, SIZE_OF_4K },
	{ "KEEP_HOST=", 0, SIZE_OF_4K },
	{ "KEEP_HOST=99999999999999999999", 0, SIZE_OF_4K },
	{ "KEEP_HOST=17179869184G", 0, SIZE_OF_4K },
	{ "KEEP_HOST=1025T", 0, SIZE_OF_4K },
	{ "KEEP_HOST=1125899906842625", 0, SIZE_OF_4K },
	{ "KEEP_HOST=1KK", 0, SIZE_OF_4K },
	{ "KEEP_HOST=1.5", 0, SIZE_OF_4K },
	{ "KEEP_HOST=1.G", 0, SIZE_OF_4K },
	{ "KEEP_HOST=.5G", 0, SIZE_OF_4K },
	{ "KEEP_HOST=1.5i", 0, SIZE_OF_4K },
	{ "KEEP_HOST=auto", 0, SIZE_OF_4K },
	/* A setting of a former version is named with what to use, by its whole name only. */
	{ "EAGER=1", 0, "PEERPIN_EAGER" GONE ": use PEERPIN_PREREGISTER=eager" },
	{ "POINTER_QUERIES=0", 0, "PEERPIN_POINTER_QUERIES" GONE },
	{ "EAGERLY=1", 0, "PEERPIN_EAGERLY is unknown" },
	/* An unknown name gets the nearest one. */
	{ "KEEPHOST=1", 0,
	  "environment: PEERPIN_KEEPHOST is unknown: did you mean PEERPIN_KEEP_HOST?" },
	{ "CONFIG_FIL=1", 0, "did you mean PEERPIN_CONFIG_FILE?" },
	{ "SOMETHING_ELSE=1", 0, "ignored" },
	{ "SYSROOTS=/x", 0, "PEERPIN_SYSROOTS" },
	{ "SIM_MEMORY=1G", 0, NULL },
	{ "CONFIG_FILE=/x", 0, NULL },
	{ "SYSROOT=/x", 0, NULL },
	/* What stands for itself in a file's name is named. */
	{ "STATS_FILE=/x/%d.json", 0,
	  "environment: PEERPIN_STATS_FILE=/x/%d.json: %d stands for itself (allowed: a file name; "
	  "%h host, %p process, %r rank, %j job, %e program, %u user, %q{VAR} a variable, %% "
	  "percent)" },
	{ "TRACE_FILE=%q{A", 0, "%q{A" },
	{ "LOG_FILE=%h-%q{A}-%%d", 0, NULL },
	{ "INCLUDE=%d", 0, NULL },
};

/* Of the settings that the rows judge by a value; 0: of another one. */
static uint64_t value_of(const char *variable)
{
	return text_begins(variable, "KEEP_HOST=")     ? config.keep_host
	       : text_begins(variable, "PIN_LIMIT=")   ? config.pin_limit
	       : text_begins(variable, "KEEP=")	       ? config.keep
	       : text_begins(variable, "SUMMARY=")     ? config.summary
	       : text_begins(variable, "PREREGISTER=") ? config.preregister
	       : text_begins(variable, "DISABLE=")     ? config.disable
						       : 0;
}

LOOP_TEST(config, a_variable_has_its_value_or_a_complaint_with_what_is_allowed, 0,
	  sizeof(rows) / sizeof(*rows))
{
	const char *wanted = rows[_i].complaint;
	char variable[64];

	snprintf(variable, sizeof(variable), "PEERPIN_%s", rows[_i].variable);
	ck_assert_uint_eq(read_variable(variable), wanted != NULL);
	ck_assert_uint_eq(value_of(rows[_i].variable), rows[_i].value);
	ck_assert_msg(!wanted || strstr(complaint, wanted), "%s", complaint);
	/* A bad value is in its complaint. */
	ck_assert(!wanted || !strstr(complaint, "not allowed") || strstr(complaint, variable));
}

TEST(config, the_name_of_a_file_stays_as_it_is)
{
	ck_assert_uint_eq(read_variable("PEERPIN_STATS_FILE=/x/%r"), 0);
	ck_assert_str_eq(config.stats_file, "/x/%r");
	ck_assert_int_eq(places[CONFIG_ROW_stats_file].origin, CONFIG_FROM_ENVIRONMENT);
	ck_assert_uint_eq(read_variable("PEERPIN_STATS_FILE=/x/%d.json"), 1);
	ck_assert_str_eq(config.stats_file, "/x/%d.json");
}

TEST(config, a_file_has_lines_of_name_and_value)
{
	ck_assert_uint_eq(read_text("# a comment\n\n  PEERPIN_PREREGISTER = eager "
				    "\t\r\nPEERPIN_STATS_FILE=a b#c\n"
				    "\t# another\nPEERPIN_LOG_FILE =\nPEERPIN_VERIFY= on"),
			  0);
	ck_assert_int_eq(config.preregister, PREREGISTER_EAGER);
	ck_assert_str_eq(config.stats_file, "a b#c");
	ck_assert_ptr_null(config.log_file);
	ck_assert(config.verify);
	ck_assert_int_eq(places[CONFIG_ROW_stats_file].origin, CONFIG_FROM_FILE);
	ck_assert_str_eq(places[CONFIG_ROW_stats_file].file, "/a/file");
	ck_assert_uint_eq(places[CONFIG_ROW_stats_file].line, 4);
	ck_assert_uint_eq(places[CONFIG_ROW_verify].line, 7);
}

TEST(config, what_is_wrong_in_a_file_is_told_with_its_line)
{
	ck_assert_uint_eq(read_text("\nPEERPIN_PREREGISTER = never\n"), 1);
	ck_assert_str_eq(complaint, "/a/file:2: PEERPIN_PREREGISTER=never is not allowed "
				    "(auto, eager or off): it is ignored");
	ck_assert_uint_eq(read_text("PEERPIN_PREREGISTR = eager\n"), 1);
	ck_assert_str_eq(
		complaint,
		"/a/file:1: PEERPIN_PREREGISTR is unknown: did you mean PEERPIN_PREREGISTER?");
	ck_assert_uint_eq(read_text("PEERPIN_PREREGISTER eager\n"), 1);
	ck_assert_str_eq(complaint,
			 "/a/file:1: no setting: a line is NAME = VALUE, or a # and a comment");
	ck_assert_uint_eq(read_text("= eager\n"), 1);
	ck_assert_uint_eq(read_text("PEERPIN_CONFIG_FILE = /other\n"), 1);
	ck_assert_ptr_nonnull(strstr(complaint, "leads nowhere"));
	ck_assert_uint_eq(
		read_text("PEERPIN_PREREGISTER = never\nPEERPIN_VERIFY = 1\nPEERPIN_X = 2"), 2);
	ck_assert(config.verify);
}

TEST(config, of_two_sources_the_later_holds_unless_it_is_bad)
{
	char *const good[] = { "PEERPIN_PREREGISTER=off", NULL };
	char *const bad[] = { "PEERPIN_PREREGISTER=none", NULL };

	read_text("PEERPIN_PREREGISTER = eager\nPEERPIN_SUMMARY = line\n");
	config_read_environment(&reader, good);
	ck_assert_int_eq(config.preregister, PREREGISTER_OFF);
	ck_assert_int_eq(places[CONFIG_ROW_preregister].origin, CONFIG_FROM_ENVIRONMENT);
	ck_assert_int_eq(config.summary, SUMMARY_LINE);
	ck_assert_int_eq(places[CONFIG_ROW_summary].origin, CONFIG_FROM_FILE);
	read_text("PEERPIN_PREREGISTER = eager\n");
	config_read_environment(&reader, bad);
	ck_assert_int_eq(config.preregister, PREREGISTER_EAGER);
	ck_assert_int_eq(places[CONFIG_ROW_preregister].origin, CONFIG_FROM_FILE);
	ck_assert_uint_eq(reader.complaints, 1);
}

TEST(config, a_file_that_cannot_be_read_is_said_to_be)
{
	begin();
	errno = ERANGE;
	ck_assert_int_eq(read_file("/no/such/file"), -ENOENT);
	ck_assert_int_eq(read_file("/tmp"), -EISDIR);
	ck_assert_int_eq(errno, ERANGE);
	ck_assert_uint_eq(reader.complaints, 0);
	ck_assert_int_eq(read_file_of("PEERPIN_VERIFY=1\n", 17), 0);
	ck_assert(config.verify);
	ck_assert_int_eq(errno, ERANGE);
}

TEST(config, a_pipe_that_nobody_writes_to_does_not_hold_the_program_up)
{
	char name[64];

	snprintf(name, sizeof(name), "/tmp/check_config.%d", getpid());
	ck_assert_int_eq(mkfifo(name, 0600), 0);
	begin();
	read_file(name);
	ck_assert_uint_eq(reader.complaints, 0);
	unlink(name);
}

TEST(config, a_file_is_read_up_to_its_limit_and_its_last_whole_line)
{
	static char long_text[2 * CONFIG_FILE_MOST];

	memset(long_text, '#', sizeof(long_text));
	memcpy(long_text, "PEERPIN_VERIFY=1\n", 17);
	memcpy(long_text + CONFIG_FILE_MOST - 20, "\nPEERPIN_KEEP_HOST=1234567\n", 27);
	read_file_of(long_text, sizeof(long_text));
	ck_assert_uint_eq(reader.complaints, 1);
	ck_assert_ptr_nonnull(strstr(complaint, "longer than 16384 bytes"));
	ck_assert(config.verify);
	ck_assert_uint_eq(config.keep_host, 0);
	/* The longest permitted file. */
	memcpy(long_text + CONFIG_FILE_MOST - 26, "\nPEERPIN_LOG_LEVEL = trace", 26);
	read_file_of(long_text, CONFIG_FILE_MOST);
	ck_assert_uint_eq(reader.complaints, 0);
	ck_assert_int_eq(config.log_level, LOG_TRACE);
}

static bool left_out(const char *include, const char *exclude, const char *program)
{
	struct config some = { .include = include, .exclude = exclude };

	return config_excludes(&some, program);
}

TEST(config, programs_are_included_and_excluded_by_name)
{
	ck_assert(!left_out(NULL, NULL, "app"));
	ck_assert(!left_out("app", NULL, "app"));
	ck_assert(left_out("app", NULL, "apple"));
	ck_assert(left_out("apple", NULL, "app"));
	ck_assert(!left_out("tool,app*", NULL, "apple"));
	ck_assert(!left_out("*ple", NULL, "apple"));
	ck_assert(!left_out("a*l*", NULL, "apple"));
	ck_assert(left_out("a*x*", NULL, "apple"));
	ck_assert(left_out(NULL, "bash,app", "app"));
	ck_assert(left_out(NULL, "*", "app"));
	ck_assert(!left_out(NULL, "bash,*sh", "app"));
	ck_assert(left_out("app", "app", "app"));
}

static char *stars(char *to, unsigned int count, const char *end)
{
	for (unsigned int i = 0; i < count; i++)
		strcpy(to + 2 * i, "*a");
	strcpy(to + 2 * count, end);
	return to;
}

/* Backtracking over several stars takes longer than this machine lives. */
TEST(config, many_stars_take_no_time)
{
	static char pattern[4096], name[2048];

	memset(name, 'a', 1500);
	for (unsigned int count = 12; count <= 1000; count += 988) {
		ck_assert(!left_out(NULL, stars(pattern, count, "*b"), name));
		ck_assert(!left_out(NULL, stars(pattern, count, "b,*b"), name));
		ck_assert(left_out(NULL, stars(pattern, count, ""), name));
		ck_assert(left_out(NULL, stars(pattern, count, "*,b"), name));
	}
	ck_assert(!left_out(NULL, stars(pattern, 1501, ""), name));
}

/* Every pattern of 5 characters against every name of 4, by the definition of a star. */
static bool matches_by_definition(const char *name, const char *pattern)
{
	if (*pattern == '*')
		return matches_by_definition(name, pattern + 1) ||
		       (*name && matches_by_definition(name + 1, pattern));
	return *pattern ? *pattern == *name && matches_by_definition(name + 1, pattern + 1)
			: !*name;
}

TEST(config, a_star_stands_for_any_text)
{
	char pattern[6] = "", name[5] = "";

	for (unsigned int p = 0; p < 4 * 4 * 4 * 4 * 4; p++) {
		for (unsigned int i = 0, rest = p; i < 5; i++, rest /= 4)
			pattern[i] = "ab*"[rest % 4]; /* one of four ends the pattern */
		for (unsigned int n = 0; n < 3 * 3 * 3 * 3; n++) {
			for (unsigned int i = 0, rest = n; i < 4; i++, rest /= 3)
				name[i] = "ab"[rest % 3];
			ck_assert(left_out(NULL, pattern, name) ==
				  matches_by_definition(name, pattern));
		}
	}
}

/* The description of a setting lists all accepted words. */
TEST(config, what_is_said_to_be_allowed_is)
{
	for (size_t i = 0; i < CONFIG_ROWS; i++) {
		const struct config_row *row = &config_table[i];
		const char *word;

		for (unsigned int value = 0; (word = config_word(row->kind, value)); value++) {
			begin();
			ck_assert_ptr_nonnull(strstr(row->allowed, word));
			ck_assert(config_put(&reader, row->variable, strlen(row->variable), word));
		}
		ck_assert(text_begins(row->variable, "PEERPIN_"));
		ck_assert_ptr_eq(config_nearest(row->variable, strlen(row->variable)),
				 row->variable);
	}
}

/* ---- at the first dlsym ---- */

static char *page; /* the reader faults at it */
static _Atomic bool reads, may_go_on;

static void hold_reader(int unused)
{
	(void)unused;
	reads = true;
	while (!may_go_on)
		sched_yield();
	mprotect(page, 4096, PROT_READ);
}

static void *read_early(void *unused)
{
	config_is_disabled_early();
	return unused;
}

/* The thread that reads the environment does not exist in the child. */
TEST(config, a_child_forked_while_a_thread_reads_the_environment_does_not_wait_for_it)
{
	static char disable[] = "PEERPIN_DISABLE=1", *held[2], *disabling[] = { disable, NULL };
	struct sigaction action = { .sa_handler = hold_reader };
	char **before = environ;
	pthread_t thread;
	int status;
	pid_t child;

	/* It reports the fault as an error. */
	if (suite_is_under_valgrind())
		return;
	page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	held[0] = page;
	ck_assert(page != MAP_FAILED && !sigaction(SIGSEGV, &action, NULL));
	/* Check reads the environment, too: no ck_assert meanwhile. */
	environ = held;
	require(!pthread_create(&thread, NULL, read_early, NULL));
	while (!reads)
		sched_yield();
	environ = before;
	child = fork();
	if (!child) {
		signal(SIGALRM, SIG_DFL);
		alarm(60); /* kills a child that hangs */
		environ = disabling;
		_exit(config_is_disabled_early() && config_is_disabled_early() ? 0 : 1);
	}
	ck_assert(waitpid(child, &status, 0) == child);
	may_go_on = true;
	pthread_join(thread, NULL);
	ck_assert_int_eq(status, 0);
	ck_assert(!config_is_disabled_early());
}

SUITE("config")
