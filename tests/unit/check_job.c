/* SPDX-License-Identifier: BSD-3-Clause */
/* check_job.c -- segment file; host leader of a job; files of former jobs with an equal name */
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/identity.h"
#include "base/job_file.h"
#include "base/system.h"
#include "forbid.h"
#include "job_fixture.h"
#include "peerpin.h"
#include "report/job.h"
#include "report/statistics.h"

/* The unit tests link no interception. */
const char *peerpin_version(void)
{
	return "0";
}

#define HOUR_NS (3600 * (uint64_t)1000000000)

static void set_up(void)
{
	become_rank("again");
	setenv("PEERPIN_SUMMARY", "none", 1);
	unsetenv("PEERPIN_STATS_FILE");
}

static void end_now(void)
{
	atomic_store(&statistics_segment.header.ended_clock_ns, system_clock());
	atomic_store(&statistics_segment.header.state, SEGMENT_ENDED);
}

/* A process of the job calls `change` on its header and leaves its file. Returns its status. */
static int other_leaves(void (*change)(struct segment_header *header))
{
	int status;
	pid_t child = fork();

	ck_assert_int_ge(child, 0);
	if (!child) {
		statistics_begin();
		if (!statistics_has_file())
			_exit(1);
		change(&statistics_segment.header);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	return status;
}

static void count(const struct segment *segment, void *argument)
{
	(void)segment;
	++*(unsigned int *)argument;
}

/* Number of other processes that this process reports; -1: it does not lead. */
static int end_and_report(void)
{
	unsigned int others = 0;

	end_now();
	if (!job_leads())
		return -1;
	job_each_other(count, &others);
	job_file_leave();
	statistics_remove_file();
	return (int)others;
}

static int report(void)
{
	statistics_begin();
	ck_assert(statistics_has_file());
	return end_and_report();
}

static void end_just_now(struct segment_header *header)
{
	(void)header;
	end_now();
}

static void end_an_hour_ago(struct segment_header *header)
{
	end_now();
	header->started_ns -= 2 * HOUR_NS;
	header->ended_clock_ns = header->clock_ns + HOUR_NS;
}

static void end_an_hour_after_the_start(struct segment_header *header)
{
	end_now();
	header->started_ns -= HOUR_NS;
	header->ended_clock_ns = header->clock_ns + HOUR_NS;
}

CASE(job, .set_up = set_up, .tear_down = remove_folder);

TEST(job, ended_ranks_are_reported)
{
	ck_assert_int_eq(other_leaves(end_just_now), 0);
	ck_assert_int_eq(other_leaves(end_an_hour_after_the_start), 0);
	ck_assert_int_eq(report(), 2);
}

TEST(job, ranks_of_a_former_job_are_not)
{
	ck_assert_int_eq(other_leaves(end_an_hour_ago), 0);
	ck_assert_int_eq(report(), 0);
}

static void be_elsewhere(struct segment_header *header)
{
	end_now();
	strcpy(header->host, "elsewhere");
}

/* A folder on a shared file system has the files of all hosts. */
TEST(job, ranks_of_another_host_are_not)
{
	ck_assert_int_eq(other_leaves(be_elsewhere), 0);
	ck_assert_int_eq(report(), 0);
}

/* Killed an hour ago; its process id has been reused by a live process: 1 always exists. */
static void have_a_number_that_came_back(struct segment_header *header)
{
	header->process = 1;
	header->process_start++;
	header->started_ns -= HOUR_NS;
}

TEST(job, a_killed_rank_of_a_former_job_is_not_reported)
{
	ck_assert_int_eq(other_leaves(have_a_number_that_came_back), 0);
	ck_assert_int_eq(report(), 0);
}

/* A killed process stays a zombie until its parent waits for it. */
TEST(job, a_zombie_is_not_waited_for)
{
	siginfo_t info;
	pid_t child = fork();

	if (!child) {
		statistics_begin();
		_exit(0);
	}
	ck_assert_int_eq(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
	ck_assert_int_eq(report(), 1);
	ck_assert_int_eq(waitpid(child, NULL, 0), child);
}

/* A live process of the job, up to its end in `end`. */
struct rank {
	pid_t process;
	int go;
};

/* Start a process of the job and wait until it is active. It ends after a byte in `go`. */
static struct rank start_rank(int (*end)(void))
{
	int active[2], go[2];
	struct rank rank;
	char byte = 0;

	ck_assert_int_eq(pipe(active) | pipe(go), 0);
	rank.process = fork();
	if (!rank.process) {
		close(go[1]);
		statistics_begin();
		if (!statistics_has_file() || write(active[1], &byte, 1) != 1)
			_exit(100);
		if (read(go[0], &byte, 1) < 0)
			_exit(101);
		_exit(end());
	}
	ck_assert_int_eq(read(active[0], &byte, 1), 1);
	close(active[0]);
	close(active[1]);
	close(go[0]);
	rank.go = go[1];
	return rank;
}

static int status_of(const struct rank *rank)
{
	int status;

	ck_assert_int_eq(waitpid(rank->process, &status, 0), rank->process);
	return status;
}

static void let_end(const struct rank *rank)
{
	char byte = 0;

	ck_assert_int_eq(write(rank->go, &byte, 1), 1);
	close(rank->go);
}

static int end_rank(const struct rank *rank)
{
	let_end(rank);
	return status_of(rank);
}

/* 10 + number of other processes that the process reports; 9: it does not lead. */
static int leads(void)
{
	return 10 + end_and_report();
}

static bool has_lock_file(void)
{
	char command[96];

	snprintf(command, sizeof(command), "ls '%s'/peerpin/job.again.*.lock >/dev/null 2>&1",
		 folder);
	return !system(command);
}

TEST(job, the_last_rank_that_ends_leads)
{
	struct rank one = start_rank(leads), other = start_rank(leads);

	ck_assert_int_eq(WEXITSTATUS(end_rank(&one)), 9);
	ck_assert(has_lock_file());
	ck_assert_int_eq(report(), -1);
	ck_assert_int_eq(WEXITSTATUS(end_rank(&other)), 12);
	ck_assert(!has_lock_file());
}

/* Each rank is recorded, and prints nothing. */
TEST(job, the_numbers_of_ranks_leave_no_file_behind)
{
	struct rank one = start_rank(leads);

	ck_assert_uint_eq(job_file_ranks(), 1);
	ck_assert_int_eq(WEXITSTATUS(end_rank(&one)), 9);
	ck_assert_int_eq(report(), 1);
	ck_assert(!has_lock_file());
}

/* Launches of one batch job may share its name. */
TEST(job, a_rank_that_starts_again_counts_once)
{
	for (int i = 0; i < 3; i++)
		job_file_join();
	ck_assert_uint_eq(job_file_ranks(), 1);
	job_file_leave();
}

/* Each would be the mark of one GPU of 512, whose ranks would release what they keep. */
TEST(job, a_rank_that_starts_leaves_the_mark)
{
	uint64_t mark;

	job_file_join();
	job_file_mark(5);
	mark = job_file_marked();
	ck_assert_uint_eq(mark % (JOB_FILE_TAG + 1), 5);
	job_file_join();
	ck_assert_uint_eq(job_file_marked(), mark);
	ck_assert_uint_gt(job_file_changed(), 0);
	job_file_leave();
}

#define RANKS 8

TEST(job, of_ranks_that_end_at_once_exactly_one_leads)
{
	struct rank ranks[RANKS];
	int leaders, others;

	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < RANKS; i++)
			ranks[i] = start_rank(leads);
		for (int i = 0; i < RANKS; i++)
			kill(ranks[i].process, SIGSTOP);
		for (int i = 0; i < RANKS; i++)
			let_end(&ranks[i]);
		for (int i = 0; i < RANKS; i++)
			kill(ranks[i].process, SIGCONT);
		leaders = others = 0;
		for (int i = 0; i < RANKS; i++) {
			int status = WEXITSTATUS(status_of(&ranks[i]));

			leaders += status != 9;
			others += status - 9;
		}
		ck_assert_int_eq(leaders, 1);
		ck_assert_int_eq(others, RANKS);
	}
}

static int held_up[2], resumed[2];

static bool drop_lock(void)
{
	glob_t found;
	char pattern[64];
	int fd = -1;

	snprintf(pattern, sizeof(pattern), "%s/peerpin/job.again.*.lock", folder);
	if (glob(pattern, 0, NULL, &found))
		return false;
	fd = open(found.gl_pathv[0], O_RDONLY);
	globfree(&found);
	return fd >= 0 && !close(fd);
}

/* As a rank that is held up between the drop of its lock and the try for the exclusive one: a close
 * of any descriptor of the file drops the lock. */
static int be_reported_before_the_try(void)
{
	char byte;

	end_now();
	if (!drop_lock())
		return 102;
	if (write(held_up[1], "", 1) != 1 || read(resumed[0], &byte, 1) < 0)
		return 103;
	return job_leads() ? 10 : 9;
}

TEST(job, a_rank_that_a_leader_reported_does_not_lead)
{
	struct rank late;
	char byte;

	ck_assert_int_eq(pipe(held_up) | pipe(resumed), 0);
	late = start_rank(be_reported_before_the_try);
	let_end(&late);
	ck_assert_int_eq(read(held_up[0], &byte, 1), 1);
	ck_assert_int_eq(report(), 1);
	ck_assert_int_eq(write(resumed[1], "", 1), 1);
	ck_assert_int_eq(WEXITSTATUS(status_of(&late)), 9);
}

TEST(job, a_killed_rank_is_not_waited_for)
{
	struct rank killed = start_rank(leads);

	kill(killed.process, SIGKILL);
	ck_assert(WIFSIGNALED(status_of(&killed)));
	ck_assert_int_eq(report(), 1);
	ck_assert(!has_lock_file());
}

static int be_killed_while_leading(void)
{
	end_now();
	if (job_leads())
		raise(SIGKILL);
	return 0;
}

TEST(job, a_leader_that_was_killed_blocks_nobody)
{
	struct rank killed = start_rank(be_killed_while_leading);

	ck_assert(WIFSIGNALED(end_rank(&killed)));
	ck_assert_int_eq(report(), 1);
}

static int hold[2]; /* children of ranks exit when both ends are closed */

/* No fork handler runs for a plain system call. */
static int leave_a_child(void)
{
	char byte;

	if (!syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL)) {
		close(hold[1]);
		_exit((int)read(hold[0], &byte, 1));
	}
	return leads();
}

TEST(job, a_child_that_lives_on_holds_no_lock)
{
	struct rank rank;

	ck_assert_int_eq(pipe(hold), 0);
	rank = start_rank(leave_a_child);
	ck_assert_int_eq(WEXITSTATUS(end_rank(&rank)), 10);
	ck_assert_int_eq(report(), 0);
	close(hold[1]);
}

/* The program's own files reuse the numbers of closed descriptors. */
static int close_all_descriptors(void)
{
	char name[64];
	bool own = true;

	for (int fd = 3; fd < 64; fd++)
		close(fd);
	snprintf(name, sizeof(name), "%s/own", folder);
	for (int fd = 3; fd < 64; fd++)
		own = open(name, O_RDWR | O_CREAT, 0600) == fd && own;
	own = leads() == 10 && own;
	for (int fd = 3; fd < 64; fd++)
		own = fcntl(fd, F_GETFD) >= 0 && own;
	return own ? 10 : 99;
}

TEST(job, a_program_that_closed_all_descriptors_reports_itself)
{
	struct rank rank = start_rank(close_all_descriptors);

	ck_assert_int_eq(WEXITSTATUS(end_rank(&rank)), 10);
	ck_assert(!has_lock_file());
}

TEST(job, a_program_without_a_job_reports_itself_alone)
{
	ck_assert_int_eq(other_leaves(end_just_now), 0);
	unsetenv("PMIX_NAMESPACE");
	unsetenv("OMPI_COMM_WORLD_RANK");
	ck_assert_int_eq(report(), 0);
}

/* Rank 1 begins after rank 0 has ended: each reports itself. */
TEST(job, ranks_one_after_another_report_one_each)
{
	for (int i = 0; i < 2; i++) {
		struct rank rank = start_rank(leads);

		ck_assert_int_eq(WEXITSTATUS(end_rank(&rank)), 10);
	}
}

/* The last tallies are shared by threads without one of their own. */
TEST(job, what_was_counted_before_there_was_a_file_is_in_it)
{
	statistics_segment.header.threads = TALLIES_OWN;
	statistics_segment.tallies[1].counts[TALLY_hits] = 2;
	statistics_segment.tallies[TALLIES_OWN + TALLIES_SHARED - 1].counts[TALLY_hits] = 3;
	statistics_begin();
	ck_assert(statistics_has_file());
	ck_assert_uint_eq(statistics_tallied(TALLY_hits), 5);
}

static void *count_often(void *unused)
{
	for (int i = 0; i < 5000; i++)
		statistics_pinned(0, 0, i % 2 ? -4096 : 4096);
	return unused;
}

/* Another thread may activate the process. For ThreadSanitizer: counts between the copy and the
 * mapping of the file are lost. */
TEST(job, threads_count_while_it_begins)
{
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, count_often, NULL), 0);
	statistics_begin();
	pthread_join(thread, NULL);
	ck_assert(statistics_has_file());
	/* The timeline does not include the host's uptime. */
	ck_assert_uint_le(statistics_segment.timeline.shift, 32);
}

/* Any process of the user can truncate the file. */
TEST(job, a_truncated_file_of_the_segment_leaves_the_counters)
{
	char name[64];

	statistics_begin();
	ck_assert(statistics_has_file());
	snprintf(name, sizeof(name), "%s/peerpin/%d.stats", folder, getpid());
	ck_assert_int_eq(truncate(name, 0), 0);
	statistics_count(allocations);
	ck_assert_uint_eq(statistics_get(allocations), 1);
	/* No leader can report the process. */
	ck_assert(!statistics_has_file());
	statistics_remove_file();
}

static bool has_content(const char *name)
{
	struct stat status;

	return !stat(name, &status) && status.st_size > 0;
}

TEST(job, results_are_written_where_there_are_no_links)
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

static void lose_the_file(struct segment_header *header)
{
	(void)header;
	end_now();
	statistics_remove_file();
	if (!job_leads())
		_exit(1);
}

TEST(job, a_process_that_lost_its_file_reports_itself)
{
	ck_assert_int_eq(other_leaves(lose_the_file), 0);
}

SUITE("job")
