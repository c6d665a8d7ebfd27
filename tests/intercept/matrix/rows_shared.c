/* SPDX-License-Identifier: BSD-3-Clause */
/* rows_shared.c -- rows of memory from other processes and from other interfaces */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "steps.h"

static const CUmemAllocationProp plain = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
					   .requestedHandleTypes =
						   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					   .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };

static FILE *exporter;

/* Another process exports, and holds the memory until this one closes the pipe. */
static bool get_handle(CUipcMemHandle *handle)
{
	static CUipcMemHandle exported;
	const char *program = getenv("MATRIX_EXPORTER");

	if (!exporter) {
		exporter = popen(program ? program : "tests/intercept/exporter", "r");
		if (!exporter || fread(&exported, sizeof(exported), 1, exporter) != 1)
			return false;
	}
	*handle = exported;
	return true;
}

bool test_cuIpcOpenMemHandle_v2(void)
{
	CUipcMemHandle handle;
	CUdeviceptr address;

	NEED(get_handle(&handle));
	NEED(RISES("allocations",
		   f->cuIpcOpenMemHandle_v2(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)));
	return OK(driver.cuIpcCloseMemHandle(address));
}

bool test_cuIpcOpenMemHandle(void)
{
	CUipcMemHandle handle;
	CUdeviceptr address;

	NEED(get_handle(&handle));
	NEED(RISES("allocations",
		   f->cuIpcOpenMemHandle(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)));
	return OK(driver.cuIpcCloseMemHandle(address));
}

bool test_cuIpcCloseMemHandle(void)
{
	CUipcMemHandle handle;
	CUdeviceptr address;

	NEED(get_handle(&handle));
	NEED(OK(driver.cuIpcOpenMemHandle_v2(&address, handle,
					     CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)));
	return RISES("frees", f->cuIpcCloseMemHandle(address));
}

bool test_cuExternalMemoryGetMappedBuffer(void)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC description;
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer;
	CUmemGenericAllocationHandle handle;
	CUexternalMemory memory;
	CUdeviceptr address;
	int file;

	memset(&description, 0, sizeof(description));
	memset(&buffer, 0, sizeof(buffer));
	NEED(OK(driver.cuMemCreate(&handle, UNIT, &plain, 0)));
	NEED(OK(driver.cuMemExportToShareableHandle(&file, handle,
						    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)));
	description.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
	description.handle.fd = file;
	description.size = buffer.size = UNIT;
	NEED(OK(driver.cuImportExternalMemory(&memory, &description)));
	NEED(RISES("allocations", f->cuExternalMemoryGetMappedBuffer(&address, memory, &buffer)));
	return OK(driver.cuMemFree_v2(address)) && OK(driver.cuDestroyExternalMemory(memory)) &&
	       OK(driver.cuMemRelease(handle));
}

void end_exporter(void)
{
	if (exporter)
		pclose(exporter);
	exporter = NULL;
}
