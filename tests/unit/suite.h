/* SPDX-License-Identifier: BSD-3-Clause */
/* suite.h -- common code of the unit test programs */
#ifndef PEERPIN_TESTS_SUITE_H
#define PEERPIN_TESTS_SUITE_H

#include <check.h>
#include <stdlib.h>

/* 120 s: only a hang takes so long. A test may share a processor with many others, and run under
 * Valgrind or a sanitizer. Check's own limit is 4 s for each test, read when a case is created.
 * CK_DEFAULT_TIMEOUT in the environment and a case's own limit take precedence. */
__attribute__((constructor)) static void suite_set_patience(void)
{
	setenv("CK_DEFAULT_TIMEOUT", "120", 0);
}

/* For loops beside other threads. ck_assert writes the test's progress each time. Under Valgrind
 * each write gives the other threads a whole time slice: seconds become many minutes. */
#define require(condition)                                                                         \
	do {                                                                                       \
		if (!(condition))                                                                  \
			ck_abort_msg("not so: %s", #condition);                                    \
	} while (0)

/* Runs the tests, each in a process of its own unless CK_FORK=no, and returns the exit status. */
static inline int suite_run(Suite *suite)
{
	SRunner *runner = srunner_create(suite);
	int failed;

	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
