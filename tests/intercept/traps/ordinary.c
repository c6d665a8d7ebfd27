/* SPDX-License-Identifier: BSD-3-Clause */
/* ordinary.c -- traps on an ordinary driver */
#include "traps.h"

#include <pthread.h>
#include <string.h>

#include "memory/cuda_abi.h"

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
	other = dlsym(dlopen(getenv("TRAPS_HOOKS"), RTLD_NOW | RTLD_LOCAL), "cuMemFree_v2");
	kept &= PART(other && dladdr(other, &object) && strstr(object.dli_fname, "hooks"));
	trap("T7", "a missing symbol is not found, and the error is the linker's own", kept);
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

int main(void)
{
	void *plugin = dlopen(getenv("MATRIX_BYPASS"), RTLD_NOW | RTLD_LOCAL), *linked;
	void *(*next)(const char *);

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
