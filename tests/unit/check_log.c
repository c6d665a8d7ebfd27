/* SPDX-License-Identifier: BSD-3-Clause */
/* check_log.c -- messages: content, destination, number, and the reporting rank of a host */
#include "suite.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/job_file.h"
#include "base/log.h"
#include "base/process.h"
#include "base/runtime.h"
#include "forbid.h"
#include "job_fixture.h"
#include "base/start.h"

#define RANKS 4

static char output[64]; /* path of the file behind standard error */
static int true_stderr = -1;

static const char *in_folder(const char *name)
{
	static char paths[4][256];
	static unsigned int next;
	char *path = paths[next++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
	return path;
}

static const char *lock_file(const char *job)
{
	char name[128];

	snprintf(name, sizeof(name), "peerpin/job.%s.%s.lock", job, identity_host());
	return in_folder(name);
}

static void set_up(void)
{
	forget_launchers();
	make_folder();
	setenv("PEERPIN_LOG_LEVEL", "info", 1);
	unsetenv("PEERPIN_LOG_FILE");
	snprintf(output, sizeof(output), "%s/stderr", folder);
	true_stderr = dup(STDERR_FILENO);
	dup2(open(output, O_RDWR | O_CREAT | O_APPEND, 0600), STDERR_FILENO);
}

static void tear_down(void)
{
	dup2(true_stderr, STDERR_FILENO);
	remove_folder();
}

static const char *text_of(const char *path)
{
	static char text[1 << 20];
	FILE *file = fopen(path, "r");
	size_t length = 0;

	if (file) {
		length = fread(text, 1, sizeof(text) - 1, file);
		fclose(file);
	}
	text[length] = '\0';
	return text;
}

static unsigned int lines_with(const char *path, const char *part)
{
	const char *text = text_of(path);
	unsigned int count = 0;

	for (; (text = strstr(text, part)); text += strlen(part))
		count++;
	return count;
}

static bool exists(const char *path)
{
	struct stat what;

	return !lstat(path, &what);
}

static void log_to(const char *name)
{
	setenv("PEERPIN_LOG_FILE", in_folder(name), 1);
	config_get();
}

static void be_rank_of(const char *job)
{
	setenv("FLUX_TASK_RANK", "0", 1);
	setenv("FLUX_JOB_ID", job, 1);
}

CASE(log, .set_up = set_up, .tear_down = tear_down);

/* ---- lines ---- */

TEST(log, nothing_is_said_before_the_settings_are_read)
{
	log_message(LOG_ERROR, "too early");
	ck_assert_str_eq(text_of(output), "");
	config_get();
	log_message(LOG_ERROR, "in time");
	log_message(LOG_DEBUG, "not asked for");
	ck_assert_uint_eq(lines_with(output, "in time\n"), 1);
	ck_assert_uint_eq(lines_with(output, "\n"), 1);
}

TEST(log, a_line_says_who)
{
	char expected[256];

	config_get();
	setenv("PMI_RANK", "0", 1);
	errno = 77;
	log_message(LOG_WARN, "%s and %d", "text", 5);
	ck_assert_int_eq(errno, 77);
	snprintf(expected, sizeof(expected), "peerpin: <warn> [%s:%d rank 0] text and 5\n",
		 identity_host(), (int)getpid());
	ck_assert_str_eq(text_of(output), expected);
}

TEST(log, a_message_is_one_line)
{
	char longer[3 * LOG_LINE_LENGTH];
	const char *text;

	config_get();
	memset(longer, 'x', sizeof(longer));
	longer[sizeof(longer) - 1] = '\0';
	log_message(LOG_WARN, "one\ntwo\t\033[1m\302\23331m\23331m");
	log_message(LOG_WARN, "%s", longer);
	text = text_of(output);
	ck_assert_ptr_nonnull(strstr(text, "one?two??[1m??31m?31m\n"));
	ck_assert_uint_eq(lines_with(output, "\n"), 2);
	ck_assert_uint_lt(strlen(text), 2 * LOG_LINE_LENGTH);
	ck_assert_uint_gt(strlen(text), LOG_LINE_LENGTH);
	ck_assert_str_eq(text + strlen(text) - 2, "x\n");
}

static void tell_a_cause(int number)
{
	log_once(LOG_WARN, "a cause, seen at %d", number);
}

TEST(log, a_cause_is_told_once)
{
	config_get();
	tell_a_cause(1);
	tell_a_cause(2);
	ck_assert_uint_eq(lines_with(output, "a cause"), 1);
}

TEST(log, the_first_line_tells_what_differs_from_the_defaults)
{
	setenv("PEERPIN_PREREGISTER", "eager", 1);
	setenv("PEERPIN_KEEP_HOST", "2M", 1);
	setenv("PEERPIN_STATS_FILE", "/x", 1);
	setenv("PEERPIN_DISABLE", "0", 1);
	config_get();
	process_activate();
	process_activate();
	ck_assert_uint_eq(lines_with(output, "peerpin: <info>"), 1);
	ck_assert_uint_eq(
		lines_with(
			output,
			"settings other than the defaults: PEERPIN_PREREGISTER=eager "
			"PEERPIN_KEEP_HOST=2097152 "
			"PEERPIN_LOG_LEVEL=info PEERPIN_STATS_FILE=/x\n"),
		1);
}

TEST(log, who_asks_for_everything_gets_everything)
{
	config_get();
	for (int i = 0; i < 5000; i++)
		log_message(LOG_INFO, "one of many");
	ck_assert_uint_eq(lines_with(output, "one of many"), 5000);
}

TEST(log, a_reader_that_has_gone_ends_nobody)
{
	int ends[2];
	sigset_t waiting;

	config_get();
	ck_assert_int_eq(pipe(ends), 0);
	close(ends[0]);
	dup2(ends[1], STDERR_FILENO);
	log_message(LOG_WARN, "to nobody");
	ck_assert_int_eq(sigpending(&waiting), 0);
	ck_assert(!sigismember(&waiting, SIGPIPE));
	ck_assert_int_eq(sigprocmask(SIG_BLOCK, NULL, &waiting), 0);
	ck_assert(!sigismember(&waiting, SIGPIPE));
}

/* ---- the file ---- */

TEST(log, the_file_comes_with_the_first_message_and_is_private)
{
	struct stat what;

	setenv("PEERPIN_LOG_FILE", in_folder("log.%e"), 1);
	umask(0);
	config_get();
	log_message(LOG_DEBUG, "not asked for");
	snprintf(output, sizeof(output), "%s/log.%s", folder, start_program());
	ck_assert(!exists(output));
	log_message(LOG_INFO, "first");
	ck_assert_int_eq(stat(output, &what), 0);
	ck_assert_uint_eq(what.st_mode & 0777, 0600);
	log_message(LOG_INFO, "second");
	ck_assert_uint_eq(lines_with(output, "\n"), 2);
	ck_assert_str_eq(text_of(in_folder("stderr")), "");
}

TEST(log, no_file_is_written_over)
{
	setenv("PEERPIN_LOG_FILE", in_folder("log"), 1);
	ck_assert_int_eq(symlink(in_folder("elsewhere"), in_folder("log")), 0);
	close(open(in_folder("log-1"), O_WRONLY | O_CREAT, 0600));
	config_get();
	log_message(LOG_INFO, "text");
	ck_assert(!exists(in_folder("elsewhere")));
	ck_assert_str_eq(text_of(in_folder("log-1")), "");
	ck_assert_uint_eq(lines_with(in_folder("log-2"), "text\n"), 1);
}

/* Close or limit files in a child process: Check has open files, too. */
static int in_a_process(int (*act)(void))
{
	int status = -1;

	if (!fork())
		_exit(act());
	wait(&status);
	return status;
}

static int close_all_and_go_on(void)
{
	log_message(LOG_INFO, "first");
	for (int fd = 3; fd < 64; fd++)
		close(fd);
	for (int i = 0; i < 40; i++) {
		if (open("own", O_WRONLY | O_CREAT | O_APPEND, 0600) != 3 + i)
			return 1;
	}
	if (chdir("/"))
		return 2;
	log_message(LOG_INFO, "second");
	for (int fd = 3; fd < 64; fd++)
		close(fd);
	/* No file has the number of the log's descriptor. */
	log_message(LOG_INFO, "third");
	return 0;
}

TEST(log, the_programs_own_files_are_never_written_to)
{
	ck_assert_int_eq(chdir(folder), 0);
	setenv("PEERPIN_LOG_FILE", "log", 1);
	config_get();
	ck_assert_int_eq(in_a_process(close_all_and_go_on), 0);
	ck_assert(exists(in_folder("own")));
	ck_assert_str_eq(text_of(in_folder("own")), "");
	ck_assert_uint_eq(lines_with(in_folder("log"), "\n"), 3);
	ck_assert_uint_eq(lines_with(in_folder("log"), "third\n"), 1);
	ck_assert_str_eq(text_of(output), "");
}

static int streams_closed = 3;

/* As a daemon does: close all 3, log a message, and open them again, the lowest number first. */
static int close_the_first_three(void)
{
	for (int fd = 0; fd < streams_closed; fd++)
		close(fd);
	log_message(LOG_WARN, "first");
	for (int fd = 0; fd < streams_closed; fd++) {
		if (open("/dev/null", O_RDWR) != fd)
			return 1;
	}
	log_message(LOG_WARN, "second");
	return 0;
}

TEST(log, standard_input_output_and_error_are_left_to_the_program)
{
	log_to("log");
	ck_assert_int_eq(in_a_process(close_the_first_three), 0);
	ck_assert_uint_eq(lines_with(in_folder("log"), "\n"), 2);
}

TEST(log, so_are_they_where_ranks_share_what_was_told)
{
	be_rank_of("f3");
	config_get();
	streams_closed = 2; /* A rank without standard error prints nothing for the others. */
	ck_assert_int_eq(in_a_process(close_the_first_three), 0);
	ck_assert(exists(lock_file("f3")));
}

/* ---- descriptor 2 ---- */

static int ends[2];

static int open_own(void)
{
	return open(in_folder("own"), O_RDWR | O_CREAT | O_APPEND, 0600);
}

static void reuse_for_a_file(void)
{
	close(STDERR_FILENO);
	ck_assert_int_eq(open_own(), STDERR_FILENO);
}

static void reuse_for_the_file_of_the_start(void)
{
	close(STDERR_FILENO);
	ck_assert_int_eq(open(output, O_WRONLY | O_APPEND), STDERR_FILENO);
}

static void make_both_streams_a_file(void)
{
	ck_assert_int_eq(dup2(open_own(), STDERR_FILENO), STDERR_FILENO);
	ck_assert_int_eq(dup2(STDERR_FILENO, STDOUT_FILENO), STDOUT_FILENO);
}

static void make_it_a_pipe(void)
{
	ck_assert(!pipe(ends) && dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
}

static void make_it_a_terminal(void)
{
	ends[0] = posix_openpt(O_RDWR | O_NOCTTY);
	ck_assert(!grantpt(ends[0]) && !unlockpt(ends[0]));
	ends[1] = open(ptsname(ends[0]), O_RDWR | O_NOCTTY);
	ck_assert_int_eq(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
}

static void reuse_for_a_pipe_of_its_own(void)
{
	close(STDERR_FILENO);
	ck_assert(!pipe2(ends, O_CLOEXEC) && ends[0] == STDERR_FILENO);
	ends[0] = dup(ends[0]);
	ck_assert_int_eq(dup3(ends[1], STDERR_FILENO, O_CLOEXEC), STDERR_FILENO);
}

static void reuse_for_a_socket(void)
{
	int pair[2];

	close(STDERR_FILENO);
	ck_assert(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair) && pair[0] == STDERR_FILENO);
	ends[0] = pair[1];
}

static const struct {
	void (*change)(void);
	bool is_written; /* to ends[0], else to "own" or `output` */
} streams[] = {
	{ reuse_for_a_file, false },	    { reuse_for_the_file_of_the_start, true },
	{ make_both_streams_a_file, true }, { make_it_a_pipe, true },
	{ make_it_a_terminal, true },	    { reuse_for_a_pipe_of_its_own, false },
	{ reuse_for_a_socket, false },
};

LOOP_TEST(log, descriptor_2_is_written_only_while_it_is_standard_error, 0,
	  sizeof(streams) / sizeof(streams[0]))
{
	char text[256] = "";

	config_get();
	streams[_i].change();
	log_message(LOG_WARN, "a message");
	if (ends[0]) {
		fcntl(ends[0], F_SETFL, O_NONBLOCK);
		ck_assert_int_eq(read(ends[0], text, sizeof(text) - 1) > 0, streams[_i].is_written);
	} else {
		ck_assert_uint_eq(lines_with(output, "a message") +
					  lines_with(in_folder("own"), "a message"),
				  streams[_i].is_written);
	}
}

#define THREADS 4
#define LINES	200

static void *say_often(void *number)
{
	for (int i = 0; i < LINES; i++) {
		log_message(LOG_WARN, "line %d of thread %d", i, *(const int *)number);
		tell_a_cause(i);
	}
	return NULL;
}

static int close_while_others_write(void)
{
	static const int numbers[THREADS] = { 0, 1, 2, 3 };
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++) {
		if (pthread_create(&threads[i], NULL, say_often, (void *)&numbers[i]))
			return 1;
	}
	/* The program opens no files meanwhile, so the log can reopen its file for every line. */
	for (int i = 0; i < 50; i++)
		close(3 + i % 20);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}

TEST(log, threads_write_whole_lines_each_once)
{
	log_to("log");
	ck_assert_int_eq(in_a_process(close_while_others_write), 0);
	ck_assert_uint_eq(lines_with(in_folder("log"), " of thread ") +
				  lines_with(output, " of thread "),
			  THREADS * LINES);
	ck_assert_uint_eq(lines_with(in_folder("log"), "a cause") + lines_with(output, "a cause, "),
			  1);
	ck_assert_uint_eq(lines_with(in_folder("log"), "peerpin: <warn>"),
			  lines_with(in_folder("log"), "\n"));
}

static void *load(void *name)
{
	return dlopen(name, RTLD_NOW);
}

/* dlopen holds the dynamic linker's lock while constructors run, and a constructor may log. So
 * waiting for the linker's lock while holding the file's would be a deadlock. */
TEST(log, the_file_s_name_is_found_without_the_dynamic_linker)
{
	pthread_t loader;
	int pipe;

	log_to("%e.log");
	ck_assert_int_eq(mkfifo(in_folder("library"), 0600), 0);
	ck_assert_int_eq(
		pthread_create(&loader, NULL, load, (void *)(uintptr_t)in_folder("library")), 0);
	/* The loader now blocks in a read of the empty pipe, with the linker's lock. */
	pipe = open(in_folder("library"), O_WRONLY);
	ck_assert_int_ge(pipe, 0);
	log_message(LOG_WARN, "said meanwhile");
	close(pipe);
	pthread_join(loader, NULL);
	ck_assert_uint_eq(lines_with(in_folder("check_log.log"), "said meanwhile"), 1);
}

TEST(log, without_the_file_messages_come_on_standard_error)
{
	char expected[320];

	log_to("nowhere/log");
	log_message(LOG_INFO, "first");
	log_message(LOG_INFO, "second");
	snprintf(expected, sizeof(expected), "PEERPIN_LOG_FILE=%s cannot be written: No such file",
		 in_folder("nowhere/log"));
	ck_assert_uint_eq(lines_with(output, expected), 1);
	ck_assert_uint_eq(lines_with(output, "\n"), 3);
}

/* Forbidden from the first message on, or after it. */
static int log_without_fstat(bool after_a_message)
{
	if (after_a_message)
		log_message(LOG_INFO, "first");
	if (!forbid(SYS_fstat, EPERM) || !forbid(SYS_newfstatat, EPERM))
		return 1;
	log_message(LOG_INFO, "second");
	return 0;
}

static int log_without_fstat_at_all(void)
{
	return log_without_fstat(false);
}

static int log_without_fstat_later(void)
{
	return log_without_fstat(true);
}

LOOP_TEST(log, where_files_cannot_be_compared_the_message_names_fstat, 0, 2)
{
	log_to("log");
	ck_assert_int_eq(in_a_process(_i ? log_without_fstat_later : log_without_fstat_at_all), 0);
	ck_assert_uint_eq(lines_with(output, "cannot be written: fstat failed, which a seccomp"),
			  1);
	ck_assert_uint_eq(lines_with(output, "second\n"), 1);
	ck_assert_uint_eq(lines_with(in_folder("log"), "\n"), (unsigned int)_i);
}

static int fill(void)
{
	struct rlimit limit = { 200, 200 };

	for (int i = 0; i < 2; i++)
		log_message(LOG_INFO, "fits");
	if (setrlimit(RLIMIT_FSIZE, &limit) || truncate(in_folder("log"), 200))
		return 1;
	/* An unhandled SIGXFSZ would kill the process. */
	log_message(LOG_INFO, "too much");
	return 0;
}

static int fill_within_a_line(void)
{
	struct rlimit limit = { 2000, 2000 };

	log_message(LOG_INFO, "fits");
	if (setrlimit(RLIMIT_FSIZE, &limit) || truncate(in_folder("log"), 1995))
		return 1;
	log_message(LOG_INFO, "fits in part");
	return 0;
}

TEST(log, a_line_that_fits_in_part_comes_on_standard_error)
{
	log_to("log");
	ck_assert_int_eq(in_a_process(fill_within_a_line), 0);
	ck_assert_uint_eq(lines_with(output, "fits in part"), 1);
}

TEST(log, a_full_file_ends_nobody)
{
	log_to("log");
	ck_assert_int_eq(in_a_process(fill), 0);
	ck_assert_uint_eq(lines_with(in_folder("log"), "too much"), 0);
}

/* ---- the ranks of a host ---- */

/* Runs `say` in RANKS processes at once and waits for all. `job`: name of their job; empty: a job
 * without a name; NULL: no launcher. */
static void all_ranks(const char *job, void (*say)(int rank))
{
	char rank[16], byte = 0;
	int ready[2], go[2], status;

	ck_assert_int_eq(pipe(ready), 0);
	ck_assert_int_eq(pipe(go), 0);
	for (int i = 0; i < RANKS; i++) {
		if (fork())
			continue;
		snprintf(rank, sizeof(rank), "%d", i);
		if (job)
			setenv("FLUX_TASK_RANK", rank, 1);
		if (job && *job)
			setenv("FLUX_JOB_ID", job, 1);
		config_get();
		job_file_join();
		close(go[1]);
		if (write(ready[1], &byte, 1) != 1 || read(go[0], &byte, 1) < 0)
			_exit(1);
		say(i);
		_exit(0);
	}
	for (int i = 0; i < RANKS; i++)
		ck_assert_int_eq(read(ready[0], &byte, 1), 1);
	close(go[1]);
	for (int i = 0; i < RANKS; i++) {
		ck_assert_int_gt(wait(&status), 0);
		ck_assert_int_eq(status, 0);
	}
}

static void say_alike(int rank)
{
	log_once(LOG_WARN, "alike, seen by %d", rank);
	log_message(LOG_WARN, "of the same words");
	log_message(LOG_WARN, "of the words of %d", rank);
	log_message(LOG_INFO, "no warning");
}

TEST(log, a_warning_comes_once_for_each_host)
{
	struct stat what;

	all_ranks("f1/x", say_alike);
	ck_assert_uint_eq(lines_with(output, "alike, seen by"), 1);
	ck_assert_uint_eq(lines_with(output, "of the same words"), 1);
	ck_assert_uint_eq(lines_with(output, "of the words of"), RANKS);
	ck_assert_uint_eq(lines_with(output, "no warning"), RANKS);
	ck_assert_int_eq(stat(in_folder("peerpin"), &what), 0);
	ck_assert_uint_eq(what.st_mode & 0777, 0700);
	ck_assert_int_eq(stat(lock_file("f1_x"), &what), 0);
	ck_assert_uint_eq(what.st_mode & 0777, 0600);
	/* A second job reports its own. */
	all_ranks("f2", say_alike);
	ck_assert_uint_eq(lines_with(output, "alike, seen by"), 2);
}

TEST(log, without_a_job_everybody_tells)
{
	all_ranks(NULL, say_alike);
	ck_assert_uint_eq(lines_with(output, "alike, seen by"), RANKS);
	ck_assert(!exists(in_folder("peerpin")));
}

/* Such ranks identify their job by their parent. */
TEST(log, of_ranks_whose_job_has_no_name_one_tells)
{
	all_ranks("", say_alike);
	ck_assert_uint_eq(lines_with(output, "alike, seen by"), 1);
	ck_assert_uint_eq(lines_with(output, "of the words of"), RANKS);
}

TEST(log, in_files_each_rank_has_its_own)
{
	setenv("PEERPIN_LOG_FILE", in_folder("log"), 1);
	all_ranks("f1", say_alike);
	for (int i = 0; i < RANKS; i++) {
		char name[16];

		snprintf(name, sizeof(name), "log.%d", i);
		ck_assert_uint_eq(lines_with(in_folder(name), "alike, seen by"), 1);
		ck_assert_uint_eq(lines_with(in_folder(name), "\n"), 4);
	}
	ck_assert_str_eq(text_of(output), "");
}

/* Stores the name of the runtime folder in `path` and returns 0; negative: no folder. */
static int find_folder(char path[256])
{
	int folder = runtime_folder(NULL);
	char link[64];
	ssize_t length;

	if (folder < 0)
		return folder;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", folder);
	length = readlink(link, path, 255);
	ck_assert_int_gt(length, 0);
	path[length] = '\0';
	return close(folder);
}

TEST(log, a_folder_that_others_could_have_made_is_not_used)
{
	char path[256];

	ck_assert_int_eq(mkdir(in_folder("peerpin"), 0755), 0);
	ck_assert_int_eq(chmod(in_folder("peerpin"), 0755), 0);
	ck_assert_int_eq(find_folder(path), 0);
	ck_assert_int_eq(strncmp(path, "/dev/shm/peerpin-", 17), 0);
	ck_assert_int_eq(rmdir(in_folder("peerpin")), 0);
	ck_assert_int_eq(mkdir(in_folder("real"), 0700), 0);
	ck_assert_int_eq(symlink(in_folder("real"), in_folder("peerpin")), 0);
	ck_assert_int_eq(find_folder(path), 0);
	ck_assert_int_eq(strncmp(path, "/dev/shm/peerpin-", 17), 0);
	ck_assert_int_eq(unlink(in_folder("peerpin")), 0);
	ck_assert_int_eq(find_folder(path), 0);
	ck_assert_str_eq(path, in_folder("peerpin"));
}

/* Another user has made this user's folder in the folder of all users. */
static void occupy_folder(void)
{
	char name[32];

	unsetenv("XDG_RUNTIME_DIR");
	runtime_shared = strdup(in_folder("shared"));
	snprintf(name, sizeof(name), "shared/peerpin-%u", geteuid());
	ck_assert_int_eq(mkdir(runtime_shared, 0700), 0);
	ck_assert_int_eq(mkdir(in_folder(name), 0755), 0);
	ck_assert_int_eq(chmod(in_folder(name), 0755), 0);
}

TEST(log, the_folder_of_temporary_files_replaces_one_that_others_can_reach)
{
	char found[256], name[32];
	struct stat status;

	occupy_folder();
	ck_assert_int_eq(mkdir(in_folder("tmp"), 0777), 0);
	setenv("TMPDIR", in_folder("tmp"), 1);
	ck_assert(!runtime_find(2, found));
	ck_assert_int_eq(find_folder(found), 0);
	snprintf(name, sizeof(name), "tmp/peerpin-%u", geteuid());
	ck_assert_str_eq(found, in_folder(name));
	ck_assert_int_eq(stat(found, &status), 0);
	ck_assert_uint_eq(status.st_mode & 0777, 0700);
	ck_assert(!runtime_find(0, found) && !runtime_find(1, found) && runtime_find(2, found));
	ck_assert_str_eq(found, in_folder(name));
	ck_assert(runtime_is_refused(found));
	snprintf(name, sizeof(name), "shared/peerpin-%u", geteuid());
	ck_assert_str_eq(found, in_folder(name));
}

TEST(log, without_a_private_folder_there_is_none)
{
	char name[32], found[256];

	occupy_folder();
	setenv("TMPDIR", in_folder("tmp"), 1);
	snprintf(name, sizeof(name), "tmp/peerpin-%u", geteuid());
	ck_assert_int_eq(mkdir(in_folder("tmp"), 0700), 0);
	ck_assert_int_eq(symlink("/", in_folder(name)), 0);
	ck_assert_int_lt(find_folder(found), 0);
	setenv("TMPDIR", "relative", 1);
	ck_assert_int_lt(find_folder(found), 0);
	ck_assert_int_ne(access("relative", F_OK), 0);
}

/* ---- the job's file ---- */

static void claim(uint64_t hash)
{
	require(job_file_claim(hash));
}

TEST(log, of_the_ranks_of_a_job_one_claims_a_message)
{
	pid_t rank;

	be_rank_of("f1");
	rank = start_rank(claim, 5);
	ck_assert(!job_file_claim(5));
	ck_assert(job_file_claim(6));
	ck_assert(!job_file_claim(6));
	/* Also of one that has ended. */
	end_rank(rank);
	ck_assert(!job_file_claim(5));
}

static void want(uint64_t gpu)
{
	require(job_file_want(gpu));
}

static int claim_five(void)
{
	return !job_file_claim(5);
}

TEST(log, what_a_former_job_of_that_name_said_is_forgotten)
{
	pid_t rank, other;

	be_rank_of("f1");
	rank = start_rank(claim, 5);
	other = start_rank(want, 7);
	end_rank(rank);
	ck_assert_int_ne(in_a_process(claim_five), 0);
	end_rank(other);
	ck_assert_int_eq(in_a_process(claim_five), 0);
	ck_assert(job_file_claim(5));
	ck_assert_uint_eq(job_file_wanted(7), 0);
}

static void use(uint64_t gpu)
{
	job_file_share(gpu);
}

TEST(log, live_ranks_of_a_gpu_are_counted)
{
	pid_t ranks[3];

	be_rank_of("f1");
	for (int i = 0; i < 3; i++)
		ranks[i] = start_rank(use, i < 2 ? 7 : 8);
	ck_assert_uint_eq(job_file_ranks(), 4);
	ck_assert_uint_eq(job_file_share(7), 3);
	ck_assert_uint_eq(job_file_share(8), 2);
	ck_assert_uint_eq(job_file_share(9), 1);
	end_rank(ranks[0]);
	ck_assert_uint_eq(job_file_share(7), 2);
	ck_assert_uint_eq(job_file_ranks(), 3);
}

TEST(log, a_rank_that_wants_memory_raises_the_number_of_its_gpu)
{
	uint64_t before;

	be_rank_of("f1");
	ck_assert_uint_eq(job_file_wanted(7), 0);
	start_rank(want, 7);
	before = job_file_wanted(7);
	ck_assert_uint_gt(before, 0);
	ck_assert_uint_eq(job_file_wanted(8), 0);
	ck_assert_uint_eq(job_file_want(7), before + 1);
	ck_assert_uint_eq(job_file_wanted(7), before + 1);
}

TEST(log, without_a_job_each_process_is_alone)
{
	start_rank(use, 7);
	ck_assert_uint_eq(job_file_share(7), 1);
	ck_assert_uint_eq(job_file_want(7), 0);
	ck_assert_uint_eq(job_file_wanted(7), 0);
	ck_assert(!exists(in_folder("peerpin")));
}

/* The kernel finds the lock of the process that locked first, not of the first byte. */
TEST(log, locks_are_found_in_any_order)
{
	pid_t ranks[RANKS];

	be_rank_of("f1");
	for (int i = RANKS; i--;)
		ranks[i] = start_rank(use, 7);
	ck_assert_uint_eq(job_file_share(7), RANKS + 1);
	end_rank(ranks[1]);
	ck_assert_uint_eq(job_file_share(7), RANKS);
}

static void clean(void)
{
	int runtime = runtime_folder(NULL);

	ck_assert_int_ge(runtime, 0);
	runtime_clean(runtime);
	close(runtime);
}

static void make_old(void)
{
	const struct timespec long_ago[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };

	ck_assert_int_eq(utimensat(AT_FDCWD, lock_file("f1"), long_ago, 0), 0);
}

TEST(log, files_of_former_jobs_are_removed)
{
	pid_t rank;

	be_rank_of("f1");
	rank = start_rank(claim, 5);
	close(open(in_folder("peerpin/job.other"), O_WRONLY | O_CREAT, 0600));
	close(open(lock_file("f2"), O_WRONLY | O_CREAT, 0600));
	/* Not while a rank of the job is live. */
	make_old();
	clean();
	ck_assert(exists(lock_file("f1")));
	end_rank(rank);
	clean();
	ck_assert(!exists(lock_file("f1")));
	ck_assert(exists(lock_file("f2")));
	ck_assert(exists(in_folder("peerpin/job.other")));
}

static int find_no_lock(void)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	return fcntl(open(lock_file("f1"), O_RDWR), F_GETLK, &lock) || lock.l_type == F_UNLCK;
}

/* Each close of the file would drop all locks of the process. */
TEST(log, a_rank_that_cleans_keeps_its_locks)
{
	pid_t rank;

	be_rank_of("f1");
	rank = start_rank(claim, 6);
	make_old();
	ck_assert_uint_eq(job_file_share(7), 1); /* opens it, and writes nothing */
	end_rank(rank);
	clean();
	ck_assert(exists(lock_file("f1")));
	ck_assert_int_eq(in_a_process(find_no_lock), 0);
}

/* A rank opens the file while another process holds the lock of it all and removes it. */
TEST(log, a_rank_does_not_join_by_a_removed_file)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int locked[2], fd;
	char byte = 0;

	be_rank_of("f1");
	ck_assert_int_eq(pipe(locked) | close(runtime_folder(NULL)), 0);
	if (!fork()) {
		fd = open(lock_file("f1"), O_RDWR | O_CREAT, 0600);
		if (fcntl(fd, F_SETLK, &lock) || write(locked[1], &byte, 1) != 1)
			_exit(1);
		usleep(1000);
		unlink(lock_file("f1"));
		_exit(0);
	}
	ck_assert_int_eq(read(locked[0], &byte, 1), 1);
	ck_assert(job_file_claim(5));
	wait(NULL);
	ck_assert(exists(lock_file("f1")) || job_file_want(5) == 0);
}

static int claim_and_leave(void)
{
	if (!job_file_claim(5))
		return 1;
	job_file_leave();
	return 0;
}

TEST(log, the_last_rank_removes_the_file)
{
	pid_t rank;

	be_rank_of("f1");
	rank = start_rank(claim, 6);
	ck_assert_int_eq(in_a_process(claim_and_leave), 0);
	ck_assert(exists(lock_file("f1")));
	end_rank(rank);
	ck_assert_int_eq(in_a_process(claim_and_leave), 0);
	ck_assert(!exists(lock_file("f1")));
}

static int want_without_room(void)
{
	struct rlimit limit = { 4, 4 };

	return setrlimit(RLIMIT_FSIZE, &limit) || !job_file_claim(5) || job_file_want(5);
}

/* SIGXFSZ would end the program. */
TEST(log, without_room_no_number_is_raised)
{
	be_rank_of("f1");
	ck_assert_int_eq(in_a_process(want_without_room), 0);
	ck_assert(exists(lock_file("f1")));
}

/* Any process of the user can truncate the file. */
TEST(log, a_truncated_job_file_works_on)
{
	be_rank_of("f1");
	ck_assert(job_file_claim(5));
	ck_assert_uint_eq(job_file_want(7), 1);
	ck_assert_int_eq(truncate(lock_file("f1"), 0), 0);
	ck_assert(job_file_claim(5));
	ck_assert(!job_file_claim(5));
	ck_assert_uint_eq(job_file_wanted(7), 0);
	ck_assert_uint_eq(job_file_want(7), 1);
}

static int close_all_and_want(void)
{
	char byte = 0;
	int own;

	if (!job_file_want(5))
		return 1;
	for (int fd = 3; fd < 64; fd++)
		close(fd);
	for (int fd = 3; fd < 64; fd++) {
		own = open(in_folder("own"), O_RDWR | O_CREAT, 0600);
		if (own != fd || pwrite(own, "x", 1, 0) != 1)
			return 2;
	}
	if (job_file_want(6) || !job_file_claim(6) || lseek(own, 0, SEEK_END) != 1)
		return 3;
	return pread(own, &byte, 1, 0) == 1 && byte == 'x' ? 0 : 4;
}

TEST(log, a_number_is_not_written_to_a_file_of_the_program)
{
	be_rank_of("f1");
	ck_assert_int_eq(in_a_process(close_all_and_want), 0);
}

SUITE("log")
