/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_calls.c -- looks up libibverbs' functions for the library's own calls
 *
 * libibverbs can leave the process while no device is open, and return elsewhere or as another
 * build. Own calls need an open device, so the functions are looked up again after each close.
 */
#include "base/atomics.h"
#include "base/loaded.h"
#include "base/process.h"
#include "registration/registration.h"

static const struct verbs_calls none;
static struct verbs_calls calls; /* racing threads store equal values */
static _Atomic uint32_t closes = 1, filled_at;

static void verbs_calls_fill(const struct object_tables *tables, void *unused)
{
	(void)unused;
#define CALL(symbol)                                                                               \
	__atomic_store_n(&calls.symbol, (__typeof__(calls.symbol))object_find(tables, #symbol),    \
			 __ATOMIC_RELAXED);
	VERBS_CALLS(CALL)
#undef CALL
}

const struct verbs_calls *verbs_calls(void)
{
	uint32_t now = load_acquire(&closes);

	if (own_thread_is_done())
		return &none;
	if (load_acquire(&filled_at) != now &&
	    loaded_read_library("libibverbs.so.1", verbs_calls_fill, NULL))
		store_release(&filled_at, now);
	return &calls;
}

/* Other threads may be calling the functions on other open devices, so the pointers stay. */
void verbs_calls_device_closed(void)
{
	add_seq_cst(&closes, 1);
}
