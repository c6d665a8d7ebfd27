/* SPDX-License-Identifier: BSD-3-Clause */
/* nvml.c -- a libnvidia-ml.so.1 with one GPU, 0000:01:00.0, of small BAR1 and pending row remaps */
#include <string.h>

struct bar1_memory {
	unsigned long long total, free, used;
};

static int the_device;

int nvmlInit_v2(void);
int nvmlInit_v2(void)
{
	return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, void **device);
int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, void **device)
{
	*device = &the_device;
	return strcmp(pci, "0000:01:00.0") ? 6 : 0;
}

int nvmlDeviceGetBAR1MemoryInfo(void *device, struct bar1_memory *memory);
int nvmlDeviceGetBAR1MemoryInfo(void *device, struct bar1_memory *memory)
{
	*memory = (struct bar1_memory){ 256 << 20, 250 << 20, 6 << 20 };
	return device != &the_device;
}

int nvmlDeviceGetPersistenceMode(void *device, int *mode);
int nvmlDeviceGetPersistenceMode(void *device, int *mode)
{
	*mode = 1;
	return device != &the_device;
}

int nvmlDeviceGetVirtualizationMode(void *device, int *mode);
int nvmlDeviceGetVirtualizationMode(void *device, int *mode)
{
	*mode = 2;
	return device != &the_device;
}

int nvmlDeviceGetRemappedRows(void *device, unsigned int *corrected, unsigned int *uncorrected,
			      unsigned int *pending, unsigned int *failed);
int nvmlDeviceGetRemappedRows(void *device, unsigned int *corrected, unsigned int *uncorrected,
			      unsigned int *pending, unsigned int *failed)
{
	*corrected = *uncorrected = *failed = 0;
	*pending = 1;
	return device != &the_device;
}
