/* SPDX-License-Identifier: BSD-3-Clause */
/* preload.c -- another preload, as memory limiters and profilers: it overrides dlsym, and wraps
 * functions of the driver on each lookup path
 *
 * CHAINING: a wrapper calls the next definition. Otherwise it calls the driver's.
 * PRIVATE: its wrappers are not exported; look-ups alone return them.
 */
#include <stdbool.h>
#include <string.h>

#include "../next_dlsym.h"
#include "memory/cuda_abi.h"

#ifdef PRIVATE
#define WRAPPER(symbol) stacked_##symbol
#define SCOPE		static
#else
#define WRAPPER(symbol) symbol
#define SCOPE
#endif

extern unsigned int stacked_allocations, stacked_frees;
unsigned int stacked_allocations, stacked_frees;

/* Target of a wrapper. No tail call: RTLD_NEXT is relative to this object. */
static void *target(const char *symbol)
{
#ifdef CHAINING
	void *volatile found = libc_dlsym()(RTLD_NEXT, symbol);
#else
	void *volatile found =
		libc_dlsym()(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), symbol);
#endif
	return found;
}
#define TARGET(symbol) ((__typeof__(symbol) *)target(#symbol))

SCOPE CUresult WRAPPER(cuMemAlloc_v2)(CUdeviceptr *address, size_t size)
{
	stacked_allocations++;
	return TARGET(cuMemAlloc_v2)(address, size);
}

SCOPE CUresult WRAPPER(cuMemFree_v2)(CUdeviceptr address)
{
	stacked_frees++;
	return TARGET(cuMemFree_v2)(address);
}

SCOPE CUresult WRAPPER(cuGetProcAddress_v2)(const char *symbol, void **function, int version,
					    cuuint64_t flags,
					    CUdriverProcAddressQueryResult *status)
{
	CUresult result = TARGET(cuGetProcAddress_v2)(symbol, function, version, flags, status);

	if (result == CUDA_SUCCESS && !strcmp(symbol, "cuMemAlloc"))
		*function = (void *)WRAPPER(cuMemAlloc_v2);
	else if (result == CUDA_SUCCESS && !strcmp(symbol, "cuMemFree"))
		*function = (void *)WRAPPER(cuMemFree_v2);
	return result;
}

static void *wrapper_of(const char *symbol)
{
	static const struct {
		const char *symbol;
		void *wrapper;
	} wrappers[] = {
		{ "cuMemAlloc_v2", (void *)WRAPPER(cuMemAlloc_v2) },
		{ "cuMemFree_v2", (void *)WRAPPER(cuMemFree_v2) },
		{ "cuGetProcAddress_v2", (void *)WRAPPER(cuGetProcAddress_v2) },
	};

	for (size_t i = 0; i < sizeof(wrappers) / sizeof(wrappers[0]); i++) {
		if (!strcmp(wrappers[i].symbol, symbol))
			return wrappers[i].wrapper;
	}
	return NULL;
}

/* A tail call for other names: RTLD_NEXT stays relative to the caller. */
void *dlsym(void *handle, const char *symbol)
{
	if (handle != RTLD_NEXT && handle != RTLD_DEFAULT && wrapper_of(symbol) &&
	    libc_dlsym()(handle, symbol))
		return wrapper_of(symbol);
	return next_dlsym()(handle, symbol);
}
