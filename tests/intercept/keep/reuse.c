/* SPDX-License-Identifier: BSD-3-Clause */
/* reuse.c -- an equal request gets freed memory without the driver; another one does not */
#include "keep.h"
#include "../../vmm.h"

#include <stdlib.h>
#include <sys/mman.h>

enum kind { DEVICE, PITCHED, ALLOC_HOST, HOST_ALLOC, KINDS };

struct request {
	enum kind kind;
	size_t size; /* PITCHED: width */
	size_t height;
	unsigned int detail; /* PITCHED: element; HOST_ALLOC: flags */
};

struct memory {
	CUdeviceptr address;
	size_t pitch;
};

static struct memory request(const struct calls *calls, const struct request *wanted)
{
	struct memory got = { 0, 0 };
	void *host = NULL;

	switch (wanted->kind) {
	case DEVICE:
		require_cuda(calls->alloc(&got.address, wanted->size));
		break;
	case PITCHED:
		require_cuda(calls->pitch(&got.address, &got.pitch, wanted->size, wanted->height,
					  wanted->detail));
		break;
	case ALLOC_HOST:
		require_cuda(calls->alloc_host(&host, wanted->size));
		break;
	case HOST_ALLOC:
		require_cuda(calls->host_alloc(&host, wanted->size, wanted->detail));
		break;
	case KINDS:
		break;
	}
	if (host)
		got.address = address_of(host);
	require(got.address);
	return got;
}

static void give_back(const struct calls *calls, enum kind kind, CUdeviceptr address)
{
	if (kind == DEVICE || kind == PITCHED)
		require_cuda(calls->free(address));
	else
		require_cuda(calls->free_host(pointer_to(address)));
}

/* The free is a call by the next path. */
static void equal_memory_comes_back_without_the_driver(unsigned int variant)
{
	static const size_t sizes[] = { 1, 1000, 65536, MIB, MIB + 1, 2 * MIB, 3000000 };
	struct calls calls, others;
	uint64_t rounds = 0;

	begin();
	calls = calls_by(variant % PATHS);
	others = calls_by((variant + 1) % PATHS);
	for (unsigned int i = 0; i < 7 * 3; i++) {
		struct request wanted = { variant / PATHS, sizes[i / 3], 3, 0 };
		struct memory first, again;
		uint64_t id;

		if (wanted.kind == PITCHED)
			wanted.detail = 4u << i % 3;
		if (wanted.kind == HOST_ALLOC)
			wanted.detail = i % 3;
		first = request(&calls, &wanted);
		id = tag(first.address);
		for (int round = 0; round < 3; round++, rounds++) {
			give_back(&others, wanted.kind, first.address);
			require(tag(first.address) == id && own("kept") == rounds + 1);
			again = request(&calls, &wanted);
			require(again.address == first.address && again.pitch == first.pitch);
			require(tag(again.address) == id && own("reused") == rounds + 1);
		}
	}
	require(own("untracked_frees") == 0 && own("kept_released") == 0);
	expect_no_kept();
}

static const struct request unequal[][2] = {
	{ { DEVICE, 100000, 0, 0 }, { DEVICE, 99999, 0, 0 } },
	{ { DEVICE, 100000, 0, 0 }, { DEVICE, 100001, 0, 0 } },
	{ { DEVICE, 3 * MIB, 0, 0 }, { DEVICE, 3 * MIB + 1, 0, 0 } },
	{ { DEVICE, 51200, 0, 0 }, { PITCHED, 512, 100, 4 } },
	{ { PITCHED, 512, 100, 4 }, { DEVICE, 51200, 0, 0 } },
	{ { PITCHED, 500, 100, 4 }, { PITCHED, 501, 100, 4 } },
	{ { PITCHED, 500, 100, 4 }, { PITCHED, 500, 101, 4 } },
	{ { PITCHED, 500, 100, 4 }, { PITCHED, 500, 100, 8 } },
	{ { PITCHED, 500, 100, 16 }, { PITCHED, 500, 100, 8 } },
	{ { ALLOC_HOST, 4096, 0, 0 }, { HOST_ALLOC, 4096, 0, 0 } },
	{ { HOST_ALLOC, 4096, 0, 0 }, { ALLOC_HOST, 4096, 0, 0 } },
	{ { HOST_ALLOC, 4096, 0, 0 }, { HOST_ALLOC, 4096, 0, 1 } },
	{ { HOST_ALLOC, 4096, 0, 2 }, { HOST_ALLOC, 4096, 0, 3 } },
	{ { HOST_ALLOC, 4096, 0, 0 }, { HOST_ALLOC, 4097, 0, 0 } },
	{ { HOST_ALLOC, 4096, 0, 0 }, { DEVICE, 4096, 0, 0 } },
	{ { DEVICE, 4096, 0, 0 }, { ALLOC_HOST, 4096, 0, 0 } },
};

static void another_request_gets_other_memory(unsigned int unused)
{
	struct calls calls;

	(void)unused;
	begin();
	calls = calls_by(BY_LINK);
	for (size_t i = 0; i < sizeof(unequal) / sizeof(unequal[0]); i++) {
		const struct request *first = &unequal[i][0], *second = &unequal[i][1];
		struct memory one = request(&calls, first), other;
		uint64_t id = tag(one.address);

		give_back(&calls, first->kind, one.address);
		other = request(&calls, second);
		require(other.address != one.address && tag(one.address) == id);
		require(own("reused") == i && own("kept") == i * 3 + 1);
		require(request(&calls, first).address == one.address);
		give_back(&calls, second->kind, other.address);
		give_back(&calls, first->kind, one.address);
		require(own("kept") == i * 3 + 3);
		release_all();
	}
	expect_no_kept();
}

static void another_context_gets_other_memory(unsigned int kind)
{
	const struct request wanted = { kind, 100000, 3, kind == PITCHED ? 4 : 0 };
	struct calls calls;
	struct memory one, other;
	CUcontext second;

	begin();
	calls = calls_by(BY_LINK);
	one = request(&calls, &wanted);
	give_back(&calls, kind, one.address);
	require_cuda(cuCtxCreate_v2(&second, 0, 0));
	other = request(&calls, &wanted);
	require(other.address != one.address && tag(one.address) && own("reused") == 0);
	give_back(&calls, kind, other.address);
	require(own("kept") == 2);
	require(request(&calls, &wanted).address == other.address);
	require_cuda(cuCtxSetCurrent(context));
	require(request(&calls, &wanted).address == one.address);
	expect_no_kept();
}

/* Also flags with a meaning inside the library. */
static void invalid_flags_are_refused_beside_kept_memory(unsigned int flag)
{
	const struct request kept = { ALLOC_HOST, UNIT, 0, 0 };
	struct calls calls;
	void *host = &host;

	begin();
	calls = calls_by(BY_LINK);
	give_back(&calls, ALLOC_HOST, request(&calls, &kept).address);
	require(own("kept") == 1);
	require(cuMemHostAlloc(&host, UNIT, 1u << flag) == CUDA_ERROR_INVALID_VALUE);
	require(!host && own("reused") == 0);
	release_all();
	expect_no_kept();
}

/* So many that unequal requests meet in the hash table. */
static void requests_differ_by_each_of_their_parts(unsigned int part)
{
	struct request one = { HOST_ALLOC, 0, 0, 0 }, other = { HOST_ALLOC, 0, 0, 1 };
	CUcontext contexts[2];
	struct memory first;
	struct calls calls;

	begin();
	calls = calls_by(BY_LINK);
	require_cuda(cuCtxCreate_v2(&contexts[1], 0, 0));
	contexts[0] = context;
	if (part == 1) {
		one = (struct request){ PITCHED, 0, 2, 4 };
		other = (struct request){ PITCHED, 0, 3, 4 };
	} else if (part == 2) {
		one = (struct request){ PITCHED, 0, 2, 8 };
		other = (struct request){ PITCHED, 0, 2, 4 };
	} else if (part == 3) {
		one = other = (struct request){ DEVICE, 0, 0, 0 };
	}
	for (size_t size = 1; size <= 20000; size++) {
		one.size = other.size = size;
		if (part == 1) {
			one.size = other.size = 1 + size % 64;
			one.height = 1 + size * 7919 % 8191;
			other.height = one.height + 1 + size * 104729 % 4093;
		}
		require_cuda(cuCtxSetCurrent(contexts[0]));
		first = request(&calls, &one);
		give_back(&calls, one.kind, first.address);
		require_cuda(cuCtxSetCurrent(contexts[part == 3]));
		require(request(&calls, &other).address != first.address);
		require(own("kept") == 2 * size - 1 && own("reused") == size - 1);
		require_cuda(cuCtxSetCurrent(contexts[0]));
		require(request(&calls, &one).address == first.address);
		give_back(&calls, one.kind, first.address);
		release_all();
		require_cuda(cuCtxSetCurrent(contexts[part == 3]));
		if (size % 64 == 0) {
			require_cuda(cuCtxDestroy_v2(contexts[part == 3]));
			require_cuda(cuCtxCreate_v2(&contexts[part == 3], 0, 0));
			require_cuda(cuCtxSetCurrent(contexts[0]));
		}
	}
	expect_no_kept();
}

/* ---- memory that is never kept ---- */

static void managed(void)
{
	CUdeviceptr address;

	require_cuda(cuMemAllocManaged(&address, UNIT, CU_MEM_ATTACH_GLOBAL));
	require_cuda(cuMemFree_v2(address));
	require(!tag(address));
}

static void pooled(void)
{
	CUdeviceptr address;

	require_cuda(cuMemAllocAsync(&address, UNIT, NULL));
	require_cuda(cuMemFree_v2(address));
	require(!tag(address));
	require_cuda(cuMemAllocAsync(&address, UNIT, NULL));
	require_cuda(cuMemFreeAsync(address, NULL));
	require(!tag(address));
}

static void freed_on_a_stream(void)
{
	CUdeviceptr address = allocate(UNIT);

	require_cuda(cuMemFreeAsync(address, NULL));
	require(!tag(address));
}

static void mapped(void)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;

	require_cuda(cuMemAddressReserve(&address, UNIT, 0, 0, 0));
	require_cuda(cuMemCreate(&handle, UNIT, &vmm_plain, 0));
	require_cuda(cuMemMap(address, UNIT, 0, handle, 0));
	require_cuda(cuMemRelease(handle));
	require(cuMemFree_v2(address) == raw.cuMemFree_v2(address));
	require_cuda(cuMemUnmap(address, UNIT));
	require(!tag(address));
	require_cuda(cuMemAddressFree(address, UNIT));
}

static void registered_pages(void)
{
	void *pages = mmap(NULL, UNIT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	require(pages != MAP_FAILED);
	require_cuda(cuMemHostRegister_v2(pages, UNIT, 0));
	require(cuMemFreeHost(pages) == raw.cuMemFreeHost(pages));
	require_cuda(cuMemHostUnregister(pages));
	require(!tag(address_of(pages)));
}

static void freed_by_another_call(void)
{
	CUdeviceptr device = allocate(UNIT), host = allocate_host(UNIT);

	require(cuMemFreeHost(pointer_to(device)) == CUDA_ERROR_INVALID_VALUE);
	require(cuMemFree_v2(host) == CUDA_ERROR_INVALID_VALUE);
	require(cuMemHostUnregister(pointer_to(host)) == CUDA_ERROR_INVALID_VALUE);
	require(cuMemFree_v2(device + 512) == CUDA_ERROR_INVALID_VALUE);
	require(cuMemFreeHost(pointer_to(host + 512)) == CUDA_ERROR_INVALID_VALUE);
	require(tag(device) && tag(host) && own("kept") == 0);
}

static void other_memory_and_refused_frees_are_the_driver_s(unsigned int which)
{
	static void (*const cases[])(void) = { managed, pooled,		  freed_on_a_stream,
					       mapped,	registered_pages, freed_by_another_call };

	begin();
	cases[which]();
	require(own("kept") == 0 && own("reused") == 0);
	expect_no_kept();
}

/* The exporter is a child from before cuInit, which peerpin leaves alone. */
static void memory_of_another_process_is_the_driver_s(unsigned int unused)
{
	int to_here[2], to_child[2];
	CUipcMemHandle handle;
	CUdeviceptr address;
	pid_t child;

	(void)unused;
	require(!pipe(to_here) && !pipe(to_child));
	child = fork();
	if (!child) {
		close(to_child[1]);
		begin();
		require_cuda(raw.cuMemAlloc_v2(&address, UNIT));
		require_cuda(raw.cuIpcGetMemHandle(&handle, address));
		require(write(to_here[1], &handle, sizeof(handle)) == sizeof(handle));
		require(read(to_child[0], &handle, 1) == 0);
		_exit(0);
	}
	begin();
	require(read(to_here[0], &handle, sizeof(handle)) == sizeof(handle));
	require_cuda(cuIpcOpenMemHandle_v2(&address, handle, 1));
	require(cuMemFree_v2(address) == CUDA_ERROR_INVALID_VALUE && tag(address));
	require_cuda(cuIpcCloseMemHandle(address));
	require(!tag(address) && own("kept") == 0);
	expect_no_kept();
	close(to_child[1]);
	require(await_child(child) == 0);
}

/* With KEEP off, each free and each allocation is the driver's. */
static void nothing_is_kept(unsigned int unused)
{
	CUdeviceptr address;
	uint64_t id;

	(void)unused;
	begin();
	address = allocate(UNIT);
	id = tag(address);
	require_cuda(cuMemFree_v2(address));
	require(!tag(address));
	require(allocate(UNIT) == address && tag(address) != id);
	require(own("kept") == 0 && own("reused") == 0);
}

#define EQUAL(kind, path)                                                                          \
	TEST(equal_memory_comes_back_without_the_driver, (kind)*PATHS + (path), KEEP)
#define EQUAL_PATHS(kind) EQUAL(kind, BY_LINK), EQUAL(kind, BY_DLSYM), EQUAL(kind, BY_PROC_ADDRESS)

const struct test reuse_tests[] = {
	EQUAL_PATHS(DEVICE),
	EQUAL_PATHS(PITCHED),
	EQUAL_PATHS(ALLOC_HOST),
	EQUAL_PATHS(HOST_ALLOC),
	TEST(equal_memory_comes_back_without_the_driver, DEVICE *PATHS, KEEP_VERIFY),
	TEST(equal_memory_comes_back_without_the_driver, HOST_ALLOC *PATHS, KEEP_PLAIN),
	TEST(another_request_gets_other_memory, 0, KEEP),
	TEST(another_context_gets_other_memory, DEVICE, KEEP),
	TEST(another_context_gets_other_memory, PITCHED, KEEP),
	TEST(another_context_gets_other_memory, ALLOC_HOST, KEEP),
	TEST(another_context_gets_other_memory, HOST_ALLOC, KEEP),
	TEST(invalid_flags_are_refused_beside_kept_memory, 30, KEEP),
	TEST(invalid_flags_are_refused_beside_kept_memory, 31, KEEP),
	VARIANTS_3(requests_differ_by_each_of_their_parts, KEEP),
	TEST(requests_differ_by_each_of_their_parts, 3, KEEP),
	TEST(other_memory_and_refused_frees_are_the_driver_s, 0, KEEP),
	TEST(other_memory_and_refused_frees_are_the_driver_s, 1, KEEP),
	TEST(other_memory_and_refused_frees_are_the_driver_s, 2, KEEP),
	TEST(other_memory_and_refused_frees_are_the_driver_s, 3, KEEP),
	TEST(other_memory_and_refused_frees_are_the_driver_s, 4, KEEP),
	TEST(other_memory_and_refused_frees_are_the_driver_s, 5, KEEP),
	TEST(memory_of_another_process_is_the_driver_s, 0, KEEP),
	TEST(nothing_is_kept, 0, NULL),
	TEST(nothing_is_kept, 0, "PEERPIN_KEEP=0 PEERPIN_KEEP_HOST=0"),
	{ .name = NULL },
};
