/* SPDX-License-Identifier: BSD-3-Clause */
/* proc_address.c -- cuGetProcAddress: query the driver, then route by the returned pointer
 *
 * Only the driver defines which function a name, a version and flags select. Routing by name
 * eventually returns a wrapper of another type (measured, sheet interception, traps T9 to T13); the
 * pointer is unambiguous. The driver fills symbolStatus. It also finds cuGetProcAddress itself
 * here, so the runtime, which requests cuGetProcAddress through itself, keeps calling the wrapper.
 */
#include "base/process.h"
#include "intercept/entry_points.h"
#include "intercept/resolve.h"

static void proc_address_route(CUresult result, const void *forward, const char *symbol,
			       void **function)
{
	const struct entry_point *row;

	if (result != CUDA_SUCCESS || !function || !*function ||
	    (process_is_passive() && !process_observes()))
		return;
	entry_find_driver(*function);
	row = entry_of_driver(*function);
	if (row)
		*function = entry_through_pointer(row);
	else if (symbol && (row = entry_find(symbol)) && entry_must_be_seen(row) &&
		 !resolve_is_known(*function) && !entry_of_driver(forward))
		/* Another preload answered, perhaps with its own function. */
		*function = resolve_of_preload(*function);
}

WRAP(cuGetProcAddress_v2, (symbol, function, version, flags, status), const char *symbol,
     void **function, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
	CUresult result = forward(symbol, function, version, flags, status);

	proc_address_route(result, (void *)forward, symbol, function);
	return result;
}

WRAP(cuGetProcAddress, (symbol, function, version, flags), const char *symbol, void **function,
     int version, cuuint64_t flags)
{
	CUresult result = forward(symbol, function, version, flags);

	proc_address_route(result, (void *)forward, symbol, function);
	return result;
}
