/* SPDX-License-Identifier: BSD-3-Clause */
/* with_loads.c -- bypassing callers are detected also if they are loaded after the first hits
 *
 * with_loads WAY: one way of loading in each run, since after the first bypass all hits are
 * verified.
 */
#include <string.h>

#include "memory/cuda_abi.h"
#include "sim/adapter_verbs.h"
#include "sim/sim_adapter.h"
#include "traps.h"

#define SIZE ((size_t)4 << 20)

typedef CUresult free_function(CUdeviceptr address);
typedef void *open_function(const char *file, int mode);

static struct ibv_pd *pd;

static bool open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	pd = ibv_alloc_pd(ibv_open_device(list[0]));
	ibv_free_device_list(list);
	/* The callers that peerpin does not see free memory under a registration. */
	return pd && !sim_adapter_set("outlive", 1);
}

static uint64_t live_regions(void)
{
	uint64_t live = 1;

	sim_adapter_statistic("live", &live);
	return live;
}

static __typeof__(cuMemAlloc_v2) *allocate;
static __typeof__(cuMemFree_v2) *give_back;

#ifdef LINKED
static bool begin(void)
{
	CUcontext context;
	CUdevice device;

	allocate = cuMemAlloc_v2;
	give_back = cuMemFree_v2;
	return open_device() && cuInit(0) == CUDA_SUCCESS &&
	       cuDeviceGet(&device, 0) == CUDA_SUCCESS &&
	       cuCtxCreate_v2(&context, 0, device) == CUDA_SUCCESS;
}
#else
/* The program itself must not be bound to the driver. */
static bool begin(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	__typeof__(cuInit) *init = driver ? (__typeof__(init))dlsym(driver, "cuInit") : NULL;
	__typeof__(cuDeviceGet) *get =
		driver ? (__typeof__(get))dlsym(driver, "cuDeviceGet") : NULL;
	__typeof__(cuCtxCreate_v2) *create =
		driver ? (__typeof__(create))dlsym(driver, "cuCtxCreate_v2") : NULL;
	CUcontext context;
	CUdevice device;

	allocate = driver ? (__typeof__(allocate))dlsym(driver, "cuMemAlloc_v2") : NULL;
	give_back = driver ? (__typeof__(give_back))dlsym(driver, "cuMemFree_v2") : NULL;
	return open_device() && init && get && create && allocate && give_back &&
	       init(0) == CUDA_SUCCESS && get(&device, 0) == CUDA_SUCCESS &&
	       create(&context, 0, device) == CUDA_SUCCESS;
}
#endif

static bool request(CUdeviceptr address)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, (void *)address, SIZE, IBV_ACCESS_LOCAL_WRITE);

	return mr && !ibv_dereg_mr(mr);
}

static bool hits(CUdeviceptr address)
{
	uint64_t before = statistic("hits");

	return PART(request(address)) && PART(request(address)) && PART(statistic("hits") > before);
}

static free_function *open_deep(open_function *open)
{
	void *plugin = open ? open(getenv("TRAPS_DEEPBIND"), RTLD_LAZY | RTLD_LOCAL | RTLD_DEEPBIND)
			    : NULL;

	return plugin ? (free_function *)dlsym(plugin, "deepbind_free") : NULL;
}

static open_function *of_libc(void)
{
	void *libc = dlopen("libc.so.6", RTLD_NOW), *libdl = dlopen("libdl.so.2", RTLD_NOW);
	open_function *found = libc ? (open_function *)dlsym(libc, "dlopen") : NULL;

	return !found && libdl ? (open_function *)dlsym(libdl, "dlopen") : found;
}

static open_function *of_a_version(void)
{
	static const char *const versions[] = { "GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5" };
	void *found = NULL;

	for (size_t i = 0; i < 3 && !found; i++)
		found = dlvsym(RTLD_DEFAULT, "dlopen", versions[i]);
	return (open_function *)found;
}

/* 1: a preload in front of peerpin or an audit library has set the flag before. */
static uint64_t preceding;

/* A missed free, then a request: the record is stale, and the kernel refuses the address. */
static bool is_stale(free_function *bypassing_free, CUdeviceptr address)
{
	return PART(bypassing_free) && PART(bypassing_free(address) == CUDA_SUCCESS) &&
	       PART(!request(address)) && PART(statistic("missed_frees") == 1) &&
	       PART(live_regions() == 0);
}

static bool is_found(free_function *bypassing_free, CUdeviceptr address)
{
	return is_stale(bypassing_free, address) && PART(statistic("bypasses") == 1);
}

/* Another copy of the driver, with memory of its own. */
static bool is_found_copy(void *copy, CUdeviceptr address)
{
	return PART(copy) && PART(request(address)) && PART(statistic("bypasses") == 1);
}

static void *use(void *copy)
{
	return copy && dlsym(copy, "cuMemFree_v2") ? copy : NULL;
}

static free_function *open_plainly(void)
{
	void *plugin = dlopen(getenv("TRAPS_DEEPBIND"), RTLD_LAZY | RTLD_LOCAL);

	return plugin ? (free_function *)dlsym(plugin, "deepbind_free") : NULL;
}

/* As Python programs do. The loads by what was found are plain. */
static bool look_ups_set_no_flag(void)
{
	open_function *found[] = { of_libc(), of_a_version(),
				   (open_function *)dlsym(RTLD_NEXT, "dlopen") };
	bool kept = PART(dlopen(getenv("TRAPS_DRIVER"), RTLD_NOW | RTLD_NOLOAD | RTLD_DEEPBIND)) &&
		    PART(dlmopen(LM_ID_BASE, getenv("TRAPS_DEEPBIND"), RTLD_NOW)) &&
		    PART(dlsym(RTLD_NEXT, "dlmopen")) && PART(dlsym(RTLD_NEXT, "dlsym"));

	for (size_t i = 0; i < sizeof(found) / sizeof(found[0]); i++)
		kept &= PART(found[i]) && PART(found[i](getenv("TRAPS_DEEPBIND"), RTLD_NOW));
	return kept;
}

static bool plain_is_seen(CUdeviceptr address)
{
	free_function *free_seen = open_plainly();
	CUdeviceptr again;

	return PART(look_ups_set_no_flag()) && PART(free_seen) && PART(hits(address)) &&
	       PART(free_seen(address) == CUDA_SUCCESS) && PART(live_regions() == 0) &&
	       PART(allocate(&again, SIZE) == CUDA_SUCCESS) && PART(hits(again)) &&
	       PART(give_back(again) == CUDA_SUCCESS) && PART(statistic("bypasses") == 0);
}

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "";
	CUdeviceptr address;
	bool kept;

	if (!begin())
		return 99;
	preceding = !strcmp(way, "overridden") || !strcmp(way, "behind") || !strcmp(way, "auditor");
	kept = PART(allocate(&address, SIZE) == CUDA_SUCCESS) && hits(address) &&
	       PART(statistic("bypasses") == preceding);
	if (!strcmp(way, "plain"))
		trap("T23c",
		     "a plain dlopen() is intercepted, and hits go on, also after look-ups of "
		     "dlopen",
		     kept && plain_is_seen(address));
	else if (!strcmp(way, "deep"))
		trap("T23d", "RTLD_DEEPBIND is found between two hits",
		     kept && is_found(open_deep(dlopen), address));
	else if (!strcmp(way, "libc"))
		trap("T23e", "the same by libc's own dlopen",
		     kept && is_found(open_deep(of_libc()), address));
	else if (!strcmp(way, "version"))
		trap("T23f", "the same by a version's dlopen",
		     kept && is_found(open_deep(of_a_version()), address));
	else if (!strcmp(way, "namespace"))
		trap("T23g", "a namespace is found between two hits",
		     kept && is_found_copy(dlmopen(LM_ID_NEWLM, getenv("TRAPS_DRIVER"),
						   RTLD_NOW | RTLD_LOCAL),
					   address));
	else if (!strcmp(way, "copy"))
		trap("T23h", "another copy of the driver is found when it is used",
		     kept && is_found_copy(use(dlopen(getenv("TRAPS_COPY"), RTLD_NOW | RTLD_LOCAL)),
					   address));
	else if (!strcmp(way, "auditor"))
		trap("T23i", "an audit library is reported before a free that it rebinds",
		     kept && is_found(give_back, address));
	else if (!strcmp(way, "overridden"))
		trap("T23j", "RTLD_DEEPBIND is found where somebody in front of us overrides dlsym",
		     kept && is_found(open_deep(of_libc()), address));
	else if (!strcmp(way, "behind"))
		trap("T23k",
		     "a plain dlopen() is found where the driver stands in front of peerpin",
		     kept && is_found(open_plainly(), address));
	else
		return 99;
	return 0;
}
