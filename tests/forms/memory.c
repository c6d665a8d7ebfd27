/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.c -- GPU memory of a form's run, and the run itself */
#include "forms.h"

#include <errno.h>
#include <string.h>

#include "../vmm.h"
#include "requests.h"

#define ALLOCATIONS_MAX 8192

static CUdeviceptr memory_allocated[ALLOCATIONS_MAX];
static unsigned int memory_count;
static uint64_t memory_seed;

uint64_t random_below(uint64_t limit)
{
	/* splitmix64 */
	uint64_t value = memory_seed += 0x9e3779b97f4a7c15;

	value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
	value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
	return (value ^ (value >> 31)) % limit;
}

/* ---- memory ---- */

static CUdeviceptr memory_add(CUdeviceptr address)
{
	require(memory_count < ALLOCATIONS_MAX);
	memory_allocated[memory_count++] = address;
	return address;
}

static void memory_free_all(void)
{
	while (memory_count)
		require_cuda(cuMemFree_v2(memory_allocated[--memory_count]));
}

CUdeviceptr allocate(size_t size)
{
	CUdeviceptr address;

	require_cuda(cuMemAlloc_v2(&address, size));
	return memory_add(address);
}

CUdeviceptr allocate_small(size_t size)
{
	/* 512 bytes: the driver's alignment. */
	allocate(512 * (1 + random_below(7)) + PAGE * random_below(16));
	return allocate(size);
}

CUdeviceptr allocate_from_pool(size_t size)
{
	CUdeviceptr address;

	require_cuda(cuMemAllocAsync(&address, 512 * (1 + random_below(7)), NULL));
	memory_add(address);
	require_cuda(cuMemAllocAsync(&address, size, NULL));
	require_cuda(cuCtxSynchronize());
	return memory_add(address);
}

static CUdeviceptr memory_reserve(size_t size)
{
	CUdeviceptr base;

	require_cuda(cuMemAddressReserve(&base, size, 0, 0, 0));
	return base;
}

CUdeviceptr map(const CUmemAllocationProp *properties, const size_t *sizes, unsigned int count)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr base, at;
	size_t total = 0;

	for (unsigned int i = 0; i < count; i++)
		total += sizes[i];
	base = at = memory_reserve(total);
	for (unsigned int i = 0; i < count; at += sizes[i++]) {
		require_cuda(cuMemCreate(&handle, sizes[i], properties, 0));
		require_cuda(cuMemMap(at, sizes[i], 0, handle, 0));
		require_cuda(cuMemRelease(handle));
	}
	require_cuda(cuMemSetAccess(base, total, &vmm_access, 1));
	return base;
}

CUdeviceptr map_equal(size_t size, unsigned int count, bool aliased)
{
	CUmemGenericAllocationHandle handle = 0;
	CUdeviceptr base = memory_reserve(size * count), at = base;

	for (unsigned int i = 0; i < count; i++, at += size) {
		if (!handle)
			require_cuda(cuMemCreate(&handle, size, &vmm_rdma, 0));
		require_cuda(cuMemMap(at, size, 0, handle, 0));
		if (aliased && i + 1 < count)
			continue;
		require_cuda(cuMemRelease(handle));
		handle = 0;
	}
	require_cuda(cuMemSetAccess(base, size * count, &vmm_access, 1));
	return base;
}

CUdeviceptr map_handle(CUmemGenericAllocationHandle handle, size_t size)
{
	CUdeviceptr base = memory_reserve(size);

	require_cuda(cuMemMap(base, size, 0, handle, 0));
	require_cuda(cuMemSetAccess(base, size, &vmm_access, 1));
	return base;
}

void unmap(CUdeviceptr address, size_t size)
{
	require_cuda(cuMemUnmap(address, size));
}

/* ---- the run ---- */

static size_t memory_size(enum form_sizes sizes, unsigned int kind)
{
	uint64_t least = sizes == LARGE || sizes == ONCE ? BLOCK + 1 : 2 * PAGE;
	uint64_t most = sizes == SMALL ? 15 * (BLOCK / 32) : 4 * BLOCK;
	uint64_t size = least + random_below(most - least), unit = sizes == SMALL ? 65536 : BLOCK;

	switch (kind) {
	case 0:
		return size | 1;
	case 1:
		return round_up(size, PAGE) + 16 * (1 + random_below(255));
	case 2:
		return round_up(size, PAGE);
	default:
		return (2 + random_below(3)) * unit - 1 + 2 * random_below(2);
	}
}

static void memory_set_up(void)
{
	struct ibv_device **list;
	CUdevice gpu;
	int count;

	require_cuda(cuInit(0));
	require_cuda(cuDeviceGet(&gpu, 0));
	require_cuda(cuDevicePrimaryCtxRetain(&context, gpu));
	require_cuda(cuCtxSetCurrent(context));
	list = ibv_get_device_list(&count);
	require(list && count);
	device = ibv_open_device(list[0]);
	require(device);
	pd = ibv_alloc_pd(device);
	require(pd);
}

static void memory_count_requests(const struct form *form)
{
	static const char *const reasons[] = {
#define STATISTIC(name, unit, meaning)
#define REASON(name, label, meaning) #name,
#include "report/statistics.def"
#undef STATISTIC
	};
	struct form_counts *counts = &result->counts;
	uint64_t value;

	if (!is_preloaded())
		return;
	counts->requests = own("requests");
	counts->hits = own("hits");
	counts->host_requests = own("host_requests");
	counts->forwarded = own("forwarded");
	counts->sum = counts->hits + own("waited") + own("synchronous_queued") +
		      own("synchronous") + counts->forwarded;
	for (unsigned int i = 0; i < sizeof(reasons) / sizeof(*reasons); i++) {
		if (strncmp(reasons[i], "forwarded_", 9) != 0)
			continue;
		value = own(reasons[i]);
		counts->reasons += value;
		if (!strcmp(reasons[i], form->outcome))
			counts->outcome = value;
	}
	if (!strcmp(form->outcome, "host_requests"))
		counts->outcome = counts->host_requests;
	counts->internal_errors = own("internal_errors");
}

void form_run(const struct form *form, uint64_t seed)
{
	unsigned int kinds = form->sizes == ONCE ? 1 : 4;

	memory_seed = seed;
	memory_set_up();
	for (unsigned int kind = 0; kind < kinds; kind++) {
		form->run(memory_size(form->sizes, kind));
		memory_free_all();
	}
	memory_count_requests(form);
	/* The adapter aborts if registrations are left. */
	errno = ibv_dealloc_pd(pd);
	record(!errno, false);
	errno = ibv_close_device(device);
	record(!errno, false);
	result->complete = true;
}
