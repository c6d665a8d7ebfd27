/* SPDX-License-Identifier: BSD-3-Clause */
/* library.c -- libraries, which belong to no context: whatever the code, it has a "gvar" and a managed "mvar"
 *
 * The variable comes up in a context when somebody asks for it there, the managed one is the same for all (cuda.h of
 * 13.0, cuLibraryGetGlobal and cuLibraryGetManaged).
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define GLOBAL_SIZE 4096

/* The variable of a library in one context, or the managed one. */
struct instance {
	struct instance *next;
	uint64_t base, id; /* it ends with its context */
	CUcontext context; /* NULL: managed, of all */
};

/* Never given back, so that a stale handle is recognised. */
struct CUlib_st {
	struct CUlib_st *next;
	struct instance *instances;
	bool alive;
};

static struct CUlib_st *libraries;

static bool is_library(CUlibrary library)
{
	const struct CUlib_st *known = libraries;

	while (known && known != library)
		known = known->next;
	return known && known->alive;
}

static CUresult load(CUlibrary *library)
{
	CUlibrary made = calloc(1, sizeof(*made));

	if (!made)
		return CUDA_ERROR_OUT_OF_MEMORY;
	made->next = libraries;
	made->alive = true;
	libraries = made;
	*library = made;
	return CUDA_SUCCESS;
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *options, void **values,
			   unsigned int count, CUlibraryOption *library_options, void **library_values,
			   unsigned int library_count)
{
	CUresult result = sim_enter();

	(void)options;
	(void)values;
	(void)count;
	(void)library_options;
	(void)library_values;
	(void)library_count;
	if (result != CUDA_SUCCESS)
		return result;
	return sim_leave(library && code ? load(library) : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *file, CUjit_option *options, void **values,
			       unsigned int count, CUlibraryOption *library_options, void **library_values,
			       unsigned int library_count)
{
	CUresult result = sim_enter();

	(void)options;
	(void)values;
	(void)count;
	(void)library_options;
	(void)library_values;
	(void)library_count;
	if (result != CUDA_SUCCESS)
		return result;
	if (!library || !file)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	return sim_leave(sim_file_is_there(file) ? load(library) : CUDA_ERROR_FILE_NOT_FOUND);
}

static struct sim_allocation *live(const struct instance *instance)
{
	struct sim_allocation *allocation = sim_find(instance->base);

	return allocation && allocation->buffer_id == instance->id ? allocation : NULL;
}

CUresult cuLibraryUnload(CUlibrary library)
{
	struct instance *instance, *next;
	CUresult result = sim_enter();

	if (result != CUDA_SUCCESS)
		return result;
	if (!is_library(library))
		return sim_leave(CUDA_ERROR_INVALID_HANDLE);
	for (instance = library->instances; instance; instance = next) {
		next = instance->next;
		if (live(instance))
			sim_end(live(instance));
		free(instance);
	}
	library->instances = NULL;
	library->alive = false;
	return sim_leave(CUDA_SUCCESS);
}

static struct sim_allocation *variable_of(CUlibrary library, CUcontext context, CUdevice device)
{
	struct instance *instance = library->instances;
	struct sim_allocation *allocation;

	while (instance && (instance->context != context || !live(instance)))
		instance = instance->next;
	if (instance)
		return live(instance);
	allocation = context ? sim_allocate(device, context, SIM_GLOBAL, GLOBAL_SIZE)
			     : sim_attach(SIM_MANAGED, NULL, device, 0, -1, 0, GLOBAL_SIZE);
	instance = allocation ? calloc(1, sizeof(*instance)) : NULL;
	if (!instance)
		return allocation; /* its memory stays */
	*instance = (struct instance){ .next = library->instances,
				       .base = allocation->base,
				       .id = allocation->buffer_id,
				       .context = context };
	library->instances = instance;
	return allocation;
}

static CUresult tell(const struct sim_allocation *allocation, CUdeviceptr *address, size_t *size)
{
	if (!allocation)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (address)
		*address = allocation->base;
	if (size)
		*size = allocation->size;
	return CUDA_SUCCESS;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *size, CUlibrary library, const char *name)
{
	CUcontext context;
	CUresult result = sim_enter_context(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if ((!address && !size) || !name)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	if (!is_library(library))
		return sim_leave(CUDA_ERROR_INVALID_HANDLE);
	if (strcmp(name, "gvar"))
		return sim_leave(CUDA_ERROR_NOT_FOUND);
	return sim_leave(tell(variable_of(library, context, context->device), address, size));
}

CUresult cuLibraryGetManaged(CUdeviceptr *address, size_t *size, CUlibrary library, const char *name)
{
	CUcontext context;
	CUresult result = sim_enter_context(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if ((!address && !size) || !name)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	if (!is_library(library))
		return sim_leave(CUDA_ERROR_INVALID_HANDLE);
	if (strcmp(name, "mvar"))
		return sim_leave(CUDA_ERROR_NOT_FOUND);
	return sim_leave(tell(variable_of(library, NULL, context->device), address, size));
}
