/* SPDX-License-Identifier: BSD-3-Clause */
/* calls.c -- the functions of the CUDA driver, libibverbs and libmlx5, loaded in a child; each call
 * is announced (child.h)
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/doctor/calls.h"
#include "tools/units.h"

static char cuda_path[PATH_MAX], verbs_path[PATH_MAX];

/* The file of the library that has this function. */
static void calls_find_file(void *function, char path[PATH_MAX])
{
	Dl_info info;

	if (dladdr(function, &info) && !realpath(info.dli_fname, path))
		snprintf(path, PATH_MAX, "%s", info.dli_fname);
}

/* ---- the CUDA driver ---- */

struct cuda_calls cuda;

const char *cuda_load(void)
{
	void *library;

	child_does("dlopen of libcuda.so.1");
	library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return dlerror();
#define CALL(name) cuda.name = (__typeof__(cuda.name))dlsym(library, #name);
	CUDA_CALLS(CALL)
#undef CALL
	if (!cuda.cuInit)
		return "it has no cuInit";
	calls_find_file((void *)cuda.cuInit, cuda_path);
	return NULL;
}

const char *cuda_file(void)
{
	return cuda_path;
}

const char *cuda_name(const char *symbol)
{
	static char name[80];
	size_t length;

	snprintf(name, sizeof(name), "%s", symbol);
	length = strlen(name);
	if (length > 3 && strncmp(name + length - 3, "_v", 2) == 0)
		name[length - 3] = 0;
	return name;
}

const char *cuda_result(CUresult result)
{
	static char number[40];
	const char *name = NULL;

	if (result == CUDA_NO_SUCH_CALL)
		return "not in this driver";
	if (cuda.cuGetErrorName && cuda.cuGetErrorName(result, &name) == CUDA_SUCCESS && name)
		return name;
	snprintf(number, sizeof(number), "CUresult %d", (int)result);
	return number;
}

bool cuda_made(const char *call, CUresult result, const char **failure)
{
	if (result != CUDA_SUCCESS)
		*failure = text_of("%s %s", cuda_name(call), cuda_result(result));
	return result == CUDA_SUCCESS;
}

/* ---- libibverbs, libmlx5 ---- */

struct verbs_calls verbs;

static void *ibverbs, *mlx5;

static void verbs_calls_load_mlx5(void)
{
	child_does("dlopen of libmlx5.so.1");
	mlx5 = dlopen("libmlx5.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!mlx5)
		return;
#define CALL(type, name, parameters) verbs.name = (__typeof__(verbs.name))dlsym(mlx5, #name);
	MLX5_CALLS(CALL)
#undef CALL
}

const char *verbs_load(void)
{
	child_does("dlopen of libibverbs.so.1");
	ibverbs = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!ibverbs)
		return dlerror();
#define CALL(type, name, parameters) verbs.name = (__typeof__(verbs.name))dlsym(ibverbs, #name);
	IBVERBS_CALLS(CALL)
#undef CALL
	calls_find_file((void *)verbs.ibv_get_device_list, verbs_path);
	if (!verbs.ibv_get_device_list || !verbs.ibv_free_device_list ||
	    !verbs.ibv_get_device_name || !verbs.ibv_open_device || !verbs.ibv_close_device ||
	    !verbs.ibv_query_device || !verbs.ibv_alloc_pd || !verbs.ibv_dealloc_pd ||
	    !verbs.ibv_reg_mr || !verbs.ibv_dereg_mr)
		return "it lacks functions that every libibverbs has";
	verbs_calls_load_mlx5();
	return NULL;
}

const char *verbs_file(void)
{
	return verbs_path;
}

const char *verbs_symbol_version(const char *symbol)
{
	static char version[40];
	bool is_mlx5 = strncmp(symbol, "mlx5dv_", 7) == 0;
	void *library = is_mlx5 ? mlx5 : ibverbs;

	if (!library || !dlsym(library, symbol))
		return NULL;
	for (int minor = 0; minor < 100; minor++) {
		snprintf(version, sizeof(version), "%s_1.%d", is_mlx5 ? "MLX5" : "IBVERBS", minor);
		if (dlvsym(library, symbol, version))
			return version;
	}
	return "?";
}

struct ibv_device *verbs_find(const char *name)
{
	struct ibv_device **list;
	int count = 0;

	list = VERBS(ibv_get_device_list, &count);
	for (int i = 0; list && i < count; i++) {
		if (strcmp(verbs.ibv_get_device_name(list[i]), name) == 0)
			return list[i];
	}
	return NULL;
}
