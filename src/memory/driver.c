/* SPDX-License-Identifier: BSD-3-Clause */
/* driver.c -- the driver that peerpin serves, and its functions for the library's own calls */
#include "memory/driver.h"

#include "base/atomics.h"
#include "base/loaded.h"
#include "base/process.h"
#include "base/text.h"

static _Atomic(const void *) served; /* an address in the driver */
static _Atomic bool stays;

static bool driver_is_object(const struct dl_phdr_info *object)
{
	struct object_tables tables;

	return text_begins(object_file_name(object), "libcuda.so") ||
	       (object_read(object, &tables) && text_equals(tables.soname, "libcuda.so.1"));
}

struct driver_search {
	const void *served, *seen;
	bool has_served, has_seen;
	const void *first;
};

static int driver_search_object(struct dl_phdr_info *object, size_t size, void *argument)
{
	struct driver_search *search = argument;

	(void)size;
	if (!driver_is_object(object))
		return 0;
	search->has_served |= object_contains(object, (uintptr_t)search->served);
	search->has_seen |= object_contains(object, (uintptr_t)search->seen);
	if (!search->first)
		search->first = object_part(object, PT_LOAD);
	return 0;
}

/* Reads the tables of the object at the address alone. */
static int driver_check_owner(struct dl_phdr_info *object, size_t size, void *argument)
{
	struct driver_search *search = argument;

	(void)size;
	if (!object_contains(object, (uintptr_t)search->seen))
		return 0;
	search->has_seen = driver_is_object(object);
	return 1;
}

bool driver_contains(const void *address)
{
	struct driver_search search = { .seen = address };

	loaded_walk(driver_check_owner, &search);
	return search.has_seen;
}

const void *driver_served(const void *seen)
{
	struct driver_search search = { .served = load_relaxed(&served), .seen = seen };

	if (driver_stays())
		return search.served;
	loaded_walk(driver_search_object, &search);
	if (!search.has_served)
		search.served = search.has_seen ? seen : search.first;
	store_relaxed(&served, search.served);
	return search.served;
}

bool driver_stays(void)
{
	return load_acquire(&stays);
}

void driver_check(void)
{
	__typeof__(cuDeviceGetCount) *count_devices;
	const void *driver;
	int count;

	if (driver_stays())
		return;
	driver = driver_served(NULL);
	count_devices = driver ? loaded_at(driver, "cuDeviceGetCount") : NULL;
	if (count_devices && count_devices(&count) == CUDA_SUCCESS)
		store_release(&stays, true);
}

static void driver_fill(const struct object_tables *tables, void *argument)
{
	struct driver_calls *calls = argument;

#define CALL(symbol)                                                                               \
	__atomic_store_n(&calls->symbol, (__typeof__(calls->symbol))object_find(tables, #symbol),  \
			 __ATOMIC_RELAXED);
	DRIVER_CALLS(CALL)
#undef CALL
}

const struct driver_calls *driver_calls(void)
{
	static const struct driver_calls none;
	static struct driver_calls calls; /* racing threads store equal values */
	static _Atomic bool filled;
	const void *driver;
	bool final;

	if (own_thread_is_done())
		return &none;
	if (load_acquire(&filled))
		return &calls;
	driver_check();
	final = driver_stays();
	driver = driver_served(NULL);
	if (!driver || !loaded_read_at(driver, driver_fill, &calls))
		return &none;
	store_release(&filled, final);
	return &calls;
}
