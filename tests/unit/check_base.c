/* SPDX-License-Identifier: BSD-3-Clause */
/* check_base.c -- names of files, counters, pools */
#include "suite.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/pool.h"
#include "base/process.h"
#include "base/statistics.h"

START_TEST(a_rank_gets_a_file_of_its_own)
{
	char name[64];

	unsetenv("OMPI_COMM_WORLD_RANK");
	unsetenv("PMIX_RANK");
	ck_assert_int_eq(process_file_name("a.json", name, sizeof(name)), 0);
	ck_assert_str_eq(name, "a.json");
	setenv("OMPI_COMM_WORLD_RANK", "7", 1);
	ck_assert_int_eq(process_file_name("a.json", name, sizeof(name)), 0);
	ck_assert_str_eq(name, "a.json.7");
	ck_assert_int_eq(process_file_name("a-%r-%%-%q", name, sizeof(name)), 0);
	ck_assert_str_eq(name, "a-7-%-%q");
	ck_assert_int_eq(process_file_name("a-%r", name, 3), -ENAMETOOLONG);
}
END_TEST

START_TEST(srun_is_believed_last_and_only_inside_a_step)
{
	setenv("SLURM_PROCID", "3", 1);
	unsetenv("SLURM_STEP_ID");
	ck_assert_int_eq(process_rank(), -1);
	setenv("SLURM_STEP_ID", "0", 1);
	ck_assert_int_eq(process_rank(), 3);
	setenv("PMI_RANK", "5", 1);
	ck_assert_int_eq(process_rank(), 5);
	setenv("PMI_RANK", "x", 1);
	ck_assert_int_eq(process_rank(), 3);
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
	statistics_pinned(100);
	statistics_pinned(50);
	statistics_pinned(-120);
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
	TCase *names = tcase_create("names");
	TCase *counters = tcase_create("counters and pools");

	tcase_add_test(names, a_rank_gets_a_file_of_its_own);
	tcase_add_test(names, srun_is_believed_last_and_only_inside_a_step);
	tcase_add_test(counters, counters_are_found_by_name);
	tcase_add_test(counters, the_peak_of_pinned_bytes_stays);
	tcase_add_test(counters, a_pool_gives_distinct_objects_and_reuses_them);
	suite_add_tcase(suite, names);
	suite_add_tcase(suite, counters);
	return suite_run(suite);
}
