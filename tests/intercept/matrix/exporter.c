/* SPDX-License-Identifier: BSD-3-Clause */
/* exporter.c -- a process with GPU memory: writes the handle, and exits with the reader */
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "memory/cuda_abi.h"

int main(void)
{
	struct pollfd reader = { .fd = STDOUT_FILENO };
	CUipcMemHandle handle;
	CUdeviceptr address;
	CUcontext context;
	CUdevice device;

	if (cuInit(0) || cuDeviceGet(&device, 0) || cuCtxCreate_v2(&context, 0, device) ||
	    cuMemAlloc_v2(&address, 5000000) || cuIpcGetMemHandle(&handle, address))
		return 1;
	if (write(STDOUT_FILENO, &handle, sizeof(handle)) != sizeof(handle))
		return 1;
	/* POLLERR needs no request. */
	while (poll(&reader, 1, -1) >= 0 && !(reader.revents & POLLERR))
		;
	return 0;
}
