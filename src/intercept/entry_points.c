/* SPDX-License-Identifier: BSD-3-Clause */
/* entry_points.c -- the rows of the table, and the look-up of their pointers */
#include "intercept/entry_points.h"

#include "base/log.h"
#include "base/system.h"
#include "base/text.h"
#include "intercept/resolve.h"

struct cuda_functions cuda_next, cuda_driver;
struct verbs_functions verbs_next;

_Static_assert(sizeof(struct cuda_functions) == CUDA_ENTRIES * sizeof(void *),
	       "one pointer for each row");
_Static_assert(sizeof(struct verbs_functions) == VERBS_ENTRIES * sizeof(void *),
	       "one pointer for each row");

#define ENTRY_CUDA(name, ...)                                                                      \
	_Static_assert(sizeof(#name) <= sizeof(((struct entry_point *)NULL)->symbol),              \
		       #name " is too long");
#define ENTRY_VERBS ENTRY_CUDA
#include "intercept/entry_points.def"
#undef ENTRY_VERBS
#undef ENTRY_CUDA

const struct entry_point cuda_entries[CUDA_ENTRIES] = {
#define ENTRY_CUDA(name, ...) [ENTRY_##name] = { #name },
#include "intercept/entry_points.def"
#undef ENTRY_CUDA
};

static const struct {
	char symbol[48];
	void *exported;
} verbs_entries[VERBS_ENTRIES] = {
#define ENTRY_VERBS(name, ...) [ENTRY_##name] = { #name, (void *)name },
#include "intercept/entry_points.def"
#undef ENTRY_VERBS
};

static void **entry_verbs_next_of(size_t row)
{
	return &((void **)&verbs_next)[row];
}

const struct entry_point *entry_find(const char *symbol)
{
	if (symbol[0] != 'c' || symbol[1] != 'u')
		return NULL;
	for (size_t i = 0; i < CUDA_ENTRIES; i++) {
		if (text_equals(cuda_entries[i].symbol, symbol))
			return &cuda_entries[i];
	}
	return NULL;
}

const struct entry_point *entry_of_driver(const void *address)
{
	for (size_t i = 0; address && i < CUDA_ENTRIES; i++) {
		if (__atomic_load_n(entry_driver_of(&cuda_entries[i]), __ATOMIC_ACQUIRE) == address)
			return &cuda_entries[i];
	}
	return NULL;
}

static const char *entry_library_of(const char *symbol)
{
	if (text_begins(symbol, "cu"))
		return "libcuda.so.1";
	return text_begins(symbol, "mlx5dv_") ? "libmlx5.so.1" : "libibverbs.so.1";
}

static const void *entry_export_of(const char *symbol)
{
	const struct entry_point *row = entry_find(symbol);

	if (row)
		return entry_exported(row);
	if (!text_begins(symbol, "ibv_") && !text_begins(symbol, "mlx5dv_") &&
	    !text_begins(symbol, "verbs_"))
		return NULL;
	for (size_t i = 0; i < VERBS_ENTRIES; i++) {
		if (text_equals(verbs_entries[i].symbol, symbol))
			return verbs_entries[i].exported;
	}
	return NULL;
}

/* A library loaded RTLD_LOCAL may be in the caller's own scope. This library's export then serves
 * equally well. */
bool entry_is_only_ours(void *handle, const char *symbol)
{
	const void *ours = entry_export_of(symbol);
	void *library;

	if (!ours)
		return false;
	library = system_find_library(entry_library_of(symbol));
	if (library && system_dlsym(library, symbol))
		return false;
	if (handle == RTLD_DEFAULT && system_dlsym(RTLD_DEFAULT, symbol) != ours)
		return false;
	return !system_dlsym(RTLD_NEXT, symbol);
}

bool entry_come_first(void *program)
{
	for (size_t i = 0; i < CUDA_ENTRIES; i++) {
		if (system_dlsym(program, cuda_entries[i].symbol) !=
		    entry_exported(&cuda_entries[i]))
			return false;
	}
	return true;
}

/* Replaces a function that the driver lacks. x86-64 and aarch64 callers remove their own arguments,
 * so any argument list is safe. */
static CUresult entry_not_initialized(void)
{
	return CUDA_ERROR_NOT_INITIALIZED;
}

void entry_learn_driver(void *handle, const void *inside_driver)
{
	void *address;

	for (size_t i = 0; i < CUDA_ENTRIES; i++) {
		if (__atomic_load_n(entry_driver_of(&cuda_entries[i]), __ATOMIC_ACQUIRE))
			continue;
		address = system_dlsym(handle, cuda_entries[i].symbol);
		/* Reject other objects' functions, which a handle of a library that depends on
		 * libcuda can find. */
		if (address && resolve_same_object(address, inside_driver))
			__atomic_store_n(entry_driver_of(&cuda_entries[i]), address,
					 __ATOMIC_RELEASE);
	}
}

void entry_find_driver(void)
{
	static bool found;
	void *handle;
	void *anchor;

	if (__atomic_load_n(&found, __ATOMIC_ACQUIRE))
		return;
	/* The handle stays open: callers hold pointers into the library. */
	handle = system_find_library("libcuda.so.1");
	anchor = handle ? system_dlsym(handle, "cuInit") : NULL;
	if (!anchor)
		return;
	entry_learn_driver(handle, anchor);
	__atomic_store_n(&found, true, __ATOMIC_RELEASE);
}

void entry_resolve_next(enum cuda_entry entry)
{
	const struct entry_point *row = &cuda_entries[entry];
	void *address = system_dlsym(RTLD_NEXT, row->symbol);

	if (!address) {
		/* With a plug-in that is linked to libcuda and opened RTLD_LOCAL, RTLD_NEXT finds
		 * nothing. */
		entry_find_driver();
		address = __atomic_load_n(entry_driver_of(row), __ATOMIC_ACQUIRE);
	}
	if (!address) {
		log_once(LOG_WARN,
			 "%s was called, but libcuda.so.1 is not loaded: the call returns "
			 "CUDA_ERROR_NOT_INITIALIZED. "
			 "Install the NVIDIA driver, or check LD_LIBRARY_PATH.",
			 row->symbol);
		address = (void *)entry_not_initialized;
	}
	__atomic_store_n(entry_next_of(row), address, __ATOMIC_RELEASE);
}

void entry_resolve_verbs(void)
{
	void *handle;
	void *address;

	for (size_t i = 0; i < VERBS_ENTRIES; i++) {
		if (__atomic_load_n(entry_verbs_next_of(i), __ATOMIC_ACQUIRE))
			continue;
		address = system_dlsym(RTLD_NEXT, verbs_entries[i].symbol);
		/* Open MPI loads libibverbs through an RTLD_LOCAL plug-in, so RTLD_NEXT finds
		 * nothing. */
		if (!address) {
			handle = system_find_library(entry_library_of(verbs_entries[i].symbol));
			address = handle ? system_dlsym(handle, verbs_entries[i].symbol) : NULL;
		}
		if (address)
			__atomic_store_n(entry_verbs_next_of(i), address, __ATOMIC_RELEASE);
	}
}
