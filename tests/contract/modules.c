/* SPDX-License-Identifier: BSD-3-Clause */
/* modules.c -- functions of modules */
#include "driver.h"

static const char image[] = ".version 7.0\n.target sm_52\n.address_size 64\n"
			    ".visible .entry nothing()\n{\n\tret;\n}\n";

static CUmodule module;

static void set_up(void)
{
	context_set_up();
	ck_cuda(driver.cuModuleLoadData(&module, image));
}

static void tear_down(void)
{
	driver.cuModuleUnload(module);
	context_tear_down();
}

START_TEST(a_function_is_found_by_its_name)
{
	CUfunction function = NULL;

	ck_cuda(driver.cuModuleGetFunction(&function, module, "nothing"));
	ck_assert_ptr_nonnull(function);
	ck_assert_int_eq(driver.cuModuleGetFunction(&function, module, "noth"),
			 CUDA_ERROR_NOT_FOUND);
	ck_assert_int_eq(driver.cuModuleGetFunction(NULL, module, "nothing"),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(driver.cuModuleGetFunction(&function, module, NULL),
			 CUDA_ERROR_INVALID_VALUE);
}
END_TEST

/* The simulated driver runs no kernels. */
START_TEST(a_function_is_launched_or_launches_are_not_supported)
{
	CUfunction function;
	CUresult result;

	ck_cuda(driver.cuModuleGetFunction(&function, module, "nothing"));
	result = driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	ck_assert(result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_SUPPORTED);
	ck_assert_int_eq(driver.cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
			 CUDA_ERROR_INVALID_HANDLE);
	ck_assert_int_eq(driver.cuLaunchKernel(function, 1, 1, 1, 0, 1, 1, 0, NULL, NULL, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	ck_cuda(driver.cuCtxSynchronize());
}
END_TEST

TCase *modules_tests(void)
{
	TCase *tests = tcase_create("modules");

	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, a_function_is_found_by_its_name);
	tcase_add_test(tests, a_function_is_launched_or_launches_are_not_supported);
	return tests;
}
