/* SPDX-License-Identifier: BSD-3-Clause */
/* calls.c -- arguments of calls that allocate; calls with the address of kept memory; captures */
#include "keep.h"
#include "../../vmm.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- reuse ---- */

enum kind { DEVICE, ALLOC_HOST, HOST_ALLOC };

struct request {
	enum kind kind;
	size_t size;
	unsigned int flags; /* HOST_ALLOC */
};

static CUdeviceptr request(const struct request *wanted)
{
	void *host = NULL;

	switch (wanted->kind) {
	case DEVICE:
		return allocate(wanted->size);
	case ALLOC_HOST:
		require_cuda(cuMemAllocHost_v2(&host, wanted->size));
		return address_of(host);
	case HOST_ALLOC:
		require_cuda(cuMemHostAlloc(&host, wanted->size, wanted->flags));
		return address_of(host);
	}
	return 0;
}

static bool is_host(const struct request *wanted)
{
	return wanted->kind == ALLOC_HOST || wanted->kind == HOST_ALLOC;
}

static const struct request unequal[][2] = {
	{ { DEVICE, 3 * MIB, 0 }, { DEVICE, 3 * MIB + 1, 0 } },
	{ { DEVICE, 5 * MIB, 0 }, { DEVICE, 4 * MIB, 0 } },
	{ { DEVICE, 512 << 10, 0 }, { DEVICE, 256 << 10, 0 } },
	{ { ALLOC_HOST, 4096, 0 }, { ALLOC_HOST, 4097, 0 } },
	{ { ALLOC_HOST, 4096, 0 }, { HOST_ALLOC, 4096, 0 } },
	{ { HOST_ALLOC, 4096, 0 }, { ALLOC_HOST, 4096, 0 } },
	{ { HOST_ALLOC, 4096, 0 }, { HOST_ALLOC, 4096, 1 } },
	{ { HOST_ALLOC, 4096, 0 }, { HOST_ALLOC, 4097, 0 } },
	{ { HOST_ALLOC, 4096, 0 }, { DEVICE, 4096, 0 } },
};

static void equal_arguments_alone_get_the_memory_back(unsigned int unused)
{
	(void)unused;
	begin();
	for (size_t i = 0; i < sizeof(unequal) / sizeof(unequal[0]); i++) {
		const struct request *first = &unequal[i][0], *second = &unequal[i][1];
		CUdeviceptr one = request(first), other;
		uint64_t id = tag(one);

		give_up(is_host(first), one);
		require(tag(one) == id && own("kept") == 3 * i + 1);
		other = request(second);
		require(other != one && own("reused") == i);
		require(request(first) == one);
		require(tag(one) == id && own("reused") == i + 1);
		give_up(is_host(second), other);
		give_up(is_host(first), one);
		require(own("kept") == 3 * i + 3);
		release_all();
	}
	expect_no_kept();
}

static bool exports(CUdeviceptr address, size_t size)
{
	int file = -1;
	CUresult result = cuMemGetHandleForAddressRange(&file, address, size,
							CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);

	require(result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_VALUE);
	return result == CUDA_SUCCESS && !close(file);
}

#define ENTRIES 30 /* more than peerpin answers */

/* In each way that the driver answers. */
static void expect_answers(CUdeviceptr address, size_t size)
{
	CUpointer_attribute attributes[ENTRIES];
	void *data[ENTRIES];
	CUdeviceptr base;
	size_t length, lengths[ENTRIES];

	require_cuda(cuMemGetAddressRange_v2(&base, &length, address + size - 1));
	require(base == address && length == size);
	require_cuda(cuPointerGetAttribute(&length, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address));
	require(length == size);
	for (unsigned int i = 0; i < ENTRIES; i++) {
		attributes[i] = CU_POINTER_ATTRIBUTE_RANGE_SIZE;
		data[i] = &lengths[i];
	}
	require_cuda(cuPointerGetAttributes(ENTRIES, attributes, data, address));
	require(lengths[0] == size && lengths[ENTRIES - 1] == size);
	attributes[1] = (CUpointer_attribute)999;
	lengths[0] = size;
	require(cuPointerGetAttributes(2, attributes, data, address) != CUDA_SUCCESS &&
		lengths[0] == size);
}

static CUresult set_sync(CUdeviceptr address)
{
	const unsigned int on = 1;

	return cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address);
}

/* Answers for [address, address + size) are those for a new allocation of that size. */
static void expect_size(CUdeviceptr address, size_t size)
{
	const size_t blocks = (size + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
	CUdeviceptr base;
	CUcontext context;

	expect_answers(address, size);
	require_cuda(cuCtxCreate_v2(&context, 0, 0));
	expect_answers(address, size);
	require_cuda(cuCtxDestroy_v2(context));
	require(query_tag(address + size - 1) == tag(address) && !query_tag(address + size));
	require(cuMemGetAddressRange_v2(&base, NULL, address + size) == CUDA_ERROR_NOT_FOUND);
	require_cuda(set_sync(address));
	require(set_sync(address + size) != CUDA_SUCCESS);
	require(exports(address, blocks) && !exports(address, blocks + 4096));
	require(exports(address + blocks - 4096, 4096) == (size > blocks - 4096));
}

/* A client that has seen no free (UCX) keeps the length of the first use. */
static void reused_memory_has_the_length_of_its_first_use(unsigned int unused)
{
	const size_t sizes[] = { 5 * MIB + 100, 4 * MIB + 1, 6 * MIB };
	CUdeviceptr kept;

	(void)unused;
	begin();
	kept = keep(6 * MIB);
	for (unsigned int i = 0; i < 3; i++) {
		require(allocate(sizes[i]) == kept && own("reused") == i + 1);
		expect_size(kept, 6 * MIB);
		require_cuda(cuMemFree_v2(kept));
		require(!query_tag(kept) && cuMemFree_v2(kept) == CUDA_ERROR_INVALID_VALUE);
		require(own("kept") == i + 2 && own("kept_bytes") == 6 * MIB);
	}
	kept = keep(96 << 10);
	require(allocate(90 << 10) == kept && query_tag(kept + (96 << 10) - 1) == tag(kept));
	expect_no_errors();
}

/* UCX exports the pages around an allocation, which may begin and end in kept memory. */
static void pages_are_exported_while_the_program_has_a_byte_of_them(unsigned int unused)
{
	CUdeviceptr small[64], page;

	(void)unused;
	begin();
	for (unsigned int i = 0; i < 64; i++)
		small[i] = allocate(512);
	for (unsigned int i = 0; i < 64; i++) {
		if (i != 20)
			require_cuda(cuMemFree_v2(small[i]));
	}
	page = small[20] & ~(CUdeviceptr)4095;
	require(own("kept") == 63 && exports(page, 4096) && exports(page - 4096, 3 * 4096));
	require_cuda(cuMemFree_v2(small[20]));
	require(!exports(page, 4096) && !exports(page - 4096, 3 * 4096));
	expect_no_errors();
}

/* Also flags with a meaning inside the library. */
static void wrong_arguments_are_the_driver_s(unsigned int unused)
{
	CUdeviceptr address = 7;
	size_t pitch = 7;
	void *host;

	(void)unused;
	begin();
	keep(UNIT);
	require_cuda(cuMemAllocHost_v2(&host, UNIT));
	require_cuda(cuMemFreeHost(host));
	keep_host(UNIT);
	require(cuMemAlloc_v2(NULL, UNIT) == CUDA_ERROR_INVALID_VALUE);
	require(cuMemAlloc_v2(&address, 0) == CUDA_ERROR_INVALID_VALUE && !address);
	require(cuMemAllocPitch_v2(&address, NULL, 100, 1, 4) == CUDA_ERROR_INVALID_VALUE);
	require(cuMemAllocPitch_v2(NULL, &pitch, 100, 1, 4) == CUDA_ERROR_INVALID_VALUE);
	require(cuMemAllocPitch_v2(&address, &pitch, 100, 1, 5) == CUDA_ERROR_INVALID_VALUE);
	require(cuMemAllocPitch_v2(&address, &pitch, SIZE_MAX, 2, 4) == CUDA_ERROR_INVALID_VALUE);
	require(cuMemAllocManaged(&address, 0, CU_MEM_ATTACH_GLOBAL) == CUDA_ERROR_INVALID_VALUE);
	require(cuMemCreate(NULL, UNIT, &vmm_plain, 0) == CUDA_ERROR_INVALID_VALUE);
	require(cuMemHostAlloc(NULL, UNIT, 0) == CUDA_ERROR_INVALID_VALUE);
	for (unsigned int flag = 7; flag < 32; flag++) {
		host = pointer_to(7);
		require(cuMemHostAlloc(&host, UNIT, 1u << flag) == CUDA_ERROR_INVALID_VALUE &&
			!host);
	}
	require_cuda(cuMemAllocHost_v2(&host, 0));
	require_cuda(cuMemFreeHost(NULL));
	require_cuda(cuMemFree_v2(0));
	require(own("kept") == 3 && own("reused") == 0 && own("kept_released") == 0);
	expect_no_errors();
}

/* ---- calls with an address; tests/intercept/queries has the queries ---- */

static CUresult call_with(unsigned int call, CUdeviceptr address)
{
	CUdeviceptr page = address & ~(CUdeviceptr)4095;
	unsigned int on = 1;
	int dma_buf;

	switch (call) {
	case 0:
		return cuMemFree_v2(address);
	case 1:
		return cuMemFreeAsync(address, NULL);
	case 2:
		return cuMemFreeHost(pointer_to(address));
	case 3:
		return cuMemGetHandleForAddressRange(&dma_buf, page, 4096,
						     CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
	default:
		return cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address);
	}
}

static unsigned int syncs(CUdeviceptr address)
{
	unsigned int value = 9;

	require_cuda(raw.cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
	return value;
}

/* As at memory that the driver has freed: it is above the limit. */
static void each_call_finds_freed_memory(unsigned int host)
{
	static const uint64_t offsets[] = { 0, 512, UNIT - 1 };
	CUdeviceptr freed, kept;
	uint64_t id;

	begin();
	freed = obtain(host, 70 * MIB);
	kept = obtain(host, UNIT);
	give_up(host, freed);
	id = tag(kept);
	give_up(host, kept);
	require(!tag(freed) && tag(kept) == id && !query_tag(kept));
	for (unsigned int i = 0; i < 5 * 3; i++)
		require(call_with(i / 3, kept + offsets[i % 3]) ==
			call_with(i / 3, freed + offsets[i % 3]));
	require(!syncs(kept) && tag(kept) == id && own("kept") == 1);
	require(obtain(host, UNIT) == kept && own("reused") == 1);
	expect_no_errors();
}

/* ---- captures ---- */

/* A refused free costs nothing, and the end of the lost capture is an end. */
static void after_a_lost_capture_memory_is_kept_again(unsigned int host)
{
	CUdeviceptr kept, live, address;
	CUstream stream;
	CUgraph graph;
	void *pointer;

	begin();
	kept = host ? keep_host(UNIT) : keep(UNIT);
	live = obtain(host, 3 * UNIT);
	require_cuda(cuStreamCreate(&stream, 1));
	require_cuda(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	require((host ? cuMemFreeHost(pointer_to(live)) : cuMemFree_v2(live)) ==
		CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	require((host ? cuMemHostAlloc(&pointer, UNIT, 0) : cuMemAlloc_v2(&address, UNIT)) ==
		CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	require(cuStreamEndCapture(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	require(query_tag(live) == tag(live) && own("kept") == 1);
	give_up(host, live);
	require(own("kept") == 2 && obtain(host, UNIT) == kept);
	expect_no_errors();
}

#define BOTH_MEMORIES(test, settings) TEST(test, 0, settings), TEST(test, 1, settings)

const struct test call_tests[] = {
	TEST(equal_arguments_alone_get_the_memory_back, 0, KEEP),
	TEST(reused_memory_has_the_length_of_its_first_use, 0, KEEP),
	TEST(pages_are_exported_while_the_program_has_a_byte_of_them, 0, KEEP),
	TEST(wrong_arguments_are_the_driver_s, 0, KEEP),
	BOTH_MEMORIES(each_call_finds_freed_memory, KEEP),
	BOTH_MEMORIES(after_a_lost_capture_memory_is_kept_again, KEEP),
	{ .name = NULL },
};
