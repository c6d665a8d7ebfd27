/* SPDX-License-Identifier: BSD-3-Clause */
/* nvml.c -- a libnvidia-ml of devices without NVLink */
#include <stddef.h>

#include "nvml.h"

nvmlReturn_t nvmlInit(void)
{
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlInit_v2(void)
{
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlShutdown(void)
{
	return NVML_SUCCESS;
}

const char *nvmlErrorString(nvmlReturn_t error)
{
	return error ? "not supported" : "no error";
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
	(void)index;
	*device = NULL;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
	*count = 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *info)
{
	(void)device;
	(void)info;
	return NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
	(void)device;
	for (int i = 0; i < count; i++)
		values[i].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device, unsigned int link,
					      nvmlPciInfo_t *info)
{
	(void)device;
	(void)link;
	(void)info;
	return NVML_ERROR_NOT_SUPPORTED;
}
