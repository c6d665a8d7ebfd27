/* SPDX-License-Identifier: BSD-3-Clause */
/* check_driver.c -- requirements of the library on a CUDA driver, tested on the installed driver
 *
 * The simulated driver must pass each test that a real driver passes. All tests run in one process:
 * CUDA does not survive a fork.
 */
#include "driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

/* With PEERPIN_KEEP the tests have tested kept memory, of the device and of the host. */
static bool keeps_as_set(void)
{
	int (*statistic)(const char *, uint64_t *) =
		(__typeof__(statistic))dlsym(RTLD_DEFAULT, "peerpin_statistic");
	uint64_t kept = 0, reused = 0;

	if (!driver_keeps())
		return true;
	statistic("kept", &kept);
	statistic("reused", &reused);
	printf("kept %llu, reused %llu\n", (unsigned long long)kept, (unsigned long long)reused);
	return kept > 0 && reused > 0;
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
