/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_versions.c -- under the preload: a libibverbs that is known is served, any other is passed through
 *
 * Which one is found is told by the first argument: known, unknown or layout.
 */
#include <check.h>
#include <stdbool.h>
#include <string.h>

#include "memory/cuda_abi.h"
#include "unit/preload.h"
#include "unit/suite.h"
#include "verbs/libibverbs.h"

#define SIZE ((size_t)1 << 20)

static const char *library;

/* Every kernel in these libraries fills the struct's handle as it should. */
START_TEST(only_what_is_known_is_served)
{
	struct ibv_context *device = (struct ibv_context *)0x1000;
	bool known = !strcmp(library, "known");
	struct ibv_mr *handles[4];
	struct ibv_pd *pd;
	CUdeviceptr address;
	CUcontext context;

	ck_assert_int_eq(cuInit(0), CUDA_SUCCESS);
	ck_assert_int_eq(cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
	ck_assert_int_eq(cuMemAlloc_v2(&address, SIZE), CUDA_SUCCESS);
	pd = ibv_alloc_pd(device);
	for (int i = 0; i < 4; i++) {
		handles[i] = ibv_reg_mr(pd, (void *)address, SIZE, IBV_ACCESS_LOCAL_WRITE);
		ck_assert_ptr_nonnull(handles[i]);
	}
	if (known) {
		ck_assert_uint_eq(standin_kernel_regions(), 1);
		ck_assert_uint_eq(statistic("on_demand"), 1);
		ck_assert_uint_eq(statistic("hits"), 3);
		ck_assert_uint_eq(handles[3]->rkey, handles[0]->rkey);
	} else {
		/* Each has a registration of its own, as without the preload. */
		ck_assert_uint_ge(standin_kernel_regions(), 4);
		ck_assert_uint_ne(handles[3]->rkey, handles[2]->rkey);
		ck_assert_uint_ge(statistic("not_served_version"), 3);
		ck_assert_uint_eq(statistic("hits"), 0);
	}
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(ibv_dereg_mr(handles[i]), 0);
	ck_assert_int_eq(cuMemFree_v2(address), CUDA_SUCCESS);
	ck_assert_uint_eq(standin_kernel_regions(), 0);
}
END_TEST

int main(int count, char **arguments)
{
	Suite *suite = suite_create("versions of libibverbs");
	TCase *tests = tcase_create("versions");

	library = count > 1 ? arguments[1] : "known";
	tcase_add_test(tests, only_what_is_known_is_served);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
