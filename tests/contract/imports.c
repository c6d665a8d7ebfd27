/* SPDX-License-Identifier: BSD-3-Clause */
/* imports.c -- memory of other processes and interfaces, dma-bufs, and contexts of special kinds */
#include "driver.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KIB4 ((size_t)4096)

/* ---- another process ---- */

static int from_exporter[2], to_exporter[2];

static void export(struct exporter *exporter)
{
	void *handle = dlopen("libcuda.so.1", RTLD_NOW);
	CUcontext own;
	CUevent event;
	CUdevice first;

	if (!handle)
		return;
#define FUNCTION(symbol, ...) driver.symbol = (__typeof__(driver.symbol))dlsym(handle, #symbol);
#include "memory/cuda_abi.def"
#undef FUNCTION
	exporter->works =
		driver.cuInit(0) == CUDA_SUCCESS && driver.cuDeviceGet(&first, 0) == CUDA_SUCCESS &&
		driver.cuCtxCreate_v2(&own, 0, first) == CUDA_SUCCESS &&
		driver.cuMemAlloc_v2(&exporter->address, 5000000) == CUDA_SUCCESS &&
		driver.cuIpcGetMemHandle(&exporter->handle, exporter->address) == CUDA_SUCCESS &&
		driver.cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING) ==
			CUDA_SUCCESS &&
		driver.cuEventRecord(event, NULL) == CUDA_SUCCESS &&
		driver.cuEventSynchronize(event) == CUDA_SUCCESS &&
		driver.cuIpcGetEventHandle(&exporter->event, event) == CUDA_SUCCESS;
}

void exporter_begin(void)
{
	struct exporter exporter;
	char byte;

	if (pipe(from_exporter) || pipe(to_exporter) || fork())
		goto parent;
	close(to_exporter[1]);
	/* Start the driver only if a test needs the exporter. */
	if (read(to_exporter[0], &byte, 1) == 1) {
		memset(&exporter, 0, sizeof(exporter));
		export(&exporter);
		if (write(from_exporter[1], &exporter, sizeof(exporter)) == sizeof(exporter))
			(void)!read(to_exporter[0], &byte, 1);
	}
	_exit(0);
parent:
	close(to_exporter[0]);
	close(from_exporter[1]);
}

const struct exporter *exporter_ask(void)
{
	static struct exporter exporter;
	static bool asked;

	if (!asked) {
		asked = true;
		ck_assert_int_eq(write(to_exporter[1], "?", 1), 1);
		ck_assert_int_eq(read(from_exporter[0], &exporter, sizeof(exporter)),
				 sizeof(exporter));
	}
	return &exporter;
}

CASE(imports, .set_up = context_set_up, .tear_down = context_tear_down);

TEST(imports, memory_of_another_process_is_opened_twice_and_closed_twice)
{
	const struct exporter *exporter = exporter_ask();
	CUdeviceptr address, again;
	struct attributes a;

	ck_assert(exporter->works);
	ck_cuda(driver.cuIpcOpenMemHandle_v2(&address, exporter->handle,
					     CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	a = attributes_of(address);
	ck_assert_ptr_eq(a.context, context);
	ck_assert_uint_eq(a.rdma_capable, 0);
	ck_assert_uint_eq(a.ipc_capable, 0);
	ck_assert_uint_eq(a.range_base, address);
	ck_assert_uint_eq(a.range_size, 5000000);
	ck_cuda(driver.cuIpcOpenMemHandle_v2(&again, exporter->handle,
					     CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	ck_assert_uint_eq(again, address);
	ck_assert_int_eq(driver.cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
	ck_cuda(driver.cuIpcCloseMemHandle(address));
	ck_assert_uint_eq(buffer_id(address), a.id);
	ck_cuda(driver.cuIpcCloseMemHandle(address));
	ck_assert_int_eq(query_buffer_id(address), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(driver.cuIpcCloseMemHandle(address), CUDA_ERROR_INVALID_VALUE);
}

TEST(imports, an_event_of_another_process_is_opened_and_waited_for)
{
	const struct exporter *exporter = exporter_ask();
	CUevent event;
	CUstream stream;

	ck_assert(exporter->works);
	ck_cuda(driver.cuIpcOpenEventHandle(&event, exporter->event));
	ck_assert_int_eq(driver.cuIpcOpenEventHandle(NULL, exporter->event),
			 CUDA_ERROR_INVALID_VALUE);
	ck_cuda(driver.cuEventSynchronize(event));
	ck_cuda(driver.cuEventQuery(event));
	ck_cuda(driver.cuStreamCreate(&stream, 1));
	ck_cuda(driver.cuStreamWaitEvent(stream, event, 0));
	ck_cuda(driver.cuStreamSynchronize(stream));
	ck_cuda(driver.cuStreamDestroy_v2(stream));
	ck_cuda(driver.cuEventDestroy_v2(event));
}

TEST(imports, a_buffer_of_external_memory_is_freed_like_any_other)
{
	CUmemAllocationProp properties = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
					   .requestedHandleTypes =
						   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					   .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC handle = {
		.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD
	};
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = { .offset = 0 };
	CUmemGenericAllocationHandle physical;
	CUexternalMemory memory;
	CUdeviceptr address, kept;
	size_t unit;

	ck_cuda(driver.cuMemGetAllocationGranularity(&unit, &properties,
						     CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	ck_cuda(driver.cuMemCreate(&physical, unit, &properties, 0));
	ck_cuda(driver.cuMemExportToShareableHandle(&handle.handle.fd, physical,
						    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	handle.size = buffer.size = unit;
	ck_cuda(driver.cuImportExternalMemory(&memory, &handle));
	ck_cuda(driver.cuExternalMemoryGetMappedBuffer(&address, memory, &buffer));
	ck_assert_uint_eq(attributes_of(address).rdma_capable, 0);
	ck_assert_uint_eq(attributes_of(address).range_size, unit);
	ck_cuda(driver.cuMemFree_v2(address));
	ck_assert_int_eq(query_buffer_id(address), CUDA_ERROR_INVALID_VALUE);
	ck_cuda(driver.cuExternalMemoryGetMappedBuffer(&kept, memory, &buffer));
	ck_cuda(driver.cuDestroyExternalMemory(memory));
	ck_assert_int_eq(query_buffer_id(kept), CUDA_SUCCESS);
	ck_cuda(driver.cuMemFree_v2(kept));
	ck_cuda(driver.cuMemRelease(physical));
}

/* ---- dma-bufs ---- */

static CUresult export_range(int *file, CUdeviceptr address, size_t size)
{
	return driver.cuMemGetHandleForAddressRange(file, address, size,
						    CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
}

TEST(imports, each_export_is_a_dmabuf_of_its_own_and_a_copy_is_the_same)
{
	CUdeviceptr address = allocate(3000000);
	struct stat first, second, copied;
	int one = -1, other = -1, copy;

	ck_cuda(export_range(&one, address, KIB4));
	ck_cuda(export_range(&other, address, KIB4));
	copy = dup(other);
	ck_assert(!fstat(one, &first) && !fstat(other, &second) && !fstat(copy, &copied));
	ck_assert_uint_ne(first.st_ino, second.st_ino);
	ck_assert_uint_eq(second.st_ino, copied.st_ino);
	close(one);
	close(other);
	close(copy);
	ck_cuda(driver.cuMemFree_v2(address));
}

static void check_flags(int file)
{
	ck_assert_int_eq(fcntl(file, F_GETFD), FD_CLOEXEC);
	ck_assert_int_eq(fcntl(file, F_GETFL) & O_ACCMODE, O_RDWR);
	ck_assert_int_eq(lseek(file, 0, SEEK_END), KIB4);
}

/* So a copy made with F_DUPFD_CLOEXEC stands for one more export. */
TEST(imports, an_export_has_the_least_number_and_is_opened_for_both_ways_until_an_exec)
{
	CUdeviceptr address = allocate(3000000);
	int free_number = dup(STDERR_FILENO), file = -1, copy;

	close(free_number);
	ck_cuda(export_range(&file, address, KIB4));
	ck_assert_int_eq(file, free_number);
	copy = fcntl(file, F_DUPFD_CLOEXEC, 0);
	check_flags(file);
	check_flags(copy);
	close(file);
	check_flags(copy);
	close(copy);
	ck_cuda(driver.cuMemFree_v2(address));
}

/* cuCtxGetDevice() then reports the device of the memory. */
TEST(imports, memory_is_exported_in_any_context_of_its_device_and_not_without_one)
{
	CUdeviceptr address = allocate(3000000);
	int file = -5;
	CUcontext other;
	CUdevice current;

	ck_cuda(driver.cuCtxCreate_v2(&other, 0, device));
	ck_cuda(driver.cuCtxGetDevice(&current));
	ck_cuda(export_range(&file, address, KIB4));
	close(file);
	ck_cuda(driver.cuCtxDestroy_v2(other));
	ck_assert_int_eq(current, device);
	ck_cuda(driver.cuCtxPopCurrent_v2(NULL));
	ck_assert_int_eq(driver.cuCtxGetDevice(&current), CUDA_ERROR_INVALID_CONTEXT);
	ck_assert_int_eq(export_range(&file, address, KIB4), CUDA_ERROR_INVALID_CONTEXT);
	ck_cuda(driver.cuCtxPushCurrent_v2(context));
	ck_cuda(driver.cuMemFree_v2(address));
}

TEST(imports, what_cannot_be_exported_gives_no_descriptor)
{
	CUdeviceptr address = allocate(3000000);
	int file = -5;

	ck_assert_int_eq(export_range(&file, address + 64, KIB4), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(export_range(&file, address, 100), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(export_range(&file, address, 0), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(export_range(&file, address, (size_t)64 << 20), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(export_range(&file, 0x1000, KIB4), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(export_range(NULL, address, KIB4), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_lt(file, 0);
	ck_cuda(driver.cuCtxPopCurrent_v2(NULL));
	ck_assert_int_eq(export_range(&file, address, KIB4), CUDA_ERROR_INVALID_CONTEXT);
	ck_cuda(driver.cuCtxPushCurrent_v2(context));
	ck_cuda(driver.cuMemFree_v2(address));
}

static bool can_export(CUdeviceptr address, size_t size)
{
	CUresult result;
	int file = -1;

	result = export_range(&file, address, size);
	ck_assert(result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_VALUE);
	if (result == CUDA_SUCCESS)
		close(file);
	return result == CUDA_SUCCESS;
}

#define KIB64 ((CUdeviceptr)64 << 10)
#define MIB2  ((CUdeviceptr)2 << 20)
#define SMALL 600u

static CUdeviceptr down(CUdeviceptr address, CUdeviceptr unit)
{
	return address / unit * unit;
}

/* The page, the granule and the block of an address. */
static bool can_export_around(CUdeviceptr address)
{
	return can_export(down(address, KIB4), KIB4) && can_export(down(address, KIB64), KIB64) &&
	       can_export(down(address, MIB2), MIB2);
}

/* A range can be exported as long as any of it is live. */
TEST(imports, what_is_freed_in_a_block_of_small_allocations_is_exported_with_the_rest)
{
	CUdeviceptr small[SMALL], granule, block;
	unsigned int kept = SMALL / 2;

	for (unsigned int i = 0; i < SMALL; i++)
		small[i] = allocate(1000);
	block = down(small[kept], MIB2);
	ck_assert(can_export_around(small[0]) && can_export_around(small[kept]));
	ck_cuda(driver.cuMemFree_v2(small[0]));
	if (down(small[0], MIB2) == block)
		ck_assert(can_export_around(small[0]));
	for (unsigned int i = 1; i < SMALL; i++) {
		if (i != kept)
			ck_cuda(driver.cuMemFree_v2(small[i]));
	}
	for (granule = block; granule < block + MIB2; granule += KIB64) {
		ck_assert_int_eq(can_export(granule, KIB64), granule == down(small[kept], KIB64));
		ck_assert_int_eq(can_export(granule, KIB4), granule == down(small[kept], KIB4));
	}
	ck_assert(can_export_around(small[kept]));
	ck_cuda(driver.cuMemFree_v2(small[kept]));
	ck_assert(!can_export(down(small[kept], KIB4), KIB4));
	ck_assert(!can_export(down(small[kept], KIB64), KIB64) && !can_export(block, MIB2));
}

/* Up to the end of its last block. What lies behind may be memory as well. */
LOOP_TEST(imports, a_range_is_exported_up_to_the_end_of_the_allocation_s_blocks, 0, 4)
{
	static const size_t sizes[] = { 1000, (1 << 20) + 4096, (2 << 20) + 1000, 5000000 };
	CUdeviceptr address = allocate(sizes[_i]), end = address + sizes[_i];
	CUdeviceptr first = down(address, KIB4), blocks_end = down(end + MIB2 - 1, MIB2);

	ck_assert(can_export(first, down(end + KIB4 - 1, KIB4) - first));
	ck_assert(can_export(down(address, KIB64),
			     down(end + KIB64 - 1, KIB64) - down(address, KIB64)));
	ck_assert(can_export(first, blocks_end - first));
	ck_assert(!can_export(first, end % KIB4 ? end - first : end - first - 8));
	ck_cuda(driver.cuMemFree_v2(address));
}

TEST(imports, a_range_with_a_block_without_memory_is_not_exported)
{
	CUdeviceptr blocks[3];

	for (unsigned int i = 0; i < 3; i++)
		blocks[i] = allocate(MIB2);
	ck_cuda(driver.cuMemFree_v2(blocks[1]));
	ck_assert(!can_export(blocks[1], MIB2));
	if (blocks[1] == blocks[0] + MIB2 && !driver_keeps())
		ck_assert(!can_export(blocks[0], MIB2 + KIB4));
	ck_assert(can_export(blocks[0], MIB2) && can_export(blocks[2], MIB2));
	ck_cuda(driver.cuMemFree_v2(blocks[0]));
	ck_cuda(driver.cuMemFree_v2(blocks[2]));
}

TEST(imports, a_small_allocation_begins_inside_of_a_page_which_is_exported_whole)
{
	CUdeviceptr one = allocate(1000), other = allocate(1000);

	ck_assert(one % KIB4 || other % KIB4);
	ck_assert(can_export(down(one, KIB4), KIB4) && can_export(down(other, KIB4), KIB4));
	ck_cuda(driver.cuMemFree_v2(one));
	ck_cuda(driver.cuMemFree_v2(other));
}

/* ---- contexts of special kinds ---- */

TEST(imports, memory_of_the_old_interface_is_unknown_to_pointer_queries)
{
	ck_assert_uint_eq(old_interface.version, 3010);
	ck_cuda(old_interface.allocate);
	ck_assert_int_eq(old_interface.query, CUDA_ERROR_INVALID_VALUE);
	ck_cuda(old_interface.free);
	ck_cuda(old_interface.free_nothing);
	ck_assert_int_eq(old_interface.free_unknown, CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(old_interface.allocate_today, CUDA_ERROR_INVALID_CONTEXT);
	ck_assert_int_eq(driver.cuMemFree(0x1000), CUDA_ERROR_INVALID_CONTEXT);
}

TEST(imports, in_an_old_context_pointer_queries_leave_their_results_alone)
{
	ck_assert_int_eq(old_interface.query_list, CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(old_interface.type, 99);
	ck_assert_int_eq(old_interface.range, CUDA_ERROR_INVALID_CONTEXT);
}

static CUgreenCtx make_green(CUcontext *current)
{
	/* The size of a CUdevResource differs by version; 1024 bytes exceed all. */
	_Alignas(64) static unsigned char resource[1024];
	CUdevResourceDesc description;
	CUgreenCtx green;

	ck_cuda(driver.cuDeviceGetDevResource(device, (CUdevResource *)resource,
					      CU_DEV_RESOURCE_TYPE_SM));
	ck_cuda(driver.cuDevResourceGenerateDesc(&description, (CUdevResource *)resource, 1));
	ck_cuda(driver.cuGreenCtxCreate(&green, description, device, CU_GREEN_CTX_DEFAULT_STREAM));
	ck_cuda(driver.cuCtxFromGreenCtx(current, green));
	return green;
}

static CUdeviceptr allocate_in(CUcontext where)
{
	CUdeviceptr address;

	ck_cuda(driver.cuCtxPushCurrent_v2(where));
	address = allocate(100000);
	ck_cuda(driver.cuCtxPopCurrent_v2(NULL));
	return address;
}

TEST(imports, memory_of_a_green_context_is_the_primary_s_and_ends_with_that)
{
	CUcontext current, primary;
	CUgreenCtx green = make_green(&current);
	CUdeviceptr address = allocate_in(current);

	ck_cuda(driver.cuGreenCtxDestroy(green));
	ck_assert_int_eq(query_buffer_id(address), CUDA_ERROR_INVALID_VALUE);
	ck_cuda(driver.cuDevicePrimaryCtxRetain(&primary, device));
	green = make_green(&current);
	address = allocate_in(current);
	ck_assert_ptr_eq(attributes_of(address).context, primary);
	ck_cuda(driver.cuGreenCtxDestroy(green));
	ck_assert_int_eq(query_buffer_id(address), CUDA_SUCCESS);
	ck_cuda(driver.cuDevicePrimaryCtxRelease_v2(device));
	ck_assert_int_eq(query_buffer_id(address), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(driver.cuGreenCtxDestroy(NULL), CUDA_ERROR_INVALID_CONTEXT);
}
