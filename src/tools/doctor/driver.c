/* SPDX-License-Identifier: BSD-3-Clause */
/* driver.c -- readings cuda/: the CUDA driver, each GPU, and memory of each kind on it
 *
 * One child makes the calls that need no context. One child per GPU then retains the primary
 * context and allocates memory of each kind, so that a broken GPU hides no other. Readings
 * beside those of host.h:
 *
 *   cuda/N/ended            end of that GPU's child; cuda/N/output: its output (child.h)
 *   cuda/nvml/ended         end of the child that called NVIDIA's management library, which is
 *                           optional
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/doctor/calls.h"
#include "tools/doctor/host.h"

/* GPUs without persistence mode may take seconds to start. */
#define START_SECONDS 20
#define NVML_SECONDS  10

#define LENGTH	     ((size_t)2 << 20)
#define PCIE_MAPPING 1ULL /* CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE */

static const int attributes[] = { 18, 110, 116, 117, 118, 124 };

/* ---- driver and devices ---- */

static int driver_device_attribute(int device, int attribute)
{
	int value = 0;

	return CUDA(cuDeviceGetAttribute, &value, (CUdevice_attribute)attribute, device) ==
			       CUDA_SUCCESS
		       ? value
		       : -1;
}

static void driver_read_attribute(struct host *host, int device, int attribute)
{
	int value = 0;
	CUresult result = CUDA(cuDeviceGetAttribute, &value, (CUdevice_attribute)attribute, device);
	const char *name = reading_name("cuda/%d/attribute/%d", device, attribute);

	if (result == CUDA_SUCCESS)
		host_record(host, name, "%d", value);
	else
		host_record_error(host, name, EINVAL, "%s", cuda_result(result));
}

static void driver_read_device(struct host *host, int device)
{
	char text[200] = "";
	size_t bytes;

	if (CUDA(cuDeviceGetName, text, sizeof(text) - 1, device) == CUDA_SUCCESS)
		host_record(host, reading_name("cuda/%d/name", device), "%s", text);
	host_record(
		host, reading_name("cuda/%d/pci", device), "%04x:%02x:%02x.0",
		(unsigned int)driver_device_attribute(device, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
		(unsigned int)driver_device_attribute(device, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID),
		(unsigned int)driver_device_attribute(device, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID));
	host_record(host, reading_name("cuda/%d/compute", device), "%d.%d",
		    driver_device_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
		    driver_device_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
	if (CUDA(cuDeviceTotalMem_v2, &bytes, device) == CUDA_SUCCESS)
		host_record(host, reading_name("cuda/%d/memory", device), "%zu", bytes);
	for (size_t i = 0; i < sizeof(attributes) / sizeof(*attributes); i++)
		driver_read_attribute(host, device, attributes[i]);
}

static void driver_query(struct host *host)
{
	const char *error = cuda_load();
	int version, count = 0;
	CUresult result;

	if (error) {
		host_record_error(host, "cuda/library", ENOENT, "%s", error);
		return;
	}
	host_record(host, "cuda/library", "%s", cuda_file());
	result = CUDA(cuInit, 0);
	host_record(host, "cuda/init", "%s", cuda_result(result));
	if (CUDA(cuDriverGetVersion, &version) == CUDA_SUCCESS)
		host_record(host, "cuda/driver_version", "%d", version);
	if (result != CUDA_SUCCESS || CUDA(cuDeviceGetCount, &count) != CUDA_SUCCESS)
		return;
	host_record(host, "cuda/count", "%d", count);
	for (int device = 0; device < count; device++)
		driver_read_device(host, device);
}

/* ---- memory of each kind ---- */

struct piece {
	int device;
	CUdeviceptr address;
	size_t length;
	CUmemGenericAllocationHandle handle;
	bool capable; /* VMM memory: with gpuDirectRDMACapable */
};

static const char *failure; /* of the last failed MADE */

#define MADE(call, ...) cuda_made(#call, CUDA(call, __VA_ARGS__), &failure)

static bool driver_make_device(struct piece *piece)
{
	return MADE(cuMemAlloc_v2, &piece->address, piece->length);
}

static void driver_free_device(struct piece *piece)
{
	CUDA(cuMemFree_v2, piece->address);
}

static bool driver_make_pool(struct piece *piece)
{
	CUmemoryPool pool;

	return MADE(cuDeviceGetDefaultMemPool, &pool, piece->device) &&
	       MADE(cuMemAllocFromPoolAsync, &piece->address, piece->length, pool, NULL) &&
	       MADE(cuStreamSynchronize, NULL);
}

static void driver_free_pool(struct piece *piece)
{
	CUmemoryPool pool;

	CUDA(cuMemFreeAsync, piece->address, NULL);
	CUDA(cuStreamSynchronize, NULL);
	if (CUDA(cuDeviceGetDefaultMemPool, &pool, piece->device) == CUDA_SUCCESS)
		CUDA(cuMemPoolTrimTo, pool, 0);
}

static bool driver_map(struct piece *piece)
{
	const CUmemAccessDesc access = { { CU_MEM_LOCATION_TYPE_DEVICE, piece->device },
					 CU_MEM_ACCESS_FLAGS_PROT_READWRITE };

	if (!MADE(cuMemAddressReserve, &piece->address, piece->length, 0, 0, 0))
		return false;
	if (MADE(cuMemMap, piece->address, piece->length, 0, piece->handle, 0)) {
		if (MADE(cuMemSetAccess, piece->address, piece->length, &access, 1))
			return true;
		cuda.cuMemUnmap(piece->address, piece->length);
	}
	cuda.cuMemAddressFree(piece->address, piece->length);
	return false;
}

static bool driver_make_mapped(struct piece *piece)
{
	const CUmemAllocationProp properties = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, piece->device },
		.allocFlags = { .gpuDirectRDMACapable = piece->capable }
	};
	size_t granule = 0;

	if (!MADE(cuMemGetAllocationGranularity, &granule, &properties,
		  CU_MEM_ALLOC_GRANULARITY_MINIMUM))
		return false;
	if (granule)
		piece->length = (piece->length + granule - 1) / granule * granule;
	if (!MADE(cuMemCreate, &piece->handle, piece->length, &properties, 0))
		return false;
	if (driver_map(piece))
		return true;
	cuda.cuMemRelease(piece->handle);
	return false;
}

static void driver_free_mapped(struct piece *piece)
{
	CUDA(cuMemUnmap, piece->address, piece->length);
	CUDA(cuMemAddressFree, piece->address, piece->length);
	CUDA(cuMemRelease, piece->handle);
}

static const struct kind {
	const char *name;
	bool (*make)(struct piece *piece);
	void (*free)(struct piece *piece);
} kinds[] = {
	{ "device", driver_make_device, driver_free_device },
	{ "mapped", driver_make_mapped, driver_free_mapped },
	{ "mapped_plain", driver_make_mapped, driver_free_mapped },
	{ "pool", driver_make_pool, driver_free_pool },
};

static void driver_read_export(struct host *host, const struct piece *piece, const char *kind,
			       unsigned long long flags)
{
	int fd = -1;
	bool made = MADE(cuMemGetHandleForAddressRange, &fd, piece->address, piece->length,
			 CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, flags);

	host_record(host, reading_name("cuda/%d/export/%s", piece->device, kind), "%s",
		    made ? "ok" : failure);
	/* An open descriptor keeps the memory. */
	if (made)
		close(fd);
}

static void driver_read_kind(struct host *host, const struct kind *kind, int device)
{
	struct piece piece = { .device = device,
			       .length = LENGTH,
			       .capable = strcmp(kind->name, "mapped_plain") };
	unsigned int capable = 0;
	const char *name;
	CUresult result;

	if (!kind->make(&piece)) {
		host_record(host, reading_name("cuda/%d/export/%s", device, kind->name), "%s",
			    failure);
		return;
	}
	result = CUDA(cuPointerGetAttribute, &capable,
		      CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, piece.address);
	name = reading_name("cuda/%d/capable/%s", device, kind->name);
	if (result == CUDA_SUCCESS)
		host_record(host, name, "%u", capable & 0xff ? 1 : 0);
	else
		host_record_error(host, name, EINVAL, "%s", cuda_result(result));
	driver_read_export(host, &piece, kind->name, 0);
	if (kind == kinds)
		driver_read_export(host, &piece, "device_pcie", PCIE_MAPPING);
	kind->free(&piece);
}

/* ---- each GPU ---- */

static int current_device; /* GPU of the next child, set before the fork */

static void driver_query_device(struct host *host)
{
	CUcontext context;
	CUresult result;

	if (cuda_load() || CUDA(cuInit, 0) != CUDA_SUCCESS)
		return;
	result = CUDA(cuDevicePrimaryCtxRetain, &context, current_device);
	if (result == CUDA_SUCCESS)
		result = CUDA(cuCtxSetCurrent, context);
	host_record(host, reading_name("cuda/%d/context", current_device), "%s",
		    cuda_result(result));
	for (size_t i = 0; result == CUDA_SUCCESS && i < sizeof(kinds) / sizeof(*kinds); i++)
		driver_read_kind(host, &kinds[i], current_device);
	CUDA(cuDevicePrimaryCtxRelease_v2, current_device);
}

/* ---- NVIDIA's management library ---- */

typedef struct nvmlDevice_st *nvml_device;

struct bar1_memory {
	unsigned long long total, free, used;
};

#define NVML_CALLS(CALL)                                                                           \
	CALL(nvmlInit_v2, (void))                                                                  \
	CALL(nvmlDeviceGetHandleByPciBusId_v2, (const char *pci, nvml_device *device))             \
	CALL(nvmlDeviceGetBAR1MemoryInfo, (nvml_device device, struct bar1_memory * memory))       \
	CALL(nvmlDeviceGetMigMode, (nvml_device device, unsigned int *now, unsigned int *pending)) \
	CALL(nvmlDeviceGetPersistenceMode, (nvml_device device, int *mode))                        \
	CALL(nvmlDeviceGetVirtualizationMode, (nvml_device device, int *mode))                     \
	CALL(nvmlDeviceGetRetiredPagesPendingStatus, (nvml_device device, int *pending))           \
	CALL(nvmlDeviceGetRemappedRows,                                                            \
	     (nvml_device device, unsigned int *corrected, unsigned int *uncorrected,              \
	      unsigned int *pending, unsigned int *failed))

static struct {
#define CALL(name, parameters) int(*name) parameters;
	NVML_CALLS(CALL)
#undef CALL
} nvml;

/* 0: success; -1: NVML lacks the function. */
#define NVML(call, ...) (child_does("%s", #call), nvml.call ? nvml.call(__VA_ARGS__) : -1)

static bool nvml_load(void)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return false;
#define CALL(name, parameters) nvml.name = (__typeof__(nvml.name))dlsym(library, #name);
	NVML_CALLS(CALL)
#undef CALL
	return true;
}

static void nvml_read_device(struct host *host, int64_t number, nvml_device device)
{
	unsigned int now, pending, corrected, uncorrected, rows = 0, failed;
	int mode, pages = 0, known;
	struct bar1_memory bar1;

	if (NVML(nvmlDeviceGetBAR1MemoryInfo, device, &bar1) == 0)
		host_record(host, reading_name("cuda/%d/bar1", (int)number), "%llu %llu",
			    bar1.total, bar1.used);
	if (NVML(nvmlDeviceGetMigMode, device, &now, &pending) == 0)
		host_record(host, reading_name("cuda/%d/mig", (int)number), "%u", now);
	if (NVML(nvmlDeviceGetPersistenceMode, device, &mode) == 0)
		host_record(host, reading_name("cuda/%d/persistence", (int)number), "%d", mode);
	if (NVML(nvmlDeviceGetVirtualizationMode, device, &mode) == 0)
		host_record(host, reading_name("cuda/%d/virtualization", (int)number), "%d", mode);
	/* Older GPUs retire pages, newer GPUs remap rows. */
	known = NVML(nvmlDeviceGetRetiredPagesPendingStatus, device, &pages) == 0;
	known |= NVML(nvmlDeviceGetRemappedRows, device, &corrected, &uncorrected, &rows,
		      &failed) == 0;
	if (known)
		host_record(host, reading_name("cuda/%d/ecc_pending", (int)number), "%d",
			    pages || rows);
}

static void nvml_query(struct host *host)
{
	int64_t number, count = 0;
	nvml_device device;
	const char *pci;

	if (!nvml_load() || NVML(nvmlInit_v2))
		return;
	host_number(host, &count, "cuda/count");
	for (number = 0; number < count; number++) {
		pci = host_text(host, "cuda/%d/pci", (int)number);
		if (pci && NVML(nvmlDeviceGetHandleByPciBusId_v2, pci, &device) == 0)
			nvml_read_device(host, number, device);
	}
}

/* ---- the source ---- */

void driver_fill(struct host *host)
{
	int64_t count = 0;
	char prefix[40];

	host_run_child(host, "cuda/", START_SECONDS, driver_query);
	host_number(host, &count, "cuda/count");
	for (current_device = 0; current_device < count; current_device++) {
		snprintf(prefix, sizeof(prefix), "cuda/%d/", current_device);
		host_run_child(host, prefix, START_SECONDS, driver_query_device);
	}
	host_run_child(host, "cuda/nvml/", NVML_SECONDS, nvml_query);
}
