/* SPDX-License-Identifier: BSD-3-Clause */
/* effects.c -- under the preload: allocations and frees that each call records, observed through
 * registrations */
#include <check.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory/cuda_abi.h"
#include "unit/preload.h"
#include "unit/suite.h"
#include "verbs/libibverbs.h"
#include "../vmm.h"

#define UNIT ((size_t)2 << 20)
#define SIZE ((size_t)1 << 20)

#define ck_cuda(call) ck_assert_int_eq((call), CUDA_SUCCESS)

static CUdevice device;
static CUcontext context;
static CUstream stream;
static struct ibv_pd *pd;

static void set_up(void)
{
	ck_cuda(cuInit(0));
	ck_cuda(cuDeviceGet(&device, 0));
	ck_cuda(cuCtxCreate_v2(&context, 0, device));
	ck_cuda(cuStreamCreate(&stream, 1));
	pd = ibv_alloc_pd(standin_open_device());
}

static struct ibv_mr *registered(CUdeviceptr address, size_t size)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, (void *)address, size, IBV_ACCESS_LOCAL_WRITE);

	ck_assert_ptr_nonnull(mr);
	return mr;
}

/* The driver's own function: a bypassing call. */
static void *bypass(const char *name)
{
	void *plugin = dlopen("tests/intercept/.libs/libucm_bypass.so", RTLD_NOW | RTLD_LOCAL);
	void *(*find)(const char *) = (void *(*)(const char *))dlsym(plugin, "driver_function");

	return find(name);
}

/* ---- mappings ---- */

static void map(CUdeviceptr at)
{
	CUmemGenericAllocationHandle handle;

	ck_cuda(cuMemCreate(&handle, UNIT, &vmm_shared, 0));
	ck_cuda(cuMemMap(at, UNIT, 0, handle, 0));
	ck_cuda(cuMemRelease(handle));
}

static void set_access(CUdeviceptr at, size_t units, CUmemAccess_flags flags)
{
	CUmemAccessDesc access = { .location = { CU_MEM_LOCATION_TYPE_DEVICE, device },
				   .flags = flags };

	ck_cuda(cuMemSetAccess(at, units * UNIT, &access, 1));
}

static CUdeviceptr reserve(void)
{
	CUdeviceptr address;

	ck_cuda(cuMemAddressReserve(&address, 8 * UNIT, 0, 0, 0));
	return address;
}

CASE(effects, .set_up = set_up);

TEST(effects, a_mapping_is_registered_only_while_its_device_may_use_it)
{
	CUdeviceptr address = reserve();
	struct ibv_mr *before, *served, *again;

	map(address);
	before = registered(address, UNIT);
	ck_assert_uint_eq(statistic("forwarded_capability"), 1);
	ibv_dereg_mr(before);
	set_access(address, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	served = registered(address, UNIT);
	ck_assert_uint_eq(statistic("forwarded"), 1);
	ck_assert_uint_eq(standin_kernel_regions(), 1);
	set_access(address, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	ck_assert_uint_eq(standin_kernel_regions(), 1);
	ck_assert_uint_eq(statistic("revoked"), 0);
	set_access(address, 1, CU_MEM_ACCESS_FLAGS_PROT_READ);
	ck_assert_uint_eq(standin_kernel_regions(), 0);
	ck_assert_uint_eq(statistic("revoked"), 1);
	ck_assert_int_eq(ibv_dereg_mr(served), 0);
	set_access(address, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	again = registered(address, UNIT);
	ck_assert_uint_eq(statistic("forwarded"), 1);
	ck_assert_int_eq(ibv_dereg_mr(again), 0);
	ck_cuda(cuMemUnmap(address, UNIT));
	ck_assert_uint_eq(standin_kernel_regions(), 0);
	ck_assert_uint_eq(statistic("frees"), 1);
}

static CUdeviceptr watched;
static unsigned long long access_at_deregistration;

static void look_at_access(void)
{
	CUmemLocation location = { CU_MEM_LOCATION_TYPE_DEVICE, device };

	cuMemGetAccess(&access_at_deregistration, &location, watched);
}

TEST(effects, a_registration_goes_before_the_access_does)
{
	struct ibv_mr *mr;

	watched = reserve();
	map(watched);
	set_access(watched, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	mr = registered(watched, UNIT);
	standin_in_deregister = look_at_access;
	set_access(watched, 1, CU_MEM_ACCESS_FLAGS_PROT_NONE);
	ck_assert_uint_eq(standin_kernel_regions(), 0);
	ck_assert_uint_eq(access_at_deregistration, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	ibv_dereg_mr(mr);
}

TEST(effects, access_of_another_device_changes_nothing)
{
	CUmemAccessDesc other = { .location = { CU_MEM_LOCATION_TYPE_DEVICE, device + 1 } };
	CUdeviceptr address = reserve();
	struct ibv_mr *mr;

	map(address);
	set_access(address, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	mr = registered(address, UNIT);
	ck_cuda(cuMemSetAccess(address, UNIT, &other, 1));
	ck_assert_uint_eq(standin_kernel_regions(), 1);
	/* Access for a host location changes no region: its number is not a device's. */
	other.location.type = (CUmemLocationType)2;
	other.location.id = device;
	ck_cuda(cuMemSetAccess(address, UNIT, &other, 1));
	ck_assert_uint_eq(standin_kernel_regions(), 1);
	ck_assert_uint_eq(statistic("revoked"), 0);
	ibv_dereg_mr(mr);
}

static bool preregister_is_default(void)
{
	return !getenv("PEERPIN_PREREGISTER");
}

/* Number of regions for `living` allocations, one of them requested, after the worker is idle. */
static unsigned int settled_regions(unsigned int living)
{
	const char *preregister = getenv("PEERPIN_PREREGISTER");

	if (preregister && !strcmp(preregister, "off"))
		return 1;
	await_statistic("registrations_background", living - 1);
	return living;
}

TEST(effects, one_unmap_ends_several_mappings_and_a_refused_one_none)
{
	CUdeviceptr address = reserve(), plain;
	unsigned int regions;
	struct ibv_mr *mr;

	ck_cuda(cuMemAlloc_v2(&plain, UNIT));
	for (int i = 0; i < 3; i++)
		map(address + (size_t)i * UNIT);
	set_access(address, 3, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	mr = registered(address + UNIT, UNIT);
	regions = settled_regions(4);
	ck_assert_int_eq(cuMemUnmap(plain, UNIT), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(cuMemUnmap(address + UNIT + 4096, 4096), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(cuMemUnmap(address, UNIT + UNIT / 2), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(cuMemAddressFree(address, 8 * UNIT), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(cuMemFree_v2(address + UNIT), CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(standin_kernel_regions(), regions);
	ck_assert_uint_eq(statistic("revoked"), 0);
	ck_assert_uint_eq(statistic("deregistrations"), 0);
	ck_assert_uint_eq(statistic("frees"), 0);
	ck_cuda(cuMemUnmap(address, 8 * UNIT));
	ck_assert_uint_eq(statistic("frees"), 3);
	ck_cuda(cuMemFree_v2(plain));
	ck_assert_uint_eq(standin_kernel_regions(), 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
}

/* A missed unmap that reaches past the range must not look like a refusal by the driver. */
TEST(effects, an_unmap_beside_a_missed_one_ends_its_own_mapping)
{
	__typeof__(cuMemUnmap) *unmap = (__typeof__(unmap))bypass("cuMemUnmap");
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address = reserve();
	struct ibv_mr *mr;

	map(address);
	ck_cuda(cuMemCreate(&handle, 2 * UNIT, &vmm_shared, 0));
	ck_cuda(cuMemMap(address + UNIT, 2 * UNIT, 0, handle, 0));
	ck_cuda(cuMemRelease(handle));
	set_access(address, 3, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	mr = registered(address, UNIT);
	ck_cuda(unmap(address + UNIT, 2 * UNIT));
	ck_cuda(cuMemUnmap(address, 2 * UNIT));
	ck_assert_uint_eq(statistic("frees"), 2);
	ck_assert_uint_eq(standin_kernel_regions(), 0);
	ibv_dereg_mr(mr);
}

TEST(effects, a_reservation_ends_a_record_of_a_missed_free)
{
	__typeof__(cuMemAddressFree) *give_back = (__typeof__(give_back))bypass("cuMemAddressFree");
	__typeof__(cuMemUnmap) *unmap = (__typeof__(unmap))bypass("cuMemUnmap");
	CUdeviceptr address = reserve();
	CUmemGenericAllocationHandle handle;
	struct ibv_mr *mr;
	bool again = false;

	ck_cuda(cuMemCreate(&handle, 8 * UNIT, &vmm_shared, 0));
	ck_cuda(cuMemMap(address, 8 * UNIT, 0, handle, 0));
	set_access(address, 8, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	mr = registered(address, UNIT);
	ck_cuda(unmap(address, 8 * UNIT));
	ck_cuda(give_back(address, 8 * UNIT));
	/* The driver reuses these addresses. */
	for (int i = 0; i < 200 && !again; i++) {
		CUdeviceptr other;

		ck_cuda(cuMemAddressReserve(&other, UNIT, 0, 0, 0));
		again = address <= other && other < address + 8 * UNIT;
	}
	ck_assert(again);
	ck_assert_uint_eq(statistic("missed_frees"), 1);
	ck_assert_uint_eq(standin_kernel_regions(), 0);
	ibv_dereg_mr(mr);
}

/* ---- other processes ---- */

TEST(effects, memory_of_another_process_ends_with_the_last_of_its_openings)
{
	FILE *exporter = popen(getenv("MATRIX_EXPORTER"), "r");
	CUdeviceptr address, again;
	CUipcMemHandle handle;
	struct ibv_mr *mr;

	ck_assert_uint_eq(fread(&handle, sizeof(handle), 1, exporter), 1);
	ck_cuda(cuIpcOpenMemHandle_v2(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	ck_cuda(cuIpcOpenMemHandle_v2(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	ck_assert_uint_eq(again, address);
	ck_assert_uint_eq(statistic("allocations"), 1);
	/* Only the exporting process may pin it: the client's request is forwarded. */
	mr = registered(address, SIZE);
	ck_assert_uint_eq(statistic("forwarded_capability"), 1);
	ibv_dereg_mr(mr);
	ck_cuda(cuIpcCloseMemHandle(address));
	ck_assert_uint_eq(statistic("frees"), 0);
	ck_cuda(cuIpcCloseMemHandle(address));
	ck_assert_uint_eq(statistic("frees"), 1);
	pclose(exporter);
}

/* From the record, by a counter. */
static bool is_answered(CUdeviceptr address)
{
	uint64_t before = statistic("queries_answered"), id = 0;

	return cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address) ==
		       CUDA_SUCCESS &&
	       id && statistic("queries_answered") == before + 1;
}

/* The driver refuses the free, or memory stays: the record is there again. */
TEST(effects, memory_that_survives_a_free_answers_queries)
{
	const char *path = getenv("MATRIX_EXPORTER");
	FILE *exporter = path ? popen(path, "r") : NULL;
	CUdeviceptr address, again, plain;
	CUipcMemHandle handle;

	ck_assert_ptr_nonnull(exporter);
	ck_assert_uint_eq(fread(&handle, sizeof(handle), 1, exporter), 1);
	ck_cuda(cuIpcOpenMemHandle_v2(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	ck_cuda(cuIpcOpenMemHandle_v2(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	ck_cuda(cuIpcCloseMemHandle(address));
	ck_assert(is_answered(address));
	ck_cuda(cuMemAlloc_v2(&plain, SIZE));
	ck_assert_int_eq(cuMemFreeAsync(plain, (CUstream)0x1234), CUDA_ERROR_INVALID_HANDLE);
	ck_assert(is_answered(plain));
	ck_assert_uint_eq(statistic("verify_disagreements"), 0);
	ck_assert_uint_eq(statistic("frees"), 0);
	pclose(exporter);
}

TEST(effects, memory_that_loses_access_answers_queries)
{
	CUdeviceptr address = reserve();

	map(address);
	set_access(address, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	set_access(address, 1, CU_MEM_ACCESS_FLAGS_PROT_NONE);
	ck_assert(is_answered(address));
	ck_assert_uint_eq(statistic("verify_disagreements"), 0);
}

/* ---- streams ---- */

TEST(effects, a_free_into_a_capture_ends_nothing)
{
	CUdeviceptr plain, pool, captured;
	struct ibv_mr *mr;
	CUgraph graph;

	ck_cuda(cuMemAlloc_v2(&plain, SIZE));
	ck_cuda(cuMemAllocAsync(&pool, SIZE, stream));
	mr = registered(plain, SIZE);
	ck_cuda(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	ck_assert_int_eq(cuMemFreeAsync(plain, stream), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(cuMemFreeAsync(pool, stream), CUDA_ERROR_INVALID_VALUE);
	ck_cuda(cuMemAllocAsync(&captured, SIZE, stream));
	ck_assert_uint_eq(statistic("graph_allocations"), 1);
	ck_cuda(cuMemFreeAsync(captured, stream));
	ck_cuda(cuStreamEndCapture(stream, &graph));
	ck_assert_uint_eq(statistic("frees"), 0);
	ck_assert_uint_eq(statistic("revoked"), 0);
	ck_assert_uint_eq(standin_kernel_regions(), 1);
	ck_cuda(cuMemFreeAsync(plain, stream));
	ck_assert_uint_eq(statistic("frees"), 1);
	ck_assert_uint_eq(standin_kernel_regions(), 0);
	ibv_dereg_mr(mr);
}

TEST(effects, a_free_that_a_capture_refuses_ends_nothing)
{
	CUstreamCaptureMode mode;
	CUdeviceptr address, pool;
	struct ibv_mr *mr;
	CUresult result;
	CUgraph graph;

	ck_cuda(cuMemAlloc_v2(&address, SIZE));
	ck_cuda(cuMemAllocAsync(&pool, SIZE, NULL));
	mr = registered(address, SIZE);
	for (int refused = 0; refused < 4; refused++) {
		ck_cuda(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
		result = refused == 0	? cuMemFree_v2(address)
			 : refused == 1 ? cuMemFreeAsync(address, NULL)
			 : refused == 2 ? cuMemFreeAsync_ptsz(address, NULL)
					: cuMemFreeAsync(pool, NULL);
		ck_assert_int_eq(result, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
		ck_assert_int_eq(cuStreamEndCapture(stream, &graph),
				 CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
		ck_assert_uint_eq(standin_kernel_regions(), 1);
	}
	ck_assert_uint_eq(statistic("frees"), 0);
	ck_assert_uint_eq(statistic("revoked"), 0);
	/* In a thread of another mode a free does not affect the capture. */
	ck_cuda(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	ck_cuda(cuThreadExchangeStreamCaptureMode(&mode));
	ck_cuda(cuMemFree_v2(address));
	ck_cuda(cuMemFreeAsync(pool, NULL));
	ck_cuda(cuThreadExchangeStreamCaptureMode(&mode));
	ck_cuda(cuStreamEndCapture(stream, &graph));
	ck_assert_uint_eq(statistic("frees"), 2);
	ck_assert_uint_eq(standin_kernel_regions(), 0);
	ibv_dereg_mr(mr);
}

/* A newer driver may have entry points that begin a capture and are not in the table. */
TEST(effects, a_capture_is_not_disturbed_by_registering)
{
	CUstreamCaptureStatus status;
	CUdeviceptr address;
	struct ibv_mr *mr;
	CUgraph graph;

	ck_cuda(cuMemAlloc_v2(&address, SIZE));
	ck_cuda(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	mr = registered(address, SIZE);
	ck_cuda(cuStreamIsCapturing(stream, &status));
	ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
	ck_cuda(cuStreamEndCapture(stream, &graph));
	ck_cuda(cuMemFree_v2(address));
	ck_assert_uint_eq(standin_kernel_regions(), 0);
	ibv_dereg_mr(mr);
}

/* ---- contexts ---- */

TEST(effects, the_end_of_a_context_leaves_pools_mappings_and_other_contexts)
{
	CUdeviceptr own, pool, mapped = reserve(), before;
	struct ibv_mr *kept, *gone, *first;
	CUcontext other;

	ck_cuda(cuMemAlloc_v2(&before, SIZE));
	first = registered(before, SIZE);
	ck_cuda(cuCtxCreate_v2(&other, 0, device));
	ck_cuda(cuMemAlloc_v2(&own, SIZE));
	ck_cuda(cuMemAllocAsync(&pool, SIZE, NULL));
	map(mapped);
	set_access(mapped, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	kept = registered(mapped, UNIT);
	gone = registered(own, SIZE);
	ck_cuda(cuCtxDestroy_v2(other));
	ck_assert_uint_eq(statistic("frees"), 1);
	ck_assert_uint_eq(standin_kernel_regions(),
			  2); /* the mapping's, and that of the first context's memory */
	ck_cuda(cuMemFree_v2(pool));
	ck_cuda(cuMemUnmap(mapped, UNIT));
	ck_cuda(cuMemFree_v2(before));
	ck_assert_uint_eq(statistic("frees"), 4);
	ck_assert_uint_eq(statistic("missed_frees"), 0);
	ck_assert_uint_eq(standin_kernel_regions(), 0);
	ibv_dereg_mr(first);
	ibv_dereg_mr(kept);
	ibv_dereg_mr(gone);
}

static CUdeviceptr late;

static void allocate_late(void)
{
	standin_in_deregister = NULL;
	cuMemAlloc_v2(&late, SIZE);
}

/* Another thread, or a hook, may allocate before the driver's call. */
LOOP_TEST(effects, an_allocation_while_its_context_ends_ends_with_it, 0, 2)
{
	CUcontext other;
	CUdeviceptr address;
	struct ibv_mr *mr;
	uint64_t id = 0;

	ck_cuda(cuCtxCreate_v2(&other, 0, device));
	ck_cuda(cuMemAlloc_v2(&address, SIZE));
	mr = registered(address, SIZE);
	standin_in_deregister = allocate_late;
	ck_cuda(_i ? cuCtxDestroy(other) : cuCtxDestroy_v2(other));
	ck_assert_uint_ne(late, 0);
	ck_assert_int_eq(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, late),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(statistic("allocations"), 2);
	ck_assert_uint_eq(statistic("frees"), 2);
	ck_assert_uint_eq(standin_kernel_regions(), 0);
	ck_assert_uint_eq(statistic("verify_disagreements"), 0);
	ibv_dereg_mr(mr);
}

LOOP_TEST(effects, a_refused_end_of_a_context_leaves_its_memory_recorded, 0, 2)
{
	struct ibv_mr *before, *after;
	CUdeviceptr address;
	CUcontext primary;

	ck_cuda(cuDevicePrimaryCtxRetain(&primary, device));
	ck_cuda(cuCtxPushCurrent_v2(primary));
	ck_cuda(cuMemAlloc_v2(&address, SIZE));
	before = registered(address, SIZE);
	ck_assert_int_ne(_i ? cuCtxDestroy(primary) : cuCtxDestroy_v2(primary), CUDA_SUCCESS);
	ck_assert_uint_eq(statistic("frees"), 0);
	after = registered(address, SIZE);
	ck_assert_uint_eq(statistic("forwarded"), 0);
	ck_cuda(cuMemFree_v2(address));
	ck_assert_uint_eq(statistic("frees"), 1);
	ck_assert_uint_eq(standin_kernel_regions(), 0);
	ibv_dereg_mr(before);
	ibv_dereg_mr(after);
}

TEST(effects, a_context_ends_with_its_last_attachment_or_retain)
{
	CUcontext attached, primary;
	CUdeviceptr address;

	ck_cuda(cuCtxCreate_v2(&attached, 0, device));
	ck_cuda(cuMemAlloc_v2(&address, SIZE));
	ck_cuda(cuCtxAttach(&attached, 0));
	ck_cuda(cuCtxDetach(attached));
	ck_assert_uint_eq(statistic("frees"), 0);
	ck_cuda(cuCtxDetach(attached));
	ck_assert_uint_eq(statistic("frees"), 1);
	ck_cuda(cuDevicePrimaryCtxRetain(&primary, device));
	ck_cuda(cuDevicePrimaryCtxRetain(&primary, device));
	ck_cuda(cuCtxPushCurrent_v2(primary));
	ck_cuda(cuMemAlloc_v2(&address, SIZE));
	ck_cuda(cuDevicePrimaryCtxRelease_v2(device));
	ck_assert_uint_eq(statistic("frees"), 1);
	ck_cuda(cuDevicePrimaryCtxRelease(device));
	ck_assert_uint_eq(statistic("frees"), 2);
}

TEST(effects, a_refused_release_ends_what_a_missed_one_has_freed)
{
	__typeof__(cuDevicePrimaryCtxRelease) *release_unseen =
		(__typeof__(release_unseen))bypass("cuDevicePrimaryCtxRelease");
	CUdeviceptr idle, used;
	CUcontext primary;
	struct ibv_mr *mr;

	ck_cuda(cuDevicePrimaryCtxRetain(&primary, device));
	ck_cuda(cuCtxPushCurrent_v2(primary));
	ck_cuda(cuMemAlloc_v2(&idle, SIZE));
	ck_cuda(cuMemAlloc_v2(&used, SIZE));
	ibv_dereg_mr(registered(idle, SIZE));
	mr = registered(used, SIZE);
	ck_cuda(cuCtxPopCurrent_v2(NULL));
	ck_cuda(release_unseen(device));
	ck_assert_uint_eq(statistic("frees"), 0);
	ck_assert_int_eq(cuDevicePrimaryCtxRelease(device), CUDA_ERROR_INVALID_CONTEXT);
	ck_assert_uint_eq(statistic("frees"), 2);
	ck_assert_uint_eq(standin_kernel_regions(), 0);
	ibv_dereg_mr(mr);
}

/* Undocumented: the memory without a context that a reset frees. A missed free simulates it. */
LOOP_TEST(effects, after_a_reset_memory_without_a_context_is_checked_with_the_driver, 0, 2)
{
	__typeof__(cuMemUnmap) *unmap = (__typeof__(unmap))bypass("cuMemUnmap");
	CUdeviceptr gone = reserve(), kept = reserve();
	struct ibv_mr *of_gone, *of_kept;

	map(gone);
	map(kept);
	set_access(gone, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	set_access(kept, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	of_gone = registered(gone, UNIT);
	of_kept = registered(kept, UNIT);
	ck_cuda(unmap(gone, UNIT));
	ck_assert_uint_eq(standin_kernel_regions(), 2);
	ck_cuda(_i ? cuDevicePrimaryCtxReset(device) : cuDevicePrimaryCtxReset_v2(device));
	ck_assert_uint_eq(statistic("frees"), 1);
	ck_assert_uint_eq(standin_kernel_regions(), 1);
	ibv_dereg_mr(of_gone);
	ibv_dereg_mr(of_kept);
}

TEST(effects, a_forked_child_finds_the_driver_s_own_functions)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	CUdeviceptr address;
	Dl_info object;
	int status;
	pid_t child;

	ck_cuda(cuMemAlloc_v2(&address, 4096));
	child = fork();
	if (!child)
		_exit(!dladdr(dlsym(library, "cuMemFree_v2"), &object) ||
		      !strstr(object.dli_fname, "libcuda.so") || statistic("allocations") != 1);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_cuda(cuMemFree_v2(address));
	ck_assert_uint_eq(statistic("frees"), 1);
}

/* ---- forms of registration ---- */

TEST(effects, a_client_s_own_dmabuf_is_identified_by_its_export)
{
	CUdeviceptr address;
	struct ibv_mr *mr;
	int file, copy, other = memfd_create("not the driver's", MFD_CLOEXEC);

	ck_cuda(cuMemAlloc_v2(&address, 4 * UNIT));
	ck_cuda(cuMemGetHandleForAddressRange(&file, address, UNIT,
					      CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	copy = dup(file);
	close(file);
	mr = ibv_reg_dmabuf_mr(pd, 0, UNIT, address, copy, IBV_ACCESS_LOCAL_WRITE);
	ck_assert_ptr_nonnull(mr);
	ck_assert_uint_eq(statistic("synchronous"), 1);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	/* Descriptors that are no dma-buf; the probe for dma-buf support must fail. */
	ck_assert_ptr_nonnull(
		ibv_reg_dmabuf_mr(pd, 0, 4096, 0, STDIN_FILENO, IBV_ACCESS_LOCAL_WRITE));
	ck_assert_ptr_nonnull(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, other, IBV_ACCESS_LOCAL_WRITE));
	close(other);
	ck_assert_ptr_null(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, -1, IBV_ACCESS_LOCAL_WRITE));
	ck_assert_uint_eq(statistic("requests"), 1);
	ck_cuda(cuMemFree_v2(address));
	/* A request for freed memory is forwarded and counted. */
	ck_assert_ptr_nonnull(
		ibv_reg_dmabuf_mr(pd, 0, UNIT, address, copy, IBV_ACCESS_LOCAL_WRITE));
	ck_assert_uint_eq(statistic("requests"), 2);
	ck_assert_uint_eq(statistic("forwarded_freed"), 1);
	close(copy);
}

CASE(background, .set_up = set_up, .applies = preregister_is_default);

static unsigned long long buffer_at_deregistration;

static void look_at_buffer(void)
{
	cuPointerGetAttribute(&buffer_at_deregistration, CU_POINTER_ATTRIBUTE_BUFFER_ID, watched);
}

/* If it were queued, the worker would register the captured allocation before the next one. */
TEST(background, pools_follow_a_request_by_dmabuf_and_end_before_their_free)
{
	CUdeviceptr captured;
	struct ibv_mr *mr;
	CUgraph graph;
	int file;

	standin_takes_dma_bufs = true;
	/* The worker exports memory without a context in the primary one. */
	ck_cuda(cuDevicePrimaryCtxRetain(&context, device));
	ck_cuda(cuMemAllocAsync(&watched, UNIT, stream));
	ck_cuda(cuMemGetHandleForAddressRange(&file, watched, UNIT,
					      CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	mr = ibv_reg_dmabuf_mr(pd, 0, UNIT, watched, file, IBV_ACCESS_LOCAL_WRITE);
	close(file);
	ck_assert_uint_eq(statistic("synchronous"), 1);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_cuda(cuMemFreeAsync(watched, stream));
	ck_assert_uint_eq(standin_kernel_regions(), 0);
	ck_cuda(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	ck_cuda(cuMemAllocAsync(&captured, UNIT, stream));
	ck_cuda(cuStreamEndCapture(stream, &graph));
	ck_cuda(cuMemAllocAsync(&watched, UNIT, stream));
	await_statistic("registrations_background", 1);
	ck_assert_uint_eq(statistic("registrations_failed"), 0);
	ck_assert_uint_eq(standin_kernel_regions(), 1);
	standin_in_deregister = look_at_buffer;
	ck_cuda(cuMemFreeAsync(watched, stream));
	ck_assert_uint_eq(standin_kernel_regions(), 0);
	ck_assert_uint_ne(buffer_at_deregistration, 0);
}

TEST(effects, extended_registrations_are_served_and_imports_and_devx_counted_and_forwarded)
{
	struct ibv_mr_init_attr attributes = { .length = SIZE, .comp_mask = 2 };
	struct mlx5dv_devx_umem_in in = { .size = SIZE };
	struct mlx5dv_devx_umem *expected;
	CUdeviceptr address;
	struct ibv_mr *mr;
	char host[64];

	ck_cuda(cuMemAlloc_v2(&address, SIZE));
	expected = (struct mlx5dv_devx_umem *)(address + 1);
	attributes.addr = in.addr = (void *)address;
	mr = ibv_reg_mr_ex(pd, &attributes);
	ck_assert_ptr_nonnull(mr);
	ck_assert_uint_eq(statistic("synchronous"), 1);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_ptr_eq(mlx5dv_devx_umem_reg(pd->context, (void *)address, SIZE, 0), expected);
	ck_assert_ptr_eq(mlx5dv_devx_umem_reg_ex(pd->context, &in), expected);
	ck_assert_uint_eq(statistic("forwarded_form"), 2);
	ck_assert_ptr_eq(mlx5dv_devx_umem_reg(pd->context, host, sizeof(host), 0),
			 (void *)(host + 1));
	ck_assert_uint_eq(statistic("forwarded_form"), 2);
	ck_assert_uint_eq(ibv_import_mr(pd, 55)->handle, 55);
	ck_assert_uint_eq(statistic("requests"), 3);
	ck_cuda(cuMemFree_v2(address));
}

/* ---- GPUs that are part of the processor ---- */

static void set_up_integrated(void)
{
	setenv("PEERPIN_SIM_INTEGRATED", "1", 1);
	set_up();
}

/* Both functions of current contexts. */
static CUresult allocate_host(int way, void **address)
{
	return way ? cuMemAllocHost_v2(address, SIZE) : cuMemHostAlloc(address, SIZE, 0);
}

CASE(integrated, .set_up = set_up_integrated, .applies = preregister_is_default);

LOOP_TEST(integrated, host_memory_of_an_integrated_gpu_is_registered_in_the_background, 0, 2)
{
	unsigned int regions;
	CUdeviceptr address;
	CUgraph graph;
	void *host;

	ck_cuda(cuMemAlloc_v2(&address, SIZE));
	registered(address, SIZE);
	regions = standin_kernel_regions();
	ck_cuda(allocate_host(_i, &host));
	await_statistic("registrations_background", 1);
	ck_assert_uint_eq(standin_kernel_regions(), regions + 1);
	ck_cuda(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ck_assert_int_eq(cuMemFreeHost(host), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	ck_assert_int_eq(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	ck_assert_uint_eq(statistic("deregistrations"), 0);
	ck_cuda(cuMemFreeHost(host));
	ck_assert_uint_eq(statistic("deregistrations"), 1);
	ck_assert_uint_eq(standin_kernel_regions(), regions);
}

static bool verifies(void)
{
	return getenv("PEERPIN_VERIFY");
}

CASE(verify, .set_up = set_up, .applies = verifies);

TEST(verify, verification_finds_a_missed_free)
{
	CUdeviceptr address, again;
	__typeof__(cuMemFree_v2) *bypassing_free =
		(__typeof__(bypassing_free))bypass("cuMemFree_v2");

	ck_cuda(cuMemAlloc_v2(&address, SIZE));
	ibv_dereg_mr(registered(address, SIZE));
	ck_assert_uint_eq(statistic("verify_disagreements"), 0);
	ck_cuda(bypassing_free(address));
	ibv_dereg_mr(registered(address, SIZE));
	ck_assert_uint_eq(statistic("verify_disagreements"), 1);
	ck_assert_uint_eq(statistic("forwarded_verify"), 1);
	ck_assert_uint_eq(standin_kernel_regions(), 0);
	ck_cuda(cuMemAlloc_v2(&again, SIZE));
	ck_cuda(cuMemFree_v2(again));
	ck_assert_uint_eq(statistic("verify_disagreements"), 1);
}

/* ---- all at once ---- */

#define ROUNDS 1000

static void use(CUdeviceptr address, size_t size)
{
	struct ibv_mr *mr = registered(address, size);

	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
}

static void *begin_and_end(void *argument)
{
	unsigned int seed = (unsigned int)(uintptr_t)argument;
	CUdeviceptr home, address;
	size_t pitch;

	ck_cuda(cuCtxSetCurrent(context));
	ck_cuda(cuMemAddressReserve(&home, 8 * UNIT, 0, 0, 0));
	for (int i = 0; i < ROUNDS; i++) {
		switch (rand_r(&seed) % 5) {
		case 0:
			ck_cuda(cuMemAlloc_v2(&address,
					      SIZE + (size_t)(rand_r(&seed) % 4) * 70000));
			use(address, SIZE);
			ck_cuda(cuMemFree_v2(address));
			break;
		case 1:
			ck_cuda(cuMemAllocAsync(&address, SIZE, stream));
			use(address, SIZE);
			ck_cuda(cuMemFreeAsync(address, stream));
			break;
		case 2:
			ck_cuda(cuMemAllocPitch_v2(&address, &pitch, 1000, 30, 4));
			use(address, 1000);
			ck_cuda(cuMemFree_v2(address));
			break;
		case 3:
			ck_cuda(cuMemAlloc_v2(&address, 1000));
			use(address, 1000);
			ck_cuda(cuMemFreeAsync(address, stream));
			break;
		case 4:
			map(home);
			map(home + UNIT);
			set_access(home, 2, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
			use(home + UNIT, UNIT);
			set_access(home, 1, CU_MEM_ACCESS_FLAGS_PROT_NONE);
			use(home + UNIT, UNIT);
			ck_cuda(cuMemUnmap(home, 8 * UNIT));
			break;
		}
	}
	ck_cuda(cuMemAddressFree(home, 8 * UNIT));
	return NULL;
}

TEST(effects, many_threads_allocate_and_free_memory_of_all_kinds)
{
	pthread_t threads[4];

	for (uintptr_t i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, begin_and_end, (void *)(i + 1)),
				 0);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	ck_assert_uint_eq(statistic("allocations"), statistic("frees"));
	ck_assert_uint_eq(statistic("missed_frees"), 0);
	ck_assert_uint_eq(statistic("untracked"), 0);
	ck_assert_uint_eq(statistic("verify_disagreements"), 0);
	ck_assert_uint_eq(statistic("internal_errors"), 0);
	ck_assert_uint_eq(standin_kernel_regions(), 0);
}

SUITE("effects")
