/* SPDX-License-Identifier: BSD-3-Clause */
/* ways.c -- every way in which a program gets at the driver, under the preload: allocations and
 * frees are seen, and the answers are the driver's */
#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory/cuda_abi.h"
#include "unit/preload.h"
#include "unit/suite.h"

/* One way's functions. */
struct driver {
	__typeof__(cuMemAlloc_v2) *allocate;
	__typeof__(cuMemFree_v2) *free;
	__typeof__(cuCtxDestroy_v2) *destroy;
	__typeof__(cuMemAllocPitch_v2) *allocate_pitch;
	__typeof__(cuDevicePrimaryCtxRelease_v2) *release;
	__typeof__(cuDevicePrimaryCtxReset_v2) *reset;
};

static void *library;
static void *plugin;
static CUdevice device;

static struct driver linked(void)
{
	return (struct driver){ cuMemAlloc_v2,
				cuMemFree_v2,
				cuCtxDestroy_v2,
				cuMemAllocPitch_v2,
				cuDevicePrimaryCtxRelease_v2,
				cuDevicePrimaryCtxReset_v2 };
}

#define FIND(find)                                                                                 \
	((struct driver){ find("cuMemAlloc", 3020, "_v2"), find("cuMemFree", 3020, "_v2"),         \
			  find("cuCtxDestroy", 4000, "_v2"), find("cuMemAllocPitch", 3020, "_v2"), \
			  find("cuDevicePrimaryCtxRelease", 11000, "_v2"),                         \
			  find("cuDevicePrimaryCtxReset", 11000, "_v2") })

static void *by_name(void *handle, const char *name, const char *suffix)
{
	char symbol[64];
	void *found;

	snprintf(symbol, sizeof(symbol), "%s%s", name, suffix);
	found = dlsym(handle, symbol);
	ck_assert_msg(found, "%s", symbol);
	return found;
}

#define by_handle(name, version, suffix)  by_name(library, name, suffix)
#define by_default(name, version, suffix) by_name(RTLD_DEFAULT, name, suffix)
#define by_next(name, version, suffix)	  by_name(RTLD_NEXT, name, suffix)

static struct driver by_dlsym(void)
{
	return FIND(by_handle);
}

static struct driver by_dlsym_default(void)
{
	return FIND(by_default);
}

static struct driver by_dlsym_next(void)
{
	return FIND(by_next);
}

static __typeof__(cuGetProcAddress_v2) *proc_address_v2;
static __typeof__(cuGetProcAddress) *proc_address_v1;

static void *by_proc_v2(const char *name, int version)
{
	CUdriverProcAddressQueryResult status;
	void *found = NULL;

	ck_assert_int_eq(proc_address_v2(name, &found, version, 0, &status), CUDA_SUCCESS);
	ck_assert_int_eq(status, CU_GET_PROC_ADDRESS_SUCCESS);
	return found;
}

static void *by_proc_v1(const char *name, int version)
{
	void *found = NULL;

	ck_assert_int_eq(proc_address_v1(name, &found, version, 0), CUDA_SUCCESS);
	return found;
}

#define by_v1(name, version, suffix) by_proc_v1(name, version)
#define by_v2(name, version, suffix) by_proc_v2(name, version)

/* As the CUDA runtime does: one dlsym, then everything through what it got, itself included. */
static struct driver like_the_runtime(void)
{
	void *again = NULL;

	proc_address_v2 = (__typeof__(proc_address_v2))dlsym(library, "cuGetProcAddress_v2");
	ck_assert_ptr_nonnull(proc_address_v2);
	ck_assert_int_eq(proc_address_v2("", &again, 0, 0, NULL), CUDA_SUCCESS);
	ck_assert_ptr_null(again);
	ck_assert_int_eq(proc_address_v2("cuGetProcAddress", &again, 12000, 0, NULL), CUDA_SUCCESS);
	ck_assert_ptr_eq(again, (void *)proc_address_v2);
	return FIND(by_v2);
}

static struct driver by_proc_address_v1(void)
{
	proc_address_v1 = (__typeof__(proc_address_v1))dlsym(library, "cuGetProcAddress");
	ck_assert_ptr_nonnull(proc_address_v1);
	return FIND(by_v1);
}

static struct driver by_linked_proc_address(void)
{
	proc_address_v2 = cuGetProcAddress_v2;
	return FIND(by_v2);
}

/* A plug-in that is itself linked to the driver, opened out of the others' sight. */
static struct driver by_plugin(void)
{
	struct driver *functions;

	plugin = dlopen("tests/intercept/.libs/ways_plugin.so", RTLD_NOW | RTLD_LOCAL);
	ck_assert_msg(plugin, "%s", dlerror());
	functions = dlsym(plugin, "plugin_functions");
	ck_assert_ptr_nonnull(functions);
	return *functions;
}

static struct driver (*const ways[])(void) = {
	linked,		  by_dlsym,	      by_dlsym_default,	      by_dlsym_next,
	like_the_runtime, by_proc_address_v1, by_linked_proc_address, by_plugin,
};
#define WAYS ((int)(sizeof(ways) / sizeof(ways[0])))

static void set_up(void)
{
	library = dlopen("libcuda.so.1", RTLD_NOW);
	ck_assert_ptr_nonnull(library);
	ck_assert_int_eq(cuInit(0), CUDA_SUCCESS);
	ck_assert_int_eq(cuDeviceGet(&device, 0), CUDA_SUCCESS);
}

START_TEST(allocations_and_frees_are_seen)
{
	struct driver driver = ways[_i]();
	CUdeviceptr address, pitched;
	CUcontext context;
	size_t pitch;

	ck_assert_int_eq(cuCtxCreate_v2(&context, 0, device), CUDA_SUCCESS);
	ck_assert_int_eq(driver.allocate(&address, 100000), CUDA_SUCCESS);
	ck_assert_int_eq(driver.allocate_pitch(&pitched, &pitch, 1000, 10, 4), CUDA_SUCCESS);
	ck_assert_uint_eq(statistic("allocations"), 2);
	ck_assert_int_eq(driver.free(address), CUDA_SUCCESS);
	ck_assert_uint_eq(statistic("frees"), 1);
	ck_assert_int_eq(driver.destroy(context), CUDA_SUCCESS);
	ck_assert_uint_eq(statistic("frees"), 2);
	ck_assert_uint_eq(statistic("missed_frees"), 0);
}
END_TEST

START_TEST(the_primary_context_s_ends_are_seen)
{
	struct driver driver = ways[_i]();
	CUdeviceptr address;
	CUcontext primary;

	ck_assert_int_eq(cuDevicePrimaryCtxRetain(&primary, device), CUDA_SUCCESS);
	ck_assert_int_eq(cuDevicePrimaryCtxRetain(&primary, device), CUDA_SUCCESS);
	ck_assert_int_eq(cuCtxSetCurrent(primary), CUDA_SUCCESS);
	ck_assert_int_eq(driver.allocate(&address, 100000), CUDA_SUCCESS);
	ck_assert_int_eq(driver.release(device), CUDA_SUCCESS);
	ck_assert_uint_eq(statistic("frees"), 0);
	ck_assert_int_eq(driver.release(device), CUDA_SUCCESS);
	ck_assert_uint_eq(statistic("frees"), 1);
	ck_assert_int_eq(cuDevicePrimaryCtxRetain(&primary, device), CUDA_SUCCESS);
	ck_assert_int_eq(driver.allocate(&address, 100000), CUDA_SUCCESS);
	ck_assert_int_eq(driver.reset(device), CUDA_SUCCESS);
	ck_assert_uint_eq(statistic("frees"), 2);
	ck_assert_uint_eq(statistic("missed_frees"), 0);
}
END_TEST

START_TEST(errors_are_the_driver_s_and_record_nothing)
{
	struct driver driver = ways[_i]();
	CUdeviceptr address = 0x1234;
	CUcontext context;

	ck_assert_int_eq(driver.allocate(&address, 4096), CUDA_ERROR_INVALID_CONTEXT);
	ck_assert_int_eq(cuCtxCreate_v2(&context, 0, device), CUDA_SUCCESS);
	ck_assert_int_eq(driver.allocate(&address, 0), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(driver.allocate(NULL, 4096), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(driver.allocate(&address, (size_t)1 << 50), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_uint_eq(statistic("allocations"), 0);
	ck_assert_uint_eq(statistic("untracked"), 0);
	ck_assert_int_eq(driver.free(0), CUDA_SUCCESS);
	ck_assert_int_eq(driver.free(0x1234), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(driver.allocate(&address, 4096), CUDA_SUCCESS);
	ck_assert_int_eq(driver.free(address + 512), CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(statistic("frees"), 0);
	ck_assert_int_eq(driver.free(address), CUDA_SUCCESS);
	ck_assert_int_eq(driver.free(address), CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(statistic("allocations"), 1);
	ck_assert_uint_eq(statistic("frees"), 1);
}
END_TEST

START_TEST(a_forked_child_is_left_alone)
{
	CUdeviceptr address;
	CUcontext context;
	int status;
	pid_t child;

	ck_assert_int_eq(cuCtxCreate_v2(&context, 0, device), CUDA_SUCCESS);
	ck_assert_int_eq(cuMemAlloc_v2(&address, 4096), CUDA_SUCCESS);
	child = fork();
	if (!child)
		_exit(dlsym(library, "cuMemFree_v2") == (void *)cuMemFree_v2 ||
		      statistic("allocations") != 1);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(cuMemFree_v2(address), CUDA_SUCCESS);
	ck_assert_uint_eq(statistic("frees"), 1);
}
END_TEST

START_TEST(names_that_the_table_lacks_get_the_driver_s_own)
{
	void *found = dlsym(library, "cuMemGetInfo_v2");
	Dl_info object;

	ck_assert_ptr_nonnull(found);
	ck_assert(dladdr(found, &object));
	ck_assert_ptr_nonnull(strstr(object.dli_fname, "libcuda.so"));
	dlerror();
	ck_assert_ptr_null(dlsym(library, "cuMemFree_v9"));
	ck_assert_ptr_nonnull(strstr(dlerror(), "cuMemFree_v9"));
	ck_assert_ptr_nonnull(dlsym(library, "cuMemFree_v2"));
	ck_assert_ptr_null(dlerror());
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("ways in");
	TCase *tests = tcase_create("ways");

	tcase_add_checked_fixture(tests, set_up, NULL);
	tcase_add_loop_test(tests, allocations_and_frees_are_seen, 0, WAYS);
	tcase_add_loop_test(tests, the_primary_context_s_ends_are_seen, 0, WAYS);
	tcase_add_loop_test(tests, errors_are_the_driver_s_and_record_nothing, 0, WAYS);
	tcase_add_test(tests, a_forked_child_is_left_alone);
	tcase_add_test(tests, names_that_the_table_lacks_get_the_driver_s_own);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
