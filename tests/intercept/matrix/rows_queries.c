/* SPDX-License-Identifier: BSD-3-Clause */
/* rows_queries.c -- the rows of pointer queries, and of captures, which forbid some of them */
#include "steps.h"

#define NON_BLOCKING 1

/* ---- queries ---- */

bool test_cuPointerGetAttribute(void)
{
	unsigned long long id = 0;
	CUdeviceptr address;

	NEED(OK(driver.cuMemAlloc_v2(&address, SIZE)));
	NEED(RISES("queries_answered",
		   f->cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address)) &&
	     id);
	return OK(driver.cuMemFree_v2(address));
}

bool test_cuPointerGetAttributes(void)
{
	CUpointer_attribute attributes[] = { CU_POINTER_ATTRIBUTE_BUFFER_ID,
					     CU_POINTER_ATTRIBUTE_MEMORY_TYPE };
	unsigned long long id = 0;
	unsigned int type = 0;
	void *data[] = { &id, &type };
	CUdeviceptr address;

	NEED(OK(driver.cuMemAlloc_v2(&address, SIZE)));
	NEED(RISES("queries_answered", f->cuPointerGetAttributes(2, attributes, data, address)) &&
	     id && type == CU_MEMORYTYPE_DEVICE);
	return OK(driver.cuMemFree_v2(address));
}

bool test_cuMemGetAddressRange_v2(void)
{
	CUdeviceptr address, base = 0;
	size_t size = 0;

	NEED(OK(driver.cuMemAlloc_v2(&address, SIZE)));
	NEED(RISES("queries_forwarded", f->cuMemGetAddressRange_v2(&base, &size, address + 1)) &&
	     base == address && size == SIZE);
	return OK(driver.cuMemFree_v2(address));
}

bool test_cuMemRetainAllocationHandle(void)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;
	CUresult result;

	NEED(OK(driver.cuMemAlloc_v2(&address, SIZE)));
	NEED(RISES("queries_answered", ({
			   result = f->cuMemRetainAllocationHandle(&handle, (void *)address);
			   CUDA_SUCCESS;
		   })) &&
	     result == CUDA_ERROR_INVALID_VALUE);
	return OK(driver.cuMemFree_v2(address));
}

bool test_cuMemGetInfo_v2(void)
{
	__typeof__(cuMemGetInfo_v2) *read = (__typeof__(read))bypass("cuMemGetInfo_v2");
	size_t free = 0, total = 0, of_driver = 0;
	CUdeviceptr address;

	if (keeps_nothing())
		SKIP("nothing is kept at exit, nor without PEERPIN_KEEP");
	NEED(OK(driver.cuMemAlloc_v2(&address, UNIT)));
	NEED(RISES("kept", driver.cuMemFree_v2(address)));
	NEED(OK(f->cuMemGetInfo_v2(&free, &total)) && OK(read(&of_driver, &total)));
	return free >= of_driver + UNIT && free <= total;
}

static const unsigned int off;

bool test_cuPointerSetAttribute(void)
{
	CUdeviceptr address;

	NEED(OK(driver.cuMemAlloc_v2(&address, SIZE)));
	NEED(RISES("sync_off",
		   f->cuPointerSetAttribute(&off, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address)));
	return OK(driver.cuMemFree_v2(address));
}

/* ---- captures ---- */

static bool end_capture(CUstream stream)
{
	CUgraph graph;

	return OK(driver.cuStreamEndCapture(stream, &graph)) && OK(driver.cuGraphDestroy(graph)) &&
	       OK(driver.cuStreamDestroy_v2(stream));
}

bool test_cuStreamBeginCapture(void)
{
	CUstream stream;

	NEED(OK(driver.cuStreamCreate(&stream, NON_BLOCKING)));
	NEED(RISES("captures", f->cuStreamBeginCapture(stream)));
	return end_capture(stream);
}

bool test_cuStreamBeginCapture_ptsz(void)
{
	CUstream stream;

	NEED(OK(driver.cuStreamCreate(&stream, NON_BLOCKING)));
	NEED(RISES("captures", f->cuStreamBeginCapture_ptsz(stream)));
	return end_capture(stream);
}

bool test_cuStreamBeginCapture_v2(void)
{
	CUstream stream;

	NEED(OK(driver.cuStreamCreate(&stream, NON_BLOCKING)));
	NEED(RISES("captures", f->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED)));
	return end_capture(stream);
}

bool test_cuStreamBeginCapture_v2_ptsz(void)
{
	CUstream stream;

	NEED(OK(driver.cuStreamCreate(&stream, NON_BLOCKING)));
	NEED(RISES("captures",
		   f->cuStreamBeginCapture_v2_ptsz(stream, CU_STREAM_CAPTURE_MODE_RELAXED)));
	return end_capture(stream);
}

bool test_cuStreamBeginCaptureToGraph(void)
{
	CUstream stream;
	CUgraph graph;

	NEED(OK(driver.cuStreamCreate(&stream, NON_BLOCKING)) &&
	     OK(driver.cuGraphCreate(&graph, 0)));
	NEED(RISES("captures", f->cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0,
							      CU_STREAM_CAPTURE_MODE_RELAXED)));
	return end_capture(stream);
}

bool test_cuStreamBeginCaptureToGraph_ptsz(void)
{
	CUstream stream;
	CUgraph graph;

	NEED(OK(driver.cuStreamCreate(&stream, NON_BLOCKING)) &&
	     OK(driver.cuGraphCreate(&graph, 0)));
	NEED(RISES("captures",
		   f->cuStreamBeginCaptureToGraph_ptsz(stream, graph, NULL, NULL, 0,
						       CU_STREAM_CAPTURE_MODE_RELAXED)));
	return end_capture(stream);
}

/* After a missed end nothing would be kept. */
static bool ends_capture(CUresult (*end)(CUstream stream, CUgraph *graph))
{
	CUdeviceptr address;
	CUstream stream;
	CUgraph graph;

	if (keeps_nothing())
		SKIP("nothing is kept at exit, nor without PEERPIN_KEEP");
	NEED(OK(driver.cuMemAlloc_v2(&address, UNIT)));
	NEED(OK(driver.cuStreamCreate(&stream, NON_BLOCKING)) &&
	     OK(driver.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED)));
	NEED(OK(end(stream, &graph)) && OK(driver.cuGraphDestroy(graph)));
	NEED(RISES("kept", driver.cuMemFree_v2(address)));
	return OK(driver.cuStreamDestroy_v2(stream));
}

bool test_cuStreamEndCapture(void)
{
	return ends_capture(f->cuStreamEndCapture);
}

bool test_cuStreamEndCapture_ptsz(void)
{
	return ends_capture(f->cuStreamEndCapture_ptsz);
}
