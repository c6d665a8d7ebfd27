/* SPDX-License-Identifier: BSD-3-Clause */
/* rows.c -- for each row of the table an effect on the library's counters that only its call has
 *
 * The tests take contexts, streams and physical memory from the driver by dlsym, and only the rows
 * from the path under test.
 */
#include "peerpin.h"
#include "steps.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct row rows[] = {
#define ENTRY_CUDA(symbol, effect, since, ucx, why) { #symbol, since },
#include "intercept/entry_points.def"
#undef ENTRY_CUDA
};
const int row_count = sizeof(rows) / sizeof(rows[0]);

struct driver driver;
static int (*read_statistic)(const char *name, uint64_t *value);
CUdevice device;
const struct functions *f;
static bool runs_at_exit;

int rows_begin(void)
{
	void *handle = dlopen("libcuda.so.1", RTLD_NOW);

	if (!handle) {
		printf("no driver: %s\n", dlerror());
		return -1;
	}
#define FUNCTION(symbol, ...) driver.symbol = (__typeof__(driver.symbol))dlsym(handle, #symbol);
#include "memory/cuda_abi.def"
#undef FUNCTION
	read_statistic = (__typeof__(read_statistic))dlsym(RTLD_DEFAULT, "peerpin_statistic");
	if (!read_statistic) {
		printf("the library is not preloaded\n");
		return -1;
	}
	if (driver.cuInit(0) != CUDA_SUCCESS || driver.cuDeviceGet(&device, 0) != CUDA_SUCCESS) {
		printf("no GPU\n");
		return -1;
	}
	return 0;
}

bool keeps_nothing(void)
{
	const char *keep = getenv("PEERPIN_KEEP");

	return runs_at_exit || !keep;
}

uint64_t count(const char *name)
{
	uint64_t value = 0;

	if (read_statistic(name, &value)) {
		printf("there is no counter %s\n", name);
		exit(99);
	}
	return value;
}

/* ---- the driver without the library ---- */

void *bypass(const char *symbol)
{
	const char *file = getenv("MATRIX_BYPASS");
	void *plugin = dlopen(file ? file : "tests/intercept/.libs/libucm_bypass.so",
			      RTLD_NOW | RTLD_LOCAL);
	void *(*find)(const char *symbol) =
		plugin ? (void *(*)(const char *))dlsym(plugin, "driver_function") : NULL;

	if (!find) {
		printf("%s\n", dlerror());
		exit(99);
	}
	return find(symbol);
}

/* ---- memory of a context ---- */

bool test_cuMemAlloc_v2(void)
{
	CUdeviceptr address;

	NEED(RISES("allocations", f->cuMemAlloc_v2(&address, SIZE)));
	return OK(driver.cuMemFree_v2(address));
}

bool test_cuMemAllocPitch_v2(void)
{
	CUdeviceptr address;
	size_t pitch;

	NEED(RISES("allocations", f->cuMemAllocPitch_v2(&address, &pitch, 1000, 10, 4)));
	return OK(driver.cuMemFree_v2(address));
}

bool test_cuMemAllocManaged(void)
{
	CUdeviceptr address;

	NEED(RISES("allocations", f->cuMemAllocManaged(&address, SIZE, CU_MEM_ATTACH_GLOBAL)));
	return OK(driver.cuMemFree_v2(address));
}

bool test_cuMemFree_v2(void)
{
	CUdeviceptr address;

	NEED(OK(driver.cuMemAlloc_v2(&address, SIZE)));
	return RISES("frees", f->cuMemFree_v2(address));
}

/* ---- the old interface: calls are intercepted, memory is not recorded ---- */

/* By a bypassing call: after an intercepted one, queries are forwarded. */
bool in_old_context(bool (*run)(void))
{
	__typeof__(cuCtxCreate) *create = (__typeof__(create))bypass("cuCtxCreate");
	CUcontext old;
	bool good;

	NEED(OK(create(&old, 0, device)));
	good = run();
	return OK(driver.cuCtxDestroy_v2(old)) && good;
}

static bool old_allocate(void)
{
	CUdeviceptr_v1 address;

	NEED(RISES("untracked", f->cuMemAlloc(&address, 4096)));
	return OK(driver.cuMemFree(address));
}

static bool old_allocate_pitch(void)
{
	CUdeviceptr_v1 address;
	unsigned int pitch;

	NEED(RISES("untracked", f->cuMemAllocPitch(&address, &pitch, 1000, 10, 4)));
	return OK(driver.cuMemFree(address));
}

static bool old_free(void)
{
	CUdeviceptr_v1 address;

	NEED(OK(driver.cuMemAlloc(&address, 4096)));
	return RISES("untracked_frees", f->cuMemFree(address));
}

bool test_cuMemAlloc(void)
{
	return in_old_context(old_allocate);
}

bool test_cuMemAllocPitch(void)
{
	return in_old_context(old_allocate_pitch);
}

bool test_cuMemFree(void)
{
	return in_old_context(old_free);
}

/* ---- contexts ---- */

static bool make_context(CUcontext *context)
{
	CUdeviceptr address;

	return OK(driver.cuCtxCreate_v2(context, 0, device)) &&
	       OK(driver.cuMemAlloc_v2(&address, SIZE));
}

bool test_cuCtxDestroy_v2(void)
{
	CUcontext context;

	NEED(make_context(&context));
	return RISES("frees", f->cuCtxDestroy_v2(context));
}

bool test_cuCtxDestroy(void)
{
	CUcontext context;

	NEED(make_context(&context));
	return RISES("frees", f->cuCtxDestroy(context));
}

bool test_cuCtxDetach(void)
{
	CUcontext context;

	NEED(make_context(&context));
	return RISES("frees", f->cuCtxDetach(context));
}

static bool use_primary(void)
{
	CUcontext primary;
	CUdeviceptr address;

	return OK(driver.cuDevicePrimaryCtxRetain(&primary, device)) &&
	       OK(driver.cuCtxPushCurrent_v2(primary)) &&
	       OK(driver.cuMemAlloc_v2(&address, SIZE)) && OK(driver.cuCtxPopCurrent_v2(NULL));
}

static unsigned int reported_frees;

static void report_free(const struct peerpin_allocation *allocation, void *unused)
{
	(void)allocation;
	(void)unused;
	reported_frees++;
}

/* Memory ends before a release that seems to be the last, and goes on if another retain is left. */
bool test_cuDevicePrimaryCtxRetain(void)
{
	__typeof__(peerpin_subscribe) *subscribe =
		(__typeof__(subscribe))dlsym(RTLD_DEFAULT, "peerpin_subscribe");
	__typeof__(peerpin_unsubscribe) *unsubscribe =
		(__typeof__(unsubscribe))dlsym(RTLD_DEFAULT, "peerpin_unsubscribe");
	__typeof__(cuDevicePrimaryCtxRetain) *retain_unseen =
		(__typeof__(retain_unseen))bypass("cuDevicePrimaryCtxRetain");
	const struct peerpin_subscriber subscriber = { .struct_size = sizeof(subscriber),
						       .freeing = report_free };
	CUdeviceptr address;
	CUcontext primary;
	int subscription;

	NEED(OK(f->cuDevicePrimaryCtxRetain(&primary, device)));
	NEED(OK(retain_unseen(&primary, device)) && OK(driver.cuCtxPushCurrent_v2(primary)) &&
	     OK(driver.cuMemAlloc_v2(&address, SIZE)) && OK(driver.cuCtxPopCurrent_v2(NULL)));
	NEED(!subscribe(&subscriber, &subscription));
	reported_frees = 0;
	NEED(OK(driver.cuDevicePrimaryCtxRelease_v2(device)));
	NEED(!unsubscribe(subscription) && reported_frees == 1);
	NEED(RISES("frees", driver.cuMemFree_v2(address)));
	return OK(driver.cuDevicePrimaryCtxRelease_v2(device));
}

bool test_cuDevicePrimaryCtxRelease_v2(void)
{
	NEED(use_primary());
	return RISES("frees", f->cuDevicePrimaryCtxRelease_v2(device));
}

bool test_cuDevicePrimaryCtxRelease(void)
{
	NEED(use_primary());
	return RISES("frees", f->cuDevicePrimaryCtxRelease(device));
}

bool test_cuDevicePrimaryCtxReset_v2(void)
{
	NEED(use_primary());
	NEED(RISES("frees", f->cuDevicePrimaryCtxReset_v2(device)));
	return OK(driver.cuDevicePrimaryCtxRelease_v2(device));
}

bool test_cuDevicePrimaryCtxReset(void)
{
	NEED(use_primary());
	NEED(RISES("frees", f->cuDevicePrimaryCtxReset(device)));
	/* A real driver does not release the context after this variant of a reset (measured). */
	driver.cuDevicePrimaryCtxRelease_v2(device);
	return true;
}

bool test_cuGreenCtxDestroy(void)
{
	_Alignas(64) static unsigned char resource[1024];
	CUdevResourceDesc description;
	CUdeviceptr address;
	CUcontext context;
	CUgreenCtx green;

	NEED(OK(driver.cuDeviceGetDevResource(device, (CUdevResource *)resource,
					      CU_DEV_RESOURCE_TYPE_SM)) &&
	     OK(driver.cuDevResourceGenerateDesc(&description, (CUdevResource *)resource, 1)) &&
	     OK(driver.cuGreenCtxCreate(&green, description, device,
					CU_GREEN_CTX_DEFAULT_STREAM)) &&
	     OK(driver.cuCtxFromGreenCtx(&context, green)));
	NEED(OK(driver.cuCtxPushCurrent_v2(context)) && OK(driver.cuMemAlloc_v2(&address, SIZE)) &&
	     OK(driver.cuCtxPopCurrent_v2(NULL)));
	return RISES("frees", f->cuGreenCtxDestroy(green));
}

/* ---- look-ups: returned functions are intercepted, too ---- */

static bool frees_seen(void *function)
{
	__typeof__(cuMemFree_v2) *found = (__typeof__(cuMemFree_v2) *)function;
	CUdeviceptr address;

	NEED(found && OK(driver.cuMemAlloc_v2(&address, SIZE)));
	return RISES("frees", found(address));
}

bool test_cuGetProcAddress_v2(void)
{
	void *found = NULL;

	NEED(OK(f->cuGetProcAddress_v2("cuMemFree", &found, 12000, 0, NULL)));
	return frees_seen(found);
}

bool test_cuGetProcAddress(void)
{
	void *found = NULL;

	NEED(OK(f->cuGetProcAddress("cuMemFree", &found, 12000, 0)));
	return frees_seen(found);
}

/* ---- all rows ---- */

struct test {
	const char *symbol;
	bool (*run)(void);
};

static const struct test tests[] = {
#define ENTRY_CUDA(symbol, ...) { #symbol, test_##symbol },
#include "intercept/entry_points.def"
#undef ENTRY_CUDA
};

static int skipped;

int rows_skipped(void)
{
	return skipped;
}

void skip(const char *why)
{
	printf("SKIPPED: %s\n", why);
	skipped++;
}

bool rows_driver_has(const char *symbol)
{
	return bypass(symbol) != NULL;
}

static bool is_one_of(const char *symbol, const char *const *symbols)
{
	while (*symbols && strcmp(*symbols, symbol))
		symbols++;
	return *symbols != NULL;
}

/* The old interface needs the first context of a device. */
static const char *const first[] = { "cuMemAlloc", "cuMemAllocPitch", "cuMemFree", NULL };
/* After the first intercepted call, queries are forwarded. */
static const char *const last[] = { "cuCtxCreate", NULL };
static const char *const finds_missed_frees[] = { "cuMemPoolTrimTo", "cuMemPoolDestroy",
						  "cuDeviceGraphMemTrim", "cuMemAddressReserve",
						  NULL };

static bool passes(const struct test *test)
{
	uint64_t missed = count("missed_frees");

	if (!test->run())
		return false;
	if (is_one_of(test->symbol, finds_missed_frees) || count("missed_frees") == missed)
		return true;
	printf("a free was not seen\n");
	return false;
}

static void run_one(const char *path, const struct test *test, int *passed, int *failed)
{
	int before = skipped;
	bool good = true;

	if (rows_driver_has(test->symbol))
		good = passes(test);
	else
		skip("the driver has no such function");
	if (!good)
		printf("FAILED: %s, %s\n", path, test->symbol);
	else if (skipped > before)
		printf("SKIPPED: %s, %s\n", path, test->symbol);
	if (!good || skipped == before)
		*(good ? passed : failed) += 1;
}

enum turn { FIRST, BETWEEN, LAST };

static enum turn turn_of(const char *symbol)
{
	if (is_one_of(symbol, first))
		return FIRST;
	return is_one_of(symbol, last) ? LAST : BETWEEN;
}

void rows_run(const char *path, const struct functions *functions, int *passed, int *failed)
{
	CUcontext context = NULL;

	f = functions;
	runs_at_exit = !strcmp(path, "exit handler");
	for (enum turn turn = FIRST; turn <= LAST; turn++) {
		if (turn == BETWEEN && driver.cuCtxCreate_v2(&context, 0, device) != CUDA_SUCCESS) {
			printf("no context\n");
			exit(99);
		}
		for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
			if (turn_of(tests[i].symbol) == turn)
				run_one(path, &tests[i], passed, failed);
		}
	}
	driver.cuCtxDestroy_v2(context);
	end_exporter();
}
