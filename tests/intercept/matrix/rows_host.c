/* SPDX-License-Identifier: BSD-3-Clause */
/* rows_host.c -- rows of host memory, modules, libraries, graphics, and contexts of the old
 * interface */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "steps.h"

#define PAGE ((size_t)4096)

/* ---- memory of the host ---- */

bool test_cuMemAllocHost_v2(void)
{
	void *address;

	NEED(RISES("host_allocations", f->cuMemAllocHost_v2(&address, SIZE)));
	return OK(driver.cuMemFreeHost(address));
}

/* Not measured: whether a real driver's queries know allocations of the old interface. */
static bool old_allocate_host(void)
{
	uint64_t before = count("host_allocations") + count("untracked");
	void *address;

	NEED(OK(f->cuMemAllocHost(&address, SIZE)));
	NEED(count("host_allocations") + count("untracked") == before + 1);
	return OK(driver.cuMemFreeHost(address));
}

bool test_cuMemAllocHost(void)
{
	return in_old_context(old_allocate_host);
}

bool test_cuMemHostAlloc(void)
{
	void *address;

	NEED(RISES("host_allocations",
		   f->cuMemHostAlloc(&address, SIZE, CU_MEMHOSTALLOC_PORTABLE)));
	return OK(driver.cuMemFreeHost(address));
}

bool test_cuMemFreeHost(void)
{
	void *address;

	NEED(OK(driver.cuMemHostAlloc(&address, SIZE, 0)));
	return RISES("host_frees", f->cuMemFreeHost(address));
}

static char pages[16 * PAGE] __attribute__((aligned(4096)));

bool test_cuMemHostRegister_v2(void)
{
	NEED(RISES("host_allocations", f->cuMemHostRegister_v2(pages, sizeof(pages), 0)));
	return OK(driver.cuMemHostUnregister(pages));
}

bool test_cuMemHostRegister(void)
{
	NEED(RISES("host_allocations", f->cuMemHostRegister(pages, sizeof(pages), 0)));
	return OK(driver.cuMemHostUnregister(pages));
}

bool test_cuMemHostUnregister(void)
{
	NEED(OK(driver.cuMemHostRegister_v2(pages, sizeof(pages), 0)));
	return RISES("host_frees", f->cuMemHostUnregister(pages));
}

/* ---- modules and libraries ---- */

static const char source[] =
	".version 7.0\n.target sm_52\n.address_size 64\n.visible .global .align 4 .b8 gvar[4096];\n"
	".visible .global .attribute(.managed) .align 4 .b8 mvar[4096];\n";

static bool write_source(char *file)
{
	int descriptor = mkstemp(file);
	bool good = descriptor >= 0 && write(descriptor, source, sizeof(source)) == sizeof(source);

	if (descriptor >= 0)
		close(descriptor);
	return good;
}

bool test_cuModuleLoad(void)
{
	char file[] = "/tmp/peerpin-matrix-XXXXXX";
	CUmodule module;
	bool good;

	NEED(write_source(file));
	good = RISES("host_events", f->cuModuleLoad(&module, file));
	unlink(file);
	return good && OK(driver.cuModuleUnload(module));
}

bool test_cuModuleLoadData(void)
{
	CUmodule module;

	NEED(RISES("host_events", f->cuModuleLoadData(&module, source)));
	return OK(driver.cuModuleUnload(module));
}

bool test_cuModuleLoadDataEx(void)
{
	CUmodule module;

	NEED(RISES("host_events", f->cuModuleLoadDataEx(&module, source, 0, NULL, NULL)));
	return OK(driver.cuModuleUnload(module));
}

/* The driver decides whether source alone is a fat binary. */
bool test_cuModuleLoadFatBinary(void)
{
	__typeof__(cuModuleLoadFatBinary) *load = (__typeof__(load))bypass("cuModuleLoadFatBinary");
	CUmodule module;

	if (!OK(load(&module, source)))
		SKIP("this driver takes no source for a fat binary");
	NEED(OK(driver.cuModuleUnload(module)));
	NEED(RISES("host_events", f->cuModuleLoadFatBinary(&module, source)));
	return OK(driver.cuModuleUnload(module));
}

bool test_cuModuleGetGlobal_v2(void)
{
	CUdeviceptr address;
	CUmodule module;
	size_t size;

	NEED(OK(driver.cuModuleLoadData(&module, source)));
	NEED(RISES("host_events", f->cuModuleGetGlobal_v2(&address, &size, module, "gvar")));
	return OK(driver.cuModuleUnload(module));
}

static bool old_get_global(void)
{
	CUdeviceptr_v1 address;
	CUmodule module;
	unsigned int size;

	NEED(OK(driver.cuModuleLoadData(&module, source)));
	NEED(RISES("host_events", f->cuModuleGetGlobal(&address, &size, module, "gvar")));
	return OK(driver.cuModuleUnload(module));
}

bool test_cuModuleGetGlobal(void)
{
	char name[64] = "";

	NEED(OK(driver.cuDeviceGetName(name, sizeof(name), device)));
	if (!strstr(name, "simulated"))
		SKIP("a real driver crashes when a module is loaded in an old context (measured)");
	return in_old_context(old_get_global);
}

bool test_cuLibraryLoadData(void)
{
	CUlibrary library;

	NEED(RISES("host_events",
		   f->cuLibraryLoadData(&library, source, NULL, NULL, 0, NULL, NULL, 0)));
	return OK(driver.cuLibraryUnload(library));
}

bool test_cuLibraryLoadFromFile(void)
{
	char file[] = "/tmp/peerpin-matrix-XXXXXX";
	CUlibrary library;
	bool good;

	NEED(write_source(file));
	good = RISES("host_events",
		     f->cuLibraryLoadFromFile(&library, file, NULL, NULL, 0, NULL, NULL, 0));
	unlink(file);
	return good && OK(driver.cuLibraryUnload(library));
}

bool test_cuLibraryGetGlobal(void)
{
	CUdeviceptr address;
	CUlibrary library;
	size_t size;

	NEED(OK(driver.cuLibraryLoadData(&library, source, NULL, NULL, 0, NULL, NULL, 0)));
	NEED(RISES("host_events", f->cuLibraryGetGlobal(&address, &size, library, "gvar")));
	return OK(driver.cuLibraryUnload(library));
}

bool test_cuLibraryGetManaged(void)
{
	CUdeviceptr address;
	CUlibrary library;
	size_t size;

	NEED(OK(driver.cuLibraryLoadData(&library, source, NULL, NULL, 0, NULL, NULL, 0)));
	NEED(RISES("host_events", f->cuLibraryGetManaged(&address, &size, library, "mvar")));
	return OK(driver.cuLibraryUnload(library));
}

/* ---- graphics ---- */

/* OpenGL buffer 1 does not exist for a real driver: no OpenGL context is current. */
static bool make_resource(CUgraphicsResource *resource)
{
	CUresult (*take)(CUgraphicsResource *, unsigned int, unsigned int) =
		(CUresult(*)(CUgraphicsResource *, unsigned int, unsigned int))bypass(
			"cuGraphicsGLRegisterBuffer");

	return take && OK(take(resource, 1, 0));
}

static bool end_resource(CUgraphicsResource resource)
{
	return OK(driver.cuGraphicsUnmapResources(1, &resource, NULL)) &&
	       OK(driver.cuGraphicsUnregisterResource(resource));
}

#define NO_GRAPHICS "there is no graphics interface"

bool test_cuGraphicsMapResources(void)
{
	CUgraphicsResource resource;

	if (!make_resource(&resource))
		SKIP(NO_GRAPHICS);
	NEED(RISES("host_events", f->cuGraphicsMapResources(1, &resource, NULL)));
	return end_resource(resource);
}

bool test_cuGraphicsMapResources_ptsz(void)
{
	CUgraphicsResource resource;

	if (!make_resource(&resource))
		SKIP(NO_GRAPHICS);
	NEED(RISES("host_events", f->cuGraphicsMapResources_ptsz(1, &resource, NULL)));
	return end_resource(resource);
}

bool test_cuGraphicsResourceGetMappedPointer_v2(void)
{
	CUgraphicsResource resource;
	CUdeviceptr address;
	size_t size;

	if (!make_resource(&resource))
		SKIP(NO_GRAPHICS);
	NEED(OK(driver.cuGraphicsMapResources(1, &resource, NULL)));
	NEED(RISES("host_events",
		   f->cuGraphicsResourceGetMappedPointer_v2(&address, &size, resource)));
	return end_resource(resource);
}

static bool old_get_mapped_pointer(void)
{
	CUgraphicsResource resource;
	CUdeviceptr_v1 address;
	unsigned int size;

	if (!make_resource(&resource))
		SKIP(NO_GRAPHICS);
	NEED(OK(driver.cuGraphicsMapResources(1, &resource, NULL)));
	NEED(RISES("host_events",
		   f->cuGraphicsResourceGetMappedPointer(&address, &size, resource)));
	return end_resource(resource);
}

bool test_cuGraphicsResourceGetMappedPointer(void)
{
	return in_old_context(old_get_mapped_pointer);
}

/* ---- contexts of the old interface ---- */

/* From here on the driver answers all queries. */
bool test_cuCtxCreate(void)
{
	__typeof__(cuCtxCreate) *create = (__typeof__(create))bypass("cuCtxCreate");
	unsigned long long id;
	CUdeviceptr address;
	uint64_t answered;
	CUcontext old;

	if (!OK(create(&old, 0, device)))
		SKIP("on this device a context of the old interface has to be the first");
	NEED(OK(driver.cuCtxDestroy_v2(old)));
	NEED(OK(driver.cuMemAlloc_v2(&address, SIZE)));
	NEED(RISES("queries_answered",
		   driver.cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address)));
	NEED(RISES("host_events", f->cuCtxCreate(&old, 0, device)) &&
	     OK(driver.cuCtxDestroy_v2(old)));
	answered = count("queries_answered");
	NEED(OK(driver.cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address)));
	NEED(count("queries_answered") == answered);
	return OK(driver.cuMemFree_v2(address));
}
