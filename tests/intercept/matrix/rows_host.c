/* SPDX-License-Identifier: BSD-3-Clause */
/* rows_host.c -- the rows of host memory, and of the old interface's contexts */
#include "steps.h"

/* ---- memory of the host ---- */

bool test_cuMemAllocHost_v2(void)
{
	void *address;

	NEED(RISES("host_allocations", f->cuMemAllocHost_v2(&address, SIZE)));
	return OK(driver.cuMemFreeHost(address));
}

bool test_cuMemHostAlloc(void)
{
	void *address;

	NEED(RISES("host_allocations",
		   f->cuMemHostAlloc(&address, SIZE, CU_MEMHOSTALLOC_PORTABLE)));
	return OK(driver.cuMemFreeHost(address));
}

bool test_cuMemFreeHost(void)
{
	void *address;

	NEED(OK(driver.cuMemHostAlloc(&address, SIZE, 0)));
	return RISES("host_frees", f->cuMemFreeHost(address));
}

/* ---- contexts of the old interface ---- */

/* From here on the driver answers all queries. */
bool test_cuCtxCreate(void)
{
	__typeof__(cuCtxCreate) *create = (__typeof__(create))bypass("cuCtxCreate");
	unsigned long long id;
	CUdeviceptr address;
	uint64_t answered;
	CUcontext old;

	if (!OK(create(&old, 0, device)))
		SKIP("on this device a context of the old interface has to be the first");
	NEED(OK(driver.cuCtxDestroy_v2(old)));
	NEED(OK(driver.cuMemAlloc_v2(&address, SIZE)));
	NEED(RISES("queries_answered",
		   driver.cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address)));
	NEED(OK(f->cuCtxCreate(&old, 0, device)) && OK(driver.cuCtxDestroy_v2(old)));
	answered = count("queries_answered");
	NEED(OK(driver.cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address)));
	NEED(count("queries_answered") == answered);
	return OK(driver.cuMemFree_v2(address));
}
