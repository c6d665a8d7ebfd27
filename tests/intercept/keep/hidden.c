/* SPDX-License-Identifier: BSD-3-Clause */
/* hidden.c -- between free and reuse, kept memory is freed memory to every call; afterwards it is a
 * new allocation
 *
 * Calls at kept memory are compared with calls at memory that the driver has freed: results, and
 * all written bytes. The address itself, which a list stores as the host pointer, is compared as 1,
 * and its upper half too: a later value with the output of the host pointer may overwrite the lower
 * one.
 */
#include "keep.h"

#include <string.h>

#define LARGE	(70 * MIB) /* above the limit: the driver frees it */
#define PATTERN 0xa5
#define LISTED	32

struct answer {
	CUresult result;
	unsigned char bytes[LISTED][32];
};

static uint64_t base; /* of the memory in question */

static void normalise(struct answer *answer, uint64_t offset)
{
	uint64_t value;

	for (int i = 0; i < LISTED; i++) {
		memcpy(&value, answer->bytes[i], sizeof(value));
		if (value == base + offset)
			value = 1;
		else if (value >> 32 && value >> 32 == (base + offset) >> 32)
			value = (uint32_t)value | (uint64_t)1 << 32;
		memcpy(answer->bytes[i], &value, sizeof(value));
	}
}

/* ---- questions: each returns false after its last variant ---- */

static bool single(unsigned int variant, uint64_t address, struct answer *answer)
{
	answer->result =
		cuPointerGetAttribute(answer->bytes[0], (CUpointer_attribute)variant - 1, address);
	return variant < 30;
}

static bool single_into_null(unsigned int variant, uint64_t address, struct answer *answer)
{
	answer->result = cuPointerGetAttribute(NULL, (CUpointer_attribute)variant, address);
	return variant < 25;
}

static bool list_of_one(unsigned int variant, uint64_t address, struct answer *answer)
{
	CUpointer_attribute attribute = (CUpointer_attribute)variant;
	void *data = answer->bytes[0];

	answer->result = cuPointerGetAttributes(1, &attribute, &data, address);
	return variant < 30;
}

/* The attributes from `variant` on; those that refuse (tokens, unknown ones) are among them. */
static bool list_of_many(unsigned int variant, uint64_t address, struct answer *answer)
{
	CUpointer_attribute attributes[LISTED];
	void *data[LISTED];

	for (unsigned int i = 0; i < LISTED; i++) {
		attributes[i] = (CUpointer_attribute)((variant + i) % 24 + 1);
		data[i] = answer->bytes[i];
	}
	answer->result = cuPointerGetAttributes(variant % LISTED + 1, attributes, data, address);
	return variant < 3 * LISTED;
}

/* The host pointer shares its output with the next attribute, or the one before. */
static bool list_with_one_output(unsigned int variant, uint64_t address, struct answer *answer)
{
	CUpointer_attribute attributes[] = { CU_POINTER_ATTRIBUTE_HOST_POINTER,
					     (CUpointer_attribute)(variant / 2 + 1),
					     CU_POINTER_ATTRIBUTE_HOST_POINTER };
	void *data[] = { answer->bytes[0], answer->bytes[0], answer->bytes[0] };

	answer->result = cuPointerGetAttributes(2, attributes + variant % 2, data, address);
	return variant < 44;
}

/* The output holds 0x1000 and the driver refuses before it stores any value. */
static bool list_of_wrong_arguments(unsigned int variant, uint64_t address, struct answer *answer)
{
	CUpointer_attribute attributes[] = { (CUpointer_attribute)99,
					     CU_POINTER_ATTRIBUTE_HOST_POINTER };
	uint64_t value = 0x1000;
	void *data[] = { answer->bytes[0], variant == 2 ? NULL : answer->bytes[1] };

	memcpy(answer->bytes[1], &value, sizeof(value));
	answer->result =
		cuPointerGetAttributes(variant == 3 ? 0 : 2, variant == 1 ? NULL : attributes,
				       variant == 4 ? NULL : data, address);
	return variant < 4;
}

static bool range(unsigned int variant, uint64_t address, struct answer *answer)
{
	answer->result =
		cuMemGetAddressRange_v2(variant & 1 ? NULL : (CUdeviceptr *)answer->bytes[0],
					variant & 2 ? NULL : (size_t *)answer->bytes[1], address);
	return variant < 3;
}

static bool set_sync(unsigned int variant, uint64_t address, struct answer *answer)
{
	unsigned int value = variant;

	answer->result = cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address);
	return variant < 1;
}

static bool handle(unsigned int variant, uint64_t address, struct answer *answer)
{
	switch (variant) {
	case 0:
		answer->result = cuMemRetainAllocationHandle(
			(CUmemGenericAllocationHandle *)answer->bytes[0], pointer_to(address));
		break;
	case 1:
		answer->result =
			cuMemGetHandleForAddressRange(answer->bytes[0], address & ~(uint64_t)4095,
						      4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
		break;
	}
	return variant < 1;
}

static bool free_again(unsigned int variant, uint64_t address, struct answer *answer)
{
	switch (variant) {
	case 0:
		answer->result = cuMemFree_v2(address);
		break;
	case 1:
		answer->result = cuMemFreeAsync(address, NULL);
		break;
	case 2:
		answer->result = cuMemFreeHost(pointer_to(address));
		break;
	case 3:
		answer->result = cuMemHostUnregister(pointer_to(address));
		break;
	case 4:
		answer->result = cuIpcCloseMemHandle(address);
		break;
	case 5:
		answer->result = cuMemUnmap(address & ~(uint64_t)4095, 4096);
		break;
	case 6:
		answer->result = cuMemAddressFree(address & ~(uint64_t)4095, 4096);
		break;
	}
	return variant < 6;
}

static bool (*const questions[])(unsigned int variant, uint64_t address, struct answer *answer) = {
	single,
	single_into_null,
	list_of_one,
	list_of_many,
	list_with_one_output,
	list_of_wrong_arguments,
	range,
	set_sync,
	handle,
	free_again,
};

/* Compares the calls at `offset` of kept and of freed memory. */
static void compare(uint64_t kept, uint64_t freed, uint64_t offset)
{
	/* An address whose low half is 0 is equal to one whose low half a value has overwritten. */
	if (!(uint32_t)(kept + offset) || !(uint32_t)(freed + offset))
		return;
	for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
		struct answer at_kept, at_freed;
		unsigned int variant = 0;
		bool more;

		do {
			memset(&at_kept, PATTERN, sizeof(at_kept));
			memset(&at_freed, PATTERN, sizeof(at_freed));
			questions[i](variant, kept + offset, &at_kept);
			more = questions[i](variant, freed + offset, &at_freed);
			base = kept;
			normalise(&at_kept, offset);
			base = freed;
			normalise(&at_freed, offset);
			if (at_kept.result == at_freed.result &&
			    !memcmp(at_kept.bytes, at_freed.bytes, sizeof(at_kept.bytes)))
				continue;
			fprintf(stderr, "question %zu, variant %u, offset %llu: %d, freed: %d\n", i,
				variant, (unsigned long long)offset, (int)at_kept.result,
				(int)at_freed.result);
			_exit(1);
		} while (variant++, more);
	}
}

static bool syncs(CUdeviceptr address)
{
	unsigned int value = 9;

	require_cuda(raw.cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
	return value;
}

enum kind { DEVICE, PITCHED, HOST };

static void memory_of(enum kind kind, size_t size, CUdeviceptr *address)
{
	size_t pitch;

	if (kind == DEVICE)
		*address = allocate(size);
	else if (kind == HOST)
		*address = allocate_host(size);
	else
		require_cuda(cuMemAllocPitch_v2(address, &pitch, size / 8, 8, 4));
}

static void free_of(enum kind kind, CUdeviceptr address)
{
	if (kind == HOST)
		free_host(address);
	else
		require_cuda(cuMemFree_v2(address));
}

static const uint64_t offsets[] = { 0, 1, 512, 100000, UNIT - 1 };

static void each_call_finds_freed_memory(unsigned int variant)
{
	enum kind kind = variant % 3;
	CUdeviceptr kept, freed, again;
	bool synced;
	uint64_t id;

	begin();
	memory_of(kind, LARGE, &freed);
	memory_of(kind, UNIT, &kept);
	free_of(kind, freed);
	require(!tag(freed) && own("kept") == 0);
	id = tag(kept);
	synced = kind != HOST && syncs(kept);
	free_of(kind, kept);
	require(tag(kept) == id && !tag(freed) && own("kept") == 1);
	if (variant >= 3)
		require_cuda(cuCtxSetCurrent(NULL));
	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++)
		compare(kept, freed, offsets[i]);
	if (variant >= 3)
		require_cuda(cuCtxSetCurrent(context));
	require(kind == HOST || syncs(kept) == synced);
	memory_of(kind, UNIT, &again);
	require(again == kept && tag(again) == id && own("reused") == 1);
	require(own("kept") == 1 && own("kept_released") == 0);
	free_of(kind, again);
	expect_no_errors();
}

static void equal_to_the_driver_s(CUdeviceptr address)
{
	for (int attribute = -1; attribute < 30; attribute++) {
		CUpointer_attribute one = (CUpointer_attribute)attribute;
		unsigned char client[32], driver[32];
		void *to_client = client, *to_driver = driver;

		memset(client, PATTERN, sizeof(client));
		memset(driver, PATTERN, sizeof(driver));
		require(cuPointerGetAttribute(client, one, address) ==
			raw.cuPointerGetAttribute(driver, one, address));
		require(!memcmp(client, driver, sizeof(client)));
		require(cuPointerGetAttributes(1, &one, &to_client, address) ==
			raw.cuPointerGetAttributes(1, &one, &to_driver, address));
		require(!memcmp(client, driver, sizeof(client)));
	}
}

/* A new allocation but for BUFFER_ID and SYNC_MEMOPS, which the program has set before. */
static void reused_memory_is_a_new_allocation(unsigned int variant)
{
	enum kind kind = variant % 3;
	unsigned int on = 1, now = 9;
	CUdeviceptr first, again, start;
	size_t size, expected;
	uint64_t id;

	begin();
	memory_of(kind, 300000, &first);
	require_cuda(cuMemGetAddressRange_v2(&start, &expected, first));
	id = tag(first);
	if (kind != HOST)
		require_cuda(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, first));
	free_of(kind, first);
	memory_of(kind, 300000, &again);
	require(again == first && tag(again) == id);
	for (int i = 0; i < 3; i++)
		equal_to_the_driver_s(again + (uint64_t)i * 149999);
	require_cuda(cuMemGetAddressRange_v2(&start, &size, again + 7));
	require(start == again && size == expected);
	if (kind != HOST) {
		require_cuda(cuPointerGetAttribute(&now, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, again));
		require(now == 1);
		on = 0;
		require_cuda(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, again));
		require(!syncs(again));
		equal_to_the_driver_s(again);
	}
	free_of(kind, again);
	expect_no_errors();
}

/* A free that fails, of an address that is kept, costs nothing. */
static void a_second_free_takes_nothing(unsigned int kind)
{
	CUdeviceptr first;
	uint64_t id;

	begin();
	memory_of(kind, UNIT, &first);
	id = tag(first);
	free_of(kind, first);
	for (int i = 0; i < 3; i++)
		require((kind == HOST ? cuMemFreeHost(pointer_to(first)) : cuMemFree_v2(first)) ==
			CUDA_ERROR_INVALID_VALUE);
	require(tag(first) == id && own("kept") == 1 && own("frees") + own("host_frees") == 1);
}

#define IN_ALL_MODES(test, variant)                                                                \
	TEST(test, variant, KEEP), TEST(test, variant, KEEP_PLAIN), TEST(test, variant, KEEP_VERIFY)

const struct test hidden_tests[] = {
	IN_ALL_MODES(each_call_finds_freed_memory, DEVICE),
	IN_ALL_MODES(each_call_finds_freed_memory, PITCHED),
	IN_ALL_MODES(each_call_finds_freed_memory, HOST),
	IN_ALL_MODES(each_call_finds_freed_memory, 3 + DEVICE),
	IN_ALL_MODES(each_call_finds_freed_memory, 3 + HOST),
	IN_ALL_MODES(reused_memory_is_a_new_allocation, DEVICE),
	IN_ALL_MODES(reused_memory_is_a_new_allocation, PITCHED),
	IN_ALL_MODES(reused_memory_is_a_new_allocation, HOST),
	IN_ALL_MODES(a_second_free_takes_nothing, DEVICE),
	IN_ALL_MODES(a_second_free_takes_nothing, HOST),
	{ .name = NULL },
};
