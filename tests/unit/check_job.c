/* SPDX-License-Identifier: BSD-3-Clause */
/* check_job.c -- the file of what is counted; who speaks for a job, and of whom: what a former job
 * of its name has left is not of it */
#include "suite.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/identity.h"
#include "peerpin.h"
#include "report/job.h"
#include "report/statistics.h"

/* The unit tests link no interception. */
const char *peerpin_version(void)
{
	return "0";
}

#define HOUR_NS (3600 * (uint64_t)1000000000)

static char folder[32];

static void set_up(void)
{
	static const char *const launchers[] = {
		"OMPI_COMM_WORLD_RANK", "PMIX_RANK",	"PMI_RANK",
		"FLUX_JOB_ID",		"SLURM_PROCID", "SLURM_JOB_ID"
	};

	strcpy(folder, "/tmp/check_job.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++)
		unsetenv(launchers[i]);
	setenv("XDG_RUNTIME_DIR", folder, 1);
	setenv("PEERPIN_SUMMARY", "none", 1);
	unsetenv("PEERPIN_STATS_FILE");
	setenv("OMPI_COMM_WORLD_RANK", "1", 1);
	setenv("PMIX_NAMESPACE", "again", 1);
}

static void tear_down(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	ck_assert_int_eq(system(command), 0);
}

static bool has_file(void)
{
	int runtime = statistics_folder();

	return runtime >= 0 && !close(runtime);
}

static void end_now(void)
{
	atomic_store(&statistics_segment.header.ended_clock_ns, statistics_clock());
	atomic_store(&statistics_segment.header.state, SEGMENT_ENDED);
}

/* A process of the job leaves its file, changed like this. Returns its status. */
static int other_leaves(void (*change)(struct segment_header *header))
{
	int status;
	pid_t child = fork();

	ck_assert_int_ge(child, 0);
	if (!child) {
		statistics_begin();
		if (!has_file())
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

/* How many others this process tells of; -1: it does not speak. */
static int told_of(void)
{
	unsigned int others = 0;

	statistics_begin();
	ck_assert(has_file());
	end_now();
	if (!job_speaks())
		return -1;
	job_each_other(count, &others);
	job_spoken();
	return (int)others;
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

START_TEST(who_has_ended_since_is_told_of)
{
	ck_assert_int_eq(other_leaves(end_just_now), 0);
	ck_assert_int_eq(other_leaves(end_an_hour_after_the_start), 0);
	ck_assert_int_eq(told_of(), 2);
}
END_TEST

START_TEST(who_ended_in_a_former_job_is_not)
{
	ck_assert_int_eq(other_leaves(end_an_hour_ago), 0);
	ck_assert_int_eq(told_of(), 0);
}
END_TEST

static void be_elsewhere(struct segment_header *header)
{
	end_now();
	strcpy(header->host, "elsewhere");
}

/* A folder that hosts share has the files of all. */
START_TEST(who_is_on_another_host_is_not)
{
	ck_assert_int_eq(other_leaves(be_elsewhere), 0);
	ck_assert_int_eq(told_of(), 0);
}
END_TEST

/* Killed an hour ago; its number is that of a process that lives: the first one always does. */
static void have_a_number_that_came_back(struct segment_header *header)
{
	header->process = 1;
	header->process_start++;
	header->started_ns -= HOUR_NS;
}

START_TEST(another_process_with_the_number_of_one_that_was_killed_is_not_waited_for)
{
	ck_assert_int_eq(other_leaves(have_a_number_that_came_back), 0);
	ck_assert_int_eq(told_of(), 0);
}
END_TEST

/* Who was killed stays until its parent has noticed. */
START_TEST(who_was_killed_and_is_not_yet_buried_is_not_waited_for)
{
	siginfo_t info;
	pid_t child = fork();

	if (!child) {
		statistics_begin();
		_exit(0);
	}
	ck_assert_int_eq(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
	ck_assert_int_eq(told_of(), 1);
	ck_assert_int_eq(waitpid(child, NULL, 0), child);
}
END_TEST

/* Between its end and its look at the others, while it writes its results, another one speaks, and
 * tells of it. */
START_TEST(who_was_told_of_meanwhile_does_not_speak)
{
	int ended[2], spoken[2], status;
	char byte = 0;
	pid_t child;

	ck_assert_int_eq(pipe(ended) | pipe(spoken), 0);
	child = fork();
	if (!child) {
		statistics_begin();
		end_now();
		if (write(ended[1], &byte, 1) != 1 || read(spoken[0], &byte, 1) != 1)
			_exit(2);
		_exit(job_speaks());
	}
	ck_assert_int_eq(read(ended[0], &byte, 1), 1);
	ck_assert_int_eq(told_of(), 1);
	ck_assert_int_eq(write(spoken[1], &byte, 1), 1);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
}
END_TEST

/* The last lines are those of threads for whom there is none of their own. */
START_TEST(what_was_counted_before_there_was_a_file_is_in_it)
{
	statistics_segment.header.threads = TALLIES_OWN;
	statistics_segment.tallies[1].counts[TALLY_hits] = 2;
	statistics_segment.tallies[TALLIES_OWN + TALLIES_SHARED - 1].counts[TALLY_hits] = 3;
	statistics_begin();
	ck_assert(has_file());
	ck_assert_uint_eq(statistics_tallied(TALLY_hits), 5);
}
END_TEST

static void *count_often(void *unused)
{
	for (int i = 0; i < 5000; i++)
		statistics_pinned(0, 0, i % 2 ? -4096 : 4096);
	return unused;
}

/* Another thread may be the one that makes the process active. For ThreadSanitizer; what is counted
 * in the instant between copy and file is lost. */
START_TEST(threads_count_while_it_begins)
{
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, count_often, NULL), 0);
	statistics_begin();
	pthread_join(thread, NULL);
	ck_assert(has_file());
	/* Of how long the host has been up nothing is in there. */
	ck_assert_uint_le(statistics_segment.timeline.shift, 32);
}
END_TEST

/* The file cannot have its name: its pages are there all the same. */
START_TEST(a_child_counts_for_itself_whatever_became_of_the_file)
{
	char name[64];
	pid_t child;

	snprintf(name, sizeof(name), "%s/peerpin", folder);
	ck_assert_int_eq(mkdir(name, 0700), 0);
	snprintf(name, sizeof(name), "%s/peerpin/%d.stats", folder, getpid());
	ck_assert_int_eq(mkdir(name, 0700), 0);
	statistics_begin();
	ck_assert(!has_file());
	statistics_count(allocations);
	child = fork();
	if (!child) {
		statistics_leave();
		statistics_count(allocations);
		_exit(statistics_get(allocations) != 2);
	}
	ck_assert_int_eq(waitpid(child, NULL, 0), child);
	ck_assert_uint_eq(statistics_get(allocations), 1);
}
END_TEST

static void be_spoken_for_by(const char *process)
{
	char name[64];
	FILE *file;

	snprintf(name, sizeof(name), "%s/peerpin", folder);
	ck_assert_int_eq(mkdir(name, 0700), 0);
	snprintf(name, sizeof(name), "%s/peerpin/again.leader", folder);
	file = fopen(name, "w");
	fputs(process, file);
	fclose(file);
}

START_TEST(who_speaks_is_not_interrupted)
{
	char process[40];

	snprintf(process, sizeof(process), "%d", getppid());
	be_spoken_for_by(process);
	ck_assert_int_eq(told_of(), -1);
}
END_TEST

/* Its number is another process's by now. */
START_TEST(who_was_killed_while_it_spoke_does_not_silence_others)
{
	be_spoken_for_by("1 999999999999");
	ck_assert_int_eq(told_of(), 0);
}
END_TEST

/* As a file system that has none answers. */
static bool take_links_away(void)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_linkat, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { .len = sizeof(steps) / sizeof(steps[0]), .filter = steps };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

static bool has_content(const char *name)
{
	struct stat status;

	return !stat(name, &status) && status.st_size > 0;
}

START_TEST(results_are_written_where_there_are_no_links)
{
	char name[64], wanted[96];

	snprintf(name, sizeof(name), "%s/results.json", folder);
	setenv("PEERPIN_STATS_FILE", name, 1);
	for (int i = 0; i < 2; i++) {
		pid_t child = fork();

		if (!child) {
			statistics_begin();
			if (!take_links_away())
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
END_TEST

static void lose_the_file(struct segment_header *header)
{
	(void)header;
	end_now();
	statistics_remove_file();
	statistics_leave();
	if (!job_speaks())
		_exit(1);
}

START_TEST(who_has_lost_its_file_speaks_for_itself)
{
	ck_assert_int_eq(other_leaves(lose_the_file), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("job");
	TCase *tests = tcase_create("job");

	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_test(tests, who_has_ended_since_is_told_of);
	tcase_add_test(tests, who_ended_in_a_former_job_is_not);
	tcase_add_test(tests, who_is_on_another_host_is_not);
	tcase_add_test(tests,
		       another_process_with_the_number_of_one_that_was_killed_is_not_waited_for);
	tcase_add_test(tests, who_was_killed_and_is_not_yet_buried_is_not_waited_for);
	tcase_add_test(tests, who_was_told_of_meanwhile_does_not_speak);
	tcase_add_test(tests, who_has_lost_its_file_speaks_for_itself);
	tcase_add_test(tests, what_was_counted_before_there_was_a_file_is_in_it);
	tcase_add_test(tests, threads_count_while_it_begins);
	tcase_add_test(tests, results_are_written_where_there_are_no_links);
	tcase_add_test(tests, who_speaks_is_not_interrupted);
	tcase_add_test(tests, who_was_killed_while_it_spoke_does_not_silence_others);
	tcase_add_test(tests, a_child_counts_for_itself_whatever_became_of_the_file);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
