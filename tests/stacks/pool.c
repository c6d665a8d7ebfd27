/* SPDX-License-Identifier: BSD-3-Clause */
/* pool.c -- a pattern with buffers in growing pools, as frameworks' allocators make them
 *
 * One pool gets a slab from cuMemAlloc when the last one is full. The other reserves addresses and
 * maps physical memory behind the mapped part, so a buffer may span two pieces of physical memory.
 */
#include "patterns.h"

#define ROUNDS_OF_POOL 3 /* afterwards both pools are freed and made anew at the same place */
#define PER_ROUND      2 /* buffers from each pool */
#define SLAB_BUFFERS   4 /* that fit into a slab */
#define SLABS_MAX      (ROUNDS_OF_POOL * PER_ROUND / SLAB_BUFFERS + 1)
#define PIECES_MAX     4096
#define USED	       4 /* pairs of buffers at once */

struct slabs {
	CUdeviceptr slab[SLABS_MAX];
	int count;
	size_t size, used; /* of each; of the last one */
};

struct mapped {
	CUdeviceptr base;
	CUmemGenericAllocationHandle piece[PIECES_MAX];
	int count;
	size_t granule, reserved, used;
};

/* Parts are released with the whole pool. */
static CUdeviceptr take_from_slabs(struct slabs *slabs, size_t bytes)
{
	CUdeviceptr at;

	if (!slabs->count || slabs->used + bytes > slabs->size) {
		if (slabs->count == SLABS_MAX)
			fail("pool", "too many slabs");
		slabs->slab[slabs->count++] = allocate(slabs->size);
		slabs->used = 0;
	}
	at = slabs->slab[slabs->count - 1] + slabs->used;
	slabs->used += bytes;
	return at;
}

static void end_slabs(struct slabs *slabs)
{
	while (slabs->count)
		release(slabs->slab[--slabs->count]);
}

static CUmemAllocationProp properties_here(void)
{
	CUmemAllocationProp properties = { .type = CU_MEM_ALLOCATION_TYPE_PINNED };

	properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	CUDA(cuCtxGetDevice(&properties.location.id));
	properties.allocFlags.gpuDirectRDMACapable = 1;
	return properties;
}

/* An offset at the start makes buffers span pieces. */
static void begin_mapped(struct mapped *mapped)
{
	CUmemAllocationProp properties = properties_here();
	size_t at_most = (ROUNDS_OF_POOL * PER_ROUND + 1) * job.bytes;

	CUDA(cuMemGetAllocationGranularity(&mapped->granule, &properties,
					   CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	mapped->reserved = (at_most / mapped->granule + 2) * mapped->granule;
	if (mapped->reserved / mapped->granule > PIECES_MAX)
		fail("pool", "so much memory is too many pieces");
	mapped->used = mapped->granule - job.bytes / 16 * sizeof(uint64_t) % mapped->granule;
	mapped->count = 0;
	CUDA(cuMemAddressReserve(&mapped->base, mapped->reserved, 0, 0, 0));
}

static void grow_mapped(struct mapped *mapped)
{
	CUdeviceptr at = mapped->base + mapped->count * mapped->granule;
	CUmemAllocationProp properties = properties_here();
	CUmemAccessDesc access = {
		.location = properties.location,
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	uint64_t start = now_ns();

	CUDA(cuMemCreate(&mapped->piece[mapped->count], mapped->granule, &properties, 0));
	CUDA(cuMemMap(at, mapped->granule, 0, mapped->piece[mapped->count], 0));
	CUDA(cuMemSetAccess(at, mapped->granule, &access, 1));
	note_allocation(at, now_ns() - start);
	mapped->count++;
}

static CUdeviceptr take_from_mapped(struct mapped *mapped, size_t bytes)
{
	CUdeviceptr at = mapped->base + mapped->used;

	mapped->used += bytes;
	while (mapped->count * mapped->granule < mapped->used)
		grow_mapped(mapped);
	return at;
}

static void end_mapped(struct mapped *mapped)
{
	for (int i = 0; i < mapped->count; i++) {
		CUdeviceptr at = mapped->base + i * mapped->granule;
		uint64_t start = now_ns();

		CUDA(cuMemUnmap(at, mapped->granule));
		CUDA(cuMemRelease(mapped->piece[i]));
		note_release(at, now_ns() - start);
	}
	CUDA(cuMemAddressFree(mapped->base, mapped->reserved));
}

static void begin_pools(struct slabs *slabs, struct mapped *mapped)
{
	slabs->count = 0;
	slabs->size = SLAB_BUFFERS * job.bytes;
	begin_mapped(mapped);
}

/* Each round takes a pair of buffers from each pool; the newest pairs are in use. */
int run_pool(void)
{
	struct channel channels[USED];
	struct slabs slabs;
	struct mapped mapped;
	int pairs = 0;

	begin_pools(&slabs, &mapped);
	for (int round = 0; round <= job.rounds; round++) {
		begin_round(round);
		if (round && round % ROUNDS_OF_POOL == 0) {
			end_slabs(&slabs);
			end_mapped(&mapped);
			begin_pools(&slabs, &mapped);
			pairs = 0;
		}
		for (int of_mapped = 0; of_mapped < 2; of_mapped++, pairs++) {
			struct channel *channel = &channels[pairs % USED];

			*channel = pair_channel(job.bytes, pairs % USED);
			channel->send = of_mapped ? take_from_mapped(&mapped, job.bytes)
						  : take_from_slabs(&slabs, job.bytes);
			channel->receive = of_mapped ? take_from_mapped(&mapped, job.bytes)
						     : take_from_slabs(&slabs, job.bytes);
		}
		exchange_channels(channels, pairs < USED ? pairs : USED, round);
	}
	end_slabs(&slabs);
	end_mapped(&mapped);
	return 0;
}
