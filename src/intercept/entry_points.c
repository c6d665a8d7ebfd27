/* SPDX-License-Identifier: BSD-3-Clause */
/* entry_points.c -- the rows of the table, and the look-up of their pointers */
#include "intercept/entry_points.h"

#include <dlfcn.h>

#include "base/atomics.h"
#include "base/loaded.h"
#include "base/log.h"
#include "base/text.h"
#include "memory/driver.h"

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

	if (!ours || loaded_in_library(entry_library_of(symbol), symbol))
		return false;
	if (handle == RTLD_DEFAULT && loaded_first(symbol) != ours)
		return false;
	return !loaded_next(symbol, NULL);
}

enum effect {
#define EFFECT_CUDA(name, ...) name,
#include "intercept/entry_points.def"
#undef EFFECT_CUDA
};

bool entry_must_be_seen(const struct entry_point *row)
{
	static const unsigned char effects[CUDA_ENTRIES] = {
#define ENTRY_CUDA(symbol, effect, ...) [ENTRY_##symbol] = effect,
#include "intercept/entry_points.def"
#undef ENTRY_CUDA
	};

	return effects[row - cuda_entries] != REPEATED;
}

bool entry_come_first(void)
{
	for (const struct entry_point *row = cuda_entries; row < cuda_entries + CUDA_ENTRIES;
	     row++) {
		if (entry_must_be_seen(row) && loaded_first(row->symbol) != entry_exported(row))
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

static void entry_fill_driver(const struct object_tables *tables, void *unused)
{
	(void)unused;
	for (const struct entry_point *row = cuda_entries; row < cuda_entries + CUDA_ENTRIES; row++)
		__atomic_store_n(entry_driver_of(row), object_find(tables, row->symbol),
				 __ATOMIC_RELEASE);
}

void entry_find_driver(const void *seen)
{
	static _Atomic uint64_t filled_at;
	static _Atomic bool final;
	uint64_t changes;
	const void *driver;
	bool stays;

	if (load_acquire(&final))
		return;
	stays = driver_stays();
	changes = loaded_changes();
	if (load_acquire(&filled_at) != changes || stays) {
		driver = driver_served(seen);
		if (!driver || !loaded_read_at(driver, entry_fill_driver, NULL))
			entry_fill_driver(&(struct object_tables){ .base = 0 }, NULL);
	}
	store_release(&filled_at, changes);
	store_release(&final, stays);
}

void *entry_resolve_next(enum cuda_entry entry)
{
	const struct entry_point *row = &cuda_entries[entry];
	bool stays;
	void *address = loaded_next(row->symbol, &stays);

	/* With a plug-in that is linked to libcuda and opened RTLD_LOCAL, the program's scope has
	 * no next definition. */
	if (!address || driver_contains(address)) {
		entry_find_driver(address);
		driver_check();
		stays = driver_stays() &&
			(!address || loaded_share_object(address, driver_served(NULL)));
	}
	if (!address)
		address = __atomic_load_n(entry_driver_of(row), __ATOMIC_ACQUIRE);
	if (!address) {
		log_once(LOG_WARN,
			 "%s was called, but libcuda.so.1 is not loaded: the call returns "
			 "CUDA_ERROR_NOT_INITIALIZED. "
			 "Install the NVIDIA driver, or check LD_LIBRARY_PATH.",
			 row->symbol);
		return (void *)entry_not_initialized;
	}
	if (stays)
		__atomic_store_n(entry_next_of(row), address, __ATOMIC_RELEASE);
	return address;
}

void *entry_find_verbs(enum verbs_entry entry)
{
	const char *symbol = verbs_entries[entry].symbol;
	void *address = loaded_next(symbol, NULL);

	/* Open MPI loads libibverbs through an RTLD_LOCAL plug-in, so the program's scope has no
	 * next definition. */
	return address ? address : loaded_in_library(entry_library_of(symbol), symbol);
}

void *entry_resolve_verbs(enum verbs_entry entry)
{
	void *address = entry_find_verbs(entry);

	__atomic_store_n(entry_verbs_next_of(entry), address, __ATOMIC_RELEASE);
	return address;
}

void entry_forget_verbs(void)
{
	for (size_t i = 0; i < VERBS_ENTRIES; i++)
		__atomic_store_n(entry_verbs_next_of(i), NULL, __ATOMIC_RELEASE);
}
