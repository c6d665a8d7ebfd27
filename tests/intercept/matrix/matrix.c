/* SPDX-License-Identifier: BSD-3-Clause */
/* matrix.c -- every lookup path with every row of the table
 *
 * Each path in a process of its own: "matrix PATH". Without an argument: all.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rows.h"

static int passed, failed;

static void *driver_handle(void)
{
	static void *handle;

	if (!handle)
		handle = dlopen("libcuda.so.1", RTLD_NOW);
	return handle;
}

/* ---- paths to look up ---- */

static void *by_handle(const struct row *row)
{
	return dlsym(driver_handle(), row->symbol);
}

static void *by_default(const struct row *row)
{
	return dlsym(RTLD_DEFAULT, row->symbol);
}

static void *by_next(const struct row *row)
{
	return dlsym(RTLD_NEXT, row->symbol);
}

/* Name without its variant, and the flag that selects the variant. */
static cuuint64_t base_of(const char *symbol, char *name, size_t size)
{
	char *end, *version;

	snprintf(name, size, "%s", symbol);
	end = strstr(name, "_ptsz");
	if (end)
		*end = '\0';
	version = strstr(name, "_v");
	if (version)
		*version = '\0';
	return end ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_DEFAULT;
}

static void *by_proc_address_v2(const struct row *row)
{
	static __typeof__(cuGetProcAddress_v2) *get_address;
	CUdriverProcAddressQueryResult status;
	void *found = NULL;
	cuuint64_t flags;
	char name[64];

	/* As the CUDA runtime: one dlsym, then each function by cuGetProcAddress. */
	if (!get_address) {
		get_address =
			(__typeof__(get_address))dlsym(driver_handle(), "cuGetProcAddress_v2");
		get_address("cuGetProcAddress", (void **)&get_address, 12000, 0, NULL);
	}
	flags = base_of(row->symbol, name, sizeof(name));
	return get_address(name, &found, row->since, flags, &status) == CUDA_SUCCESS ? found : NULL;
}

static void *by_proc_address_v1(const struct row *row)
{
	__typeof__(cuGetProcAddress) *get_address =
		(__typeof__(get_address))dlsym(driver_handle(), "cuGetProcAddress");
	void *found = NULL;
	cuuint64_t flags;
	char name[64];

	flags = base_of(row->symbol, name, sizeof(name));
	return get_address(name, &found, row->since, flags) == CUDA_SUCCESS ? found : NULL;
}

static void fill(struct functions *functions, void *(*find)(const struct row *row))
{
	void **places = (void **)functions;

	for (int i = 0; i < row_count; i++) {
		places[i] = find(&rows[i]);
		if (!places[i] && rows_driver_has(rows[i].symbol)) {
			printf("%s was not found\n", rows[i].symbol);
			exit(99);
		}
	}
}

static void linked_functions(struct functions *functions)
{
#define ENTRY_CUDA(symbol, ...) functions->symbol = symbol;
#include "intercept/entry_points.def"
#undef ENTRY_CUDA
}

/* ---- paths ---- */

static struct functions functions, kept;

static void run(const char *path)
{
	if (rows_begin())
		exit(77);
	rows_run(path, &functions, &passed, &failed);
}

static void linked(const char *path)
{
	linked_functions(&functions);
	run(path);
}

/* The driver's symbols have no versions: dlvsym finds none, with and without the library. */
static void dlvsym_on_a_handle(const char *path)
{
	(void)path;
	for (int i = 0; i < row_count; i++) {
		bool none = !dlvsym(driver_handle(), rows[i].symbol, "LIBCUDA_1") &&
			    !dlvsym(RTLD_DEFAULT, rows[i].symbol, "LIBCUDA_1");

		if (!none)
			printf("FAILED: dlvsym finds %s\n", rows[i].symbol);
		*(none ? &passed : &failed) += 1;
	}
}

/* Before the program uses CUDA and before its constructors. */
static __attribute__((constructor(101))) void keep(void)
{
	if (driver_handle())
		fill(&kept, by_handle);
}

static void kept_pointer(const char *path)
{
	functions = kept;
	run(path);
}

static void in_an_exit_handler(const char *path);
static void in_a_constructor(const char *path);

static void *thread(void *path)
{
	run(path);
	return NULL;
}

static void on_a_thread(const char *path)
{
	pthread_t other;

	if (pthread_create(&other, NULL, thread, (void *)(uintptr_t)path) ||
	    pthread_join(other, NULL))
		exit(99);
}

static void in_a_local_plugin(const char *path)
{
	const char *file = getenv("MATRIX_PLUGIN");
	void *plugin = dlopen(file ? file : "tests/intercept/.libs/matrix_plugin.so",
			      RTLD_NOW | RTLD_LOCAL);
	const struct functions *found = plugin ? dlsym(plugin, "plugin_functions") : NULL;

	if (!found) {
		printf("%s\n", dlerror());
		exit(99);
	}
	functions = *found;
	run(path);
}

static void report(void)
{
	printf("%d passed, %d failed, %d skipped\n", passed, failed, rows_skipped());
	fflush(stdout);
}

/* CUDA starts in the child; in a child of a process that uses CUDA neither the driver nor the
 * library works. */
static void after_fork(const char *path)
{
	int status;
	pid_t child = fork();

	if (!child) {
		fill(&functions, by_handle);
		run(path);
		report();
		_exit(failed != 0);
	}
	if (waitpid(child, &status, 0) != child)
		exit(99);
	exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
}

/* What fills `functions`, and what runs; NULL: nothing, and run(). */
static const struct path {
	const char *name;
	void *(*find)(const struct row *row);
	void (*run)(const char *path);
} paths[] = {
	{ "linked", NULL, linked },
	{ "dlsym on a handle", by_handle, NULL },
	{ "dlsym RTLD_DEFAULT", by_default, NULL },
	{ "dlsym RTLD_NEXT", by_next, NULL },
	{ "dlvsym", NULL, dlvsym_on_a_handle },
	{ "cuGetProcAddress", by_proc_address_v1, NULL },
	{ "cuGetProcAddress_v2", by_proc_address_v2, NULL },
	{ "kept pointer", NULL, kept_pointer },
	{ "constructor", NULL, in_a_constructor },
	{ "exit handler", by_handle, in_an_exit_handler },
	{ "thread", by_handle, on_a_thread },
	{ "RTLD_LOCAL plug-in", NULL, in_a_local_plugin },
	{ "after fork", NULL, after_fork },
};

static void at_exit(void)
{
	run("exit handler");
	report();
	if (failed)
		_exit(1);
}

static void in_an_exit_handler(const char *path)
{
	(void)path;
	atexit(at_exit);
	exit(0);
}

static void in_a_constructor(const char *path)
{
	(void)path;
	if (!passed)
		exit(99);
}

static __attribute__((constructor(102))) void construct(int count, char **arguments)
{
	if (count != 2 || strcmp(arguments[1], "constructor"))
		return;
	linked_functions(&functions);
	run("constructor");
}

static int run_all(const char *program)
{
	char *const arguments[] = { (char *)(uintptr_t)program, NULL, NULL };
	int bad = 0;

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		char *one[] = { arguments[0], (char *)(uintptr_t)paths[i].name, NULL };
		int status = 0;
		pid_t child = fork();

		if (!child) {
			execv("/proc/self/exe", one);
			_exit(99);
		}
		if (waitpid(child, &status, 0) != child || status) {
			printf("FAILED: %s: status %d\n", paths[i].name, status);
			bad++;
		}
	}
	return bad != 0;
}

int main(int count, char **arguments)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (count == 1)
		return run_all(arguments[0]);
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		if (!strcmp(paths[i].name, arguments[1])) {
			if (paths[i].find)
				fill(&functions, paths[i].find);
			(paths[i].run ? paths[i].run : run)(paths[i].name);
			report();
			return failed != 0;
		}
	}
	printf("there is no path %s\n", arguments[1]);
	return 2;
}
