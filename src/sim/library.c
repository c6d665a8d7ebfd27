/* SPDX-License-Identifier: BSD-3-Clause */
/* library.c -- libraries, which belong to no context: each has a "gvar" and a managed "mvar"
 *
 * "gvar" is allocated per context by the first query there; "mvar" is one for all contexts (cuda.h
 * of 13.0, cuLibraryGetGlobal and cuLibraryGetManaged).
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define GLOBAL_SIZE 4096

/* A library's variable in one context, or the managed variable. */
struct instance {
	struct instance *next;
	uint64_t base, id; /* base and BUFFER_ID; freed with its context */
	CUcontext context; /* NULL: managed, all contexts */
};

/* Never freed: a stale handle is recognised. */
struct CUlib_st {
	struct CUlib_st *next;
	struct instance *instances;
	bool alive;
};

static struct CUlib_st *libraries;

static bool library_is_live(CUlibrary library)
{
	const struct CUlib_st *entry = libraries;

	while (entry && entry != library)
		entry = entry->next;
	return entry && entry->alive;
}

static CUresult library_load(CUlibrary *library)
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

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *options,
			   void **values, unsigned int count, CUlibraryOption *library_options,
			   void **library_values, unsigned int library_count)
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
	return sim_leave(library && code ? library_load(library) : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *file, CUjit_option *options,
			       void **values, unsigned int count, CUlibraryOption *library_options,
			       void **library_values, unsigned int library_count)
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
	return sim_leave(sim_file_is_there(file) ? library_load(library)
						 : CUDA_ERROR_FILE_NOT_FOUND);
}

static struct sim_allocation *library_instance_memory(const struct instance *instance)
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
	if (!library_is_live(library))
		return sim_leave(CUDA_ERROR_INVALID_HANDLE);
	for (instance = library->instances; instance; instance = next) {
		next = instance->next;
		if (library_instance_memory(instance))
			sim_free_any(library_instance_memory(instance));
		free(instance);
	}
	library->instances = NULL;
	library->alive = false;
	return sim_leave(CUDA_SUCCESS);
}

static struct sim_allocation *library_variable(CUlibrary library, CUcontext context,
					       CUdevice device)
{
	struct instance *instance = library->instances;
	struct sim_allocation *allocation;

	while (instance && (instance->context != context || !library_instance_memory(instance)))
		instance = instance->next;
	if (instance)
		return library_instance_memory(instance);
	allocation = context ? sim_allocate(device, context, SIM_GLOBAL, GLOBAL_SIZE)
			     : sim_attach(SIM_MANAGED, NULL, device, 0, -1, 0, GLOBAL_SIZE);
	instance = allocation ? calloc(1, sizeof(*instance)) : NULL;
	if (!instance)
		return allocation; /* without a record: cuLibraryUnload does not free it */
	*instance = (struct instance){ .next = library->instances,
				       .base = allocation->base,
				       .id = allocation->buffer_id,
				       .context = context };
	library->instances = instance;
	return allocation;
}

static CUresult library_store(const struct sim_allocation *allocation, CUdeviceptr *address,
			      size_t *size)
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
	if (!library_is_live(library))
		return sim_leave(CUDA_ERROR_INVALID_HANDLE);
	if (strcmp(name, "gvar"))
		return sim_leave(CUDA_ERROR_NOT_FOUND);
	return sim_leave(
		library_store(library_variable(library, context, context->device), address, size));
}

CUresult cuLibraryGetManaged(CUdeviceptr *address, size_t *size, CUlibrary library,
			     const char *name)
{
	CUcontext context;
	CUresult result = sim_enter_context(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if ((!address && !size) || !name)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	if (!library_is_live(library))
		return sim_leave(CUDA_ERROR_INVALID_HANDLE);
	if (strcmp(name, "mvar"))
		return sim_leave(CUDA_ERROR_NOT_FOUND);
	return sim_leave(
		library_store(library_variable(library, NULL, context->device), address, size));
}
