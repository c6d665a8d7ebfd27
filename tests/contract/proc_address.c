/* SPDX-License-Identifier: BSD-3-Clause */
/* proc_address.c -- functions that cuGetProcAddress returns by name, version and flag */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

static void *ask(const char *name, int version, cuuint64_t flags)
{
	CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)99;
	void *function = NULL;

	ck_cuda(driver.cuGetProcAddress_v2(name, &function, version, flags, &status));
	ck_assert_int_eq(status == CU_GET_PROC_ADDRESS_SUCCESS, function != NULL);
	return function;
}

CASE(proc_address);

TEST(proc_address, names_and_versions_mean_the_exported_functions)
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
		{ "cuDevicePrimaryCtxRelease", 11000,
		  (void **)&driver.cuDevicePrimaryCtxRelease_v2 },
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
		ck_assert_msg(ask(cases[i].name, cases[i].version, 0) == *cases[i].function,
			      "%s at %d", cases[i].name, cases[i].version);
		ck_cuda(driver.cuGetProcAddress(cases[i].name, &function, cases[i].version, 0));
		ck_assert_ptr_eq(function, *cases[i].function);
	}
}

TEST(proc_address, a_name_with_its_suffix_is_no_name)
{
	ck_assert_ptr_null(ask("cuMemAlloc_v2", 13000, 0));
}

TEST(proc_address, what_is_missing_is_told_by_the_status_or_by_an_error)
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
		ck_cuda(driver.cuGetProcAddress_v2(cases[i].name, &function, cases[i].version, 0,
						   &status));
		ck_assert_ptr_null(function);
		ck_assert_int_eq(status, cases[i].status);
		function = &anything;
		ck_assert_int_eq(
			driver.cuGetProcAddress(cases[i].name, &function, cases[i].version, 0),
			CUDA_ERROR_NOT_FOUND);
		ck_assert_ptr_eq(function, &anything);
	}
}

TEST(proc_address, the_per_thread_flag_means_another_function)
{
	ck_assert_ptr_eq(
		ask("cuMemFreeAsync", 11020, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM),
		(void *)driver.cuMemFreeAsync_ptsz);
	ck_assert_ptr_ne((void *)driver.cuMemFreeAsync, (void *)driver.cuMemFreeAsync_ptsz);
	/* The flag has no effect on a function with one form. */
	ck_assert_ptr_eq(ask("cuMemAlloc", 3020, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM),
			 (void *)driver.cuMemAlloc_v2);
}

TEST(proc_address, a_version_before_the_function_finds_nothing)
{
	ck_assert_ptr_null(ask("cuMemFreeAsync", 10000, 0));
}

TEST(proc_address, a_version_above_the_driver_s_own_is_refused)
{
	void *function = NULL;
	int version = 0;

	ck_cuda(driver.cuDriverGetVersion(&version));
	ck_assert_int_eq(driver.cuGetProcAddress_v2("cuMemAlloc", &function, version + 10, 0, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	ck_cuda(driver.cuGetProcAddress_v2("cuMemAlloc", &function, version, 0, NULL));
}

/* An exported symbol without the suffix of its form. */
static char *base_of(const char *symbol)
{
	char *name = strdup(symbol), *end = strstr(name, "_ptsz");

	if (end)
		*end = '\0';
	end = strstr(name, "_v");
	if (end && strspn(end + 2, "0123456789") == strlen(end + 2))
		*end = '\0';
	return name;
}

static bool can_be_asked_for(const char *symbol, void *function)
{
	/* CUDA versions that introduced functions of cuda_abi.h. */
	static const int versions[] = { 2000,  2020,  3000,  3020,  4000,  4010,  5000,
					5050,  6000,  7000,  8000,  9020,  10000, 10010,
					10020, 11000, 11020, 11030, 11040, 11070, 12000,
					12010, 12020, 12040, 12050, 13000 };
	cuuint64_t flag =
		strstr(symbol, "_ptsz") ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : 0;
	char *name = base_of(symbol);
	bool found = false;
	void *answer;

	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]) && !found; i++) {
		found = driver.cuGetProcAddress_v2(name, &answer, versions[i], flag, NULL) ==
				CUDA_SUCCESS &&
			answer == function;
	}
	free(name);
	return found;
}

TEST(proc_address, every_exported_function_can_be_asked_for_by_its_name_and_version)
{
#define FUNCTION(symbol, ...)                                                                      \
	if (driver.symbol)                                                                         \
		ck_assert_msg(can_be_asked_for(#symbol, (void *)driver.symbol), #symbol);
#include "memory/cuda_abi.def"
#undef FUNCTION
}

TEST(proc_address, the_status_may_be_null)
{
	void *function = NULL;

	ck_cuda(driver.cuGetProcAddress_v2("cuMemAlloc", &function, 12000, 0, NULL));
	ck_assert_ptr_eq(function, (void *)driver.cuMemAlloc_v2);
}

TEST(proc_address, errors_have_names)
{
	const char *text = NULL;

	ck_cuda(driver.cuGetErrorName(CUDA_ERROR_INVALID_VALUE, &text));
	ck_assert_str_eq(text, "CUDA_ERROR_INVALID_VALUE");
	ck_cuda(driver.cuGetErrorString(CUDA_ERROR_INVALID_VALUE, &text));
	ck_assert_str_eq(text, "invalid argument");
	ck_assert_int_eq(driver.cuGetErrorName((CUresult)77777, &text), CUDA_ERROR_INVALID_VALUE);
}

TEST(proc_address, the_capture_mode_is_exchanged)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	ck_cuda(driver.cuThreadExchangeStreamCaptureMode(&mode));
	ck_assert_int_eq(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
	ck_cuda(driver.cuThreadExchangeStreamCaptureMode(&mode));
	ck_assert_int_eq(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
}
