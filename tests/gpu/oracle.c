/* SPDX-License-Identifier: BSD-3-Clause */
/* oracle.c -- records the driver's allocations, frees and queries by CUPTI
 *
 * A subscriber to every call of the driver API, loaded by the driver (CUDA_INJECTION64_PATH):
 * independent of the lookup path. It writes a line for each call that succeeded to the file
 * ORACLE_LOG, to which all processes append, with the process's id behind it: allocation ADDRESS
 * SIZE NAME     graph ADDRESS SIZE NAME (an address without memory yet) free ADDRESS 0 NAME
 * graph-free ADDRESS 0 NAME range-free ADDRESS SIZE NAME context-end 0 0 NAME call 0 0 NAME (others
 * that peerpin counts) and for some calls also if they were refused: query 0 0 NAME, query-refused
 * 0 0 NAME refused ADDRESS 0 NAME (a free) Names are without the form (_v2, _ptsz). Only for tests:
 * CUPTI has one subscriber for each process, and slows each call.
 */
#include <cupti.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int log_file = -1;
static __thread int depth;     /* a call by the driver itself; the program's counts */
static __thread bool asking;   /* own queries are no events */
static __thread bool captured; /* stream of the free in progress */

enum kind {
	NONE,
	ALLOCATION,
	PITCH,
	SIZE_IN_DESCRIPTION,
	SIZE_UNKNOWN,
	MAP,
	FREE,
	FREE_ASYNC,
	RANGE,
	CONTEXT,
	CALL,
	HOST_END,
	QUERY
};

static const struct {
	const char *name;
	enum kind kind;
} events[] = {
	{ "cuMemAlloc", ALLOCATION },
	{ "cuMemAllocManaged", ALLOCATION },
	{ "cuMemAllocAsync", ALLOCATION },
	{ "cuMemAllocFromPoolAsync", ALLOCATION },
	{ "cuMemAllocPitch", PITCH },
	{ "cuExternalMemoryGetMappedBuffer", SIZE_IN_DESCRIPTION },
	{ "cuIpcOpenMemHandle", SIZE_UNKNOWN },
	{ "cuMemPoolImportPointer", SIZE_UNKNOWN },
	{ "cuMemMap", MAP },
	{ "cuMemFree", FREE },
	{ "cuIpcCloseMemHandle", FREE },
	{ "cuMemFreeAsync", FREE_ASYNC },
	{ "cuMemUnmap", RANGE },
	{ "cuMemAddressFree", RANGE },
	{ "cuCtxDestroy", CONTEXT },
	{ "cuCtxDetach", CONTEXT },
	{ "cuDevicePrimaryCtxReset", CONTEXT },
	{ "cuDevicePrimaryCtxRelease", CONTEXT },
	{ "cuGreenCtxDestroy", CONTEXT },
	{ "cuMemCreate", CALL },
	{ "cuMemImportFromShareableHandle", CALL },
	{ "cuMemRelease", CALL },
	{ "cuMemSetAccess", CALL },
	{ "cuMemAddressReserve", CALL },
	{ "cuMemHostAlloc", CALL },
	{ "cuMemAllocHost", CALL },
	{ "cuMemFreeHost", HOST_END },
	{ "cuStreamBeginCapture", CALL },
	{ "cuStreamBeginCaptureToGraph", CALL },
	{ "cuGraphAddMemAllocNode", CALL },
	{ "cuMemGetHandleForAddressRange", CALL },
	{ "cuMemRetainAllocationHandle", QUERY },
	{ "cuPointerGetAttribute", QUERY },
	{ "cuPointerGetAttributes", QUERY },
	{ "cuPointerSetAttribute", QUERY },
	{ "cuMemGetAddressRange", QUERY },
};

/* Function name without its variant, in `base` of 64 bytes. */
static enum kind kind_of(const char *name, char *base)
{
	char *end;

	snprintf(base, 64, "%s", name);
	if ((end = strstr(base, "_ptsz")))
		*end = '\0';
	end = strrchr(base, '_');
	if (end && end[1] == 'v' && end[2] >= '0' && end[2] <= '9')
		*end = '\0';
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
		if (!strcmp(events[i].name, base))
			return events[i].kind;
	}
	return NONE;
}

static void log_event(const char *what, unsigned long long address, unsigned long long size,
		      const char *name)
{
	char line[192];
	int length = snprintf(line, sizeof(line), "%s 0x%llx %llu %s %d\n", what, address, size,
			      name, (int)getpid());

	if (write(log_file, line, (size_t)length) != length)
		log_file = -1;
}

static unsigned long long range_size(CUdeviceptr address)
{
	size_t size = 0;

	asking = true;
	cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address);
	asking = false;
	return size;
}

static bool is_memory(CUdeviceptr address)
{
	unsigned long long id;
	bool known;

	asking = true;
	known = cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address) == CUDA_SUCCESS;
	asking = false;
	return known;
}

static bool is_captured(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	asking = true;
	cuStreamIsCapturing(stream, &status);
	asking = false;
	return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* The parameters are a struct of the arguments in order; all used ones take 8 bytes. */
static void event(enum kind kind, const char *name, const unsigned long long *arguments)
{
	unsigned long long address, size;

	switch (kind) {
	case ALLOCATION:
	case PITCH:
	case SIZE_IN_DESCRIPTION:
	case SIZE_UNKNOWN:
		address = *(const CUdeviceptr *)arguments[0];
		if (!address)
			return;
		size = kind == ALLOCATION ? arguments[1]
		       : kind == PITCH	  ? *(const size_t *)arguments[1] * arguments[3]
		       : kind == SIZE_IN_DESCRIPTION
			       ? ((const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *)arguments[2])->size
			       : range_size(address);
		log_event(is_memory(address) ? "allocation" : "graph", address, size, name);
		break;
	case MAP:
		log_event("allocation", arguments[0], arguments[1], name);
		break;
	case FREE:
		if (arguments[0])
			log_event("free", arguments[0], 0, name);
		break;
	case FREE_ASYNC:
		if (arguments[0])
			log_event(captured ? "graph-free" : "free", arguments[0], 0, name);
		break;
	case RANGE:
		log_event("range-free", arguments[0], arguments[1], name);
		break;
	case CONTEXT:
		log_event("context-end", 0, 0, name);
		break;
	case CALL:
	case HOST_END:
		log_event("call", 0, 0, name);
		break;
	case QUERY:
	case NONE:
		break;
	}
}

static void CUPTIAPI on_call(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId id,
			     const void *data)
{
	const CUpti_CallbackData *call = data;
	const unsigned long long *arguments;
	enum kind kind;
	char name[64];
	bool done;

	(void)user;
	(void)id;
	if (asking || domain != CUPTI_CB_DOMAIN_DRIVER_API)
		return;
	kind = kind_of(call->functionName, name);
	if (call->callbackSite == CUPTI_API_ENTER) {
		if (!depth++ && kind == FREE_ASYNC)
			captured = is_captured(
				((const cuMemFreeAsync_params *)call->functionParams)->hStream);
		return;
	}
	if (--depth || kind == NONE)
		return;
	arguments = call->functionParams;
	done = *(const CUresult *)call->functionReturnValue == CUDA_SUCCESS;
	if (kind == QUERY)
		log_event(done ? "query" : "query-refused", 0, 0, name);
	else if (done)
		event(kind, name, arguments);
	else if (kind == FREE || kind == FREE_ASYNC || kind == HOST_END)
		log_event("refused", arguments[0], 0, name);
}

/* From here on CUPTI may be silent while static objects still free memory. The line marks the place
 * in the error output, which also has peerpin's trace. */
static void at_exit(void)
{
	char line[64];
	int length = snprintf(line, sizeof(line), "oracle: the program exits: %d\n", (int)getpid());

	if (write(STDERR_FILENO, line, (size_t)length) < 0)
		log_file = -1;
}

int InitializeInjection(void);
int InitializeInjection(void)
{
	const char *name = getenv("ORACLE_LOG");
	CUpti_SubscriberHandle subscriber;

	log_file = name ? open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
	if (log_file < 0 || cuptiSubscribe(&subscriber, on_call, NULL) != CUPTI_SUCCESS ||
	    cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API) != CUPTI_SUCCESS) {
		fprintf(stderr, "the oracle could not begin\n");
		return 0;
	}
	atexit(at_exit);
	log_event("begin", 0, 0, "oracle");
	return 1;
}
