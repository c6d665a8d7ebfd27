/* SPDX-License-Identifier: BSD-3-Clause */
/* standin.c -- a library with one defective function; check_readings.sh sets its name
 * (-DNAME=cuInit) and the defect (-DCRASHES) */
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
	/* The child holds all descriptors, and outlives its parent and the time limit. */
	if (fork() == 0)
		sleep(600);
	_exit(7);
#endif
	return 0;
}
