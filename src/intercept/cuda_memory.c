/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_memory.c -- births and deaths of GPU memory
 *
 * The first pair is the example to read; the others do the same for other forms.
 */
#include "base/process.h"
#include "intercept/entry_points.h"
#include "memory/memory.h"

/* Out-parameters are the driver's until it has said CUDA_SUCCESS, and may be null even then. */
static void born(CUresult result, enum allocation_kind kind, const CUdeviceptr *address, uint64_t size)
{
	if (result == CUDA_SUCCESS && address && *address && !process_is_passive())
		memory_born(kind, *address, size);
}

/* What a free knows of the memory that it ends. */
struct death {
	bool tracked;
	struct allocation allocation;
};

static void before_free(struct death *death, uint64_t address)
{
	death->tracked = !process_is_passive() && memory_dying(address, &death->allocation);
}

static CUresult after_free(const struct death *death, CUresult result)
{
	if (death->tracked && result != CUDA_SUCCESS)
		memory_survived(&death->allocation);
	return result;
}

/*
 * A birth is told after the driver's success, a death before the driver frees: as soon as it has, the same
 * address may be another thread's new allocation, and the registration must be gone by then.
 *
 * Forwarding never depends on what we know. An address that is not tracked, null, or wrong goes to the
 * driver like any other, and the driver's answer is the caller's. If the driver refuses to free, what it
 * still knows is recorded again.
 */
WRAP(cuMemAlloc_v2, (address, size), CUdeviceptr *address, size_t size)
{
	CUresult result = forward(address, size);

	born(result, ALLOCATION_DEVICE, address, size);
	return result;
}

WRAP(cuMemFree_v2, (address), CUdeviceptr address)
{
	struct death death;

	before_free(&death, address);
	return after_free(&death, forward(address));
}

WRAP(cuMemAlloc, (address, size), CUdeviceptr_v1 *address, unsigned int size)
{
	CUresult result = forward(address, size);
	CUdeviceptr wide = result == CUDA_SUCCESS && address ? *address : 0;

	born(result, ALLOCATION_DEVICE, &wide, size);
	return result;
}

WRAP(cuMemFree, (address), CUdeviceptr_v1 address)
{
	struct death death;

	before_free(&death, address);
	return after_free(&death, forward(address));
}

/* The rows are padded, so the driver's pitch counts, not the width that was asked for. */
WRAP(cuMemAllocPitch_v2, (address, pitch, width, height, element), CUdeviceptr *address, size_t *pitch,
     size_t width, size_t height, unsigned int element)
{
	CUresult result = forward(address, pitch, width, height, element);

	born(result, ALLOCATION_PITCHED, address, pitch && result == CUDA_SUCCESS ? *pitch * height : 0);
	return result;
}

WRAP(cuMemAllocPitch, (address, pitch, width, height, element), CUdeviceptr_v1 *address, unsigned int *pitch,
     unsigned int width, unsigned int height, unsigned int element)
{
	CUresult result = forward(address, pitch, width, height, element);
	CUdeviceptr wide = result == CUDA_SUCCESS && address ? *address : 0;

	born(result, ALLOCATION_PITCHED, &wide,
	     pitch && result == CUDA_SUCCESS ? (uint64_t)*pitch * height : 0);
	return result;
}

/* The memory may be in use until the stream gets there, but from the call on it is no longer the caller's to
 * send (cuda.h: even pointer queries are undefined afterwards). */
WRAP(cuMemFreeAsync, (address, stream), CUdeviceptr address, CUstream stream)
{
	struct death death;

	before_free(&death, address);
	return after_free(&death, forward(address, stream));
}

WRAP(cuMemFreeAsync_ptsz, (address, stream), CUdeviceptr address, CUstream stream)
{
	struct death death;

	before_free(&death, address);
	return after_free(&death, forward(address, stream));
}
