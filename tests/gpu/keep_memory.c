/* SPDX-License-Identifier: BSD-3-Clause */
/* keep_memory.c -- what of this GPU's memory one process gets after it has freed it
 *
 * keep_memory: prints "name<TAB>value" for each measurement, after frees of other sizes; sizes are
 * parts of the GPU's memory, and names that begin with "note" are not judged.
 * keep_memory calls: prints "name<TAB>result" for calls that need memory, each in a context of its
 * own whose memory has all been freed.
 * keep_memory full: the same where the program has all memory: the driver refuses each.
 * tests/gpu/keep compares processes with and without PEERPIN_KEEP.
 */
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "memory/cuda_abi.h"
#include "statistic.h"
#include "../vmm.h"

#define NON_BLOCKING 1 /* CU_STREAM_NON_BLOCKING */

#define MOST  65536
#define BLOCK ((size_t)2 << 20)
#define PARTS 128 /* of the GPU's memory, for the sizes */

static CUdeviceptr addresses[MOST];
static int count;
static CUcontext context;
static size_t part; /* bytes, whole blocks */

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

/* ---- calls that need memory ---- */

/* A variable and a kernel with local memory, of some GiB in all: for all threads that the GPU can
 * run at a time. */
static const char text[] = ".version 6.4\n"
			   ".target sm_75\n"
			   ".address_size 64\n"
			   ".visible .global .align 4 .b8 large[268435456];\n"
			   ".visible .entry deep(.param .u32 at)\n"
			   "{\n"
			   "	.local .align 4 .b8 memory[32768];\n"
			   "	.reg .u32 %r<4>;\n"
			   "	.reg .u64 %d<4>;\n"
			   "	ld.param.u32 %r1, [at];\n"
			   "	mov.u64 %d1, memory;\n"
			   "	mul.wide.u32 %d2, %r1, 4;\n"
			   "	add.u64 %d3, %d1, %d2;\n"
			   "	st.local.u32 [%d3], %r1;\n"
			   "	ld.local.u32 %r2, [%d1+16];\n"
			   "	ret;\n"
			   "}\n";

static CUmodule module;
static CUlibrary library;
static CUkernel kernel;
static CUfunction function;
static CUstream stream;
static CUgraph graph;
static CUgraphExec exec;

/* ---- what some calls are called with; nothing on a driver without it ---- */

static void with_nothing(void)
{
}

static void with_function(void)
{
	if (!cuModuleLoadData(&module, text))
		cuModuleGetFunction(&function, module, "deep");
}

static void with_library(void)
{
	if (!cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0))
		cuLibraryGetKernel(&kernel, library, "deep");
}

static unsigned int at = 3;
static void *parameters[] = { &at };

static void with_deep_graph(void)
{
	with_function();
	must_cuda(cuStreamCreate(&stream, NON_BLOCKING));
	must_cuda(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL);
	must_cuda(cuStreamEndCapture(stream, &graph));
}

static void with_allocating_graph(void)
{
	CUDA_MEM_ALLOC_NODE_PARAMS node = { .bytesize = (size_t)256 << 20 };
	CUgraphNode added;

	node.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	node.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	must_cuda(cuGraphCreate(&graph, 0));
	must_cuda(cuGraphAddMemAllocNode(&added, graph, NULL, 0, &node));
}

static void with_allocating_exec(void)
{
	with_allocating_graph();
	must_cuda(cuGraphInstantiateWithFlags(&exec, graph, 0));
}

/* ---- the calls ---- */

static const CUDA_ARRAY_DESCRIPTOR plane = { 16384, 16384, 0x20, 1 };
static const CUDA_ARRAY3D_DESCRIPTOR space = { 512, 512, 512, 0x20, 1, 0 };
static const CUDA_ARRAY3D_DESCRIPTOR top = { 16384, 16384, 0, 0x20, 1, 0 };
static CUarray array;
static CUmipmappedArray levels;
static CUcontext other;
static CUdeviceptr address;
static size_t size;
static char file[] = "/tmp/peerpin-keep-memory-XXXXXX";

/* Half of the memory. */
static CUresult allocate_half(void)
{
	CUresult result = cuMemAlloc_v2(&address, part * (PARTS / 2));

	if (!result)
		must_cuda(cuMemFree_v2(address));
	return result;
}

static CUresult allocate_pitched(void)
{
	CUresult result = cuMemAllocPitch_v2(&address, &size, 65000, part * (PARTS / 2) / 65536, 4);

	if (!result)
		must_cuda(cuMemFree_v2(address));
	return result;
}

static CUresult create_half(void)
{
	CUmemGenericAllocationHandle handle;
	CUresult result = cuMemCreate(&handle, part * (PARTS / 2), &vmm_plain, 0);

	if (!result)
		must_cuda(cuMemRelease(handle));
	return result;
}

/* The pool returns its memory to the GPU at the wait. */
static CUresult allocate_in_order(void)
{
	CUresult result = cuMemAllocAsync(&address, part * (PARTS / 2), NULL);

	if (!result)
		must_cuda(cuMemFreeAsync(address, NULL));
	must_cuda(cuStreamSynchronize(NULL));
	return result;
}

static CUresult create_context(void)
{
	CUresult result = cuCtxCreate_v2(&other, 0, 0);

	if (!result)
		must_cuda(cuCtxDestroy_v2(other));
	return result;
}

static CUresult retain_primary(void)
{
	CUresult result = cuDevicePrimaryCtxRetain(&other, 0);

	if (!result)
		must_cuda(cuDevicePrimaryCtxRelease_v2(0));
	return result;
}

/* Some fit into what the driver has. */
static CUresult create_streams(void)
{
	CUresult result = CUDA_SUCCESS;

	for (int i = 0; i < 200 && !result; i++)
		result = cuStreamCreate(&stream, i % 2);
	return result;
}

static CUresult create_streams_with_priority(void)
{
	CUresult result = CUDA_SUCCESS;

	for (int i = 0; i < 200 && !result; i++)
		result = cuStreamCreateWithPriority(&stream, NON_BLOCKING, 0);
	return result;
}

static CUresult launch_ex(void)
{
	const CUlaunchConfig launch = { 1, 1, 1, 1, 1, 1, 0, NULL, NULL, 0 };

	return cuLaunchKernelEx(&launch, function, parameters, NULL);
}

static CUresult instantiate_and_upload(void)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS with = { .flags =
						       2 /* CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD */ };

	return cuGraphInstantiateWithParams(&exec, graph, &with);
}

#define CALL(name, call)                                                                           \
	static CUresult name(void)                                                                 \
	{                                                                                          \
		return call;                                                                       \
	}

CALL(create_array, cuArrayCreate_v2(&array, &plane))
CALL(create_3d_array, cuArray3DCreate_v2(&array, &space))
CALL(create_mipmaps, cuMipmappedArrayCreate(&levels, &top, 4))
CALL(load_file, cuModuleLoad(&module, file))
CALL(load, cuModuleLoadData(&module, text))
CALL(load_ex, cuModuleLoadDataEx(&module, text, 0, NULL, NULL))
CALL(load_fat, cuModuleLoadFatBinary(&module, text))
CALL(get_module, cuLibraryGetModule(&module, library))
CALL(get_global, cuLibraryGetGlobal(&address, &size, library, "large"))
CALL(get_function, cuKernelGetFunction(&function, kernel))
CALL(set_limit, cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 65536))
CALL(launch, cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL))
CALL(launch_together, cuLaunchCooperativeKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters))
CALL(launch_lazily, cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL))
CALL(instantiate, cuGraphInstantiateWithFlags(&exec, graph, 0))
CALL(instantiate_v2, cuGraphInstantiate_v2(&exec, graph, NULL, NULL, 0))
CALL(upload, cuGraphUpload(exec, NULL))
CALL(launch_graph, cuGraphLaunch(exec, NULL))

static const struct {
	const char *name;
	void (*prepare)(void);
	CUresult (*call)(void);
} calls[] = {
	{ "cuMemAlloc, half of the memory", with_nothing, allocate_half },
	{ "cuMemAllocPitch, half of the memory", with_nothing, allocate_pitched },
	{ "cuMemCreate, half of the memory", with_nothing, create_half },
	{ "cuMemAllocAsync, half of the memory", with_nothing, allocate_in_order },
	{ "cuArrayCreate", with_nothing, create_array },
	{ "cuArray3DCreate", with_nothing, create_3d_array },
	{ "cuMipmappedArrayCreate", with_nothing, create_mipmaps },
	{ "cuModuleLoad", with_nothing, load_file },
	{ "cuModuleLoadData", with_nothing, load },
	{ "cuModuleLoadDataEx", with_nothing, load_ex },
	{ "cuModuleLoadFatBinary", with_nothing, load_fat },
	{ "cuLibraryGetModule", with_library, get_module },
	{ "cuLibraryGetGlobal", with_library, get_global },
	{ "cuKernelGetFunction", with_library, get_function },
	{ "cuCtxCreate", with_nothing, create_context },
	{ "cuDevicePrimaryCtxRetain", with_nothing, retain_primary },
	{ "cuCtxSetLimit", with_nothing, set_limit },
	{ "cuStreamCreate", with_nothing, create_streams },
	{ "cuStreamCreateWithPriority", with_nothing, create_streams_with_priority },
	{ "cuLaunchKernel", with_function, launch },
	{ "cuLaunchKernel, of a library", with_library, launch_lazily },
	{ "cuLaunchKernelEx", with_function, launch_ex },
	{ "cuLaunchCooperativeKernel", with_function, launch_together },
	{ "cuGraphInstantiateWithFlags", with_deep_graph, instantiate },
	{ "cuGraphInstantiate_v2", with_deep_graph, instantiate_v2 },
	{ "cuGraphInstantiateWithParams", with_allocating_graph, instantiate_and_upload },
	{ "cuGraphUpload", with_allocating_exec, upload },
	{ "cuGraphLaunch", with_allocating_exec, launch_graph },
};

static void try_calls(bool full)
{
	int descriptor = mkstemp(file);

	must(descriptor >= 0 && write(descriptor, text, sizeof(text) - 1) == sizeof(text) - 1);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		must_cuda(cuCtxCreate_v2(&context, 0, 0));
		calls[i].prepare();
		/* Sizes that repeat are kept. */
		for (int round = 0; round < 2; round++) {
			free_all();
			fill(part);
			fill(BLOCK);
			fill(4096);
		}
		if (!full)
			free_all();
		printf("%s\t%d\n", calls[i].name, (int)calls[i].call());
		fflush(stdout);
		count = 0;
		must_cuda(cuCtxDestroy_v2(context));
	}
	unlink(file);
}

/* ---- counts ---- */

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

static void count_all(size_t total)
{
	must_cuda(cuCtxCreate_v2(&context, 0, 0));
	/* The driver keeps memory for itself from the first allocations on. */
	mix();
	print("memory", total);
	print("free memory at the start", free_memory());
	mix();
	print("free memory after frees", free_memory());
	count_allocations();
	mix();
	print("free memory at the end", free_memory());
	free_small();
	must_cuda(cuCtxDestroy_v2(context));
	must_cuda(cuCtxCreate_v2(&context, 0, 0));
	print("free memory in a new context", free_memory());
}

int main(int argc, char **arguments)
{
	size_t total, unit = argc > 1 ? BLOCK : 8 * BLOCK; /* of the parts */

	must_cuda(cuInit(0));
	must_cuda(cuDeviceTotalMem_v2(&total, 0));
	part = total / PARTS / unit * unit;
	must(part);
	if (argc > 1)
		try_calls(!strcmp(arguments[1], "full"));
	else
		count_all(total);
	return 0;
}
