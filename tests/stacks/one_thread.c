/* SPDX-License-Identifier: BSD-3-Clause */
/* one_thread.c -- an MPI library limited to one thread (a preload) */

int MPI_Query_thread(int *provided);

__attribute__((visibility("default"))) int MPI_Query_thread(int *provided)
{
	*provided = 0; /* MPI_THREAD_SINGLE at most */
	return 0;
}
