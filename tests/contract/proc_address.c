/* SPDX-License-Identifier: BSD-3-Clause */
/* proc_address.c -- by which name, version and flag the driver means which of its functions */
#include "driver.h"

static void *ask(const char *name, int version, cuuint64_t flags)
{
	CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)99;
	void *function = NULL;

	ck_cuda(driver.cuGetProcAddress_v2(name, &function, version, flags, &status));
	ck_assert_int_eq(status == CU_GET_PROC_ADDRESS_SUCCESS, function != NULL);
	return function;
}

START_TEST(names_and_versions_mean_the_exported_functions)
{
	static const struct {
		const char *name;
		int version;
		void **function;
	} cases[] = {
		{ "cuMemAlloc", 2000, (void **)&driver.cuMemAlloc },
		{ "cuMemAlloc", 3020, (void **)&driver.cuMemAlloc_v2 },
		{ "cuMemAlloc", 13000, (void **)&driver.cuMemAlloc_v2 },
		{ "cuMemFree", 2000, (void **)&driver.cuMemFree },
		{ "cuMemFree", 3020, (void **)&driver.cuMemFree_v2 },
		{ "cuMemAllocPitch", 3020, (void **)&driver.cuMemAllocPitch_v2 },
		{ "cuMemGetAddressRange", 3020, (void **)&driver.cuMemGetAddressRange_v2 },
		{ "cuCtxDestroy", 2000, (void **)&driver.cuCtxDestroy },
		{ "cuCtxDestroy", 4000, (void **)&driver.cuCtxDestroy_v2 },
		{ "cuCtxDetach", 2000, (void **)&driver.cuCtxDetach },
		{ "cuDevicePrimaryCtxRelease", 7000, (void **)&driver.cuDevicePrimaryCtxRelease },
		{ "cuDevicePrimaryCtxRelease", 11000, (void **)&driver.cuDevicePrimaryCtxRelease_v2 },
		{ "cuDevicePrimaryCtxReset", 7000, (void **)&driver.cuDevicePrimaryCtxReset },
		{ "cuDevicePrimaryCtxReset", 11000, (void **)&driver.cuDevicePrimaryCtxReset_v2 },
		{ "cuGetProcAddress", 11030, (void **)&driver.cuGetProcAddress },
		{ "cuGetProcAddress", 12000, (void **)&driver.cuGetProcAddress_v2 },
		{ "cuMemFreeAsync", 11020, (void **)&driver.cuMemFreeAsync },
		{ "cuPointerGetAttribute", 4000, (void **)&driver.cuPointerGetAttribute },
	};
	void *function;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ck_assert_ptr_nonnull(*cases[i].function);
		ck_assert_msg(ask(cases[i].name, cases[i].version, 0) == *cases[i].function, "%s at %d",
			      cases[i].name, cases[i].version);
		ck_cuda(driver.cuGetProcAddress(cases[i].name, &function, cases[i].version, 0));
		ck_assert_ptr_eq(function, *cases[i].function);
	}
}
END_TEST

START_TEST(a_name_with_its_suffix_is_no_name)
{
	ck_assert_ptr_null(ask("cuMemAlloc_v2", 13000, 0));
}
END_TEST

START_TEST(what_is_missing_is_told_by_the_status_or_by_an_error)
{
	static const struct {
		const char *name;
		int version;
		CUdriverProcAddressQueryResult status;
	} cases[] = {
		{ "cuNope", 13000, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND },
		{ "", 0, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND },
		{ "cuMemFreeAsync", 10000, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT },
	};
	CUdriverProcAddressQueryResult status;
	int anything;
	void *function;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		function = &anything;
		ck_cuda(driver.cuGetProcAddress_v2(cases[i].name, &function, cases[i].version, 0, &status));
		ck_assert_ptr_null(function);
		ck_assert_int_eq(status, cases[i].status);
		function = &anything;
		ck_assert_int_eq(driver.cuGetProcAddress(cases[i].name, &function, cases[i].version, 0),
				 CUDA_ERROR_NOT_FOUND);
		ck_assert_ptr_eq(function, &anything);
	}
}
END_TEST

START_TEST(the_per_thread_flag_means_another_function)
{
	ck_assert_ptr_eq(ask("cuMemFreeAsync", 11020, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM),
			 (void *)driver.cuMemFreeAsync_ptsz);
	ck_assert_ptr_ne((void *)driver.cuMemFreeAsync, (void *)driver.cuMemFreeAsync_ptsz);
	/* Where there is one form only, the flag changes nothing. */
	ck_assert_ptr_eq(ask("cuMemAlloc", 3020, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM),
			 (void *)driver.cuMemAlloc_v2);
}
END_TEST

START_TEST(a_version_before_the_function_finds_nothing)
{
	ck_assert_ptr_null(ask("cuMemFreeAsync", 10000, 0));
}
END_TEST

START_TEST(the_status_may_be_null)
{
	void *function = NULL;

	ck_cuda(driver.cuGetProcAddress_v2("cuMemAlloc", &function, 12000, 0, NULL));
	ck_assert_ptr_eq(function, (void *)driver.cuMemAlloc_v2);
}
END_TEST

START_TEST(errors_have_names)
{
	const char *text = NULL;

	ck_cuda(driver.cuGetErrorName(CUDA_ERROR_INVALID_VALUE, &text));
	ck_assert_str_eq(text, "CUDA_ERROR_INVALID_VALUE");
	ck_cuda(driver.cuGetErrorString(CUDA_ERROR_INVALID_VALUE, &text));
	ck_assert_str_eq(text, "invalid argument");
	ck_assert_int_eq(driver.cuGetErrorName((CUresult)77777, &text), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(the_capture_mode_is_exchanged)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	ck_cuda(driver.cuThreadExchangeStreamCaptureMode(&mode));
	ck_assert_int_eq(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
	ck_cuda(driver.cuThreadExchangeStreamCaptureMode(&mode));
	ck_assert_int_eq(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
}
END_TEST

TCase *proc_address_tests(void)
{
	TCase *tests = tcase_create("entry points");

	tcase_add_test(tests, names_and_versions_mean_the_exported_functions);
	tcase_add_test(tests, a_name_with_its_suffix_is_no_name);
	tcase_add_test(tests, what_is_missing_is_told_by_the_status_or_by_an_error);
	tcase_add_test(tests, the_per_thread_flag_means_another_function);
	tcase_add_test(tests, a_version_before_the_function_finds_nothing);
	tcase_add_test(tests, the_status_may_be_null);
	tcase_add_test(tests, errors_have_names);
	tcase_add_test(tests, the_capture_mode_is_exchanged);
	return tests;
}
