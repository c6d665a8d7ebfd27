/* SPDX-License-Identifier: BSD-3-Clause */
/* check_base.c -- settings, counters, pools */
#include "suite.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/pool.h"
#include "base/statistics.h"

static char complaint[512];

static void keep(const char *line)
{
	snprintf(complaint, sizeof(complaint), "%s", line);
}

static unsigned int parse(struct config *config, char *variable)
{
	char *const environment[] = { "PATH=/bin", variable, NULL };

	complaint[0] = '\0';
	return config_parse(config, environment, keep);
}

START_TEST(defaults_hold_in_an_empty_environment)
{
	char *const environment[] = { NULL };
	struct config config;

	ck_assert_uint_eq(config_parse(&config, environment, NULL), 0);
	ck_assert(!config.disable);
	ck_assert_int_eq(config.eager, EAGER_ASYNC);
	ck_assert_int_eq(config.log, LOG_WARN);
	ck_assert_int_eq(config.summary, SUMMARY_AUTO);
	ck_assert_ptr_null(config.stats);
}
END_TEST

START_TEST(values_are_read)
{
	struct config config;

	ck_assert_uint_eq(parse(&config, "PEERPIN_EAGER=sync"), 0);
	ck_assert_int_eq(config.eager, EAGER_SYNC);
	ck_assert_uint_eq(parse(&config, "PEERPIN_DISABLE=yes"), 0);
	ck_assert(config.disable);
	ck_assert_uint_eq(parse(&config, "PEERPIN_MIN_SIZE=2M"), 0);
	ck_assert_uint_eq(config.min_size, 2u << 20);
	ck_assert_uint_eq(parse(&config, "PEERPIN_MIN_SIZE=65536"), 0);
	ck_assert_uint_eq(config.min_size, 65536);
	ck_assert_uint_eq(parse(&config, "PEERPIN_STATS=/x/%r"), 0);
	ck_assert_str_eq(config.stats, "/x/%r");
}
END_TEST

START_TEST(a_bad_value_is_named_with_what_is_allowed_and_the_default_holds)
{
	static char *const bad[] = { "PEERPIN_MIN_SIZE=2X",
				     "PEERPIN_MIN_SIZE=-1",
				     "PEERPIN_MIN_SIZE=",
				     "PEERPIN_MIN_SIZE=99999999999999999999",
				     "PEERPIN_MIN_SIZE=17179869184G",
				     "PEERPIN_MIN_SIZE=1KK" };
	struct config config;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ck_assert_uint_eq(parse(&config, bad[i]), 1);
		ck_assert_uint_eq(config.min_size, 0);
		ck_assert_ptr_nonnull(strstr(complaint, bad[i]));
		ck_assert_ptr_nonnull(strstr(complaint, "K, M or G"));
	}
	ck_assert_uint_eq(parse(&config, "PEERPIN_EAGER=eager"), 1);
	ck_assert_int_eq(config.eager, EAGER_ASYNC);
	ck_assert_ptr_nonnull(strstr(complaint, "async, sync, off or all"));
}
END_TEST

START_TEST(an_unknown_variable_gets_the_nearest_name)
{
	struct config config;

	ck_assert_uint_eq(parse(&config, "PEERPIN_MINSIZE=1"), 1);
	ck_assert_ptr_nonnull(strstr(complaint, "did you mean PEERPIN_MIN_SIZE?"));
	ck_assert_uint_eq(parse(&config, "PEERPIN_SOMETHING_ELSE=1"), 1);
	ck_assert_ptr_nonnull(strstr(complaint, "ignored"));
	ck_assert_uint_eq(parse(&config, "PEERPIN_SIM_MEMORY=1G"), 0);
}
END_TEST

START_TEST(counters_are_found_by_name)
{
	uint64_t value = 99;

	statistics_count(births);
	statistics_add(births, 4);
	ck_assert_int_eq(statistics_find("births", &value), 0);
	ck_assert_uint_eq(value, 5);
	ck_assert_int_eq(statistics_find("birth", &value), -ENOENT);
}
END_TEST

START_TEST(the_peak_of_pinned_bytes_stays)
{
	statistics_pinned(0, -1, 100);
	statistics_pinned(0, -1, 50);
	statistics_pinned(0, -1, -120);
	ck_assert_uint_eq(statistics_get(pinned_bytes), 30);
	ck_assert_uint_eq(statistics_get(pinned_bytes_peak), 150);
}
END_TEST

struct thing {
	void *next_free;
	char bytes[1000];
};

START_TEST(a_pool_gives_distinct_objects_and_reuses_them)
{
	enum { COUNT = 2000 };
	static struct thing *things[COUNT];
	struct pool pool = POOL_INITIALIZER(struct thing);

	for (int i = 0; i < COUNT; i++) {
		things[i] = pool_get(&pool);
		ck_assert_ptr_nonnull(things[i]);
		ck_assert_int_eq(things[i]->bytes[0], 0);
		memset(things[i]->bytes, i % 251 + 1, sizeof(things[i]->bytes));
	}
	for (int i = 0; i < COUNT; i++)
		ck_assert_int_eq((unsigned char)things[i]->bytes[999], i % 251 + 1);
	pool_put(&pool, things[3]);
	pool_put(&pool, things[5]);
	ck_assert_ptr_eq(pool_get(&pool), things[5]);
	ck_assert_ptr_eq(pool_get(&pool), things[3]);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("base");
	TCase *settings = tcase_create("settings");
	TCase *counters = tcase_create("counters and pools");

	tcase_add_test(settings, defaults_hold_in_an_empty_environment);
	tcase_add_test(settings, values_are_read);
	tcase_add_test(settings, a_bad_value_is_named_with_what_is_allowed_and_the_default_holds);
	tcase_add_test(settings, an_unknown_variable_gets_the_nearest_name);
	tcase_add_test(counters, counters_are_found_by_name);
	tcase_add_test(counters, the_peak_of_pinned_bytes_stays);
	tcase_add_test(counters, a_pool_gives_distinct_objects_and_reuses_them);
	suite_add_tcase(suite, settings);
	suite_add_tcase(suite, counters);
	return suite_run(suite);
}
