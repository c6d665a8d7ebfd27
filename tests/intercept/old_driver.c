/* SPDX-License-Identifier: BSD-3-Clause */
/* old_driver.c -- under the preload, on a driver that lacks rows of the table: look-ups find no
 * more than the driver has, and leave only their own error */
#include <check.h>
#include <dlfcn.h>
#include <string.h>

#include "memory/cuda_abi.h"
#include "unit/preload.h"
#include "unit/suite.h"

static void *library;

static void set_up(void)
{
	library = dlopen("libcuda.so.1", RTLD_NOW);
	ck_assert_msg(library, "%s", dlerror());
}

CASE(old_driver, .set_up = set_up);

/* First: a look-up resolves the driver's functions. */
TEST(old_driver, a_name_that_is_found_leaves_no_error)
{
	dlerror();
	ck_assert_ptr_nonnull(dlsym(library, "cuMemFree_v2"));
	ck_assert_ptr_null(dlerror());
}

TEST(old_driver, a_name_that_the_driver_lacks_is_not_offered)
{
	static const char *const lacking[] = { "cuGetProcAddress_v2", "cuGetProcAddress",
					       "cuMemFreeAsync", "cuMemFree" };
	const char *error;

	ck_assert_ptr_nonnull(dlsym(library, "cuMemAlloc_v2"));
	for (size_t i = 0; i < sizeof(lacking) / sizeof(lacking[0]); i++) {
		ck_assert_ptr_null(dlsym(library, lacking[i]));
		error = dlerror();
		ck_assert_ptr_nonnull(error);
		ck_assert_msg(strstr(error, lacking[i]), "%s: %s", lacking[i], error);
	}
}

TEST(old_driver, present_functions_are_intercepted_and_memory_counts_as_capable)
{
	__typeof__(cuMemAlloc_v2) *allocate = (__typeof__(allocate))dlsym(library, "cuMemAlloc_v2");
	__typeof__(cuMemFree_v2) *release = (__typeof__(release))dlsym(library, "cuMemFree_v2");
	CUdeviceptr address;

	ck_assert_int_eq(allocate(&address, 4096), CUDA_SUCCESS);
	ck_assert_uint_eq(statistic("allocations"), 1);
	ck_assert_uint_eq(statistic("untracked"), 0);
	ck_assert_int_eq(release(address), CUDA_SUCCESS);
	ck_assert_uint_eq(statistic("frees"), 1);
}

SUITE("old driver")
