/* SPDX-License-Identifier: BSD-3-Clause */
/* reload.c -- a driver, or libibverbs, leaves the process and returns: elsewhere or at its address,
 * as the same or another build, reached by link, dlsym or cuGetProcAddress
 *
 * usage: reload drivers FIRST-PATH FIRST-WAY SECOND-PATH SECOND-WAY same|elsewhere
 *        reload second|namespace FIRST-PATH SECOND-PATH LIBIBVERBS
 *        reload verbs DRIVER-PATH FIRST-LIBIBVERBS SECOND-LIBIBVERBS
 */
#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>

#include "../traps/traps.h"
#include "memory/cuda_abi.h"
#include "sim/adapter_verbs.h"

#define SIZE ((size_t)1 << 20)

struct life {
	void *driver, *plugin;
	__typeof__(cuInit) *init;
	__typeof__(cuMemAlloc_v2) *allocate;
	__typeof__(cuMemFree_v2) *give_back;
	__typeof__(cuMemFreeAsync) *free_async; /* NULL: an old driver */
};

#define LOOK_UP(name) ((__typeof__(name) *)dlsym(life->driver, #name))

static bool begin(struct life *life, const char *path, const char *way)
{
	*life = (struct life){ .driver = dlopen(path, RTLD_NOW) };
	if (!PART(life->driver))
		return false;
	life->init = LOOK_UP(cuInit);
	if (!strcmp(way, "linked")) {
		life->plugin = dlopen(getenv("RELOAD_PLUGIN"), RTLD_NOW);
		if (!PART(life->plugin))
			return false;
		life->allocate = dlsym(life->plugin, "plugin_allocate");
		life->give_back = dlsym(life->plugin, "plugin_free");
		life->free_async = dlsym(life->plugin, "plugin_free_async");
	} else if (!strcmp(way, "dlsym")) {
		life->allocate = LOOK_UP(cuMemAlloc_v2);
		life->give_back = LOOK_UP(cuMemFree_v2);
		life->free_async = LOOK_UP(cuMemFreeAsync);
	} else {
		__typeof__(cuGetProcAddress_v2) *look_up = LOOK_UP(cuGetProcAddress_v2);

		if (!PART(look_up &&
			  look_up("cuMemAlloc", (void **)&life->allocate, 12000, 0, NULL) == 0 &&
			  look_up("cuMemFree", (void **)&life->give_back, 12000, 0, NULL) == 0 &&
			  look_up("cuMemFreeAsync", (void **)&life->free_async, 12000, 0, NULL) ==
				  0))
			return false;
	}
	return PART(life->init && life->allocate && life->give_back);
}

static bool make_context(struct life *life)
{
	__typeof__(cuCtxCreate_v2) *create = LOOK_UP(cuCtxCreate_v2);
	CUcontext context;

	return !life->init(0) && (!create || !create(&context, 0, 0));
}

/* Each allocation and each free arrives at the driver, and peerpin sees it. */
static bool serves(struct life *life)
{
	uint64_t before = statistic("allocations");
	CUdeviceptr address;

	return PART(make_context(life)) && PART(!life->allocate(&address, SIZE)) &&
	       PART(statistic("allocations") == before + 1) && PART(!life->give_back(address)) &&
	       PART(life->give_back(address) != CUDA_SUCCESS) && PART(statistic("bypasses") == 0);
}

/* Closes a library and maps pages at its address, if it is to return elsewhere. */
static bool leave(void *library, const char *soname, bool elsewhere)
{
	char *base = (char *)((struct link_map *)library)->l_addr;

	if (!PART(!dlclose(library)) || !PART(!dlopen(soname, RTLD_LAZY | RTLD_NOLOAD)))
		return false;
	for (size_t page = 0; elsewhere && page < 1024; page++)
		mmap(base + page * 4096, 4096, PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	return true;
}

static bool drivers(char **arguments)
{
	CUdeviceptr address = 0;
	struct life life;
	const char *base;
	bool elsewhere = !strcmp(arguments[4], "elsewhere");

	if (!begin(&life, arguments[0], arguments[1]))
		return false;
	base = (char *)((struct link_map *)life.driver)->l_addr;
	/* Before cuInit: calls arrive, and fail. That of a free makes peerpin look for its own. */
	if (!PART(life.allocate(&address, SIZE) != CUDA_SUCCESS) ||
	    !PART(life.free_async(SIZE, NULL) != CUDA_SUCCESS) ||
	    !PART(!life.plugin || !dlclose(life.plugin)) ||
	    !leave(life.driver, "libcuda.so.1", elsewhere))
		return false;
	return begin(&life, arguments[2], arguments[3]) &&
	       PART(!elsewhere || (char *)((struct link_map *)life.driver)->l_addr != base) &&
	       serves(&life);
}

/* An adapter is opened, used and closed. `address`: GPU memory, or 0. */
static bool use_adapter(void *library, CUdeviceptr address)
{
#define VERBS(name) ((__typeof__(name) *)dlsym(library, #name))
	static char host[4096];
	struct ibv_context *device = NULL;
	struct ibv_device **devices;
	uint64_t hits = statistic("hits");
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	bool used = true;
	int count = 0;

	devices = VERBS(ibv_get_device_list)(&count);
	device = count ? VERBS(ibv_open_device)(devices[0]) : NULL;
	VERBS(ibv_free_device_list)(devices);
	pd = device ? VERBS(ibv_alloc_pd)(device) : NULL;
	if (!PART(pd))
		return false;
	mr = VERBS(ibv_reg_mr)(pd, host, sizeof(host), IBV_ACCESS_LOCAL_WRITE);
	used = PART(mr) && PART(!VERBS(ibv_dereg_mr)(mr));
	for (int i = 0; used && address && i < 3; i++) {
		mr = VERBS(ibv_reg_mr)(pd, (void *)address, SIZE, IBV_ACCESS_LOCAL_WRITE);
		used = PART(mr) && PART(!VERBS(ibv_dereg_mr)(mr));
	}
	return used && PART(!address || statistic("hits") >= hits + 2) &&
	       PART(!VERBS(ibv_dealloc_pd)(pd)) && PART(!VERBS(ibv_close_device)(device));
}

/* Two copies at once, of which the program uses the second: in this namespace, or in another one.
 */
static bool second_copy(char **arguments, bool elsewhere)
{
	struct life first, second = { .driver = NULL }, *life = &second;
	CUdeviceptr address;
	void *library;

	if (!elsewhere && !begin(&first, arguments[0], "dlsym"))
		return false;
	if (!elsewhere)
		return begin(life, arguments[1], "dlsym") && PART(make_context(life)) &&
		       PART(!life->allocate(&address, SIZE)) && PART(!life->give_back(address));
	life->driver = dlmopen(LM_ID_NEWLM, arguments[1], RTLD_NOW);
	life->init = life->driver ? LOOK_UP(cuInit) : NULL;
	if (!PART(life->init && !life->init(0)))
		return false;
	/* Reported when an adapter is used, before the exit. */
	library = dlopen(arguments[2], RTLD_NOW);
	return PART(library) && use_adapter(library, 0) && PART(statistic("bypasses") == 1);
}

static bool verbs(char **arguments)
{
	void *library = dlopen(arguments[1], RTLD_NOW);
	void (*subscribe)(void *);
	CUdeviceptr address = 0;
	struct life life;

	if (!PART(library) || !use_adapter(library, 0) ||
	    !leave(library, "libibverbs.so.1", true) || !begin(&life, arguments[0], "dlsym") ||
	    !PART(make_context(&life)) || !PART(!life.allocate(&address, SIZE)))
		return false;
	/* The driver stays: twice more, with memory. */
	for (int i = 0; i < 2; i++) {
		library = dlopen(arguments[2 - i], RTLD_NOW);
		if (!PART(library) || !use_adapter(library, address))
			return false;
		/* The simulated driver calls the simulated adapter at each free. */
		subscribe = (void (*)(void *))dlsym(life.driver, "sim_driver_subscribe");
		subscribe(NULL);
		if (!leave(library, "libibverbs.so.1", true))
			return false;
	}
	return PART(!life.give_back(address));
}

int main(int argc, char **argv)
{
	const char *what = argc > 3 ? argv[1] : "";

	if (!strcmp(what, "drivers") && argc == 7)
		return !drivers(argv + 2);
	if (!strcmp(what, "second") || !strcmp(what, "namespace"))
		return !second_copy(argv + 2, *what == 'n');
	return strcmp(what, "verbs") || !verbs(argv + 2);
}
