/* SPDX-License-Identifier: BSD-3-Clause */
/* host_pages.c -- which host pages CUDA does not know */
#include "memory/host_pages.h"

#include <stddef.h>

#include "base/atomics.h"
#include "base/config.h"
#include "base/log.h"
#include "base/near.h"
#include "memory/driver.h"
#include "memory/memory.h"
#include "memory/table.h"
#include "report/statistics.h"

_Atomic uint64_t host_pages[1u << HOST_PAGES_BITS];
_Atomic uint64_t host_pages_generation;

/*
 * A thread that learns a page and another one that makes memory there must not miss each other. The
 * first announces the block (2 MiB) in `learned`, and then looks whether any memory has been made
 * since it asked the driver; the second counts that it has made memory, and then looks whether the
 * block is announced. All four are sequentially consistent, so at least one of them sees the other:
 * the first stores nothing, or the second begins a new generation, in which what the first stores,
 * however late, is of the one before.
 *
 * Blocks that fall on the same bit are only forgotten or left out together. Bits are never cleared:
 * whoever has announced a block may be about to store its page.
 */
#define BLOCK_BITS 15
static _Atomic uint64_t learned[1u << (BLOCK_BITS - 6)];
static _Atomic uint64_t excluded[1u << (BLOCK_BITS - 6)];
static _Atomic uint64_t made; /* how often memory of CUDA's was made */

#define BLOCKS	    (1u << BLOCK_BITS)
#define BLOCK_SHIFT 21

static _Atomic uint64_t *word_of(_Atomic uint64_t *bits, uint64_t block)
{
	return &bits[block % BLOCKS / 64];
}

static bool is_set(_Atomic uint64_t *bits, uint64_t block)
{
	return load_seq_cst(word_of(bits, block)) >> block % 64 & 1;
}

static void set(_Atomic uint64_t *bits, uint64_t block)
{
	if (!is_set(bits, block))
		or_seq_cst(word_of(bits, block), (uint64_t)1 << block % 64);
}

/* The blocks of a range, each bit once. A range that ends beyond all addresses ends with them. */
static uint64_t last_block(uint64_t base, uint64_t size)
{
	uint64_t last = size && base + size - 1 >= base ? base + size - 1
			: size				? UINT64_MAX
							: base;
	uint64_t first = base >> BLOCK_SHIFT;

	last >>= BLOCK_SHIFT;
	return last - first < BLOCKS ? last : first + BLOCKS - 1;
}

void host_pages_begin(void)
{
	const struct driver_calls *driver = driver_calls();
	int count = 0, reaches;

	if (!config_get()->host_pointers || !driver->cuDeviceGetCount ||
	    !driver->cuDeviceGetAttribute || driver->cuDeviceGetCount(&count) != CUDA_SUCCESS)
		return;
	for (int device = 0; device < count; device++) {
		reaches = 1;
		if (driver->cuDeviceGetAttribute(&reaches,
						 CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS,
						 device) != CUDA_SUCCESS ||
		    reaches) {
			log_message(LOG_INFO,
				    "host pointers are left to the driver: device %d reaches all "
				    "memory of "
				    "the host",
				    device);
			return;
		}
	}
	store_seq_cst(&host_pages_generation, 1);
}

void host_pages_end(void)
{
	store_seq_cst(&host_pages_generation, 0);
}

/* Where nothing is known a list is no error, and the range is left as it was; reserved addresses
 * have one (measured). */
static bool is_unknown(uint64_t address)
{
	const struct driver_calls *driver = driver_calls();
	CUpointer_attribute attributes[] = { CU_POINTER_ATTRIBUTE_BUFFER_ID,
					     CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
					     CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
					     CU_POINTER_ATTRIBUTE_RANGE_SIZE };
	uint64_t buffer_id = 1, start = 1, size = 0;
	int device = 0;
	void *values[] = { &buffer_id, &device, &start, &size };

	return driver->cuPointerGetAttributes &&
	       driver->cuPointerGetAttributes(4, attributes, values, address) == CUDA_SUCCESS &&
	       !buffer_id && device == -2 && start == 1 && !size;
}

void host_pages_learn(uint64_t address)
{
	uint64_t generation = load_seq_cst(&host_pages_generation), before = load_seq_cst(&made);
	uint64_t page = address >> HOST_PAGE_SHIFT, block = address >> BLOCK_SHIFT;

	if (!generation || page >> HOST_PAGE_BITS || is_set(excluded, block) ||
	    table_overlaps(page << HOST_PAGE_SHIFT, (uint64_t)1 << HOST_PAGE_SHIFT) ||
	    !is_unknown(address))
		return;
	set(learned, block);
	if (load_seq_cst(&made) == before)
		store_seq_cst(&host_pages[host_pages_place(page)],
			      generation << HOST_PAGE_BITS | page);
}

/* Generations are so many that a process does not see the last; but what was remembered in the
 * first must not come back. */
static void begin_generation(void)
{
	uint64_t generation = load_seq_cst(&host_pages_generation);

	while (generation && !atomic_compare_exchange_weak(
				     &host_pages_generation, &generation,
				     generation == HOST_GENERATION_MAX ? 0 : generation + 1))
		;
	statistics_count(host_pages_forgotten);
}

NEAR void host_pages_expect(void)
{
	near_fetch_read(&host_pages_generation);
	near_fetch(&made);
}

NEAR void host_pages_forget(uint64_t base, uint64_t size)
{
	uint64_t block = base >> BLOCK_SHIFT, last = last_block(base, size);

	if (!load_seq_cst(&host_pages_generation))
		return;
	add_seq_cst(&made, 1);
	while (block <= last && !is_set(learned, block))
		block++;
	if (block <= last)
		begin_generation();
}

void host_pages_forget_all(void)
{
	if (!load_seq_cst(&host_pages_generation))
		return;
	add_seq_cst(&made, 1);
	begin_generation();
}

void host_pages_exclude(uint64_t base, uint64_t size)
{
	for (uint64_t block = base >> BLOCK_SHIFT; block <= last_block(base, size); block++)
		set(excluded, block);
	host_pages_forget(base, size);
}
