/* SPDX-License-Identifier: BSD-3-Clause */
/* job_fixture.h -- an environment without a launcher, and a folder for a job's files */
#ifndef PEERPIN_TESTS_JOB_FIXTURE_H
#define PEERPIN_TESTS_JOB_FIXTURE_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void forget_launchers(void)
{
	static const char *const names[] = { "OMPI_COMM_WORLD_RANK",
					     "OMPI_COMM_WORLD_LOCAL_RANK",
					     "PMIX_RANK",
					     "PMIX_NAMESPACE",
					     "PMI_RANK",
					     "PMI_LOCAL_RANK",
					     "MPI_LOCALRANKID",
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
					     "WORLD_SIZE",
					     "TORCHELASTIC_RUN_ID",
					     "SLURM_PROCID",
					     "SLURM_LOCALID",
					     "SLURM_JOB_ID",
					     "SLURM_STEP_ID",
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

static inline void remove_folder(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	ck_assert_int_eq(system(command), 0);
}

#endif
