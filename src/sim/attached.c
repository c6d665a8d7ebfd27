/* SPDX-License-Identifier: BSD-3-Clause */
/* attached.c -- memory outside of device ranges: host, VMM, imported and graph memory
 *
 * Map and unmap pages with libc's mmap and munmap: memory hooks intercept both.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim.h"

/* By address: a process may have thousands of mappings. */
static struct sim_allocation **attached;
static size_t attached_count, attached_room;

/* How many begin before `address`. */
static size_t attached_before(uint64_t address)
{
	size_t low = 0, high = attached_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (attached[middle]->base < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct sim_allocation *sim_find_attached_in(uint64_t address, uint64_t size)
{
	size_t count = attached_before(address + size);
	struct sim_allocation *last = count ? attached[count - 1] : NULL;

	return last && address < last->base + last->size ? last : NULL;
}

struct sim_allocation *sim_find_attached(uint64_t address)
{
	return sim_find_attached_in(address, 1);
}

static bool attached_insert(struct sim_allocation *allocation)
{
	size_t at = attached_before(allocation->base), room = attached_room;
	struct sim_allocation **more;

	if (attached_count == room) {
		room = room ? 2 * room : 64;
		more = realloc(attached, room * sizeof(*more));
		if (!more)
			return false;
		attached = more;
		attached_room = room;
	}
	memmove(attached + at + 1, attached + at, (attached_count - at) * sizeof(*attached));
	attached[at] = allocation;
	attached_count++;
	return true;
}

static void attached_remove(const struct sim_allocation *allocation)
{
	size_t at = attached_before(allocation->base);

	attached_count--;
	memmove(attached + at, attached + at + 1, (attached_count - at) * sizeof(*attached));
}

static uint64_t attached_page_size(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t attached_page_start(uint64_t address)
{
	return sim_round_down(address, attached_page_size());
}

static uint64_t attached_page_end(uint64_t address)
{
	return sim_round_up(address, attached_page_size());
}

uint64_t sim_reserve_addresses(uint64_t size)
{
	uint64_t room, base, from;
	void *range;

	/* Round up: munmap refuses an address off a page boundary, and the rest would stay
	 * reserved. */
	size = attached_page_end(size);
	room = size + SIM_BLOCK;
	range = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (range == MAP_FAILED)
		return 0;
	from = (uintptr_t)range;
	base = sim_round_up(from, SIM_BLOCK);
	if (base > from)
		munmap(range, base - from);
	if (base + size < from + room)
		munmap(sim_pointer(base + size), from + room - base - size);
	return base;
}

static struct sim_allocation *attached_add(enum sim_kind kind, CUcontext context, int device,
					   uint64_t base, uint64_t size)
{
	struct sim_allocation *allocation = calloc(1, sizeof(*allocation));

	if (!allocation)
		return NULL;
	*allocation = (struct sim_allocation){
		.base = base,
		.size = size,
		.buffer_id = sim_next_id(),
		.context = context && context->owner ? context->owner : context,
		.device = device,
		.access = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
		.block_base = attached_page_start(base),
		.block_size = attached_page_end(base + size) - attached_page_start(base),
		.block_id = sim_next_id(),
		.kind = kind
	};
	if (attached_insert(allocation))
		return allocation;
	free(allocation);
	return NULL;
}

struct sim_allocation *sim_attach(enum sim_kind kind, CUcontext context, int device, uint64_t at,
				  int file, uint64_t offset, uint64_t size)
{
	int flags = (file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED) | MAP_FIXED;
	uint64_t inside = offset % attached_page_size();
	struct sim_allocation *allocation;
	void *pages;

	if (!at)
		at = sim_reserve_addresses(inside + size);
	if (!at)
		return NULL;
	pages = mmap(sim_pointer(at), inside + size, PROT_READ | PROT_WRITE, flags, file,
		     (off_t)(offset - inside));
	if (pages == MAP_FAILED)
		return NULL;
	allocation = attached_add(kind, context, device, (uintptr_t)pages + inside, size);
	if (!allocation)
		munmap(pages, inside + size);
	return allocation;
}

struct sim_allocation *sim_attach_pages(enum sim_kind kind, CUcontext context, uint64_t base,
					uint64_t size)
{
	return attached_add(kind, context, context->device, base, size);
}

static void attached_drop_pages(const struct sim_allocation *allocation, bool keep)
{
	uint64_t from = attached_page_start(allocation->base);
	uint64_t size = attached_page_end(allocation->base + allocation->size) - from;

	madvise(sim_pointer(from), size, MADV_DONTNEED);
	if (keep)
		mmap(sim_pointer(from), size, PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	else
		munmap(sim_pointer(from), size);
}

void sim_detach(struct sim_allocation *allocation, bool keep)
{
	if (allocation->kind == SIM_OPENED)
		sim_forget_opened(allocation->base);
	attached_remove(allocation);
	sim_report_free(allocation);
	if (allocation->kind == SIM_HOST)
		sim_free_host(allocation->base);
	else if (allocation->kind != SIM_REGISTERED)
		attached_drop_pages(allocation, keep);
	if (allocation->physical)
		sim_close_physical(allocation->physical);
	free(allocation);
}

void sim_detach_context(CUcontext context)
{
	for (size_t i = attached_count; i--;) {
		if (context && attached[i]->context == context)
			sim_detach(attached[i], false);
	}
}
