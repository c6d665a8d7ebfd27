/* SPDX-License-Identifier: BSD-3-Clause */
/* suite.h -- what every unit test program does around its tests */
#ifndef PEERPIN_TESTS_SUITE_H
#define PEERPIN_TESTS_SUITE_H

#include <check.h>
#include <stdlib.h>

/* Only a hang takes so long: a test may share a processor with many others, and run under Valgrind
 * or a sanitizer. Check's own limit is 4 s for each test, read when a case is created.
 * CK_DEFAULT_TIMEOUT in the environment stands, and so does what a case sets itself. */
__attribute__((constructor)) static void suite_set_patience(void)
{
	setenv("CK_DEFAULT_TIMEOUT", "120", 0);
}

/* For loops beside other threads. ck_assert writes down each time how far the test is, and under
 * Valgrind each write gives the others a whole turn: seconds become many minutes. */
#define require(condition)                                                                         \
	do {                                                                                       \
		if (!(condition))                                                                  \
			ck_abort_msg("not so: %s", #condition);                                    \
	} while (0)

/* Runs the tests, each in a process of its own unless CK_FORK=no, and tells make of failure. */
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
