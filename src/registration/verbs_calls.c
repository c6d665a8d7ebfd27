/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_calls.c -- looks up libibverbs' functions for the library's own calls */
#include "registration/registration.h"

#include "base/system.h"

const struct verbs_calls *verbs_calls(void)
{
	static struct verbs_calls calls;
	static bool filled;
	void *handle;

	if (__atomic_load_n(&filled, __ATOMIC_ACQUIRE))
		return &calls;
	handle = system_find_library("libibverbs.so.1");
	if (!handle)
		return &calls;
#define CALL(symbol) SYSTEM_FILL(calls, handle, symbol);
	VERBS_CALLS(CALL)
#undef CALL
	__atomic_store_n(&filled, true, __ATOMIC_RELEASE);
	return &calls;
}
