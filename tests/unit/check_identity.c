/* SPDX-License-Identifier: BSD-3-Clause */
/* check_identity.c -- rank and job of a process, names of its files
 *
 * A process reads the environment once; each test is a process.
 */
#include "suite.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/identity.h"
#include "job_fixture.h"
#include "base/start.h"

struct environment {
	const char *variables[8];
	int rank, local_rank;
	const char *job; /* DERIVED: from the parent */
};

#define DERIVED NULL

static const struct environment environments[] = {
	{ { NULL }, -1, -1, "" },
	{ { "OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_LOCAL_RANK=1", "PMIX_RANK=3",
	    "OMPI_COMM_WORLD_LOCAL_SIZE=2", "PMIX_NAMESPACE=77" },
	  3,
	  1,
	  "77" },
	{ { "PMIX_RANK=4", "PMIX_NAMESPACE=slurm.pmix.9.0", "SLURM_PROCID=4", "SLURM_STEP_ID=0",
	    "SLURM_LOCALID=2", "SLURM_JOB_ID=9" },
	  4,
	  2,
	  "slurm.pmix.9.0" },
	{ { "PMI_RANK=5", "PMI_LOCAL_RANK=2" }, 5, 2, DERIVED },
	{ { "PMI_RANK=5", "MPI_LOCALRANKID=2", "MPI_LOCALNRANKS=4", "PEERPIN_JOB=node-7-1" },
	  5,
	  2,
	  "node-7-1" },
	{ { "PMI_RANK=5", "PBS_JOBID=8.server", "PEERPIN_JOB=node-7-1" }, 5, -1, "8.server" },
	{ { "PEERPIN_JOB=node-7-1" }, -1, -1, "" },
	{ { "PMI_RANK=5", "MPI_LOCALRANKID=3", "PBS_JOBID=8.server" }, 5, 3, "8.server" },
	{ { "MV2_COMM_WORLD_RANK=6", "MV2_COMM_WORLD_LOCAL_RANK=0" }, 6, 0, DERIVED },
	{ { "PALS_RANKID=7", "PALS_LOCAL_RANKID=1", "PBS_JOBID=12.server" }, 7, 1, "12.server" },
	{ { "FLUX_TASK_RANK=8", "FLUX_TASK_LOCAL_ID=4", "FLUX_JOB_ID=f3Xy" }, 8, 4, "f3Xy" },
	{ { "JSM_NAMESPACE_RANK=9", "JSM_NAMESPACE_LOCAL_RANK=5", "LSB_JOBID=31" }, 9, 5, "31" },
	{ { "ALPS_APP_PE=10" }, 10, -1, DERIVED },
	{ { "RANK=11", "LOCAL_RANK=3", "WORLD_SIZE=16", "LOCAL_WORLD_SIZE=8",
	    "TORCHELASTIC_RUN_ID=run" },
	  11,
	  3,
	  "run" },
	{ { "RANK=11", "LOCAL_RANK=3", "WORLD_SIZE=16", "TORCHELASTIC_RUN_ID=none" },
	  11,
	  3,
	  DERIVED },
	{ { "RANK=11" }, -1, -1, "" },
	{ { "SLURM_PROCID=12", "SLURM_LOCALID=6", "SLURM_JOB_ID=40", "SLURM_STEP_ID=2",
	    "SLURM_STEP_TASKS_PER_NODE=8(x2)" },
	  12,
	  6,
	  "40.2" },
	/* Nodes with different numbers. */
	{ { "SLURM_PROCID=12", "SLURM_LOCALID=6", "SLURM_JOB_ID=40", "SLURM_STEP_ID=2",
	    "SLURM_STEP_TASKS_PER_NODE=8(x2),3" },
	  12,
	  6,
	  "40.2" },
	/* A batch script has no step, or a step not started by srun. */
	{ { "SLURM_PROCID=0", "SLURM_LOCALID=0", "SLURM_JOB_ID=40" }, -1, -1, "40" },
	{ { "SLURM_PROCID=0", "SLURM_LOCALID=0", "SLURM_JOB_ID=40", "SLURM_STEP_ID=4294967291" },
	  -1,
	  -1,
	  "40" },
	/* mpirun in a batch script: its ranks inherit Slurm's variables. */
	{ { "PMI_RANK=1", "SLURM_PROCID=0", "SLURM_LOCALID=0", "SLURM_JOB_ID=40" }, 1, -1, "40" },
	/* A rank is a number. */
	{ { "PMI_RANK=x", "SLURM_PROCID=3", "SLURM_STEP_ID=0" }, 3, -1, DERIVED },
	{ { "OMPI_COMM_WORLD_RANK=-1", "PMIX_RANK=99999999999" }, -1, -1, "" },
};

CASE(identity, .set_up = forget_launchers);

LOOP_TEST(identity, each_launcher_is_understood, 0, sizeof(environments) / sizeof(environments[0]))
{
	const struct environment *given = &environments[_i];
	char expected[64];

	for (size_t i = 0; i < 8 && given->variables[i]; i++)
		putenv((char *)given->variables[i]);
	ck_assert_int_eq(identity_rank(), given->rank);
	ck_assert_int_eq(identity_local_rank(), given->local_rank);
	if (given->job) {
		ck_assert_str_eq(identity_job(), given->job);
	} else {
		snprintf(expected, sizeof(expected), "%.24s-%d", identity_host(), (int)getppid());
		ck_assert_str_eq(identity_job(), expected);
	}
}

static const struct {
	const char *variables[5];
	int size;
} sizes[] = {
	{ { "OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_LOCAL_SIZE=2" }, 2 },
	{ { "PMI_RANK=5", "MPI_LOCALNRANKS=4" }, 4 },
	{ { "PMI_RANK=5", "PMI_LOCAL_SIZE=4" }, 4 },
	{ { "MV2_COMM_WORLD_RANK=6", "MV2_COMM_WORLD_LOCAL_SIZE=5" }, 5 },
	{ { "JSM_NAMESPACE_RANK=9", "JSM_NAMESPACE_LOCAL_SIZE=6" }, 6 },
	{ { "RANK=11", "LOCAL_RANK=3", "WORLD_SIZE=16", "LOCAL_WORLD_SIZE=8" }, 8 },
	{ { "SLURM_PROCID=12", "SLURM_STEP_ID=2", "SLURM_STEP_TASKS_PER_NODE=8" }, 8 },
	{ { "SLURM_PROCID=12", "SLURM_STEP_ID=2", "SLURM_STEP_TASKS_PER_NODE=8(x2)" }, 8 },
	/* Nodes with different numbers. */
	{ { "SLURM_PROCID=12", "SLURM_STEP_ID=2", "SLURM_STEP_TASKS_PER_NODE=8(x2),3" }, -1 },
	{ { "PMI_RANK=5" }, -1 },
	{ { "OMPI_COMM_WORLD_LOCAL_SIZE=2" }, -1 },
};

LOOP_TEST(identity, the_ranks_of_this_host_are_counted_by_its_launcher, 0,
	  sizeof(sizes) / sizeof(sizes[0]))
{
	for (size_t i = 0; i < 5 && sizes[_i].variables[i]; i++)
		putenv((char *)sizes[_i].variables[i]);
	ck_assert_int_eq(identity_local_size(), sizes[_i].size);
}

TEST(identity, what_was_read_stays)
{
	setenv("PMI_RANK", "3", 1);
	ck_assert_int_eq(identity_rank(), 3);
	setenv("PMI_RANK", "4", 1);
	unsetenv("PMI_RANK");
	ck_assert_int_eq(identity_rank(), 3);
}

static const char *named(const char *pattern)
{
	static char name[256];

	ck_assert_int_eq(identity_file_name(pattern, name, sizeof(name)), 0);
	return name;
}

TEST(identity, without_a_launcher_a_name_stays_as_it_is)
{
	char own[64];

	ck_assert_str_eq(named("a.json"), "a.json");
	ck_assert_str_eq(named("a-%r-%j"), "a-0-0");
	snprintf(own, sizeof(own), "%d-%s", (int)getpid(), start_program());
	ck_assert_str_eq(named("%p-%e"), own);
	ck_assert_str_eq(named("%h"), identity_host());
	setenv("USER", "../jane", 1);
	ck_assert_str_eq(named("/x/%u"), "/x/.._jane");
	unsetenv("USER");
	snprintf(own, sizeof(own), "%d", (int)getuid());
	ck_assert_str_eq(named("%u"), own);
}

TEST(identity, a_rank_gets_a_file_of_its_own)
{
	char small[5];

	setenv("OMPI_COMM_WORLD_RANK", "7", 1);
	setenv("PMIX_NAMESPACE", "12", 1);
	ck_assert_str_eq(named("a.json"), "a.7.json");
	ck_assert_str_eq(named("a.b/c"), "a.b/c.7");
	ck_assert_str_eq(named("a/.json"), "a/.json.7");
	ck_assert_str_eq(named("a-%%r.tar.gz"), "a-%r.tar.7.gz");
	ck_assert_str_eq(named("a.%j.prom"), "a.12.7.prom");
	ck_assert_str_eq(named("a.%j"), "a.12.7");
	ck_assert_str_eq(named("/dev/null"), "/dev/null");
	ck_assert_str_eq(named("/dev/stdout"), "/dev/stdout");
	ck_assert_int_eq(identity_file_name("a.b", small, 5), -ENAMETOOLONG);
	ck_assert_str_eq(named("a-%r-%j"), "a-7-12");
	ck_assert_str_eq(named("a-%%r"), "a-%r.7");
	ck_assert_str_eq(named("a-%r-%%-%z%"), "a-7-%-%z%");
	ck_assert_int_eq(identity_file_name("a-%r", small, 3), -ENAMETOOLONG);
	ck_assert_int_eq(identity_file_name("abc", small, 5), -ENAMETOOLONG);
	ck_assert_int_eq(identity_file_name("a-%r", small, 4), 0);
}

TEST(identity, what_stands_for_itself_is_known_before)
{
	char pattern[] = "a%?b";

	for (int letter = 1; letter < 128; letter++) {
		pattern[2] = (char)letter;
		ck_assert_msg(!identity_unknown_conversion(pattern) ==
				      (strcmp(named(pattern), pattern) != 0),
			      "%s", pattern);
	}
	ck_assert_ptr_null(identity_unknown_conversion("%q{A}%%%r"));
	ck_assert_str_eq(identity_unknown_conversion("%r%q{}"), "%q{}");
	ck_assert_str_eq(identity_unknown_conversion("%q{A}%"), "%");
	ck_assert_str_eq(identity_unknown_conversion("%%%q{A"), "%q{A");
}

TEST(identity, what_comes_from_the_environment_leads_nowhere_else)
{
	setenv("PMIX_NAMESPACE", "../x", 1);
	setenv("PMIX_RANK", "1", 1);
	setenv("A", "/etc/passwd", 1);
	setenv("B", "..", 1);
	setenv("C", "one\ntwo\302\233\233", 1);
	setenv("D", ".", 1);
	ck_assert_str_eq(named("%rx/%q{A}"), "1x/_etc_passwd");
	ck_assert_str_eq(named("%rx/%q{B}/y"), "1x/__/y");
	ck_assert_str_eq(named("%r%q{D}%q{D}/y"), "1__/y");
	ck_assert_str_eq(named("%r%q{C}"), "1one_two___");
	ck_assert_str_eq(named("%ra%q{NOBODY_HAS_SET_THIS}b"), "1ab");
	ck_assert_str_eq(named("%r%q{A"), "1%q{A");
	ck_assert_str_eq(named("%r%q{}%q"), "1%q{}%q");
	ck_assert_str_eq(named("%j.%r"), ".._x.1");
}

SUITE("identity")
