/* SPDX-License-Identifier: BSD-3-Clause */
/* driver.c -- looks up the driver's functions for the library's own calls */
#include "memory/driver.h"

#include "base/system.h"

const struct driver_calls *driver_calls(void)
{
	static struct driver_calls calls;
	static bool filled;
	void *handle;

	if (__atomic_load_n(&filled, __ATOMIC_ACQUIRE))
		return &calls;
	handle = system_find_library("libcuda.so.1");
	if (!handle)
		return &calls;
#define CALL(symbol) SYSTEM_FILL(calls, handle, symbol);
	DRIVER_CALLS(CALL)
#undef CALL
	__atomic_store_n(&filled, true, __ATOMIC_RELEASE);
	return &calls;
}
