/* SPDX-License-Identifier: BSD-3-Clause */
/* check_snapshot.c -- the file of a process with its latest numbers, and its end at exit */
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/runtime.h"
#include "base/system.h"
#include "forbid.h"
#include "job_fixture.h"
#include "report/statistics.h"

#define HALF_A_SECOND 500000000u

static void set_up(void)
{
	become_rank("again");
	setenv("PEERPIN_SUMMARY", "none", 1);
	unsetenv("PEERPIN_STATS_FILE");
}

static const char *file_name(void)
{
	static char name[RUNTIME_PATH + RUNTIME_NAME];
	char path[RUNTIME_PATH];

	snprintf(path, sizeof(path), "%s/peerpin", folder);
	runtime_name_file(path, name);
	return name;
}

/* The latest snapshot; "": none. */
static const char *read_file(void)
{
	static char text[1 << 16];
	int fd = open(file_name(), O_RDONLY);
	ssize_t length = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	text[length > 0 ? length : 0] = '\0';
	return text;
}

static bool file_says(const char *part)
{
	return strstr(read_file(), part);
}

static bool is_whole(const char *text)
{
	size_t length = strlen(text);

	return length > 2 && !strncmp(text, "{\n", 2) && !strcmp(text + length - 2, "}\n");
}

CASE(snapshot, .set_up = set_up, .tear_down = remove_folder);

TEST(snapshot, a_process_has_one_from_its_activation_on)
{
	struct stat status;
	char number[32];

	statistics_begin();
	ck_assert_int_eq(stat(file_name(), &status), 0);
	ck_assert_uint_eq(status.st_mode & 07777, 0600);
	ck_assert(is_whole(read_file()));
	ck_assert(file_says("\"ended\": \"running\""));
	ck_assert(file_says("\"complete\": false"));
	snprintf(number, sizeof(number), "\"pid\": %d,", getpid());
	ck_assert(file_says(number));
	ck_assert(!file_says("\"pid_namespace\": 0,"));
	ck_assert(!file_says("\"start_ticks\": 0,"));
}

/* A run that is killed has lost half of its time at most, and half a second later on. */
TEST(snapshot, the_pauses_double_up_to_half_a_second)
{
	static const unsigned int pauses[] = { 10, 20, 40, 80, 160, 320, 500, 500 }; /* ms */
	uint64_t before = system_clock(), last;

	statistics_begin();
	for (unsigned int i = 0; i < sizeof(pauses) / sizeof(pauses[0]); i++) {
		char number[32];

		statistics_count(allocations);
		snprintf(number, sizeof(number), "\"allocations\": %u,", i + 1);
		last = before;
		while (!file_says(number)) {
			before = system_clock();
			statistics_snapshot();
		}
		/* The pause began behind `last`. The coarse clock is a few ms late. */
		ck_assert_uint_ge(system_clock() - last + 20000000, pauses[i] * (uint64_t)1000000);
	}
}

TEST(snapshot, a_program_that_does_nothing_but_hit_has_new_ones)
{
	statistics_begin();
	while (!file_says("\"requests\": ") || file_says("\"requests\": 0,"))
		statistics_tally(TALLY_requests);
	ck_assert_uint_eq(statistics_tallied(TALLY_requests) % STATISTICS_SNAPSHOT_EVERY, 0);
}

static _Atomic bool is_over;

static void *count_and_write(void *unused)
{
	while (!is_over) {
		statistics_count(allocations);
		statistics_pinned(4096);
		statistics_snapshot();
	}
	return unused;
}

/* Also for ThreadSanitizer. */
TEST(snapshot, a_reader_finds_no_half_of_one)
{
	pthread_t threads[3];
	unsigned int changes = 0;
	char last[64] = "";

	statistics_begin();
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, count_and_write, NULL), 0);
	while (changes < 4) {
		const char *text = read_file(), *at;

		require(is_whole(text));
		at = strstr(text, "\"allocations\": ");
		require(at);
		changes += strncmp(at, last, 40) != 0;
		snprintf(last, sizeof(last), "%.40s", at);
	}
	is_over = true;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
}

static void *store_name(void *name)
{
	runtime_name_file("", name);
	return NULL;
}

/* Hosts may share TMPDIR, and the numbers of their processes may be equal. */
TEST(snapshot, processes_of_other_hosts_have_files_of_other_names)
{
	char here[RUNTIME_PATH + RUNTIME_NAME], there[sizeof(here)];
	pthread_t thread; /* a thread notes the host's name once */
	int status;
	pid_t child;

	runtime_name_file("", here);
	child = fork();
	ck_assert_int_ge(child, 0);
	if (!child) {
		if (unshare(CLONE_NEWUTS) && unshare(CLONE_NEWUSER | CLONE_NEWUTS))
			_exit(77);
		require(!sethostname("elsewhere", 9));
		require(!pthread_create(&thread, NULL, store_name, there));
		require(!pthread_join(thread, NULL));
		_exit(!strcmp(strchr(there, '-'), strchr(here, '-')));
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		fputs("SKIPPED: this kernel gives no host name of its own\n", stderr);
	else
		ck_assert_int_eq(WEXITSTATUS(status), 0);
}

/* Any process of the user can do so. */
TEST(snapshot, a_file_that_another_process_harms_comes_back)
{
	statistics_begin();
	ck_assert_int_eq(truncate(file_name(), 0), 0);
	statistics_count(allocations);
	while (!file_says("\"allocations\": 1,"))
		statistics_snapshot();
	ck_assert_int_eq(unlink(file_name()), 0);
	while (!is_whole(read_file()))
		statistics_snapshot();
}

TEST(snapshot, a_folder_that_is_gone_is_not_made_again)
{
	statistics_begin();
	remove_folder();
	for (uint64_t end = system_clock() + HALF_A_SECOND; system_clock() < end;)
		statistics_snapshot();
	statistics_snapshot();
	ck_assert_int_ne(access(folder, F_OK), 0);
	statistics_finish();
	ck_assert_int_eq(mkdir(folder, 0700), 0);
}

static void use_an_adapter(void)
{
	statistics_count(protection_domains);
}

static void use_none(void)
{
}

static void fail_renames(void)
{
	use_an_adapter();
	require(forbid(SYS_renameat, EIO));
}

/* SIGXFSZ would end the program. */
static void limit_files(void)
{
	const struct rlimit limit = { 100, 100 };

	use_an_adapter();
	require(!setrlimit(RLIMIT_FSIZE, &limit) && !truncate(file_name(), 0));
}

static const struct {
	const char *promise;
	void (*run)(void);
	const char *statistics_file, *ended; /* in the last snapshot; NULL: none, "": empty */
} ends[] = {
	{ "the last one stays for a report", use_an_adapter, NULL, "\"ended\": \"exit\"" },
	{ "a program without an adapter leaves none", use_none, NULL, NULL },
	{ "a program with a statistics file leaves none", use_an_adapter, "results.json", NULL },
	{ "it stays if the statistics file cannot be written", use_none, "nowhere/results.json",
	  "\"ended\": \"exit\"" },
	{ "a failed write leaves the last one", fail_renames, NULL, "\"ended\": \"running\"" },
	{ "a limit on the sizes of files ends no process", limit_files, NULL, "" },
};

LOOP_TEST(snapshot, what_the_end_of_a_process_leaves, 0, sizeof(ends) / sizeof(ends[0]))
{
	const char *wanted = ends[_i].ended;
	char name[64];
	int status;
	pid_t child;

	setenv("PEERPIN_LOG_LEVEL", "none", 1);
	snprintf(name, sizeof(name), "%s/%s", folder,
		 ends[_i].statistics_file ? ends[_i].statistics_file : "");
	if (ends[_i].statistics_file)
		setenv("PEERPIN_STATS_FILE", name, 1);
	child = fork();
	if (!child) {
		statistics_begin();
		require(is_whole(read_file()));
		ends[_i].run();
		statistics_finish();
		_exit(!wanted	? access(file_name(), F_OK) != -1
		      : *wanted ? !file_says(wanted) || !is_whole(read_file())
				: *read_file() || statistics_get(protection_domains) != 1);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_msg(!status, "%s", ends[_i].promise);
}

/* The number of an ended process has come back; the other file is one of a container. */
TEST(snapshot, the_file_of_an_ended_process_of_this_number_is_replaced)
{
	char other[RUNTIME_PATH + RUNTIME_NAME];
	FILE *former;

	snprintf(other, sizeof(other), "%s/peerpin", folder);
	ck_assert_int_eq(mkdir(other, 0700), 0);
	former = fopen(file_name(), "w");
	ck_assert_ptr_nonnull(former);
	fclose(former);
	snprintf(other, sizeof(other), "%s/peerpin/%d-1.stats", folder, getpid());
	former = fopen(other, "w");
	ck_assert_ptr_nonnull(former);
	fclose(former);
	statistics_begin();
	ck_assert(is_whole(read_file()));
	ck_assert_int_eq(access(other, F_OK), 0);
}

static bool has_content(const char *name)
{
	struct stat status;

	return !stat(name, &status) && status.st_size > 0;
}

TEST(snapshot, results_are_written_where_there_are_no_links)
{
	char name[64], wanted[96];

	snprintf(name, sizeof(name), "%s/results.json", folder);
	setenv("PEERPIN_STATS_FILE", name, 1);
	for (int i = 0; i < 2; i++) {
		pid_t child = fork();

		if (!child) {
			statistics_begin();
			if (!forbid(SYS_linkat,
				    EPERM)) /* as from a file system without hard links */
				_exit(1);
			statistics_finish();
			_exit(0);
		}
		ck_assert_int_eq(waitpid(child, NULL, 0), child);
	}
	snprintf(wanted, sizeof(wanted), "%s/results.1.json", folder);
	ck_assert(has_content(wanted));
	snprintf(wanted, sizeof(wanted), "%s/results.1-1.json", folder);
	ck_assert(has_content(wanted));
}

SUITE("snapshot")
