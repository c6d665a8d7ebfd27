/* SPDX-License-Identifier: BSD-3-Clause */
/* nvml.c -- readings cuda/ that only NVIDIA's management library (NVML) provides
 *
 * NVML is optional. Readings beside those of host.h:
 *
 *   cuda/nvml/library   path of libnvidia-ml.so.1; error ENOENT with the loader's message
 *   cuda/nvml/init      result of nvmlInit: "0", another number
 *   cuda/nvml/driver    "580.159.04"
 *   cuda/nvml/count     devices, including those hidden by CUDA_VISIBLE_DEVICES
 *   cuda/nvml/ended     end of the child (child.h)
 */
#include "tools/doctor/nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/doctor/child.h"

#define SECONDS 10

typedef struct nvmlDevice_st *nvml_device;

struct bar1_memory {
	unsigned long long total, free, used;
};

static struct {
	int (*nvmlInit_v2)(void);
	int (*nvmlSystemGetDriverVersion)(char *version, unsigned int length);
	int (*nvmlDeviceGetCount_v2)(unsigned int *count);
	int (*nvmlDeviceGetHandleByPciBusId_v2)(const char *pci, nvml_device *device);
	int (*nvmlDeviceGetBAR1MemoryInfo)(nvml_device device, struct bar1_memory *memory);
	int (*nvmlDeviceGetMigMode)(nvml_device device, unsigned int *now, unsigned int *pending);
	int (*nvmlDeviceGetPersistenceMode)(nvml_device device, int *mode);
	int (*nvmlDeviceGetVirtualizationMode)(nvml_device device, int *mode);
	int (*nvmlDeviceGetRetiredPagesPendingStatus)(nvml_device device, int *pending);
	int (*nvmlDeviceGetRemappedRows)(nvml_device device, unsigned int *corrected,
					 unsigned int *uncorrected, unsigned int *pending,
					 unsigned int *failed);
} nvml;

/* 0: success; -1: NVML lacks the function. */
#define NVML(call, ...) (child_does("%s", #call), nvml.call ? nvml.call(__VA_ARGS__) : -1)

static bool nvml_load(struct host *host)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	char file[PATH_MAX];
	Dl_info info;

	if (!library) {
		host_fail(host, "cuda/nvml/library", ENOENT, "%s", dlerror());
		return false;
	}
#define LOAD(call) nvml.call = (__typeof__(nvml.call))dlsym(library, #call)
	LOAD(nvmlInit_v2);
	LOAD(nvmlSystemGetDriverVersion);
	LOAD(nvmlDeviceGetCount_v2);
	LOAD(nvmlDeviceGetHandleByPciBusId_v2);
	LOAD(nvmlDeviceGetBAR1MemoryInfo);
	LOAD(nvmlDeviceGetMigMode);
	LOAD(nvmlDeviceGetPersistenceMode);
	LOAD(nvmlDeviceGetVirtualizationMode);
	LOAD(nvmlDeviceGetRetiredPagesPendingStatus);
	LOAD(nvmlDeviceGetRemappedRows);
#undef LOAD
	if (nvml.nvmlInit_v2 && dladdr((void *)nvml.nvmlInit_v2, &info) &&
	    realpath(info.dli_fname, file))
		host_say(host, "cuda/nvml/library", "%s", file);
	return true;
}

static void nvml_read_device(struct host *host, int64_t number, nvml_device device)
{
	unsigned int now, pending, corrected, uncorrected, rows = 0, failed;
	int mode, pages = 0, known;
	struct bar1_memory bar1;
	char name[60];

	snprintf(name, sizeof(name), "cuda/%d/bar1", (int)number);
	if (NVML(nvmlDeviceGetBAR1MemoryInfo, device, &bar1) == 0)
		host_say(host, name, "%llu %llu", bar1.total, bar1.used);
	snprintf(name, sizeof(name), "cuda/%d/mig", (int)number);
	if (NVML(nvmlDeviceGetMigMode, device, &now, &pending) == 0)
		host_say(host, name, "%u", now);
	snprintf(name, sizeof(name), "cuda/%d/persistence", (int)number);
	if (NVML(nvmlDeviceGetPersistenceMode, device, &mode) == 0)
		host_say(host, name, "%d", mode);
	snprintf(name, sizeof(name), "cuda/%d/virtualization", (int)number);
	if (NVML(nvmlDeviceGetVirtualizationMode, device, &mode) == 0)
		host_say(host, name, "%d", mode);
	/* Older GPUs retire pages, newer GPUs remap rows. */
	known = NVML(nvmlDeviceGetRetiredPagesPendingStatus, device, &pages) == 0;
	known |= NVML(nvmlDeviceGetRemappedRows, device, &corrected, &uncorrected, &rows,
		      &failed) == 0;
	snprintf(name, sizeof(name), "cuda/%d/ecc_pending", (int)number);
	if (known)
		host_say(host, name, "%d", pages || rows);
}

static void nvml_query(struct host *host)
{
	char version[80] = "";
	int64_t number, count = 0;
	unsigned int devices;
	nvml_device device;
	const char *pci;
	int result;

	if (!nvml_load(host))
		return;
	result = NVML(nvmlInit_v2);
	host_say(host, "cuda/nvml/init", "%d", result);
	if (result)
		return;
	if (NVML(nvmlSystemGetDriverVersion, version, sizeof(version)) == 0)
		host_say(host, "cuda/nvml/driver", "%s", version);
	if (NVML(nvmlDeviceGetCount_v2, &devices) == 0)
		host_say(host, "cuda/nvml/count", "%u", devices);
	host_number(host, &count, "cuda/count");
	for (number = 0; number < count; number++) {
		pci = host_text(host, "cuda/%d/pci", (int)number);
		if (pci && NVML(nvmlDeviceGetHandleByPciBusId_v2, pci, &device) == 0)
			nvml_read_device(host, number, device);
	}
}

void nvml_fill(struct host *host)
{
	host_ask_child(host, "cuda/nvml/", SECONDS, nvml_query);
}
