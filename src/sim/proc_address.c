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

#define ROW(name, symbol, since, per_thread)                                                       \
	{                                                                                          \
		name, entry_##symbol, since, per_thread                                            \
	}

static const struct row {
	const char *name;
	void *function;
	int since;
	bool per_thread;
} rows[] = {
	ROW("cuInit", cuInit, 2000, false),
	ROW("cuDriverGetVersion", cuDriverGetVersion, 2020, false),
	ROW("cuGetErrorName", cuGetErrorName, 6000, false),
	ROW("cuGetErrorString", cuGetErrorString, 6000, false),
	ROW("cuGetProcAddress", cuGetProcAddress, 11030, false),
	ROW("cuGetProcAddress", cuGetProcAddress_v2, 12000, false),
	ROW("cuGetExportTable", cuGetExportTable, 3000, false),
	ROW("cuDeviceGet", cuDeviceGet, 2000, false),
	ROW("cuDeviceGetCount", cuDeviceGetCount, 2000, false),
	ROW("cuDeviceGetName", cuDeviceGetName, 2000, false),
	ROW("cuDeviceGetUuid", cuDeviceGetUuid, 9020, false),
	ROW("cuDeviceGetUuid", cuDeviceGetUuid_v2, 11040, false),
	ROW("cuDeviceTotalMem", cuDeviceTotalMem, 2000, false),
	ROW("cuDeviceTotalMem", cuDeviceTotalMem_v2, 3020, false),
	ROW("cuDeviceGetAttribute", cuDeviceGetAttribute, 2000, false),
	ROW("cuDeviceGetPCIBusId", cuDeviceGetPCIBusId, 4010, false),
	ROW("cuDeviceGetByPCIBusId", cuDeviceGetByPCIBusId, 4010, false),
	ROW("cuDeviceCanAccessPeer", cuDeviceCanAccessPeer, 4000, false),
	ROW("cuDeviceComputeCapability", cuDeviceComputeCapability, 2000, false),
	ROW("cuCtxCreate", cuCtxCreate, 2000, false),
	ROW("cuCtxCreate", cuCtxCreate_v2, 3020, false),
	ROW("cuCtxCreate", cuCtxCreate_v3, 11040, false),
	ROW("cuCtxCreate", cuCtxCreate_v4, 12050, false),
	ROW("cuCtxDestroy", cuCtxDestroy, 2000, false),
	ROW("cuCtxDestroy", cuCtxDestroy_v2, 4000, false),
	ROW("cuCtxAttach", cuCtxAttach, 2000, false),
	ROW("cuCtxDetach", cuCtxDetach, 2000, false),
	ROW("cuCtxPushCurrent", cuCtxPushCurrent, 2000, false),
	ROW("cuCtxPushCurrent", cuCtxPushCurrent_v2, 4000, false),
	ROW("cuCtxPopCurrent", cuCtxPopCurrent, 2000, false),
	ROW("cuCtxPopCurrent", cuCtxPopCurrent_v2, 4000, false),
	ROW("cuCtxGetCurrent", cuCtxGetCurrent, 4000, false),
	ROW("cuCtxSetCurrent", cuCtxSetCurrent, 4000, false),
	ROW("cuCtxGetDevice", cuCtxGetDevice, 2000, false),
	ROW("cuCtxGetFlags", cuCtxGetFlags, 7000, false),
	ROW("cuCtxSetFlags", cuCtxSetFlags, 12010, false),
	ROW("cuCtxGetApiVersion", cuCtxGetApiVersion, 3020, false),
	ROW("cuCtxGetId", cuCtxGetId, 12000, false),
	ROW("cuCtxSynchronize", cuCtxSynchronize, 2000, false),
	ROW("cuCtxRecordEvent", cuCtxRecordEvent, 12050, false),
	ROW("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain, 7000, false),
	ROW("cuDevicePrimaryCtxRelease", cuDevicePrimaryCtxRelease, 7000, false),
	ROW("cuDevicePrimaryCtxRelease", cuDevicePrimaryCtxRelease_v2, 11000, false),
	ROW("cuDevicePrimaryCtxReset", cuDevicePrimaryCtxReset, 7000, false),
	ROW("cuDevicePrimaryCtxReset", cuDevicePrimaryCtxReset_v2, 11000, false),
	ROW("cuDevicePrimaryCtxGetState", cuDevicePrimaryCtxGetState, 7000, false),
	ROW("cuDevicePrimaryCtxSetFlags", cuDevicePrimaryCtxSetFlags, 7000, false),
	ROW("cuDevicePrimaryCtxSetFlags", cuDevicePrimaryCtxSetFlags_v2, 11000, false),
	ROW("cuGreenCtxDestroy", cuGreenCtxDestroy, 12040, false),
	ROW("cuMemGetInfo", cuMemGetInfo, 2000, false),
	ROW("cuMemGetInfo", cuMemGetInfo_v2, 3020, false),
	ROW("cuMemAlloc", cuMemAlloc, 2000, false),
	ROW("cuMemAlloc", cuMemAlloc_v2, 3020, false),
	ROW("cuMemAllocPitch", cuMemAllocPitch, 2000, false),
	ROW("cuMemAllocPitch", cuMemAllocPitch_v2, 3020, false),
	ROW("cuMemFree", cuMemFree, 2000, false),
	ROW("cuMemFree", cuMemFree_v2, 3020, false),
	ROW("cuMemFreeAsync", cuMemFreeAsync, 11020, false),
	ROW("cuMemFreeAsync", cuMemFreeAsync_ptsz, 11020, true),
	ROW("cuMemGetAddressRange", cuMemGetAddressRange, 2000, false),
	ROW("cuMemGetAddressRange", cuMemGetAddressRange_v2, 3020, false),
	ROW("cuMemRetainAllocationHandle", cuMemRetainAllocationHandle, 11000, false),
	ROW("cuMemAllocHost", cuMemAllocHost, 2000, false),
	ROW("cuMemAllocHost", cuMemAllocHost_v2, 3020, false),
	ROW("cuMemHostAlloc", cuMemHostAlloc, 2020, false),
	ROW("cuMemFreeHost", cuMemFreeHost, 2000, false),
	ROW("cuMemHostRegister", cuMemHostRegister, 4000, false),
	ROW("cuMemHostRegister", cuMemHostRegister_v2, 6050, false),
	ROW("cuMemHostUnregister", cuMemHostUnregister, 4000, false),
	ROW("cuMemHostGetDevicePointer", cuMemHostGetDevicePointer_v2, 3020, false),
	ROW("cuModuleLoadData", cuModuleLoadData, 2000, false),
	ROW("cuModuleUnload", cuModuleUnload, 2000, false),
	ROW("cuModuleGetGlobal", cuModuleGetGlobal_v2, 3020, false),
	ROW("cuModuleGetFunction", cuModuleGetFunction, 2000, false),
	ROW("cuLaunchKernel", cuLaunchKernel, 4000, false),
	ROW("cuMemcpyHtoD", cuMemcpyHtoD, 2000, false),
	ROW("cuMemcpyHtoD", cuMemcpyHtoD_v2, 3020, false),
	ROW("cuMemcpyDtoH", cuMemcpyDtoH, 2000, false),
	ROW("cuMemcpyDtoH", cuMemcpyDtoH_v2, 3020, false),
	ROW("cuMemcpyDtoD", cuMemcpyDtoD, 2000, false),
	ROW("cuMemcpyDtoD", cuMemcpyDtoD_v2, 3020, false),
	ROW("cuMemcpy", cuMemcpy, 4000, false),
	ROW("cuMemcpyHtoDAsync", cuMemcpyHtoDAsync_v2, 3020, false),
	ROW("cuMemcpyDtoHAsync", cuMemcpyDtoHAsync_v2, 3020, false),
	ROW("cuMemcpyDtoDAsync", cuMemcpyDtoDAsync_v2, 3020, false),
	ROW("cuMemcpyAsync", cuMemcpyAsync, 4000, false),
	ROW("cuMemsetD8", cuMemsetD8_v2, 3020, false),
	ROW("cuMemsetD32", cuMemsetD32_v2, 3020, false),
	ROW("cuMemsetD8Async", cuMemsetD8Async, 3020, false),
	ROW("cuMemsetD32Async", cuMemsetD32Async, 3020, false),
	ROW("cuMemAllocManaged", cuMemAllocManaged, 6000, false),
	ROW("cuMemAllocAsync", cuMemAllocAsync, 11020, false),
	ROW("cuMemAllocAsync", cuMemAllocAsync_ptsz, 11020, true),
	ROW("cuMemAllocFromPoolAsync", cuMemAllocFromPoolAsync, 11020, false),
	ROW("cuMemAllocFromPoolAsync", cuMemAllocFromPoolAsync_ptsz, 11020, true),
	ROW("cuDeviceGetDefaultMemPool", cuDeviceGetDefaultMemPool, 11020, false),
	ROW("cuMemPoolCreate", cuMemPoolCreate, 11020, false),
	ROW("cuMemPoolDestroy", cuMemPoolDestroy, 11020, false),
	ROW("cuMemPoolTrimTo", cuMemPoolTrimTo, 11020, false),
	ROW("cuMemPoolSetAttribute", cuMemPoolSetAttribute, 11020, false),
	ROW("cuMemPoolGetAttribute", cuMemPoolGetAttribute, 11020, false),
	ROW("cuMemPoolSetAccess", cuMemPoolSetAccess, 11020, false),
	ROW("cuMemPoolExportToShareableHandle", cuMemPoolExportToShareableHandle, 11020, false),
	ROW("cuMemPoolImportFromShareableHandle", cuMemPoolImportFromShareableHandle, 11020, false),
	ROW("cuMemPoolExportPointer", cuMemPoolExportPointer, 11020, false),
	ROW("cuMemPoolImportPointer", cuMemPoolImportPointer, 11020, false),
	ROW("cuMemGetHandleForAddressRange", cuMemGetHandleForAddressRange, 11070, false),
	ROW("cuMemAddressReserve", cuMemAddressReserve, 10020, false),
	ROW("cuMemAddressFree", cuMemAddressFree, 10020, false),
	ROW("cuMemGetAllocationGranularity", cuMemGetAllocationGranularity, 10020, false),
	ROW("cuMemCreate", cuMemCreate, 10020, false),
	ROW("cuMemGetAllocationPropertiesFromHandle", cuMemGetAllocationPropertiesFromHandle, 10020,
	    false),
	ROW("cuMemRelease", cuMemRelease, 10020, false),
	ROW("cuMemExportToShareableHandle", cuMemExportToShareableHandle, 10020, false),
	ROW("cuMemImportFromShareableHandle", cuMemImportFromShareableHandle, 10020, false),
	ROW("cuMemMap", cuMemMap, 10020, false),
	ROW("cuMemUnmap", cuMemUnmap, 10020, false),
	ROW("cuMemSetAccess", cuMemSetAccess, 10020, false),
	ROW("cuMemGetAccess", cuMemGetAccess, 10020, false),
	ROW("cuIpcGetMemHandle", cuIpcGetMemHandle, 4010, false),
	ROW("cuIpcOpenMemHandle", cuIpcOpenMemHandle, 4010, false),
	ROW("cuIpcOpenMemHandle", cuIpcOpenMemHandle_v2, 11000, false),
	ROW("cuIpcCloseMemHandle", cuIpcCloseMemHandle, 4010, false),
	ROW("cuIpcGetEventHandle", cuIpcGetEventHandle, 4010, false),
	ROW("cuIpcOpenEventHandle", cuIpcOpenEventHandle, 4010, false),
	ROW("cuImportExternalMemory", cuImportExternalMemory, 10000, false),
	ROW("cuExternalMemoryGetMappedBuffer", cuExternalMemoryGetMappedBuffer, 10000, false),
	ROW("cuDestroyExternalMemory", cuDestroyExternalMemory, 10000, false),
	ROW("cuStreamIsCapturing", cuStreamIsCapturing, 10000, false),
	ROW("cuStreamIsCapturing", cuStreamIsCapturing_ptsz, 10000, true),
	ROW("cuStreamBeginCapture", cuStreamBeginCapture, 10000, false),
	ROW("cuStreamBeginCapture", cuStreamBeginCapture_ptsz, 10000, true),
	ROW("cuStreamBeginCapture", cuStreamBeginCapture_v2, 10010, false),
	ROW("cuStreamBeginCapture", cuStreamBeginCapture_v2_ptsz, 10010, true),
	ROW("cuStreamBeginCaptureToGraph", cuStreamBeginCaptureToGraph, 12030, false),
	ROW("cuStreamBeginCaptureToGraph", cuStreamBeginCaptureToGraph_ptsz, 12030, true),
	ROW("cuStreamEndCapture", cuStreamEndCapture, 10000, false),
	ROW("cuStreamEndCapture", cuStreamEndCapture_ptsz, 10000, true),
	ROW("cuGraphCreate", cuGraphCreate, 10000, false),
	ROW("cuGraphDestroy", cuGraphDestroy, 10000, false),
	ROW("cuGraphAddMemAllocNode", cuGraphAddMemAllocNode, 11040, false),
	ROW("cuGraphAddNode", cuGraphAddNode, 12020, false),
	ROW("cuGraphAddNode", cuGraphAddNode_v2, 12030, false),
	ROW("cuGraphInstantiateWithFlags", cuGraphInstantiateWithFlags, 11040, false),
	ROW("cuGraphExecDestroy", cuGraphExecDestroy, 10000, false),
	ROW("cuGraphLaunch", cuGraphLaunch, 10000, false),
	ROW("cuDeviceGraphMemTrim", cuDeviceGraphMemTrim, 11040, false),
	ROW("cuGreenCtxCreate", cuGreenCtxCreate, 12040, false),
	ROW("cuCtxFromGreenCtx", cuCtxFromGreenCtx, 12040, false),
	ROW("cuDevResourceGenerateDesc", cuDevResourceGenerateDesc, 12040, false),
	ROW("cuDeviceGetDevResource", cuDeviceGetDevResource, 12040, false),
	ROW("cuArrayCreate", cuArrayCreate_v2, 3020, false),
	ROW("cuArray3DCreate", cuArray3DCreate_v2, 3020, false),
	ROW("cuMipmappedArrayCreate", cuMipmappedArrayCreate, 5000, false),
	ROW("cuModuleLoad", cuModuleLoad, 2000, false),
	ROW("cuModuleLoadDataEx", cuModuleLoadDataEx, 2010, false),
	ROW("cuModuleLoadFatBinary", cuModuleLoadFatBinary, 2000, false),
	ROW("cuLibraryLoadData", cuLibraryLoadData, 12000, false),
	ROW("cuLibraryLoadFromFile", cuLibraryLoadFromFile, 12000, false),
	ROW("cuLibraryGetModule", cuLibraryGetModule, 12000, false),
	ROW("cuLibraryGetGlobal", cuLibraryGetGlobal, 12000, false),
	ROW("cuKernelGetFunction", cuKernelGetFunction, 12000, false),
	ROW("cuCtxSetLimit", cuCtxSetLimit, 3010, false),
	ROW("cuLaunchKernel", cuLaunchKernel_ptsz, 7000, true),
	ROW("cuLaunchKernelEx", cuLaunchKernelEx, 11060, false),
	ROW("cuLaunchKernelEx", cuLaunchKernelEx_ptsz, 11060, true),
	ROW("cuLaunchCooperativeKernel", cuLaunchCooperativeKernel, 9000, false),
	ROW("cuLaunchCooperativeKernel", cuLaunchCooperativeKernel_ptsz, 9000, true),
	ROW("cuGraphInstantiate", cuGraphInstantiate, 10000, false),
	ROW("cuGraphInstantiate", cuGraphInstantiate_v2, 11000, false),
	ROW("cuGraphInstantiateWithParams", cuGraphInstantiateWithParams, 12000, false),
	ROW("cuGraphInstantiateWithParams", cuGraphInstantiateWithParams_ptsz, 12000, true),
	ROW("cuGraphUpload", cuGraphUpload, 11010, false),
	ROW("cuGraphUpload", cuGraphUpload_ptsz, 11010, true),
	ROW("cuGraphLaunch", cuGraphLaunch_ptsz, 10000, true),
	ROW("cuLibraryGetKernel", cuLibraryGetKernel, 12000, false),
	ROW("cuLibraryUnload", cuLibraryUnload, 12000, false),
	ROW("cuPointerGetAttribute", cuPointerGetAttribute, 4000, false),
	ROW("cuPointerGetAttributes", cuPointerGetAttributes, 7000, false),
	ROW("cuPointerSetAttribute", cuPointerSetAttribute, 6000, false),
	ROW("cuMemRangeGetAttribute", cuMemRangeGetAttribute, 8000, false),
	ROW("cuThreadExchangeStreamCaptureMode", cuThreadExchangeStreamCaptureMode, 10010, false),
	ROW("cuStreamCreate", cuStreamCreate, 2000, false),
	ROW("cuStreamCreateWithPriority", cuStreamCreateWithPriority, 5050, false),
	ROW("cuStreamDestroy", cuStreamDestroy, 2000, false),
	ROW("cuStreamDestroy", cuStreamDestroy_v2, 4000, false),
	ROW("cuStreamSynchronize", cuStreamSynchronize, 2000, false),
	ROW("cuStreamQuery", cuStreamQuery, 2000, false),
	ROW("cuStreamWaitEvent", cuStreamWaitEvent, 3020, false),
	ROW("cuLaunchHostFunc", cuLaunchHostFunc, 10000, false),
	ROW("cuStreamAddCallback", cuStreamAddCallback, 5000, false),
	ROW("cuEventCreate", cuEventCreate, 2000, false),
	ROW("cuEventDestroy", cuEventDestroy, 2000, false),
	ROW("cuEventDestroy", cuEventDestroy_v2, 4000, false),
	ROW("cuEventRecord", cuEventRecord, 2000, false),
	ROW("cuEventQuery", cuEventQuery, 2000, false),
	ROW("cuEventSynchronize", cuEventSynchronize, 2000, false),
	ROW("cuEventElapsedTime", cuEventElapsedTime, 2000, false),
};

/* Newest form at or below the version; of equal versions the per-thread form, if requested.
 * *exists: the name has a row. */
static const struct row *proc_address_choose(const char *name, int version, bool per_thread,
					     bool *exists)
{
	const struct row *best = NULL;

	*exists = false;
	for (const struct row *row = rows; row < rows + sizeof(rows) / sizeof(rows[0]); row++) {
		if (strcmp(row->name, name))
			continue;
		*exists = true;
		if (row->since > version || (row->per_thread && !per_thread))
			continue;
		if (!best || row->since > best->since ||
		    (row->since == best->since && row->per_thread))
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
