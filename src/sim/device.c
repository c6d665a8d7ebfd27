/* SPDX-License-Identifier: BSD-3-Clause */
/* device.c -- initialisation, devices and error texts */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define DEFAULT_MEMORY ((uint64_t)8 << 30)

pthread_mutex_t sim_lock = PTHREAD_MUTEX_INITIALIZER;
struct sim_device sim_devices[SIM_DEVICES_MAX];
int sim_device_count;
bool sim_dma_buf, sim_c2c, sim_async, sim_populates, sim_hooks;
static int pageable;   /* devices access memory from malloc */
static int integrated; /* devices are part of the processor */

CUresult sim_enter(void)
{
	pthread_mutex_lock(&sim_lock);
	sim_end_copy();
	if (sim_device_count)
		return CUDA_SUCCESS;
	pthread_mutex_unlock(&sim_lock);
	return CUDA_ERROR_NOT_INITIALIZED;
}

CUresult sim_leave(CUresult result)
{
	pthread_mutex_unlock(&sim_lock);
	return result;
}

void *sim_make_object(struct sim_object **list, size_t size)
{
	struct sim_object *object = calloc(1, size);

	if (!object)
		return NULL;
	*object = (struct sim_object){ .next = *list, .live = true };
	*list = object;
	return object;
}

bool sim_is_live(const struct sim_object *list, const void *handle)
{
	while (list && list != handle)
		list = list->next;
	return list && list->live;
}

/* Number with suffix K, M or G in [least, most]. Any other value logs one line and returns
 * `fallback`. */
static uint64_t device_setting(const char *name, uint64_t fallback, uint64_t least, uint64_t most)
{
	const char *value = getenv(name);
	unsigned long long number;
	char *end;

	if (!value)
		return fallback;
	errno = 0;
	number = strtoull(value, &end, 10);
	if (end != value && *value != '-' && !errno) {
		const char *suffix = strchr("KMG", *end ? *end : '\n');
		int shift = suffix ? 10 * (int)(suffix - "KMG" + 1) : 0;

		suffix = suffix ? end + 1 : end;
		if (!*suffix && number <= most >> shift && number << shift >= least)
			return number << shift;
	}
	fprintf(stderr,
		"peerpin simulated driver: %s=%s is not allowed (%llu to %llu, with K, M or G): "
		"using %llu\n",
		name, value, (unsigned long long)least, (unsigned long long)most,
		(unsigned long long)fallback);
	return fallback;
}

/* As the real driver: from cuInit on it never leaves the process (measured). */
static void device_stay(void)
{
	Dl_info object;

	if (dladdr((void *)device_stay, &object) && strstr(object.dli_fname, "/libcuda.so"))
		dlopen(object.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

CUresult cuInit(unsigned int flags)
{
	uint64_t memory;
	int count;

	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&sim_lock);
	if (sim_device_count)
		return sim_leave(CUDA_SUCCESS);
	count = (int)device_setting("PEERPIN_SIM_DEVICES", 1, 1, SIM_DEVICES_MAX);
	memory = device_setting("PEERPIN_SIM_MEMORY", DEFAULT_MEMORY, 64 << 20, (uint64_t)1 << 40);
	pageable = (int)device_setting("PEERPIN_SIM_PAGEABLE", 0, 0, 1);
	integrated = (int)device_setting("PEERPIN_SIM_INTEGRATED", 0, 0, 1);
	sim_dma_buf = device_setting("PEERPIN_SIM_DMABUF", 1, 0, 1);
	sim_c2c = device_setting("PEERPIN_SIM_C2C", 0, 0, 1);
	sim_async = device_setting("PEERPIN_SIM_ASYNC", 0, 0, 1);
	sim_populates = device_setting("PEERPIN_SIM_POPULATE", 0, 0, 1);
	sim_hooks = device_setting("PEERPIN_SIM_HOOKS", 1, 0, 1);
	for (int i = 0; i < count; i++) {
		/* Skip devices that an earlier, failed call reserved. */
		if (sim_devices[i].base)
			continue;
		sim_devices[i].memory = sim_round_down(memory, SIM_BLOCK);
		if (sim_reserve(&sim_devices[i]))
			return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	sim_device_count = count;
	pthread_mutex_unlock(&sim_lock);
	device_stay();
	return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version)
{
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = SIM_VERSION;
	return CUDA_SUCCESS;
}

static const struct {
	CUresult code;
	const char *name, *text;
} errors[] = {
#define RESULT(name, value, text) { name, #name, text },
#include "memory/cuda_abi.def"
#undef RESULT
};

static CUresult device_error_text(CUresult error, const char **to, bool name)
{
	if (!to)
		return CUDA_ERROR_INVALID_VALUE;
	*to = NULL;
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]) && !*to; i++) {
		if (errors[i].code == error)
			*to = name ? errors[i].name : errors[i].text;
	}
	return *to ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_FORWARD(cuGetErrorName, device_error_text, (error, text, true), CUresult error,
	    const char **text);
SIM_FORWARD(cuGetErrorString, device_error_text, (error, text, false), CUresult error,
	    const char **text);

/* Export tables are private to NVIDIA; the simulated driver has none. */
CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
	(void)id;
	if (table)
		*table = NULL;
	return CUDA_ERROR_NOT_FOUND;
}

CUresult sim_enter_device(CUdevice device)
{
	CUresult result = sim_enter();

	if (result == CUDA_SUCCESS && sim_check_device(device) != CUDA_SUCCESS)
		return sim_leave(CUDA_ERROR_INVALID_DEVICE);
	return result;
}

SIM_CALL_AFTER(sim_enter_device(ordinal), cuDeviceGet, (device, ordinal), CUdevice *device,
	       int ordinal)
{
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = ordinal;
	return CUDA_SUCCESS;
}

SIM_CALL(cuDeviceGetCount, (count), int *count)
{
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = sim_device_count;
	return CUDA_SUCCESS;
}

SIM_DEVICE_CALL(cuDeviceGetName, (name, length, device), char *name, int length, CUdevice device)
{
	(void)device;
	if (!name || length <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(name, (size_t)length, "peerpin simulated GPU");
	return CUDA_SUCCESS;
}

SIM_DEVICE_CALL(cuDeviceGetUuid_v2, (uuid, device), CUuuid *uuid, CUdevice device)
{
	if (!uuid)
		return CUDA_ERROR_INVALID_VALUE;
	memset(uuid, 0, sizeof(*uuid));
	memcpy(uuid->bytes, "peerpin-sim-gpu", 15);
	uuid->bytes[15] = (char)device;
	return CUDA_SUCCESS;
}

SIM_FORWARD(cuDeviceGetUuid, cuDeviceGetUuid_v2, (uuid, device), CUuuid *uuid, CUdevice device);

SIM_DEVICE_CALL(cuDeviceTotalMem_v2, (bytes, device), size_t *bytes, CUdevice device)
{
	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	*bytes = sim_devices[device].memory;
	return CUDA_SUCCESS;
}

/* Saturate at 32 bits. */
CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice device)
{
	size_t wide;
	CUresult result = bytes ? cuDeviceTotalMem_v2(&wide, device) : CUDA_ERROR_INVALID_VALUE;

	if (result == CUDA_SUCCESS)
		*bytes = wide > UINT32_MAX ? UINT32_MAX : (unsigned int)wide;
	return result;
}

SIM_DEVICE_CALL(cuDeviceGetAttribute, (value, attribute, device), int *value,
		CUdevice_attribute attribute, CUdevice device)
{
	/* Values of an H200. */
	static const struct {
		CUdevice_attribute attribute;
		int value;
	} attributes[] = {
		{ CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024 },
		{ CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32 },
		{ CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132 },
		{ CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1 },
		{ CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 0 },
		{ CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 0 },
		{ CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1 },
		{ CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9 },
		{ CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0 },
		{ CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 0 },
		{ CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 1 },
		{ CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, 1 },
		{ CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, 1 },
		{ CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, 100 },
	};

	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	*value = 0;
	if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)
		*value = device + 1;
	if (attribute == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS)
		*value = pageable;
	if (attribute == CU_DEVICE_ATTRIBUTE_INTEGRATED)
		*value = integrated;
	if (attribute == CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED)
		*value = sim_dma_buf;
	for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++) {
		if (attributes[i].attribute == attribute)
			*value = attributes[i].value;
	}
	return CUDA_SUCCESS;
}

SIM_DEVICE_CALL(cuDeviceGetPCIBusId, (id, length, device), char *id, int length, CUdevice device)
{
	if (!id || length < 13)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(id, (size_t)length, "0000:%02X:00.0", (unsigned int)device + 1);
	return CUDA_SUCCESS;
}

/* [domain:]bus:slot[.function], all hexadecimal (cuda.h of 13.0). */
static bool device_parse_bus_id(const char *id, unsigned int *domain, unsigned int *bus,
				unsigned int *slot, unsigned int *function)
{
	int end = 0;

	*domain = *function = 0;
	if (sscanf(id, "%x:%x:%x%n", domain, bus, slot, &end) != 3) {
		*domain = 0;
		if (sscanf(id, "%x:%x%n", bus, slot, &end) != 2)
			return false;
	}
	id += end;
	end = 0;
	return !*id || (sscanf(id, ".%x%n", function, &end) == 1 && !id[end]);
}

SIM_CALL(cuDeviceGetByPCIBusId, (device, id), CUdevice *device, const char *id)
{
	unsigned int domain, bus, slot, function;

	if (!device || !id || !device_parse_bus_id(id, &domain, &bus, &slot, &function))
		return CUDA_ERROR_INVALID_VALUE;
	if (domain || slot || function || bus < 1 || bus > (unsigned int)sim_device_count)
		return CUDA_ERROR_INVALID_DEVICE;
	*device = (CUdevice)bus - 1;
	return CUDA_SUCCESS;
}

/* Between devices as on a host with NVLink. */
SIM_CALL(cuDeviceCanAccessPeer, (can_access, device, peer), int *can_access, CUdevice device,
	 CUdevice peer)
{
	if (!can_access)
		return CUDA_ERROR_INVALID_VALUE;
	if (sim_check_device(device) != CUDA_SUCCESS || sim_check_device(peer) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_DEVICE;
	*can_access = device != peer;
	return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
	CUresult result =
		cuDeviceGetAttribute(major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);

	if (result != CUDA_SUCCESS)
		return result;
	return cuDeviceGetAttribute(minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
}
