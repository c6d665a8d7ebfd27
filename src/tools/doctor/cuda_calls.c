/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_calls.c -- loads the CUDA driver in a child */
#include "tools/doctor/cuda_calls.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/units.h"

struct cuda_calls cuda;

static char file[PATH_MAX];

const char *cuda_load(void)
{
	void *library;
	Dl_info info;

	child_does("dlopen of libcuda.so.1");
	library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return dlerror();
#define CALL(name) cuda.name = (__typeof__(cuda.name))dlsym(library, #name);
	CUDA_CALLS(CALL)
#undef CALL
	if (!cuda.cuInit)
		return "it has no cuInit";
	if (dladdr((void *)cuda.cuInit, &info) && !realpath(info.dli_fname, file))
		snprintf(file, sizeof(file), "%s", info.dli_fname);
	return NULL;
}

const char *cuda_file(void)
{
	return file;
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
