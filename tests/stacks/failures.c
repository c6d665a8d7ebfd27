/* SPDX-License-Identifier: BSD-3-Clause */
/* failures.c -- a failing call ends the job */
#include <stdio.h>
#include <stdlib.h>

#include "patterns.h"

void fail(const char *what, const char *why)
{
	int started = 0, finished = 0;

	fprintf(stderr, "%s: rank %d: %s: %s\n", job.program, job.rank, what, why);
	MPI_Initialized(&started);
	MPI_Finalized(&finished);
	if (started && !finished)
		MPI_Abort(MPI_COMM_WORLD, 1);
	exit(1);
}

void check_cuda(CUresult result, const char *call)
{
	const char *name = NULL;

	if (result == CUDA_SUCCESS)
		return;
	cuGetErrorName(result, &name);
	fail(call, name ? name : "unknown CUDA error");
}

void check_mpi(int result, const char *call)
{
	char text[MPI_MAX_ERROR_STRING] = "";
	int length;

	if (result == MPI_SUCCESS)
		return;
	MPI_Error_string(result, text, &length);
	fail(call, text);
}
