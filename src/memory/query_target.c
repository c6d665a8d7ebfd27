/* SPDX-License-Identifier: BSD-3-Clause */
/* query_target.c -- the table of pointer attributes, and answers that depend on more than the
 * record
 */
#include "memory/query_target.h"

#include <stddef.h>

#include "base/atomics.h"
#include "memory/driver.h"

const struct query_attribute query_attributes[QUERY_ATTRIBUTES] = {
#define POINTER_ATTRIBUTE(name, value, bytes, source, detail)                                      \
	[value] = { detail, bytes, QUERY_##source },
#include "memory/cuda_abi.def"
#undef POINTER_ATTRIBUTE
};

bool query_target_is_reached(const struct query_target *target)
{
	const struct driver_calls *driver = driver_calls();
	CUcontext context = (CUcontext)(uintptr_t)target->context, current = NULL;
	unsigned int version;
	CUdevice device = -1;

	if (context)
		return driver->cuCtxGetCurrent &&
		       driver->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == context;
	return driver->cuCtxGetApiVersion && driver->cuCtxGetDevice &&
	       driver->cuCtxGetApiVersion(NULL, &version) == CUDA_SUCCESS &&
	       driver->cuCtxGetDevice(&device) == CUDA_SUCCESS &&
	       device == traits_device(target->traits);
}

unsigned int query_target_device_pointer(const struct query_target *target, uint64_t *value)
{
	*value = target->address;
	/* A registered host page may have another address on the device. */
	return traits_kind(target->traits) != ALLOCATION_HOST &&
			       (target->traits & TRAIT_ACCESSIBLE) &&
			       query_target_is_reached(target)
		       ? LONG
		       : UNANSWERED;
}

/* For memory that the host does not reach, a list gets NULL. A single query stores NULL and returns
 * an error (measured): left to the driver. */
unsigned int query_target_host_pointer(const struct query_target *target, bool listed,
				       uint64_t *value)
{
	switch (traits_kind(target->traits)) {
	case ALLOCATION_HOST:
	case ALLOCATION_MANAGED:
		*value = target->address;
		return LONG;
	case ALLOCATION_DEVICE:
	case ALLOCATION_PITCHED:
	case ALLOCATION_POOL:
		*value = 0;
		return listed ? LONG : UNANSWERED;
	default:
		return UNANSWERED;
	}
}
