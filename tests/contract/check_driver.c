/* SPDX-License-Identifier: BSD-3-Clause */
/* check_driver.c -- requirements of the library on a CUDA driver, tested on the installed driver
 *
 * The simulated driver must pass each test that a real driver passes. All tests run in one process:
 * CUDA does not survive a fork.
 */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>

/* With PEERPIN_KEEP the tests have tested kept memory, of the device and of the host. */
static bool keeps_as_set(void)
{
	uint64_t reused = driver_keeps() ? driver_reused_in_tests() : 0;

	if (reused)
		printf("reused %llu\n", (unsigned long long)reused);
	return !driver_keeps() || reused;
}

int main(void)
{
	Suite *suite = suite_create("driver contract");
	SRunner *runner;
	int failed;

	exporter_begin();
	if (!driver_open())
		return 77;
	suite_add_tests(suite);
	suite_add_tcase(suite, captures_tests());
	suite_add_tcase(suite, modules_tests());
	runner = srunner_create(suite);
	srunner_set_fork_status(runner, CK_NOFORK);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner) || !keeps_as_set();
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
