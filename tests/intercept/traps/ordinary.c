/* SPDX-License-Identifier: BSD-3-Clause */
/* ordinary.c -- traps on an ordinary driver */
#include "traps.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/cuda_abi.h"

#define UNIT ((size_t)2 << 20)

static void *library;
static void *(*real)(const char *symbol); /* the driver's own */
static CUcontext context;
static CUdevice device;

/* ---- counters of calls inside dlsym ---- */

static __thread bool counting;
static __thread unsigned int mallocs, getenvs;

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);

void *malloc(size_t size)
{
	mallocs += counting;
	return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	mallocs += counting;
	return __libc_calloc(count, size);
}

char *getenv(const char *name)
{
	extern char **environ;
	size_t length = strlen(name);

	getenvs += counting;
	for (char **variable = environ; variable && *variable; variable++) {
		if (!strncmp(*variable, name, length) && (*variable)[length] == '=')
			return *variable + length + 1;
	}
	return NULL;
}

static void t31(void)
{
	static const char *const names[] = { "cuMemFree_v2", "cuMemAlloc_v2", "cuMemGetInfo_v2",
					     "cuGetProcAddress_v2" };
	bool found = true;

	dlsym(library, names[0]);
	dlsym(RTLD_DEFAULT, "strlen");
	counting = true;
	for (int i = 0; i < 1000; i++) {
		found &= dlsym(library, names[i % 4]) && dlsym(RTLD_DEFAULT, "strlen") &&
			 dlsym(RTLD_DEFAULT, "cuMemFree_v2") && dlsym(RTLD_NEXT, "strlen");
	}
	counting = false;
	trap("T31", "a look-up allocates nothing and reads no environment",
	     PART(found) && PART(mallocs == 0) && PART(getenvs == 0));
}

/* ---- look-ups ---- */

static void *look_often(void *first)
{
	for (int i = 0; i < 2000; i++) {
		if (dlsym(RTLD_NEXT, "strlen") != first || dlsym(RTLD_NEXT, "cuMemFree_v2") == NULL)
			return NULL;
	}
	return first;
}

static void t3(void)
{
	void *first = dlsym(RTLD_NEXT, "strlen"), *same[4];
	pthread_t threads[4];
	bool kept = PART(first != NULL);

	for (int i = 0; i < 4; i++)
		kept &= !pthread_create(&threads[i], NULL, look_often, first);
	for (int i = 0; i < 4; i++)
		kept &= !pthread_join(threads[i], &same[i]) && same[i] == first;
	trap("T3", "the same look-up gives the same each time, on all threads", PART(kept));
}

/* The program defines it, as plug-ins expect; the prefix alone means nothing. */
int cuTrapOfTheProgram(void);
__attribute__((visibility("default"))) int cuTrapOfTheProgram(void)
{
	return 5;
}

static void t5(void)
{
	int (*found)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "cuTrapOfTheProgram");
	int (*by_null)(void) = (int (*)(void))dlsym(NULL, "cuTrapOfTheProgram");

	trap("T5", "names that only begin like CUDA's are none of ours",
	     PART(found == cuTrapOfTheProgram) && PART(by_null == cuTrapOfTheProgram) &&
		     PART(!dlsym(RTLD_DEFAULT, "cudnnCreate")) &&
		     PART(!dlsym(NULL, "cuMemFree_v22")));
}

static void t7(void)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	const char *error;
	Dl_info object;
	void *other;
	bool kept;

	dlerror();
	kept = PART(!dlsym(library, "cuMemFreeHost_v2"));
	error = dlerror();
	kept &= PART(error && strstr(error, "cuMemFreeHost_v2")) && PART(!dlerror());
	/* A row's name: the handle decides. */
	kept &= PART(!dlsym(libc, "cuMemFree_v2"));
	error = dlerror();
	kept &= PART(error && strstr(error, "cuMemFree_v2") && strstr(error, "libc.so.6"));
	kept &= PART(dlsym(library, "cuMemFree_v2")) && PART(!dlerror());
	other = dlsym(dlopen(getenv("TRAPS_MPI"), RTLD_NOW | RTLD_LOCAL), "cuMemFree_v2");
	kept &= PART(other && dladdr(other, &object) && strstr(object.dli_fname, "mpi_hook"));
	trap("T7", "what is not there is not found, and the error is the linker's own", kept);
}

/* ---- cuGetProcAddress ---- */

struct known {
	void *driver, *ours;
	const char *symbol;
};

static struct known known[] = {
#define ENTRY_CUDA(name, ...) { NULL, NULL, #name },
#include "intercept/entry_points.def"
#undef ENTRY_CUDA
};
#define KNOWN (sizeof(known) / sizeof(known[0]))

/* The function that a caller must get for the driver's `driver`. */
static void *expected(void *driver)
{
	for (size_t i = 0; i < KNOWN; i++) {
		if (driver && known[i].driver == driver)
			return known[i].ours;
	}
	return driver;
}

static bool same_answers(const char *name, int version, cuuint64_t flags)
{
	__typeof__(cuGetProcAddress_v2) *real_v2 = (__typeof__(real_v2))real("cuGetProcAddress_v2");
	__typeof__(cuGetProcAddress) *real_v1 = (__typeof__(real_v1))real("cuGetProcAddress");
	CUdriverProcAddressQueryResult status = 77, real_status = 77;
	void *found = (void *)1, *driver = (void *)1;
	CUresult result, real_result;
	bool same;

	result = cuGetProcAddress_v2(name, &found, version, flags, &status);
	real_result = real_v2(name, &driver, version, flags, &real_status);
	same = result == real_result && status == real_status && found == expected(driver);
	found = driver = (void *)1;
	same &= cuGetProcAddress(name, &found, version, flags) ==
			real_v1(name, &driver, version, flags) &&
		found == expected(driver);
	if (!same)
		printf("%s, version %d, flags %d differ\n", name, version, (int)flags);
	return same;
}

static void proc_address(void)
{
	static const int versions[] = { 0,     2000,  3010,  3020,  4000,  6000,  7000,	 10000,
					10020, 11000, 11020, 11030, 12000, 12040, 13000, 99999 };
	void *again = NULL, *other = NULL;
	CUdriverProcAddressQueryResult status = 77;
	bool routed = true, streams, itself;
	char name[64], *end;

	for (size_t i = 0; i < KNOWN; i++) {
		known[i].driver = real(known[i].symbol);
		known[i].ours = dlsym(library, known[i].symbol);
		routed &= PART(known[i].ours != known[i].driver);
	}
	for (size_t i = 0; i < KNOWN; i++) {
		snprintf(name, sizeof(name), "%s", known[i].symbol);
		if ((end = strstr(name, "_ptsz")) || (end = strstr(name, "_v2")))
			*end = '\0';
		for (size_t j = 0; j < sizeof(versions) / sizeof(versions[0]); j++) {
			for (cuuint64_t flags = 0; flags <= 3; flags++)
				routed &= same_answers(name, versions[j], flags);
		}
		routed &= same_answers(known[i].symbol, 13000, 0);
	}
	trap("T11",
	     "each name, version and flag gets the wrapper of the function that the driver means",
	     routed);
	cuGetProcAddress_v2("cuMemFreeAsync", &again, 12000,
			    CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, NULL);
	cuGetProcAddress_v2("cuMemFreeAsync", &other, 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM,
			    NULL);
	streams = PART(again == dlsym(library, "cuMemFreeAsync_ptsz")) &&
		  PART(other == dlsym(library, "cuMemFreeAsync")) && PART(again != other);
	trap("T12", "the default stream of the thread has wrappers of its own", streams);
	cuGetProcAddress_v2("cuGetProcAddress", &again, 12000, 0, NULL);
	cuGetProcAddress_v2("cuGetProcAddress", &other, 11030, 0, NULL);
	itself = PART(again == dlsym(library, "cuGetProcAddress_v2")) &&
		 PART(other == dlsym(library, "cuGetProcAddress")) &&
		 PART(again != real("cuGetProcAddress_v2"));
	trap("T9", "a look-up of itself returns itself, in the requested variant", itself);
	trap("T10", "the status may be null, and is the driver's where it is not",
	     PART(cuGetProcAddress_v2("cuMemFree", &again, 12000, 0, NULL) == CUDA_SUCCESS) &&
		     PART(again == dlsym(library, "cuMemFree_v2")) &&
		     PART(cuGetProcAddress_v2("", &again, 0, 0, NULL) == CUDA_SUCCESS) &&
		     PART(!again) &&
		     PART(cuGetProcAddress_v2("cuMemFree", &again, 1, 0, &status) ==
			  CUDA_SUCCESS) &&
		     PART(!again) && PART(status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT));
}

static void t8(void)
{
	__typeof__(cuGetProcAddress_v2) *get_address =
		(__typeof__(get_address))dlsym(library, "cuGetProcAddress_v2");
	__typeof__(cuMemAlloc_v2) *allocate = NULL;
	__typeof__(cuMemFree_v2) *release = NULL;
	uint64_t allocations = statistic("allocations"), frees = statistic("frees");
	CUdeviceptr address;

	/* dlsym once, then each function by cuGetProcAddress, as runtimes since CUDA 11.3. */
	get_address("cuMemAlloc", (void **)&allocate, 3020, 0, NULL);
	get_address("cuMemFree", (void **)&release, 3020, 0, NULL);
	trap("T8", "a runtime that takes every function from cuGetProcAddress is intercepted",
	     PART(allocate && release) && PART(allocate(&address, 4096) == CUDA_SUCCESS) &&
		     PART(release(address) == CUDA_SUCCESS) &&
		     PART(statistic("allocations") == allocations + 1) &&
		     PART(statistic("frees") == frees + 1));
}

/* ---- frees and failures ---- */

static bool is_known(CUdeviceptr address)
{
	uint64_t id;

	return cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address) == CUDA_SUCCESS;
}

static void t14(void)
{
	__typeof__(cuMemAlloc_v2) *allocate = (__typeof__(allocate))real("cuMemAlloc_v2");
	CUdeviceptr address = 0;
	bool kept;

	kept = PART(allocate(&address, 4096) == CUDA_SUCCESS) && PART(is_known(address)) &&
	       PART(cuMemFree_v2(address) == CUDA_SUCCESS) && PART(!is_known(address)) &&
	       PART(cuMemFree_v2(address) == CUDA_ERROR_INVALID_VALUE) &&
	       PART(cuMemFree_v2(0x1234) == CUDA_ERROR_INVALID_VALUE) &&
	       PART(cuMemFree_v2(0) == CUDA_SUCCESS);
	trap("T14", "what is not tracked is freed by the driver all the same", kept);
}

static void t15(void)
{
	CUDA_MEM_ALLOC_NODE_PARAMS parameters = { .bytesize = 100000 };
	uint64_t missed = statistic("missed_frees"), frees = statistic("frees");
	CUdeviceptr kinds[6];
	CUgraphExec exec;
	CUgraphNode node;
	CUgraph graph;
	size_t pitch;
	bool kept;

	parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	parameters.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	kept = PART(cuMemAlloc_v2(&kinds[0], 4096) == CUDA_SUCCESS) &&
	       PART(cuMemAllocPitch_v2(&kinds[1], &pitch, 1000, 10, 4) == CUDA_SUCCESS) &&
	       PART(cuMemAllocManaged(&kinds[2], 4096, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS) &&
	       PART(cuMemAllocAsync(&kinds[3], 4096, NULL) == CUDA_SUCCESS) &&
	       PART(cuMemAllocAsync_ptsz(&kinds[4], 4096, NULL) == CUDA_SUCCESS) &&
	       PART(cuStreamSynchronize(NULL) == CUDA_SUCCESS);
	kept &= PART(cuGraphCreate(&graph, 0) == CUDA_SUCCESS) &&
		PART(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &parameters) == CUDA_SUCCESS) &&
		PART(cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS) &&
		PART(cuGraphLaunch(exec, NULL) == CUDA_SUCCESS);
	kinds[5] = parameters.dptr;
	for (int i = 0; i < 6; i++)
		kept &= PART(is_known(kinds[i])) && PART(cuMemFree_v2(kinds[i]) == CUDA_SUCCESS) &&
			PART(!is_known(kinds[i]));
	kept &= PART(statistic("frees") == frees + 5) && PART(statistic("missed_frees") == missed);
	trap("T15", "one free ends memory of every kind", kept);
}

static void t17(void)
{
	__typeof__(cuMemFree) *old = (__typeof__(old))dlsym(library, "cuMemFree");
	CUdeviceptr address = 0;

	trap("T17", "each form of a name is forwarded to that form",
	     PART(old(0x1000) == CUDA_ERROR_INVALID_CONTEXT) &&
		     PART(cuMemFree(0x1000) == CUDA_ERROR_INVALID_CONTEXT) &&
		     PART(cuMemAlloc_v2(&address, 4096) == CUDA_SUCCESS) &&
		     PART(cuMemFree_v2(address) == CUDA_SUCCESS));
}

static void t21(void)
{
	CUmemGenericAllocationHandle *no_handle = NULL;
	uint64_t allocations, untracked;
	CUdeviceptr living, address;
	CUipcMemHandle nothing = { { 0 } };
	size_t pitch = 7;
	bool kept;

	cuMemAlloc_v2(&living, 40960);
	allocations = statistic("allocations");
	untracked = statistic("untracked");
	kept = PART(cuMemAlloc_v2(NULL, 4096) != CUDA_SUCCESS) &&
	       PART(cuMemAllocAsync(NULL, 4096, NULL) != CUDA_SUCCESS) &&
	       PART(cuMemAllocAsync_ptsz(NULL, 4096, NULL) != CUDA_SUCCESS) &&
	       PART(cuMemAllocManaged(NULL, 4096, CU_MEM_ATTACH_GLOBAL) != CUDA_SUCCESS) &&
	       PART(cuMemAllocPitch_v2(&address, NULL, 100, 10, 4) != CUDA_SUCCESS) &&
	       PART(cuMemAllocPitch_v2(NULL, &pitch, 100, 10, 4) != CUDA_SUCCESS) &&
	       PART(cuMemAllocFromPoolAsync(NULL, 4096, NULL, NULL) != CUDA_SUCCESS) &&
	       PART(cuMemAddressReserve(NULL, UNIT, 0, 0, 0) != CUDA_SUCCESS) &&
	       PART(cuIpcOpenMemHandle_v2(NULL, nothing, 1) != CUDA_SUCCESS) &&
	       PART(cuExternalMemoryGetMappedBuffer(&address, NULL, NULL) != CUDA_SUCCESS) &&
	       PART(cuMemCreate(no_handle, UNIT, NULL, 0) != CUDA_SUCCESS) &&
	       PART(cuMemSetAccess(0x1000, UNIT, NULL, 3) != CUDA_SUCCESS) &&
	       PART(cuMemGetHandleForAddressRange(NULL, living, 4096,
						  CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
						  0) != CUDA_SUCCESS) &&
	       PART(cuGetProcAddress_v2("cuMemFree", NULL, 12000, 0, NULL) != CUDA_SUCCESS) &&
	       PART(cuGetProcAddress_v2(NULL, (void **)&address, 12000, 0, NULL) != CUDA_SUCCESS);
	/* A failed call allocates nothing. */
	address = living;
	kept &= PART(cuMemAlloc_v2(&address, 0) != CUDA_SUCCESS);
	address = living + 512;
	kept &= PART(cuIpcOpenMemHandle_v2(&address, nothing, 1) != CUDA_SUCCESS);
	address = living;
	kept &= PART(cuMemAllocManaged(&address, 4096, 9) != CUDA_SUCCESS);
	kept &= PART(statistic("allocations") == allocations) &&
		PART(statistic("untracked") == untracked) && PART(statistic("missed_frees") == 0);
	cuMemFree_v2(living);
	trap("T21", "null and failed outputs are left to the driver", kept);
}

/* ---- mappings ---- */

static void mappings(void)
{
	CUmemAllocationProp *properties =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CUmemAccessDesc access = { .location = { CU_MEM_LOCATION_TYPE_DEVICE, device },
				   .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle handles[2];
	unsigned int capable = 9;
	CUdeviceptr address = 0;
	uint64_t bytes, allocations;
	bool kept;

	properties->type = CU_MEM_ALLOCATION_TYPE_PINNED;
	properties->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	properties->location.id = device;
	/* A wrapper that set a flag here would fail. */
	mprotect(properties, 4096, PROT_READ);
	kept = PART(cuMemCreate(&handles[0], UNIT, properties, 0) == CUDA_SUCCESS) &&
	       PART(cuMemCreate(&handles[1], UNIT, properties, 0) == CUDA_SUCCESS) &&
	       PART(cuMemAddressReserve(&address, 4 * UNIT, 0, 0, 0) == CUDA_SUCCESS);
	allocations = statistic("allocations");
	bytes = statistic("allocated_bytes");
	kept &= PART(cuMemMap(address, UNIT, 0, handles[0], 0) == CUDA_SUCCESS) &&
		PART(cuMemMap(address + UNIT, UNIT, 0, handles[1], 0) == CUDA_SUCCESS) &&
		PART(cuMemSetAccess(address, 2 * UNIT, &access, 1) == CUDA_SUCCESS);
	kept &= PART(!cuPointerGetAttribute(
			&capable, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, address)) &&
		PART(capable == 0);
	trap("T33", "attributes of memory are forwarded unchanged", kept);
	kept = PART(statistic("allocations") == allocations + 2) &&
	       PART(statistic("allocated_bytes") == bytes + 2 * UNIT) &&
	       PART(cuMemUnmap(address, 4 * UNIT) == CUDA_SUCCESS) &&
	       PART(cuMemAddressFree(address, 4 * UNIT) == CUDA_SUCCESS) &&
	       PART(statistic("missed_frees") == 0);
	trap("T34", "each mapping is recorded as it was made", kept);
	cuMemRelease(handles[0]);
	cuMemRelease(handles[1]);
}

/* ---- before anything has begun ---- */

static void *free_early(void *result)
{
	*(CUresult *)result = cuMemFree_v2(0x1000);
	return NULL;
}

static void t16(void)
{
	CUresult results[8];
	pthread_t threads[8];
	bool kept = true;

	for (int i = 0; i < 8; i++)
		kept &= !pthread_create(&threads[i], NULL, free_early, &results[i]);
	for (int i = 0; i < 8; i++)
		kept &= !pthread_join(threads[i], NULL) &&
			PART(results[i] == CUDA_ERROR_NOT_INITIALIZED);
	trap("T16", "a free before everything is the driver's to answer, on any thread", kept);
}

int main(void)
{
	void *plugin = dlopen(getenv("MATRIX_BYPASS"), RTLD_NOW | RTLD_LOCAL), *linked;
	void *(*next)(const char *);

	t16();
	library = dlopen("libcuda.so.1", RTLD_NOW);
	real = plugin ? (void *(*)(const char *))dlsym(plugin, "driver_function") : NULL;
	if (!library || !real || cuInit(0) || cuDeviceGet(&device, 0) ||
	    cuCtxCreate_v2(&context, 0, device))
		return 99;
	t3();
	t5();
	t7();
	t8();
	proc_address();
	t14();
	t15();
	t17();
	t21();
	mappings();
	t31();
	linked = dlopen(getenv("TRAPS_LINKED"), RTLD_NOW | RTLD_LOCAL);
	next = linked ? (void *(*)(const char *))dlsym(linked, "next_function") : NULL;
	if (!next)
		return 99;
	trap("UCX", "gets the driver's own, unless it is told to patch relocations",
	     PART(real("cuMemFree_v2") != dlsym(library, "cuMemFree_v2")) &&
		     PART(next("cuMemFree_v2") == real("cuMemFree_v2")) &&
		     PART(!setenv("UCX_MEM_CUDA_HOOK_MODE", "bistro,Reloc", 1)) &&
		     PART(real("cuMemFree_v2") == dlsym(library, "cuMemFree_v2")) &&
		     PART(next("cuMemFree_v2") == dlsym(library, "cuMemFree_v2")));
	return 0;
}
