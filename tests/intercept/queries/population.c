/* SPDX-License-Identifier: BSD-3-Clause */
/* population.c -- allocations and frees of memory of all kinds */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "queries.h"

#define PAGES_SIZE ((uint64_t)64 << 10)
#define MAPPING	   ((uint64_t)2 << 20)

static const char image[] = ".version 7.0\n.target sm_52\n.address_size 64\n.visible .global "
			    ".align 4 .b8 gvar[4096];\n";

static void *pointer(uint64_t address)
{
	return (void *)(uintptr_t)address;
}

/* From 1 byte to 8 MiB, uniform in powers of 2. */
static uint64_t any_size(struct dice *dice)
{
	uint64_t most = (uint64_t)1 << throw(dice, 24);

	return 1 + throw(dice, most);
}

static uint64_t map_pages(struct dice *dice)
{
	void *pages =
		mmap(NULL, PAGES_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED)
		fail(dice, "no pages");
	return (uintptr_t)pages;
}

/* Disjoint, possibly adjacent parts of the pages; page boundaries occur by chance only. */
static void register_parts(struct member *member, struct dice *dice)
{
	uint64_t at = member->address + throw(dice, 5000), size;

	member->part_count = 0;
	for (int i = 1 + (int) throw(dice, PARTS_MAX); i; i--) {
		size = 1 + throw(dice, chance(dice, 50) ? 200 : 12000);
		MUST(dice, client.cuMemHostRegister_v2(pointer(at), size, 0));
		member->parts[member->part_count].address = at;
		member->parts[member->part_count++].size = size;
		at += size + (chance(dice, 30) ? 0 : throw(dice, 5000));
	}
}

static void unregister_parts(struct member *member, struct dice *dice)
{
	while (member->part_count)
		MUST(dice, client.cuMemHostUnregister(
				   pointer(member->parts[--member->part_count].address)));
}

static void map(struct member *member, struct dice *dice)
{
	CUmemAllocationProp properties = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
					   .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemAccessDesc access = { properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;

	properties.allocFlags.gpuDirectRDMACapable = chance(dice, 50);
	member->size = 3 * MAPPING;
	MUST(dice, client.cuMemCreate(&handle, MAPPING, &properties, 0));
	MUST(dice, client.cuMemAddressReserve(&address, member->size, 0, 0, 0));
	MUST(dice, client.cuMemMap(address, MAPPING, 0, handle, 0));
	MUST(dice, client.cuMemMap(address + MAPPING, MAPPING, 0, handle, 0));
	if (chance(dice, 70))
		MUST(dice, client.cuMemSetAccess(address, MAPPING, &access, 1));
	MUST(dice, client.cuMemRelease(handle));
	member->address = address;
}

/* Return the length of the driver's block: reused kept memory has all of it (PEERPIN_KEEP). */
static uint64_t allocate(CUdeviceptr *address, uint64_t size, struct dice *dice)
{
	size_t block = 0;

	MUST(dice, client.cuMemAlloc_v2(address, size));
	MUST(dice, own.cuMemGetAddressRange_v2(NULL, &block, *address));
	if (block < size)
		fail(dice, "a block of %zu bytes for %llu", block, (unsigned long long)size);
	return block;
}

static void begin(struct member *member, struct dice *dice)
{
	size_t pitch, height = 1 + throw(dice, 20);
	CUdeviceptr address = 0;
	void *host = NULL;

	member->size = any_size(dice);
	switch (member->kind) {
	case DEVICE:
		member->size = allocate(&address, member->size, dice);
		break;
	case PITCHED:
		MUST(dice,
		     client.cuMemAllocPitch_v2(&address, &pitch, 1 + throw(dice, 3000), height, 4));
		member->size = pitch * height;
		break;
	case MANAGED:
		MUST(dice, client.cuMemAllocManaged(&address, member->size, CU_MEM_ATTACH_GLOBAL));
		break;
	case POOL:
		MUST(dice, client.cuMemAllocAsync(&address, member->size, NULL));
		break;
	case MAPPED:
		map(member, dice);
		return;
	case HOST:
		MUST(dice, client.cuMemHostAlloc(&host, member->size, 0));
		address = (uintptr_t)host;
		break;
	case HEAP:
		address = (uintptr_t)malloc(member->size);
		break;
	case REGISTERED:
	case PAGES:
		address = member->address = map_pages(dice);
		member->size = PAGES_SIZE;
		if (member->kind == REGISTERED)
			register_parts(member, dice);
		break;
	case VARIABLE:
		MUST(dice, client.cuModuleLoadData(&member->module, image));
		MUST(dice,
		     client.cuModuleGetGlobal_v2(&address, &member->size, member->module, "gvar"));
		break;
	case KINDS:
		break;
	}
	member->address = address;
}

static void end(struct member *member, struct dice *dice)
{
	switch (member->kind) {
	case DEVICE:
	case PITCHED:
	case MANAGED:
		MUST(dice, client.cuMemFree_v2(member->address));
		break;
	case POOL:
		MUST(dice, client.cuMemFreeAsync(member->address, NULL));
		break;
	case MAPPED:
		MUST(dice, client.cuMemUnmap(member->address, 2 * MAPPING));
		MUST(dice, client.cuMemAddressFree(member->address, member->size));
		break;
	case HOST:
		MUST(dice, client.cuMemFreeHost(pointer(member->address)));
		break;
	case HEAP:
		free(pointer(member->address));
		break;
	case REGISTERED:
		unregister_parts(member, dice);
		munmap(pointer(member->address), member->size);
		break;
	case PAGES:
		munmap(pointer(member->address), member->size);
		break;
	case VARIABLE:
		MUST(dice, client.cuModuleUnload(member->module));
		break;
	case KINDS:
		break;
	}
}

void population_allocation_of(struct population *population, struct dice *dice, enum kind kind)
{
	struct member *member = &population->members[population->count];

	if (population->count == POPULATION)
		return;
	*member = (struct member){ .kind = kind };
	begin(member, dice);
	population->count++;
}

void population_allocation(struct population *population, struct dice *dice)
{
	population_allocation_of(population, dice, (enum kind) throw(dice, KINDS));
}

static void remove_member(struct population *population, int index)
{
	population->gone[population->gone_count++ % GONE_MAX] = population->members[index].address;
	population->members[index] = population->members[--population->count];
}

void population_free(struct population *population, struct dice *dice)
{
	int index;

	if (!population->count)
		return;
	index = (int) throw(dice, (uint64_t)population->count);
	if (population->members[index].in_context)
		return;
	end(&population->members[index], dice);
	remove_member(population, index);
}

void population_end(struct population *population, struct dice *dice)
{
	while (population->count)
		population_free(population, dice);
}

void population_lose(struct population *population)
{
	for (int i = population->count - 1; i >= 0; i--) {
		if (population->members[i].in_context)
			remove_member(population, i);
	}
}

void population_turn(struct population *population, struct dice *dice)
{
	struct member *member;

	if (!population->count)
		return;
	member = &population->members[throw(dice, (uint64_t)population->count)];
	if (member->kind == REGISTERED) {
		unregister_parts(member, dice);
		member->kind = PAGES;
	} else if (member->kind == PAGES) {
		register_parts(member, dice);
		member->kind = REGISTERED;
	}
}

bool population_has(const struct population *population, uint64_t address)
{
	for (int i = 0; i < population->count; i++) {
		const struct member *member = &population->members[i];

		if (address - member->address < member->size)
			return true;
	}
	return false;
}

static uint64_t address_in(const struct member *member, struct dice *dice, bool settled)
{
	uint64_t address = member->address, size = member->size;
	int part;

	if (member->kind == REGISTERED && chance(dice, 70)) {
		part = (int) throw(dice, (uint64_t)member->part_count);
		address = member->parts[part].address;
		size = member->parts[part].size;
		if (chance(dice, 20))
			return address + size; /* after the part, inside the pages */
	}
	if (member->kind == MAPPED)
		address += throw(dice, 3) * MAPPING, size = MAPPING;
	if (chance(dice, 30))
		return address;
	if (chance(dice, 30))
		return address + size - 1;
	if (!settled && chance(dice, 10))
		return address + size;
	if (!settled && chance(dice, 5))
		return address - 1;
	return address + throw(dice, size);
}

uint64_t population_address(const struct population *population, struct dice *dice, bool settled)
{
	uint64_t on_the_stack;

	if (chance(dice, 3))
		return throw(dice, 2); /* null, or 1 */
	if (chance(dice, 3))
		return (uintptr_t)&on_the_stack;
	if (!settled && chance(dice, 1))
		return (uint64_t)1 << (47 + throw(dice, 17));
	if (!settled && population->gone_count && chance(dice, 15))
		return population->gone[throw(dice, population->gone_count < GONE_MAX
							    ? (uint64_t)population->gone_count
							    : GONE_MAX)];
	if (!population->count)
		return (uintptr_t)population;
	return address_in(&population->members[throw(dice, (uint64_t)population->count)], dice,
			  settled);
}
