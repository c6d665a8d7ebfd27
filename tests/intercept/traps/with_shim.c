/* SPDX-License-Identifier: BSD-3-Clause */
/* with_shim.c -- traps in the calls that reach the driver */
#include "shim.h"
#include "traps.h"

static CUcontext context;

static CUdeviceptr allocate(void)
{
	CUdeviceptr address = 0;

	cuMemAlloc_v2(&address, 100000);
	return address;
}

static void t36(void)
{
	unsigned int queries, settings = shim.settings;
	CUdeviceptr address;
	bool kept;

	queries = shim.queries;
	address = allocate();
	kept = PART(shim.queries == queries + 1);
	kept &= PART(cuMemFree_v2(address) == CUDA_SUCCESS) && PART(shim.queries == queries + 1) &&
		PART(shim.settings == settings);
	trap("T36", "an allocation costs one query of the driver, a free none", kept);
}

int main(void)
{
	uint64_t allocations, frees;
	CUdeviceptr address;
	CUdevice device;
	bool kept;

	kept = PART(shim.inits == 0) && PART(!statistic("allocations"));
	kept &= PART(cuInit(0) == CUDA_SUCCESS) && PART(shim.inits == 1);
	trap("T25", "a driver that looks itself up while it begins does not hang", kept);
	if (cuDeviceGet(&device, 0) || cuCtxCreate_v2(&context, 0, device))
		return 99;
	allocations = statistic("allocations");
	frees = statistic("frees");
	address = allocate();
	kept = PART(cuMemFree_v2(address) == CUDA_SUCCESS) &&
	       PART(statistic("allocations") == allocations + 1) &&
	       PART(statistic("frees") == frees + 1) && PART(shim.frees == 1) &&
	       PART(shim.allocations == 1) && PART(shim.finds_itself);
	trap("T6", "what a driver looks up in another is that other's function", kept);
	t36();
	trap("T28", "the library never begins CUDA", PART(shim.inits == 1));
	trap("T32", "nothing is exported at an allocation", PART(shim.exports == 0));
	return 0;
}
