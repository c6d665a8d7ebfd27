/* SPDX-License-Identifier: BSD-3-Clause */
/* with_verbs.c -- traps in registrations */
#include <string.h>

#include "../verbs/libibverbs.h"
#include "memory/cuda_abi.h"
#include "traps.h"

#define SIZE ((size_t)4 << 20)

static struct ibv_pd *pd;

static struct ibv_mr *request(CUdeviceptr address)
{
	return ibv_reg_mr(pd, (void *)address, SIZE, IBV_ACCESS_LOCAL_WRITE);
}

/* A memory hook, or the driver's thread, may allocate and free inside a registration. */
static CUdeviceptr other;
static bool was_inside;

static void allocate_and_free(void)
{
	standin_in_register = NULL;
	was_inside =
		cuMemFree_v2(other) == CUDA_SUCCESS && cuMemAlloc_v2(&other, SIZE) == CUDA_SUCCESS;
}

static void t27(void)
{
	CUdeviceptr address;
	struct ibv_mr *mr;
	bool kept;

	kept = PART(cuMemAlloc_v2(&address, SIZE) == CUDA_SUCCESS) &&
	       PART(cuMemAlloc_v2(&other, SIZE) == CUDA_SUCCESS);
	standin_in_register = allocate_and_free;
	mr = request(address);
	kept &= PART(mr) && PART(was_inside) && PART(!ibv_dereg_mr(mr));
	cuMemFree_v2(address);
	cuMemFree_v2(other);
	trap("T27", "no lock is held while a region is registered", kept);
}

static void t35(void)
{
	CUdeviceptr address, again;
	struct ibv_mr *stale, *fresh;
	uint32_t key;
	bool kept;

	/* The client caches its MR beyond the free. */
	cuMemAlloc_v2(&address, SIZE);
	stale = request(address);
	key = stale->rkey;
	kept = PART(cuMemFree_v2(address) == CUDA_SUCCESS) && PART(standin_kernel_regions() == 0);
	kept &= PART(cuMemAlloc_v2(&again, SIZE) == CUDA_SUCCESS) && PART(again == address);
	fresh = request(again);
	kept &= PART(fresh->rkey != key) && PART(!ibv_dereg_mr(stale)) &&
		PART(standin_kernel_regions() == 1) && PART(!ibv_dereg_mr(fresh));
	cuMemFree_v2(again);
	trap("T35", "beside a client's own cache nothing outlives the memory", kept);
}

/* Opened like this it is bound to the driver before the program's scope, and to libc's dlsym. */
static void t23(void)
{
	void *plugin = dlopen(getenv("TRAPS_DEEPBIND"), RTLD_LAZY | RTLD_LOCAL | RTLD_DEEPBIND);
	CUresult (*bypassing_free)(CUdeviceptr) =
		plugin ? (CUresult(*)(CUdeviceptr))dlsym(plugin, "deepbind_free") : NULL;
	CUdeviceptr address, again;
	struct ibv_mr *mr;
	bool kept;

	if (!PART(bypassing_free)) {
		trap("T23", dlerror(), false);
		return;
	}
	cuMemAlloc_v2(&address, SIZE);
	mr = request(address);
	ibv_dereg_mr(mr);
	/* Lazily bound. A missed free, then a request: the record is stale. */
	kept = PART(bypassing_free(address) == CUDA_SUCCESS) && PART(standin_kernel_regions() == 1);
	ibv_dereg_mr(request(address));
	kept &= PART(statistic("bypasses") == 1) &&
		PART(statistic("forwarded_verify") == 1) && PART(statistic("missed_frees") == 1) &&
		PART(standin_kernel_regions() == 0);
	kept &= PART(cuMemAlloc_v2(&again, SIZE) == CUDA_SUCCESS);
	ibv_dereg_mr(request(again));
	kept &= PART(statistic("bypasses") == 1) &&
		PART(cuMemFree_v2(again) == CUDA_SUCCESS) && PART(standin_kernel_regions() == 0);
	trap("T23",
	     "bypassing objects are detected, and every hit is verified from then "
	     "on",
	     kept);
}

int main(void)
{
	CUcontext context;
	CUdevice device;

	if (cuInit(0) || cuDeviceGet(&device, 0) || cuCtxCreate_v2(&context, 0, device))
		return 99;
	pd = ibv_alloc_pd(standin_open_device());
	t27();
	t35();
	t23();
	return 0;
}
