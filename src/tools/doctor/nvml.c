/* SPDX-License-Identifier: BSD-3-Clause */
/* nvml.c -- readings cuda/ that only NVIDIA's management library (NVML) provides
 *
 * NVML is optional. Readings beside those of host.h: cuda/nvml/ended, the end of the child
 * (child.h).
 */
#include <dlfcn.h>

#include "tools/doctor/child.h"
#include "tools/doctor/host_internal.h"

#define SECONDS 10

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

void nvml_fill(struct host *host)
{
	host_run_child(host, "cuda/nvml/", SECONDS, nvml_query);
}
