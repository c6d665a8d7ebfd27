/* SPDX-License-Identifier: BSD-3-Clause */
/* proc_address.c -- cuGetProcAddress: name, version and flags to a function
 *
 * Measured: the result is the newest form of a name that the version reaches. If the flag requests
 * the per-thread default stream, its variant is preferred. A name with its suffix (such as _v2) is
 * not found.
 *
 * A version above the driver's own is an error (cuda.h of 13.0, cuGetProcAddress). Source of column
 * `since`: the PFN_ types in cudaTypedefs.h.
 */
#include <string.h>

#include "sim.h"

/* The exported entries. */
#define FUNCTION(symbol, ...) extern char entry_##symbol[] __asm__(#symbol);
#include "memory/cuda_abi.def"
#undef FUNCTION

/* Exported symbols, and the first version of CUDA that has each. */
static const struct row {
	const char *symbol;
	void *function;
	int since;
} rows[] = {
/* clang-format off */
#define ROW(symbol, since) { #symbol, entry_##symbol, since },
	ROW(cuInit, 2000) ROW(cuDriverGetVersion, 2020) ROW(cuGetErrorName, 6000)
	ROW(cuGetErrorString, 6000) ROW(cuGetProcAddress, 11030) ROW(cuGetProcAddress_v2, 12000)
	ROW(cuGetExportTable, 3000) ROW(cuDeviceGet, 2000) ROW(cuDeviceGetCount, 2000)
	ROW(cuDeviceGetName, 2000) ROW(cuDeviceGetUuid, 9020) ROW(cuDeviceGetUuid_v2, 11040)
	ROW(cuDeviceTotalMem, 2000) ROW(cuDeviceTotalMem_v2, 3020) ROW(cuDeviceGetAttribute, 2000)
	ROW(cuDeviceGetPCIBusId, 4010) ROW(cuDeviceGetByPCIBusId, 4010)
	ROW(cuDeviceCanAccessPeer, 4000) ROW(cuDeviceComputeCapability, 2000)
	ROW(cuCtxCreate, 2000) ROW(cuCtxCreate_v2, 3020) ROW(cuCtxCreate_v3, 11040)
	ROW(cuCtxCreate_v4, 12050) ROW(cuCtxDestroy, 2000) ROW(cuCtxDestroy_v2, 4000)
	ROW(cuCtxAttach, 2000) ROW(cuCtxDetach, 2000) ROW(cuCtxPushCurrent, 2000)
	ROW(cuCtxPushCurrent_v2, 4000) ROW(cuCtxPopCurrent, 2000) ROW(cuCtxPopCurrent_v2, 4000)
	ROW(cuCtxGetCurrent, 4000) ROW(cuCtxSetCurrent, 4000) ROW(cuCtxGetDevice, 2000)
	ROW(cuCtxGetFlags, 7000) ROW(cuCtxSetFlags, 12010) ROW(cuCtxGetApiVersion, 3020)
	ROW(cuCtxGetId, 12000) ROW(cuCtxSynchronize, 2000) ROW(cuCtxRecordEvent, 12050)
	ROW(cuDevicePrimaryCtxRetain, 7000) ROW(cuDevicePrimaryCtxRelease, 7000)
	ROW(cuDevicePrimaryCtxRelease_v2, 11000) ROW(cuDevicePrimaryCtxReset, 7000)
	ROW(cuDevicePrimaryCtxReset_v2, 11000) ROW(cuDevicePrimaryCtxGetState, 7000)
	ROW(cuDevicePrimaryCtxSetFlags, 7000) ROW(cuDevicePrimaryCtxSetFlags_v2, 11000)
	ROW(cuGreenCtxDestroy, 12040) ROW(cuMemGetInfo, 2000) ROW(cuMemGetInfo_v2, 3020)
	ROW(cuMemAlloc, 2000) ROW(cuMemAlloc_v2, 3020) ROW(cuMemAllocPitch, 2000)
	ROW(cuMemAllocPitch_v2, 3020) ROW(cuMemFree, 2000) ROW(cuMemFree_v2, 3020)
	ROW(cuMemFreeAsync, 11020) ROW(cuMemFreeAsync_ptsz, 11020) ROW(cuMemGetAddressRange, 2000)
	ROW(cuMemGetAddressRange_v2, 3020) ROW(cuMemRetainAllocationHandle, 11000)
	ROW(cuMemAllocHost, 2000) ROW(cuMemAllocHost_v2, 3020) ROW(cuMemHostAlloc, 2020)
	ROW(cuMemFreeHost, 2000) ROW(cuMemHostRegister, 4000) ROW(cuMemHostRegister_v2, 6050)
	ROW(cuMemHostUnregister, 4000) ROW(cuMemHostGetDevicePointer_v2, 3020)
	ROW(cuModuleLoadData, 2000) ROW(cuModuleUnload, 2000) ROW(cuModuleGetGlobal_v2, 3020)
	ROW(cuModuleGetFunction, 2000) ROW(cuLaunchKernel, 4000) ROW(cuMemcpyHtoD, 2000)
	ROW(cuMemcpyHtoD_v2, 3020) ROW(cuMemcpyDtoH, 2000) ROW(cuMemcpyDtoH_v2, 3020)
	ROW(cuMemcpyDtoD, 2000) ROW(cuMemcpyDtoD_v2, 3020) ROW(cuMemcpy, 4000)
	ROW(cuMemcpyHtoDAsync_v2, 3020) ROW(cuMemcpyDtoHAsync_v2, 3020)
	ROW(cuMemcpyDtoDAsync_v2, 3020) ROW(cuMemcpyAsync, 4000) ROW(cuMemsetD8_v2, 3020)
	ROW(cuMemsetD32_v2, 3020) ROW(cuMemsetD8Async, 3020) ROW(cuMemsetD32Async, 3020)
	ROW(cuMemAllocManaged, 6000) ROW(cuMemAllocAsync, 11020) ROW(cuMemAllocAsync_ptsz, 11020)
	ROW(cuMemAllocFromPoolAsync, 11020) ROW(cuMemAllocFromPoolAsync_ptsz, 11020)
	ROW(cuDeviceGetDefaultMemPool, 11020) ROW(cuMemPoolCreate, 11020)
	ROW(cuMemPoolDestroy, 11020) ROW(cuMemPoolTrimTo, 11020) ROW(cuMemPoolSetAttribute, 11020)
	ROW(cuMemPoolGetAttribute, 11020) ROW(cuMemPoolSetAccess, 11020)
	ROW(cuMemPoolExportToShareableHandle, 11020) ROW(cuMemPoolImportFromShareableHandle, 11020)
	ROW(cuMemPoolExportPointer, 11020) ROW(cuMemPoolImportPointer, 11020)
	ROW(cuMemGetHandleForAddressRange, 11070) ROW(cuMemAddressReserve, 10020)
	ROW(cuMemAddressFree, 10020) ROW(cuMemGetAllocationGranularity, 10020)
	ROW(cuMemCreate, 10020) ROW(cuMemGetAllocationPropertiesFromHandle, 10020)
	ROW(cuMemRelease, 10020) ROW(cuMemExportToShareableHandle, 10020)
	ROW(cuMemImportFromShareableHandle, 10020) ROW(cuMemMap, 10020) ROW(cuMemUnmap, 10020)
	ROW(cuMemSetAccess, 10020) ROW(cuMemGetAccess, 10020) ROW(cuIpcGetMemHandle, 4010)
	ROW(cuIpcOpenMemHandle, 4010) ROW(cuIpcOpenMemHandle_v2, 11000)
	ROW(cuIpcCloseMemHandle, 4010) ROW(cuIpcGetEventHandle, 4010)
	ROW(cuIpcOpenEventHandle, 4010) ROW(cuImportExternalMemory, 10000)
	ROW(cuExternalMemoryGetMappedBuffer, 10000) ROW(cuDestroyExternalMemory, 10000)
	ROW(cuStreamIsCapturing, 10000) ROW(cuStreamIsCapturing_ptsz, 10000)
	ROW(cuStreamBeginCapture, 10000) ROW(cuStreamBeginCapture_ptsz, 10000)
	ROW(cuStreamBeginCapture_v2, 10010) ROW(cuStreamBeginCapture_v2_ptsz, 10010)
	ROW(cuStreamBeginCaptureToGraph, 12030) ROW(cuStreamBeginCaptureToGraph_ptsz, 12030)
	ROW(cuStreamEndCapture, 10000) ROW(cuStreamEndCapture_ptsz, 10000)
	ROW(cuGraphCreate, 10000) ROW(cuGraphDestroy, 10000) ROW(cuGraphAddMemAllocNode, 11040)
	ROW(cuGraphAddNode, 12020) ROW(cuGraphAddNode_v2, 12030)
	ROW(cuGraphInstantiateWithFlags, 11040) ROW(cuGraphExecDestroy, 10000)
	ROW(cuGraphLaunch, 10000) ROW(cuDeviceGraphMemTrim, 11040) ROW(cuGreenCtxCreate, 12040)
	ROW(cuCtxFromGreenCtx, 12040) ROW(cuDevResourceGenerateDesc, 12040)
	ROW(cuDeviceGetDevResource, 12040) ROW(cuArrayCreate_v2, 3020)
	ROW(cuArray3DCreate_v2, 3020) ROW(cuMipmappedArrayCreate, 5000) ROW(cuModuleLoad, 2000)
	ROW(cuModuleLoadDataEx, 2010) ROW(cuModuleLoadFatBinary, 2000)
	ROW(cuLibraryLoadData, 12000) ROW(cuLibraryLoadFromFile, 12000)
	ROW(cuLibraryGetModule, 12000) ROW(cuLibraryGetGlobal, 12000)
	ROW(cuKernelGetFunction, 12000) ROW(cuCtxSetLimit, 3010) ROW(cuLaunchKernel_ptsz, 7000)
	ROW(cuLaunchKernelEx, 11060) ROW(cuLaunchKernelEx_ptsz, 11060)
	ROW(cuLaunchCooperativeKernel, 9000) ROW(cuLaunchCooperativeKernel_ptsz, 9000)
	ROW(cuGraphInstantiate, 10000) ROW(cuGraphInstantiate_v2, 11000)
	ROW(cuGraphInstantiateWithParams, 12000) ROW(cuGraphInstantiateWithParams_ptsz, 12000)
	ROW(cuGraphUpload, 11010) ROW(cuGraphUpload_ptsz, 11010) ROW(cuGraphLaunch_ptsz, 10000)
	ROW(cuLibraryGetKernel, 12000) ROW(cuLibraryUnload, 12000) ROW(cuPointerGetAttribute, 4000)
	ROW(cuPointerGetAttributes, 7000) ROW(cuPointerSetAttribute, 6000)
	ROW(cuMemRangeGetAttribute, 8000) ROW(cuThreadExchangeStreamCaptureMode, 10010)
	ROW(cuStreamCreate, 2000) ROW(cuStreamCreateWithPriority, 5050) ROW(cuStreamDestroy, 2000)
	ROW(cuStreamDestroy_v2, 4000) ROW(cuStreamSynchronize, 2000) ROW(cuStreamQuery, 2000)
	ROW(cuStreamWaitEvent, 3020) ROW(cuLaunchHostFunc, 10000) ROW(cuStreamAddCallback, 5000)
	ROW(cuEventCreate, 2000) ROW(cuEventDestroy, 2000) ROW(cuEventDestroy_v2, 4000)
	ROW(cuEventRecord, 2000) ROW(cuEventQuery, 2000) ROW(cuEventSynchronize, 2000)
	ROW(cuEventElapsedTime, 2000)
#undef ROW
	/* clang-format on */
};

static bool proc_address_is_per_thread(const struct row *row)
{
	return strstr(row->symbol, "_ptsz") != NULL;
}

/* A name is a symbol without its suffixes: "_v2", "_ptsz". */
static bool proc_address_has_name(const struct row *row, const char *name)
{
	size_t length = strcspn(row->symbol, "_");

	return !strncmp(row->symbol, name, length) && !name[length];
}

/* Newest form at or below the version; of equal versions the per-thread form, if requested.
 * *exists: the name has a row. */
static const struct row *proc_address_choose(const char *name, int version, bool per_thread,
					     bool *exists)
{
	const struct row *best = NULL;

	*exists = false;
	for (const struct row *row = rows; row < rows + sizeof(rows) / sizeof(rows[0]); row++) {
		if (!proc_address_has_name(row, name))
			continue;
		*exists = true;
		if (row->since > version || (proc_address_is_per_thread(row) && !per_thread))
			continue;
		if (!best || row->since > best->since ||
		    (row->since == best->since && proc_address_is_per_thread(row)))
			best = row;
	}
	return best;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags,
			     CUdriverProcAddressQueryResult *status)
{
	const struct row *row;
	bool exists;

	if (!symbol || !function || version > SIM_VERSION ||
	    flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
		return CUDA_ERROR_INVALID_VALUE;
	row = proc_address_choose(symbol, version,
				  flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &exists);
	*function = row ? row->function : NULL;
	if (status)
		*status = row	   ? CU_GET_PROC_ADDRESS_SUCCESS
			  : exists ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
				   : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return CUDA_SUCCESS;
}

/* Without a status parameter a missing function is an error and *function stays unchanged. */
CUresult cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags)
{
	void *found;
	CUresult result =
		cuGetProcAddress_v2(symbol, function ? &found : NULL, version, flags, NULL);

	if (result != CUDA_SUCCESS)
		return result;
	if (!found)
		return CUDA_ERROR_NOT_FOUND;
	*function = found;
	return CUDA_SUCCESS;
}
