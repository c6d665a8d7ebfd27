/* SPDX-License-Identifier: BSD-3-Clause */
/* rows_repeated.c -- calls that the driver refuses for want of memory while memory is kept */
#include "steps.h"

#define MOST 4096

static CUmemGenericAllocationHandle handle;
static CUarray array;
static CUmipmappedArray levels;
static CUmodule module;
static CUlibrary library;
static CUkernel kernel;
static CUfunction function;
static CUcontext context;
static CUgreenCtx green;
static CUstream stream;
static CUgraph graph;
static CUgraphExec exec;
static CUdeviceptr address;
static size_t size;

static const CUDA_ARRAY_DESCRIPTOR plane = { 16, 16, 0x20, 1 };
static const CUDA_ARRAY3D_DESCRIPTOR space = { 16, 16, 16, 0x20, 1, 0 };
static const CUlaunchConfig launch = { 1, 1, 1, 1, 1, 1, 0, NULL, NULL, 0 };
static const CUmemAllocationProp physical = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
					      .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
static CUDA_GRAPH_INSTANTIATE_PARAMS parameters;
static const char text[] = ".version 6.4\n"
			   ".target sm_52\n"
			   ".address_size 64\n"
			   ".visible .entry idle()\n{ ret; }\n";

/* What the calls are called with. */
static bool prepare(void)
{
	if (exec)
		return true;
	NEED(OK(driver.cuModuleLoadData(&module, text)));
	NEED(OK(driver.cuModuleGetFunction(&function, module, "idle")));
	NEED(OK(driver.cuGraphCreate(&graph, 0)));
	return OK(driver.cuGraphInstantiateWithFlags(&exec, graph, 0));
}

static bool keep_a_block(void)
{
	uint64_t before = count("kept");
	CUdeviceptr block;

	NEED(OK(f->cuMemAlloc_v2(&block, UNIT)) && OK(f->cuMemFree_v2(block)));
	return count("kept") == before + 1;
}

/* With kept memory, and no free block: the call finds memory once it is released. The
 * simulated driver may have no more of it than this refusal. */
static bool is_repeated(CUresult (*call)(void))
{
	static CUdeviceptr blocks[MOST];
	__typeof__(cuMemAlloc_v2) *allocate = (__typeof__(allocate))bypass("cuMemAlloc_v2");
	__typeof__(cuMemFree_v2) *end = (__typeof__(end))bypass("cuMemFree_v2");
	uint64_t before = count("kept_released"), released;
	CUresult result;
	int used = 0;

	if (keeps_nothing())
		SKIP("nothing is kept at exit, nor without PEERPIN_KEEP");
	NEED(prepare() && keep_a_block());
	while (used < MOST && OK(allocate(&blocks[used], UNIT)))
		used++;
	NEED(used < MOST && count("kept_released") == before);
	result = call();
	released = count("kept_released") - before;
	while (used)
		NEED(OK(end(blocks[--used])));
	if (result == CUDA_ERROR_OUT_OF_MEMORY || !released)
		printf("the call returned %d, %d releases\n", (int)result, (int)released);
	return result != CUDA_ERROR_OUT_OF_MEMORY && released;
}

#define REPEATED(symbol, ...)                                                                      \
	static CUresult call_##symbol(void)                                                        \
	{                                                                                          \
		return f->symbol(__VA_ARGS__);                                                     \
	}                                                                                          \
	bool test_##symbol(void)                                                                   \
	{                                                                                          \
		return is_repeated(call_##symbol);                                                 \
	}

REPEATED(cuMemCreate, &handle, UNIT, &physical, 0)
REPEATED(cuArrayCreate_v2, &array, &plane)
REPEATED(cuArray3DCreate_v2, &array, &space)
REPEATED(cuMipmappedArrayCreate, &levels, &space, 1)
REPEATED(cuModuleLoad, &module, "/dev/null")
REPEATED(cuModuleLoadData, &module, text)
REPEATED(cuModuleLoadFatBinary, &module, text)
REPEATED(cuLibraryLoadData, &library, text, NULL, NULL, 0, NULL, NULL, 0)
REPEATED(cuLibraryLoadFromFile, &library, "/dev/null", NULL, NULL, 0, NULL, NULL, 0)
REPEATED(cuLibraryGetModule, &module, library)
REPEATED(cuLibraryGetGlobal, &address, &size, library, "variable")
REPEATED(cuKernelGetFunction, &function, kernel)
REPEATED(cuCtxSetLimit, CU_LIMIT_STACK_SIZE, 1024)
REPEATED(cuStreamCreate, &stream, 0)
REPEATED(cuStreamCreateWithPriority, &stream, 0, 0)
REPEATED(cuLaunchKernel, function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL)
REPEATED(cuLaunchKernel_ptsz, function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL)
REPEATED(cuLaunchKernelEx, &launch, function, NULL, NULL)
REPEATED(cuLaunchKernelEx_ptsz, &launch, function, NULL, NULL)
REPEATED(cuLaunchCooperativeKernel, function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL)
REPEATED(cuLaunchCooperativeKernel_ptsz, function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL)
REPEATED(cuGraphInstantiate, &exec, graph, NULL, NULL, 0)
REPEATED(cuGraphInstantiate_v2, &exec, graph, NULL, NULL, 0)
REPEATED(cuGraphInstantiateWithFlags, &exec, graph, 0)
REPEATED(cuGraphInstantiateWithParams, &exec, graph, &parameters)
REPEATED(cuGraphInstantiateWithParams_ptsz, &exec, graph, &parameters)
REPEATED(cuGraphUpload, exec, NULL)
REPEATED(cuGraphUpload_ptsz, exec, NULL)
REPEATED(cuGraphLaunch, exec, NULL)
REPEATED(cuGraphLaunch_ptsz, exec, NULL)

/* ---- options: the refused call has changed their values ---- */

static CUresult load_with_an_option(void)
{
	CUjit_option option = CU_JIT_MAX_REGISTERS;
	void *value = (void *)64;
	CUresult result = f->cuModuleLoadDataEx(&module, text, 1, &option, &value);

	return value == (void *)64 ? result : CUDA_ERROR_OUT_OF_MEMORY;
}

bool test_cuModuleLoadDataEx(void)
{
	return is_repeated(load_with_an_option);
}

/* ---- contexts: a new one is current, and ends at once ---- */

static bool is_context_repeated(CUresult (*call)(void))
{
	bool good = is_repeated(call);

	return (!context || OK(driver.cuCtxDestroy_v2(context))) && good;
}

#define CONTEXT_REPEATED(symbol, ...)                                                              \
	static CUresult call_##symbol(void)                                                        \
	{                                                                                          \
		context = NULL;                                                                    \
		return f->symbol(__VA_ARGS__);                                                     \
	}                                                                                          \
	bool test_##symbol(void)                                                                   \
	{                                                                                          \
		return is_context_repeated(call_##symbol);                                         \
	}

CONTEXT_REPEATED(cuCtxCreate_v2, &context, 0, device)
CONTEXT_REPEATED(cuCtxCreate_v3, &context, NULL, 0, 0, device)
CONTEXT_REPEATED(cuCtxCreate_v4, &context, NULL, 0, device)

static CUresult create_green(void)
{
	CUdevResourceDesc description;

	return describe_resource(&description)
		       ?: f->cuGreenCtxCreate(&green, description, device,
					      CU_GREEN_CTX_DEFAULT_STREAM);
}

bool test_cuGreenCtxCreate(void)
{
	bool good;

	green = NULL;
	good = is_repeated(create_green);
	return (!green || OK(driver.cuGreenCtxDestroy(green))) && good;
}
