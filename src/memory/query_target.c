/* SPDX-License-Identifier: BSD-3-Clause */
/* query_target.c -- answers of the driver that depend on more than the record */
#include "memory/query_target.h"

#include "base/atomics.h"
#include "memory/driver.h"

bool query_target_is_reached(const struct query_target *target)
{
	const struct driver_calls *driver = driver_calls();
	CUcontext context = (CUcontext)(uintptr_t)load_acquire(&target->record->context),
		  current = NULL;
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
