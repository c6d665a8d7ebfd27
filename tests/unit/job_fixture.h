/* SPDX-License-Identifier: BSD-3-Clause */
/* job_fixture.h -- an environment without a launcher, a folder for a job's files, other ranks */
#ifndef PEERPIN_TESTS_JOB_FIXTURE_H
#define PEERPIN_TESTS_JOB_FIXTURE_H

#include <check.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static inline void forget_launchers(void)
{
	static const char *const names[] = { "OMPI_COMM_WORLD_RANK",
					     "OMPI_COMM_WORLD_LOCAL_RANK",
					     "OMPI_COMM_WORLD_LOCAL_SIZE",
					     "PMIX_RANK",
					     "PMIX_NAMESPACE",
					     "PMI_RANK",
					     "PMI_LOCAL_RANK",
					     "PMI_LOCAL_SIZE",
					     "MPI_LOCALRANKID",
					     "MPI_LOCALNRANKS",
					     "MV2_COMM_WORLD_RANK",
					     "MV2_COMM_WORLD_LOCAL_RANK",
					     "PALS_RANKID",
					     "PALS_LOCAL_RANKID",
					     "PBS_JOBID",
					     "FLUX_TASK_RANK",
					     "FLUX_TASK_LOCAL_ID",
					     "FLUX_JOB_ID",
					     "JSM_NAMESPACE_RANK",
					     "JSM_NAMESPACE_LOCAL_RANK",
					     "LSB_JOBID",
					     "ALPS_APP_PE",
					     "RANK",
					     "LOCAL_RANK",
					     "LOCAL_WORLD_SIZE",
					     "WORLD_SIZE",
					     "TORCHELASTIC_RUN_ID",
					     "SLURM_PROCID",
					     "SLURM_LOCALID",
					     "SLURM_JOB_ID",
					     "SLURM_STEP_ID",
					     "SLURM_STEP_TASKS_PER_NODE",
					     "PEERPIN_JOB" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unsetenv(names[i]);
}

static char folder[32];

/* `folder`, which the host's ranks of a job share. */
static inline void make_folder(void)
{
	strcpy(folder, "/tmp/check_job.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	setenv("XDG_RUNTIME_DIR", folder, 1);
}

/* Rank 1 of the job, with a runtime folder of its own. */
static inline void become_rank(const char *job)
{
	forget_launchers();
	make_folder();
	setenv("OMPI_COMM_WORLD_RANK", "1", 1);
	setenv("PMIX_NAMESPACE", job, 1);
}

/* Another process of the job calls `act` and lives until end_rank(), or as long as this one. */
static inline __attribute__((unused)) pid_t start_rank(void (*act)(uint64_t), uint64_t argument)
{
	char byte = 0;
	int acted[2];
	pid_t rank;

	ck_assert_int_eq(pipe(acted), 0);
	rank = fork();
	if (!rank) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		act(argument);
		if (write(acted[1], &byte, 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(acted[1]);
	ck_assert_int_eq(read(acted[0], &byte, 1), 1);
	close(acted[0]);
	return rank;
}

static inline __attribute__((unused)) void end_rank(pid_t rank)
{
	kill(rank, SIGKILL);
	ck_assert_int_eq(waitpid(rank, NULL, 0), rank);
}

static inline void remove_folder(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	ck_assert_int_eq(system(command), 0);
}

#endif
