/* SPDX-License-Identifier: BSD-3-Clause */
/* proc_address.c -- cuGetProcAddress: ask the driver, then route by the pointer that came back
 *
 * Which of its functions the driver means by a name, a version and flags is its own affair: whoever guesses
 * it by name hands out wrappers of another type sooner or later (measured sheet interception, traps T9 to
 * T13). The pointer is beyond doubt. The driver fills symbolStatus, and finds its own names in the same way,
 * so that the runtime, which asks for cuGetProcAddress through itself, goes on asking us.
 */
#include "base/process.h"
#include "intercept/entry_points.h"

static void route(CUresult result, void **function)
{
	const struct entry_point *row;

	if (result != CUDA_SUCCESS || !function || process_is_passive())
		return;
	entry_find_driver();
	row = entry_of_driver(*function);
	if (row)
		*function = entry_through_pointer(row);
}

WRAP(cuGetProcAddress_v2, (symbol, function, version, flags, status), const char *symbol, void **function,
     int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
	CUresult result = forward(symbol, function, version, flags, status);

	route(result, function);
	return result;
}

WRAP(cuGetProcAddress, (symbol, function, version, flags), const char *symbol, void **function, int version,
     cuuint64_t flags)
{
	CUresult result = forward(symbol, function, version, flags);

	route(result, function);
	return result;
}
