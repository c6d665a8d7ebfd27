/* SPDX-License-Identifier: BSD-3-Clause */
/* keep_memory.c -- how much memory this GPU gives to one process after frees of other sizes
 *
 * Prints "name<TAB>value" for each measurement; tests/gpu/keep compares processes with and without
 * PEERPIN_KEEP. Sizes are parts of the GPU's memory. Names that begin with "note" are not judged.
 */
#include <string.h>

#include "keep.h"
#include "statistic.h"
#include "../vmm.h"

#define MOST  65536
#define BLOCK ((size_t)2 << 20)
#define PARTS 128 /* of the GPU's memory, for the sizes */

static CUdeviceptr addresses[MOST];
static int count;
static CUcontext context;
static size_t part; /* bytes, whole blocks */

static void print(const char *name, unsigned long long value)
{
	printf("%s\t%llu\n", name, value);
	fflush(stdout);
}

static size_t free_memory(void)
{
	size_t free, total;

	must_cuda(cuMemGetInfo_v2(&free, &total));
	return free;
}

/* Addresses of the simulated driver are its memory: what other allocations leave is in pieces. */
static void print_count(const char *name, int number)
{
	char text[80];

	snprintf(text, sizeof(text), "%s%s",
		 dlsym(RTLD_DEFAULT, "sim_driver_range") ? "note: " : "", name);
	print(text, (unsigned long long)number);
}

/* Allocate until memory is short. Returns the number of allocations. */
static int fill(size_t size)
{
	int before = count;
	CUresult result = CUDA_SUCCESS;

	while (result == CUDA_SUCCESS) {
		must(count < MOST);
		result = cuMemAlloc_v2(&addresses[count], size);
		count += result == CUDA_SUCCESS;
	}
	must(result == CUDA_ERROR_OUT_OF_MEMORY);
	return count - before;
}

static void free_all(void)
{
	while (count)
		must_cuda(cuMemFree_v2(addresses[--count]));
}

/* With PEERPIN_KEEP=inf, all memory is kept afterwards. */
static void fill_and_free(void)
{
	fill(part);
	fill(BLOCK);
	free_all();
}

/* ---- calls that need half of the memory ---- */

static CUresult by_alloc(size_t size)
{
	CUdeviceptr address;
	CUresult result = cuMemAlloc_v2(&address, size);

	if (result == CUDA_SUCCESS)
		must_cuda(cuMemFree_v2(address));
	return result;
}

static CUresult by_pitch(size_t size)
{
	CUdeviceptr address;
	size_t pitch;
	CUresult result = cuMemAllocPitch_v2(&address, &pitch, 65000, size / 65536, 4);

	if (result == CUDA_SUCCESS)
		must_cuda(cuMemFree_v2(address));
	return result;
}

static CUresult by_create(size_t size)
{
	CUmemGenericAllocationHandle handle;
	CUresult result = cuMemCreate(&handle, size, &vmm_plain, 0);

	if (result == CUDA_SUCCESS)
		must_cuda(cuMemRelease(handle));
	return result;
}

/* The pool returns its memory to the GPU at the wait. */
static CUresult by_async(size_t size)
{
	CUdeviceptr address;
	CUresult result = cuMemAllocAsync(&address, size, NULL);

	if (result == CUDA_SUCCESS)
		must_cuda(cuMemFreeAsync(address, NULL));
	must_cuda(cuStreamSynchronize(NULL));
	return result;
}

static CUresult by_context(size_t size)
{
	CUcontext other;
	CUresult result = cuCtxCreate_v2(&other, 0, 0);

	(void)size;
	if (result == CUDA_SUCCESS)
		must_cuda(cuCtxDestroy_v2(other));
	return result;
}

/* A variable of 256 MiB. */
static CUresult by_module(size_t size)
{
	static const char text[] = ".version 6.4\n"
				   ".target sm_75\n"
				   ".address_size 64\n"
				   ".visible .global .align 4 .b8 large[268435456];\n";
	CUmodule module;
	CUresult result = cuModuleLoadData(&module, text);

	(void)size;
	if (result == CUDA_SUCCESS)
		must_cuda(cuModuleUnload(module));
	return result;
}

static void try_calls(void)
{
	static const struct {
		const char *name;
		CUresult (*call)(size_t size);
	} calls[] = {
		{ "result of cuMemAlloc", by_alloc },
		{ "result of cuMemAllocPitch", by_pitch },
		{ "result of cuMemCreate", by_create },
		{ "result of cuMemAllocAsync", by_async },
		{ "result of cuCtxCreate", by_context },
		{ "result of cuModuleLoadData", by_module },
	};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		fill_and_free();
		print(calls[i].name, calls[i].call(part * (PARTS / 2)));
	}
}

/* ---- counts ---- */

/* Sizes of blocks, and sizes that do not fill their last block. */
static void mix(void)
{
	for (size_t i = 1; i < 16; i++)
		must_cuda(cuMemAlloc_v2(&addresses[count++], part / 8 * i + (i % 2) * 4096));
	free_all();
}

static void count_allocations(void)
{
	static const struct {
		const char *name;
		size_t eighths; /* of a part */
		size_t less;
	} sizes[] = {
		{ "allocations of 1/128 of the memory", 8, 0 },
		{ "allocations of 1/340", 3, 512 },
		{ "allocations of 1/11", 93, 4096 },
		{ "allocations of 1/1024", 1, 1 },
	};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		mix();
		print_count(sizes[i].name, fill(part / 8 * sizes[i].eighths - sizes[i].less));
		print_count("after them, of 2 MiB", fill(BLOCK));
		print("free memory, all allocated", free_memory());
		free_all();
		print("free memory, all freed", free_memory());
	}
}

/* Kept small allocations hold blocks that cuMemGetInfo counts. */
static void free_small(void)
{
	for (int i = 0; i < 64; i++)
		must_cuda(cuMemAlloc_v2(&addresses[count++], 256 << 10));
	free_all();
	print("small: free memory", free_memory());
}

int main(void)
{
	size_t total;

	must_cuda(cuInit(0));
	must_cuda(cuCtxCreate_v2(&context, 0, 0));
	must_cuda(cuDeviceTotalMem_v2(&total, 0));
	part = total / PARTS / (8 * BLOCK) * (8 * BLOCK);
	must(part);
	/* The driver keeps memory for itself from the first allocations on. */
	mix();
	print("memory", total);
	print("free memory at the start", free_memory());
	mix();
	print("free memory after frees", free_memory());
	count_allocations();
	try_calls();
	mix();
	print("free memory at the end", free_memory());
	free_small();
	must_cuda(cuCtxDestroy_v2(context));
	must_cuda(cuCtxCreate_v2(&context, 0, 0));
	print("free memory in a new context", free_memory());
	return 0;
}
