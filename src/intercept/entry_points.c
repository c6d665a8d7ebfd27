/* SPDX-License-Identifier: BSD-3-Clause */
/* entry_points.c -- the rows of the table, and how their pointers are found */
#include "intercept/entry_points.h"

#include <dlfcn.h>
#include <string.h>

#include "base/log.h"
#include "intercept/resolve.h"

struct cuda_functions cuda_next, cuda_driver;
struct verbs_functions verbs_next;

#define ENTRY_CUDA(symbol, effect, since, why) extern __typeof__(symbol) symbol##_through_pointer;
#include "intercept/entry_points.def"
#undef ENTRY_CUDA

const struct entry_point cuda_entries[CUDA_ENTRIES] = {
#define ENTRY_CUDA(name, effect, since, why)                                                                 \
	[ENTRY_##name] = { #name, (void *)name##_through_pointer, (void **)&cuda_driver.name,                \
			   (void **)&cuda_next.name },
#include "intercept/entry_points.def"
#undef ENTRY_CUDA
};

const struct entry_point *entry_find(const char *symbol)
{
	if (symbol[0] != 'c' || symbol[1] != 'u')
		return NULL;
	for (size_t i = 0; i < CUDA_ENTRIES; i++) {
		if (!strcmp(cuda_entries[i].symbol, symbol))
			return &cuda_entries[i];
	}
	return NULL;
}

const struct entry_point *entry_of_driver(const void *address)
{
	for (size_t i = 0; address && i < CUDA_ENTRIES; i++) {
		if (__atomic_load_n(cuda_entries[i].driver, __ATOMIC_ACQUIRE) == address)
			return &cuda_entries[i];
	}
	return NULL;
}

/* Stands for a function that the driver lacks. x86-64 and aarch64 callers clean up their own arguments, so
 * it may be called with any. */
static CUresult not_there(void)
{
	return CUDA_ERROR_NOT_INITIALIZED;
}

void entry_learn_driver(void *handle, const void *inside_driver)
{
	void *address;

	for (size_t i = 0; i < CUDA_ENTRIES; i++) {
		if (__atomic_load_n(cuda_entries[i].driver, __ATOMIC_ACQUIRE))
			continue;
		address = real_dlsym(handle, cuda_entries[i].symbol);
		/* Found by way of a library that depends on libcuda it may be somebody else's. */
		if (address && resolve_same_object(address, inside_driver))
			__atomic_store_n(cuda_entries[i].driver, address, __ATOMIC_RELEASE);
	}
}

void entry_find_driver(void)
{
	static bool found;
	void *handle;
	void *anchor;

	if (__atomic_load_n(&found, __ATOMIC_ACQUIRE))
		return;
	/* The handle is kept: the library must not go while others hold the pointers. */
	handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
	anchor = handle ? real_dlsym(handle, "cuInit") : NULL;
	if (!anchor)
		return;
	entry_learn_driver(handle, anchor);
	__atomic_store_n(&found, true, __ATOMIC_RELEASE);
}

void entry_resolve_next(enum cuda_entry entry)
{
	const struct entry_point *row = &cuda_entries[entry];
	void *address = real_dlsym(RTLD_NEXT, row->symbol);

	if (!address) {
		/* A plug-in that is linked to libcuda was opened RTLD_LOCAL: nothing is next to us. */
		entry_find_driver();
		address = __atomic_load_n(row->driver, __ATOMIC_ACQUIRE);
	}
	if (!address) {
		log_once(LOG_WARN, "%s was called but no libcuda.so.1 is loaded", row->symbol);
		address = (void *)not_there;
	}
	__atomic_store_n(row->next, address, __ATOMIC_RELEASE);
}

void entry_resolve_verbs(void)
{
	static const struct {
		const char *symbol;
		void **next;
	} rows[] = {
#define ENTRY_VERBS(name, effect, since, why) { #name, (void **)&verbs_next.name },
#include "intercept/entry_points.def"
#undef ENTRY_VERBS
	};
	void *handle = NULL;
	void *address;

	for (size_t i = 0; i < VERBS_ENTRIES; i++) {
		if (__atomic_load_n(rows[i].next, __ATOMIC_ACQUIRE))
			continue;
		address = real_dlsym(RTLD_NEXT, rows[i].symbol);
		/* Under Open MPI libibverbs comes in by a plug-in, RTLD_LOCAL: nothing is next to us. */
		if (!address && !handle)
			handle = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
		if (!address && handle)
			address = real_dlsym(handle, rows[i].symbol);
		if (address)
			__atomic_store_n(rows[i].next, address, __ATOMIC_RELEASE);
	}
}
