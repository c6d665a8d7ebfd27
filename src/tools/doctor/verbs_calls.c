/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_calls.c -- loads libibverbs and libmlx5 in a child */
#include "tools/doctor/verbs_calls.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct verbs_calls verbs;

static void *ibverbs, *mlx5;
static char file[PATH_MAX];

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
	Dl_info info;

	child_does("dlopen of libibverbs.so.1");
	ibverbs = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!ibverbs)
		return dlerror();
#define CALL(type, name, parameters) verbs.name = (__typeof__(verbs.name))dlsym(ibverbs, #name);
	IBVERBS_CALLS(CALL)
#undef CALL
	if (dladdr((void *)verbs.ibv_get_device_list, &info) && !realpath(info.dli_fname, file))
		snprintf(file, sizeof(file), "%s", info.dli_fname);
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
	return file;
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
