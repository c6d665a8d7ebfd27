/* SPDX-License-Identifier: BSD-3-Clause */
/* standin.c -- a library with one function that does wrong: built by check_readings.sh with
 * -DNAME=cuInit -DWRONG */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int NAME(void);
int NAME(void)
{
#if defined(HANGS)
	for (;;)
		pause();
#elif defined(CRASHES)
	*(volatile int *)8 = 1;
#elif defined(ABORTS)
	fprintf(stderr, "standin: this is the end\n");
	abort();
#elif defined(EXITS)
	_exit(7);
#elif defined(LEAVES)
	/* What is started, and holds the pipes, outlives who started it, and what that may take. */
	if (fork() == 0)
		sleep(600);
	_exit(7);
#endif
	return 0;
}
