/* SPDX-License-Identifier: BSD-3-Clause */
/* shim.c -- a libcuda.so.1 in front of another, as WSL's: it looks functions up by dlsym under its
 * own names, at every call and in its initialisation */
#define _GNU_SOURCE
#include "shim.h"

#include <dlfcn.h>
#include <stdlib.h>

struct shim shim;

static void *inner(const char *symbol)
{
	static void *handle;
	const char *file = getenv("TRAPS_INNER");

	if (!handle)
		handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	/* No tail call: dlsym would see another caller. */
	void *volatile found = handle ? dlsym(handle, symbol) : NULL;

	if (!found)
		abort();
	return found;
}

/* Whether the address lies in this object. */
static bool is_own(void *address)
{
	Dl_info one, other;

	return address && dladdr(address, &one) && dladdr((void *)inner, &other) &&
	       one.dli_fbase == other.dli_fbase;
}

#define INNER(symbol) ((__typeof__(symbol) *)inner(#symbol))

CUresult cuInit(unsigned int flags)
{
	void *volatile own = dlsym(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), "cuMemFree_v2");

	shim.finds_itself = is_own(own);
	shim.inits++;
	(void)INNER(cuMemFree_v2);
	(void)INNER(cuGetProcAddress_v2);
	return INNER(cuInit)(flags);
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	return INNER(cuDeviceGet)(device, ordinal);
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
	return INNER(cuCtxCreate_v2)(context, flags, device);
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size)
{
	shim.allocations++;
	return INNER(cuMemAlloc_v2)(address, size);
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
	shim.frees++;
	return INNER(cuMemFree_v2)(address);
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
	shim.queries++;
	return INNER(cuPointerGetAttribute)(data, attribute, address);
}

CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **data,
				CUdeviceptr address)
{
	shim.queries++;
	return INNER(cuPointerGetAttributes)(count, attributes, data, address);
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
			       CUdeviceptr address)
{
	shim.settings++;
	return INNER(cuPointerSetAttribute)(value, attribute, address);
}

CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr address, size_t size,
				       CUmemRangeHandleType type, unsigned long long flags)
{
	shim.exports++;
	return INNER(cuMemGetHandleForAddressRange)(handle, address, size, type, flags);
}
