/* SPDX-License-Identifier: BSD-3-Clause */
/* queries.c -- results of queries and each byte that they write; failed queries write, too */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

#define UNTOUCHED 0xaaaaaaaaaaaaaaaaull

#define MAPPING ((size_t)2 << 20)

/* One address of each kind, and its attributes. */
static struct kind {
	const char *name;
	CUdeviceptr address;
	unsigned int type; /* 0: unknown */
	bool host_pointer, ipc, rdma, of_context, fresh_sync;
	CUresult set, range;
} kinds[] = {
	{ "device", 0, CU_MEMORYTYPE_DEVICE, false, true, true, true, false, CUDA_SUCCESS,
	  CUDA_SUCCESS },
	{ "managed", 0, CU_MEMORYTYPE_DEVICE, true, false, false, true, true, CUDA_SUCCESS,
	  CUDA_SUCCESS },
	{ "pool", 0, CU_MEMORYTYPE_DEVICE, false, false, false, false, false, CUDA_SUCCESS,
	  CUDA_SUCCESS },
	{ "mapped", 0, CU_MEMORYTYPE_DEVICE, false, false, true, false, false,
	  CUDA_ERROR_NOT_SUPPORTED, CUDA_SUCCESS },
	{ "without access", 0, CU_MEMORYTYPE_DEVICE, false, false, true, false, false,
	  CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_NOT_FOUND },
	{ "host", 0, CU_MEMORYTYPE_HOST, true, false, false, true, false, CUDA_SUCCESS,
	  CUDA_SUCCESS },
	{ "registered", 0, CU_MEMORYTYPE_HOST, true, false, false, true, false, CUDA_SUCCESS,
	  CUDA_SUCCESS },
	{ "variable", 0, CU_MEMORYTYPE_DEVICE, false, false, false, true, false, CUDA_SUCCESS,
	  CUDA_SUCCESS },
	{ "reserved", 0, 0, false, false, false, false, false, CUDA_ERROR_INVALID_VALUE,
	  CUDA_ERROR_NOT_FOUND },
	{ "beside registered", 0, 0, false, false, false, false, false, CUDA_ERROR_INVALID_VALUE,
	  CUDA_ERROR_NOT_FOUND },
	{ "malloc", 0, 0, false, false, false, false, false, CUDA_ERROR_INVALID_VALUE,
	  CUDA_ERROR_NOT_FOUND },
	{ "null", 0, 0, false, false, false, false, false, CUDA_ERROR_INVALID_VALUE,
	  CUDA_ERROR_NOT_FOUND },
};

enum {
	DEVICE,
	MANAGED,
	POOL,
	MAPPED,
	NO_ACCESS,
	HOST,
	REGISTERED,
	VARIABLE,
	RESERVED,
	BESIDE,
	MALLOC,
	KINDS = MALLOC + 2
};

static CUmodule module;
static char *pages;
static CUcontext other;

static const char image[] = ".version 7.0\n.target sm_52\n.address_size 64\n.visible .global "
			    ".align 4 .b8 gvar[4096];\n";

static void set_up_mapped(void)
{
	CUmemAllocationProp properties = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
					   .location = { CU_MEM_LOCATION_TYPE_DEVICE, device } };
	CUmemAccessDesc access = { properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;

	properties.allocFlags.gpuDirectRDMACapable = 1;
	ck_cuda(driver.cuMemCreate(&handle, MAPPING, &properties, 0));
	ck_cuda(driver.cuMemAddressReserve(&address, 3 * MAPPING, 0, 0, 0));
	ck_cuda(driver.cuMemMap(address, MAPPING, 0, handle, 0));
	ck_cuda(driver.cuMemMap(address + MAPPING, MAPPING, 0, handle, 0));
	ck_cuda(driver.cuMemSetAccess(address, MAPPING, &access, 1));
	ck_cuda(driver.cuMemRelease(handle));
	kinds[MAPPED].address = address;
	kinds[NO_ACCESS].address = address + MAPPING;
	kinds[RESERVED].address = address + 2 * MAPPING;
}

static void set_up(void)
{
	void *host = NULL;

	context_set_up();
	kinds[DEVICE].address = allocate(1000);
	ck_cuda(driver.cuMemAllocManaged(&kinds[MANAGED].address, 1000, CU_MEM_ATTACH_GLOBAL));
	ck_cuda(driver.cuMemAllocAsync(&kinds[POOL].address, 1000, NULL));
	set_up_mapped();
	ck_cuda(driver.cuMemHostAlloc(&host, 1000, 0));
	kinds[HOST].address = (uintptr_t)host;
	pages = aligned_alloc(4096, 4096);
	ck_cuda(driver.cuMemHostRegister_v2(pages + 100, 1000, 0));
	kinds[REGISTERED].address = (uintptr_t)(pages + 100);
	kinds[BESIDE].address = (uintptr_t)(pages + 2000);
	ck_cuda(driver.cuModuleLoadData(&module, image));
	ck_cuda(driver.cuModuleGetGlobal_v2(&kinds[VARIABLE].address, NULL, module, "gvar"));
	kinds[MALLOC].address = (uintptr_t)&other;
}

static void tear_down(void)
{
	ck_cuda(driver.cuMemUnmap(kinds[MAPPED].address, 2 * MAPPING));
	ck_cuda(driver.cuMemAddressFree(kinds[MAPPED].address, 3 * MAPPING));
	ck_cuda(driver.cuMemFreeAsync(kinds[POOL].address, NULL));
	ck_cuda(driver.cuModuleUnload(module));
	ck_cuda(driver.cuMemHostUnregister(pages + 100));
	context_tear_down();
	free(pages);
}

/* A query into a buffer with a pattern, which shows the written bytes. */
static CUresult ask(CUpointer_attribute attribute, CUdeviceptr address, uint64_t value[3])
{
	memset(value, 0xaa, 3 * sizeof(*value));
	return driver.cuPointerGetAttribute(value, attribute, address);
}

static CUresult list_one(CUpointer_attribute attribute, CUdeviceptr address, uint64_t *value)
{
	void *data = value;

	*value = UNTOUCHED;
	return driver.cuPointerGetAttributes(1, &attribute, &data, address);
}

/* `result`: of the query; `wanted`: the low `bytes` of the buffer afterwards. */
static void expect(const struct kind *kind, CUpointer_attribute attribute, CUresult result,
		   size_t bytes, uint64_t wanted)
{
	uint64_t value[3], is, mask = bytes == 8 ? ~0ull : (1ull << 8 * bytes) - 1;
	CUresult got = ask(attribute, kind->address, value);

	ck_assert_msg(got == result, "%s: attribute %d: %d", kind->name, (int)attribute, got);
	is = (wanted & mask) | (UNTOUCHED & ~mask);
	ck_assert_msg(value[0] == is && value[1] == UNTOUCHED, "%s: attribute %d: %llx not %llx",
		      kind->name, (int)attribute, (unsigned long long)value[0],
		      (unsigned long long)is);
	if (!kind->type)
		return;
	ck_cuda(list_one(attribute, kind->address, value));
	ck_assert_msg(value[0] == is, "%s: attribute %d in a list: %llx not %llx", kind->name,
		      (int)attribute, (unsigned long long)value[0], (unsigned long long)is);
}

CASE(queries, .set_up = set_up, .tear_down = tear_down);

LOOP_TEST(queries, every_kind_of_memory_is_described_to_the_byte, 0, RESERVED)
{
	const struct kind *kind = &kinds[_i];
	CUdeviceptr at = kind->address;
	bool access = _i != NO_ACCESS;

	expect(kind, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, CUDA_SUCCESS, 4, kind->fresh_sync);
	expect(kind, CU_POINTER_ATTRIBUTE_CONTEXT, CUDA_SUCCESS, 8,
	       kind->of_context ? (uintptr_t)context : 0);
	expect(kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CUDA_SUCCESS, 4, kind->type);
	expect(kind, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
	       access ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE, 8, access ? at : 0);
	expect(kind, CU_POINTER_ATTRIBUTE_HOST_POINTER,
	       kind->host_pointer ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE, 8,
	       kind->host_pointer ? at : 0);
	expect(kind, CU_POINTER_ATTRIBUTE_IS_MANAGED, CUDA_SUCCESS, 4, _i == MANAGED);
	expect(kind, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CUDA_SUCCESS, 4, 0);
	expect(kind, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, CUDA_SUCCESS, 4, kind->ipc);
	expect(kind, CU_POINTER_ATTRIBUTE_MAPPED, CUDA_SUCCESS, 4, 1);
	expect(kind, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, CUDA_SUCCESS, 8, 0);
	expect(kind, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, CUDA_SUCCESS, 4, kind->rdma);
	expect(kind, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, CUDA_SUCCESS, 4, access ? 3 : 0);
}

TEST(queries, device_memory_has_its_range_and_no_pool_at_every_address_inside)
{
	struct kind inside = kinds[DEVICE];

	for (size_t offset = 0; offset < 1000; offset += 999) {
		inside.address = kinds[DEVICE].address + offset;
		expect(&inside, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CUDA_SUCCESS, 4, inside.type);
		expect(&inside, CU_POINTER_ATTRIBUTE_CONTEXT, CUDA_SUCCESS, 8, (uintptr_t)context);
		expect(&inside, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CUDA_SUCCESS, 8,
		       inside.address);
		expect(&inside, CU_POINTER_ATTRIBUTE_BUFFER_ID, CUDA_SUCCESS, 8,
		       buffer_id(kinds[DEVICE].address));
		expect(&inside, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CUDA_SUCCESS, 8,
		       kinds[DEVICE].address);
		expect(&inside, CU_POINTER_ATTRIBUTE_RANGE_SIZE, CUDA_SUCCESS, 8, 1000);
		expect(&inside, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, CUDA_SUCCESS, 8, 0);
	}
}

LOOP_TEST(queries, a_single_query_of_what_is_no_memory_writes_nothing, RESERVED, KINDS)
{
	for (int attribute = -1; attribute < 30; attribute++)
		expect(&kinds[_i], (CUpointer_attribute)attribute, CUDA_ERROR_INVALID_VALUE, 0, 0);
}

LOOP_TEST(queries, a_list_for_what_is_no_memory_leaves_the_range_alone, RESERVED, KINDS)
{
	CUdeviceptr at = kinds[_i].address;
	bool reserved = _i == RESERVED;
	uint64_t value;

	for (int attribute = CU_POINTER_ATTRIBUTE_CONTEXT;
	     attribute <= CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE; attribute++) {
		if (attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
			continue;
		ck_cuda(list_one((CUpointer_attribute)attribute, at, &value));
		if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)
			ck_assert_uint_eq(value, reserved ? kinds[MAPPED].address : UNTOUCHED);
		else if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE)
			ck_assert_uint_eq(value, reserved ? 3 * MAPPING : UNTOUCHED);
		else if (attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER)
			ck_assert_uint_eq(value, at);
		else if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
			ck_assert_int_eq((int)value, -2);
		else
			ck_assert_msg((unsigned int)value == 0, "attribute %d", attribute);
	}
}

LOOP_TEST(queries, a_list_ends_at_a_bad_attribute_and_does_not_begin_with_a_null_place, 0, KINDS)
{
	CUpointer_attribute names[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUpointer_attribute)99,
					CU_POINTER_ATTRIBUTE_BUFFER_ID };
	CUpointer_attribute *none = NULL;
	uint64_t values[] = { 5, 5, 5 };
	void *data[] = { &values[0], &values[1], &values[2] };
	CUdeviceptr at = kinds[_i].address;
	unsigned int type = 0;
	void *type_alone = &type;

	ck_cuda(driver.cuPointerGetAttributes(1, names, &type_alone, at));
	for (int bad = 0; bad < 4; bad++) {
		for (int i = 0; i < 3; i++) {
			values[i] = 5;
			data[i] = &values[i];
		}
		names[1] = bad == 0   ? (CUpointer_attribute)99
			   : bad == 1 ? CU_POINTER_ATTRIBUTE_P2P_TOKENS
				      : CU_POINTER_ATTRIBUTE_CONTEXT;
		if (bad >= 2)
			data[bad - 1] = NULL;
		ck_assert_int_eq(driver.cuPointerGetAttributes(3, names, data, at),
				 CUDA_ERROR_INVALID_VALUE);
		ck_assert_uint_eq(values[0], bad < 2 ? type : 5);
		ck_assert_uint_eq(values[1], 5);
		ck_assert_uint_eq(values[2], 5);
	}
	ck_assert_int_eq(driver.cuPointerGetAttributes(0, names, data, at),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(driver.cuPointerGetAttributes(1, none, data, at),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(driver.cuPointerGetAttributes(1, names, NULL, at),
			 CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(driver.cuPointerGetAttribute(NULL, names[0], at),
			 CUDA_ERROR_INVALID_VALUE);
}

LOOP_TEST(queries, sync_memops_reads_one_after_any_value_but_zero, 0, KINDS)
{
	static const unsigned int values[] = { 1, 1, 0, 2, 0xffffffff, 0x100, 0 };
	const struct kind *kind = &kinds[_i];
	uint64_t value[3];

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		ck_assert_int_eq(driver.cuPointerSetAttribute(&values[i],
							      CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
							      kind->address),
				 kind->set);
		if (kind->set != CUDA_SUCCESS)
			continue;
		ck_cuda(ask(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, kind->address, value));
		ck_assert_uint_eq((unsigned int)value[0], values[i] != 0);
	}
	ck_assert_int_eq(
		driver.cuPointerSetAttribute(NULL, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, kind->address),
		CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(driver.cuPointerSetAttribute(&values[0], CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
						      kind->address),
			 kind->set == CUDA_ERROR_NOT_SUPPORTED ? kind->set
							       : CUDA_ERROR_INVALID_VALUE);
}

/* A cache of SYNC_MEMOPS must be invalidated by a token query, even for memory that refuses to set
 * it. */
LOOP_TEST(queries, who_asks_for_the_tokens_of_device_memory_sets_sync_memops, 0, RESERVED)
{
	const struct kind *kind = &kinds[_i];
	bool device_memory = kind->type == CU_MEMORYTYPE_DEVICE;
	unsigned int off = 0;
	uint64_t value[3];

	driver.cuPointerSetAttribute(&off, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, kind->address);
	ck_assert_int_eq(ask(CU_POINTER_ATTRIBUTE_P2P_TOKENS, kind->address, value),
			 device_memory ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(value[0], 0);
	ck_assert_uint_eq(value[1] >> 32, UNTOUCHED >> 32);
	ck_cuda(ask(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, kind->address, value));
	ck_assert_uint_eq((unsigned int)value[0], device_memory);
}

static CUresult range_of(CUdeviceptr address, CUdeviceptr *base, size_t *size)
{
	*base = *size = 0xaa;
	return driver.cuMemGetAddressRange_v2(base, size, address);
}

LOOP_TEST(queries, a_range_is_null_after_an_error_and_may_be_asked_for_in_parts, 0, KINDS)
{
	const struct kind *kind = &kinds[_i];
	CUdeviceptr base;
	size_t size;

	ck_assert_int_eq(range_of(kind->address + 8, &base, &size), kind->range);
	ck_assert_uint_eq(base, kind->range == CUDA_SUCCESS ? kind->address : 0);
	ck_assert_int_eq(!!size, kind->range == CUDA_SUCCESS);
	ck_assert_int_eq(driver.cuMemGetAddressRange_v2(&base, NULL, kind->address), kind->range);
	ck_assert_int_eq(driver.cuMemGetAddressRange_v2(NULL, &size, kind->address), kind->range);
	ck_cuda(driver.cuMemGetAddressRange_v2(NULL, NULL, kind->address));
}

LOOP_TEST(queries, only_mapped_memory_gives_its_handle_and_never_to_null, 0, KINDS)
{
	bool mapped = _i == MAPPED || _i == NO_ACCESS;
	CUmemGenericAllocationHandle handle = 0xaa;
	void *at = (void *)(uintptr_t)kinds[_i].address;

	ck_assert_int_eq(driver.cuMemRetainAllocationHandle(NULL, at), CUDA_ERROR_INVALID_VALUE);
	ck_assert_int_eq(driver.cuMemRetainAllocationHandle(&handle, at),
			 mapped ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
	if (mapped)
		ck_cuda(driver.cuMemRelease(handle));
	else
		ck_assert_uint_eq(handle, 0xaa);
}

TEST(queries, a_variable_ends_with_its_module)
{
	CUmodule mine;
	CUdeviceptr address = 0;
	size_t size = 0;

	ck_cuda(driver.cuModuleLoadData(&mine, image));
	ck_cuda(driver.cuModuleGetGlobal_v2(&address, &size, mine, "gvar"));
	ck_assert_uint_eq(size, 4096);
	buffer_id(address);
	ck_assert_int_eq(driver.cuModuleGetGlobal_v2(&address, &size, mine, "other"),
			 CUDA_ERROR_NOT_FOUND);
	ck_assert_uint_eq(address, 0);
	ck_assert_uint_eq(size, 0);
	ck_assert_int_eq(driver.cuModuleGetGlobal_v2(NULL, NULL, mine, "gvar"),
			 CUDA_ERROR_INVALID_VALUE);
	ck_cuda(driver.cuModuleGetGlobal_v2(&address, NULL, mine, "gvar"));
	ck_cuda(driver.cuModuleUnload(mine));
	ck_assert_int_eq(query_buffer_id(address), CUDA_ERROR_INVALID_VALUE);
}
