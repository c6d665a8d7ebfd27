/* SPDX-License-Identifier: BSD-3-Clause */
/* rows_host.c -- the rows of host memory, and of the old interface's contexts */
#include "steps.h"

#define PAGE ((size_t)4096)

/* ---- memory of the host ---- */

bool test_cuMemAllocHost_v2(void)
{
	void *address;

	NEED(RISES("host_allocations", f->cuMemAllocHost_v2(&address, SIZE)));
	return OK(driver.cuMemFreeHost(address));
}

/* Not measured: a real driver's answers to queries of the old interface's allocations. */
static bool old_allocate_host(void)
{
	uint64_t before = count("host_allocations") + count("untracked");
	void *address;

	NEED(OK(f->cuMemAllocHost(&address, SIZE)));
	NEED(count("host_allocations") + count("untracked") == before + 1);
	return OK(driver.cuMemFreeHost(address));
}

bool test_cuMemAllocHost(void)
{
	return in_old_context(old_allocate_host);
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

static char pages[16 * PAGE] __attribute__((aligned(4096)));

bool test_cuMemHostRegister_v2(void)
{
	NEED(RISES("host_allocations", f->cuMemHostRegister_v2(pages, sizeof(pages), 0)));
	return OK(driver.cuMemHostUnregister(pages));
}

bool test_cuMemHostRegister(void)
{
	NEED(RISES("host_allocations", f->cuMemHostRegister(pages, sizeof(pages), 0)));
	return OK(driver.cuMemHostUnregister(pages));
}

bool test_cuMemHostUnregister(void)
{
	NEED(OK(driver.cuMemHostRegister_v2(pages, sizeof(pages), 0)));
	return RISES("host_frees", f->cuMemHostUnregister(pages));
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
