/* SPDX-License-Identifier: BSD-3-Clause */
/* rows.c -- for each row of the table an effect on the library's counters that only its call has
 *
 * The tests take contexts, streams and physical memory from the driver by dlsym, and only the rows
 * from the path under test.
 */
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

/* ---- shared by rows ---- */

CUresult describe_resource(CUdevResourceDesc *description)
{
	_Alignas(64) static unsigned char resource[1024];

	return driver.cuDeviceGetDevResource(device, (CUdevResource *)resource,
					     CU_DEV_RESOURCE_TYPE_SM)
		       ?: driver.cuDevResourceGenerateDesc(description, (CUdevResource *)resource,
							   1);
}

static FILE *exporter;

/* Another process exports, and holds the memory until this one closes the pipe. */
bool get_handle(CUipcMemHandle *handle)
{
	static CUipcMemHandle exported;
	const char *program = getenv("MATRIX_EXPORTER");

	if (!exporter) {
		exporter = popen(program ? program : "tests/intercept/exporter", "r");
		if (!exporter || fread(&exported, sizeof(exported), 1, exporter) != 1)
			return false;
	}
	*handle = exported;
	return true;
}

static void end_exporter(void)
{
	if (exporter)
		pclose(exporter);
	exporter = NULL;
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
