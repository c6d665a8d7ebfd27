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
	ck_assert_uint_eq(lines_with(output,
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

/* ---- the job's file, in rows ----
 *
 * EVENT:NUMBER=RESULT, of this process; start:RANK=EVENT,NUMBER: in another rank, until end:RANK;
 * child( ... ): in a process of its own. "job": a launcher names it. */

static void claim(uint64_t hash)
{
	require(job_file_claim(hash));
}

static void want(uint64_t gpu)
{
	require(job_file_want(gpu));
}

static void share(uint64_t gpu)
{
	job_file_share(gpu);
}

static void clean(void)
{
	int runtime = runtime_folder(NULL);

	require(runtime >= 0);
	runtime_clean(runtime);
	close(runtime);
}

/* Of the same folder: no file of a former job is removed that is none, or new. */
static void make_others(void)
{
	close(open(in_folder("peerpin/job.other"), O_WRONLY | O_CREAT, 0600));
	close(open(lock_file("f2"), O_WRONLY | O_CREAT, 0600));
}

static void make_old(void)
{
	const struct timespec long_ago[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };

	require(!utimensat(AT_FDCWD, lock_file("f1"), long_ago, 0));
}

/* Each close of the file would drop all locks of the process. */
static bool finds_lock(void)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	return !fcntl(open(lock_file("f1"), O_RDWR), F_GETLK, &lock) && lock.l_type != F_UNLCK;
}

static int own_file;

/* The program closes all, and opens files of its own. */
static void reuse_descriptors(void)
{
	for (int fd = 3; fd < 64; fd++)
		close(fd);
	for (int fd = 3; fd < 64; fd++) {
		own_file = open(in_folder("own"), O_RDWR | O_CREAT, 0600);
		require(own_file == fd && pwrite(own_file, "x", 1, 0) == 1);
	}
}

static bool is_own_file_whole(void)
{
	char byte = 0;

	return lseek(own_file, 0, SEEK_END) == 1 && pread(own_file, &byte, 1, 0) == 1 &&
	       byte == 'x';
}

static pid_t ranks_of_row[4];

static void start_other(char name, const char *act)
{
	static void (*const acts[])(uint64_t) = { ['c'] = claim, ['w'] = want, ['s'] = share };

	ranks_of_row[name - 'A'] =
		start_rank(acts[(int)*act], strtoul(strchr(act, ',') + 1, NULL, 10));
}

/* The event's result; -1: it has none. */
static int64_t run_event(const char *event, uint64_t number, const char *argument)
{
	struct rlimit limit = { number, number };

	if (!strcmp(event, "job"))
		be_rank_of("f1");
	else if (!strcmp(event, "clean"))
		clean();
	else if (!strcmp(event, "others"))
		make_others();
	else if (!strcmp(event, "old"))
		make_old();
	else if (!strcmp(event, "leave"))
		job_file_leave();
	else if (!strcmp(event, "truncate"))
		require(!truncate(lock_file("f1"), 0));
	else if (!strcmp(event, "reuse"))
		reuse_descriptors();
	else if (!strcmp(event, "limit"))
		require(!setrlimit(RLIMIT_FSIZE, &limit));
	else if (!strcmp(event, "end"))
		end_rank(ranks_of_row[*argument - 'A']);
	else
		return !strcmp(event, "claim")	  ? job_file_claim(number)
		       : !strcmp(event, "want")	  ? (int64_t)job_file_want(number)
		       : !strcmp(event, "wanted") ? (int64_t)job_file_wanted(number)
		       : !strcmp(event, "share")  ? (int64_t)job_file_share(number)
		       : !strcmp(event, "ranks")  ? (int64_t)job_file_ranks()
		       : !strcmp(event, "folder") ? exists(in_folder("peerpin"))
		       : !strcmp(event, "file")	  ? exists(lock_file("f1"))
		       : !strcmp(event, "other")
			       ? exists(lock_file("f2")) && exists(in_folder("peerpin/job.other"))
		       : !strcmp(event, "locked") ? finds_lock()
		       : !strcmp(event, "own")	  ? is_own_file_whole()
						  : -2;
	return -1;
}

/* Returns the rest behind the text, or behind its ")". */
static const char *run_job_row(const char *promise, const char *text)
{
	char word[64], *argument, *result;
	int length, status;

	while (sscanf(text, "%63s%n", word, &length) == 1) {
		text += length;
		if (!strcmp(word, ")"))
			return text;
		if (!strcmp(word, "child(")) {
			if (!fork()) {
				run_job_row(promise, text);
				_exit(0);
			}
			wait(&status);
			ck_assert_int_eq(status, 0);
			text = strchr(text, ')') + 1;
			continue;
		}
		if ((result = strchr(word, '=')))
			*result++ = '\0';
		if ((argument = strchr(word, ':')))
			*argument++ = '\0';
		if (!strcmp(word, "start"))
			start_other(*argument, result);
		else if (run_event(word, argument ? strtoul(argument, NULL, 10) : 0, argument) !=
			 (result ? strtol(result, NULL, 10) : -1))
			ck_abort_msg("%s: not so: %s, before \"%s\"", promise, word, text);
	}
	return text;
}

static const char *const job_rows[][2] = {
	{ "of the ranks of a job one claims a message, also of one that has ended",
	  "job start:A=claim,5 claim:5=0 claim:6=1 claim:6=0 end:A claim:5=0" },
	{ "what a former job of that name said is forgotten",
	  "job start:A=claim,5 start:B=want,7 end:A child( claim:5=0 ) end:B child( claim:5=1 ) "
	  "claim:5=1 wanted:7=0" },
	{ "live ranks of a GPU are counted",
	  "job start:A=share,7 start:B=share,7 start:C=share,8 ranks=4 share:7=3 share:8=2 "
	  "share:9=1 end:A share:7=2 ranks=3" },
	{ "a rank that wants memory raises the number of its GPU",
	  "job wanted:7=0 start:A=want,7 wanted:7=1 wanted:8=0 want:7=2 wanted:7=2" },
	{ "without a job each process is alone",
	  "start:A=share,7 share:7=1 want:7=0 wanted:7=0 folder=0" },
	/* The kernel finds the lock of the process that locked first, not of the first byte. */
	{ "locks are found in any order",
	  "job start:D=share,7 start:C=share,7 start:B=share,7 start:A=share,7 share:7=5 end:B "
	  "share:7=4" },
	{ "files of former jobs are removed, and not while a rank of the job is live",
	  "job start:A=claim,5 others old clean file=1 end:A clean file=0 other=1" },
	{ "a rank that cleans keeps its locks",
	  "job start:A=claim,6 old share:7=1 end:A clean file=1 child( locked=1 )" },
	{ "the last rank removes the file",
	  "job start:A=claim,6 child( claim:5=1 leave ) file=1 end:A child( claim:5=1 leave ) "
	  "file=0" },
	/* SIGXFSZ would end the program. */
	{ "without room no number is raised", "job child( limit:4 claim:5=1 want:5=0 ) file=1" },
	/* Any process of the user can truncate the file. */
	{ "a truncated job file works on",
	  "job claim:5=1 want:7=1 truncate claim:5=1 claim:5=0 wanted:7=0 want:7=1" },
	{ "a number is not written to a file of the program",
	  "job child( want:5=1 reuse want:6=0 claim:6=1 own=1 )" },
};

LOOP_TEST(log, run_job_rows, 0, sizeof(job_rows) / sizeof(*job_rows))
{
	run_job_row(job_rows[_i][0], job_rows[_i][1]);
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

SUITE("log")
