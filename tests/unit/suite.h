/* SPDX-License-Identifier: BSD-3-Clause */
/* suite.h -- common code of the unit test programs */
#ifndef PEERPIN_TESTS_SUITE_H
#define PEERPIN_TESTS_SUITE_H

#include <check.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* 120 s: only a hang takes so long. A test may share a processor with many others, and run under
 * Valgrind or a sanitizer. Check's own limit is 4 s for each test, read when a case is created.
 * CK_DEFAULT_TIMEOUT in the environment and a case's own limit take precedence. */
__attribute__((constructor)) static void suite_set_patience(void)
{
	setenv("CK_DEFAULT_TIMEOUT", "120", 0);
}

static inline bool suite_is_under_valgrind(void)
{
	const char *preloads = getenv("LD_PRELOAD");

	return preloads && strstr(preloads, "vgpreload");
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

/* Tests with one fixture, whose functions run around each test, in the test's process. Selected by
 * CK_RUN_CASE=NAME. */
struct suite_case {
	const char *name;
	void (*set_up)(void), (*tear_down)(void);
	double timeout;	       /* in seconds; 0: 60 */
	bool (*applies)(void); /* if not NULL and false, the tests do not run */
	TCase *tcase;	       /* NULL until added to the suite */
};

/* CASE(name, .set_up = function, ...); */
#define CASE(label, ...) static struct suite_case label##_case = { .name = #label, __VA_ARGS__ }

struct suite_test {
	struct suite_case *of;
	const TTest *test;
	int from, to;
	struct suite_test *next;
};

/* The tests of all files of the program, which share this variable. */
__attribute__((weak)) struct suite_test *suite_tests;

/* Tests of a file are in the order of lines: that of its constructors is unspecified. */
static inline void suite_add(struct suite_test *test)
{
	struct suite_test **at = &suite_tests;

	while (*at && (strcmp((*at)->test->file, test->test->file) ||
		       (*at)->test->line < test->test->line))
		at = &(*at)->next;
	test->next = *at;
	*at = test;
}

/* LOOP_TEST(case, name, from, to) { ... } runs with each `_i` from `from` to `to` - 1. */
#define LOOP_TEST(of_case, name, from_i, to_i)                                                     \
	static const TTest *name;                                                                  \
	__attribute__((constructor)) static void name##_add(void)                                  \
	{                                                                                          \
		static struct suite_test test = { &of_case##_case, .from = (from_i),               \
						  .to = (to_i) };                                  \
		test.test = name;                                                                  \
		suite_add(&test);                                                                  \
	}                                                                                          \
	START_TEST(name)
/* TEST(case, name) { ... } */
#define TEST(of_case, name) LOOP_TEST(of_case, name, 0, 1)

static inline void suite_add_tests(Suite *suite)
{
	for (struct suite_test *test = suite_tests; test; test = test->next) {
		struct suite_case *of = test->of;

		if (of->applies && !of->applies())
			continue;
		if (!of->tcase) {
			of->tcase = tcase_create(of->name);
			suite_add_tcase(suite, of->tcase);
			tcase_add_checked_fixture(of->tcase, of->set_up, of->tear_down);
			tcase_set_timeout(of->tcase, of->timeout > 0 ? of->timeout : 60);
		}
		tcase_add_loop_test(of->tcase, test->test, test->from, test->to);
	}
}

static inline int suite_main(const char *name)
{
	Suite *suite = suite_create(name);

	suite_add_tests(suite);
	return suite_run(suite);
}

/* The last line of a file without a main() of its own. */
#define SUITE(name)                                                                                \
	int main(void)                                                                             \
	{                                                                                          \
		return suite_main(name);                                                           \
	}

#endif
