/* SPDX-License-Identifier: BSD-3-Clause */
/* forms_exported.c -- traps of dma-bufs: exports consist of whole pages, allocations need not begin
 * on a page
 *
 * The driver's layout (measured): 1000 bytes each at +0, +0x400, ..., then 100 000 bytes at
 * +0x1000, +0x19800.
 */
#include <unistd.h>

#include "forms.h"
#include "../../vmm.h"

#define PAGE	((uint64_t)4096)
#define SMALL	((size_t)1000)
#define LARGE	((size_t)100000)
#define UNIT	((size_t)2 << 20)
#define GRANULE ((size_t)64 << 10)

static CUdeviceptr allocate_bytes(size_t size)
{
	CUdeviceptr address = 0;

	cuMemAlloc_v2(&address, size);
	return address;
}

/* All pages of the allocation, as UCX, libfabric and NCCL export them. */
struct pages {
	uint64_t base;
	size_t size;
	int file;
};

static struct pages export_pages(CUdeviceptr address, size_t size)
{
	uint64_t base = address & ~(PAGE - 1);
	size_t pages = ((address + size + PAGE - 1) & ~(PAGE - 1)) - base;

	return (struct pages){ base, pages, export_range(base, pages) };
}

static struct ibv_mr *request_exported(const struct pages *pages, CUdeviceptr address, size_t size)
{
	return ibv_reg_dmabuf_mr(pd, address - pages->base, size, address, pages->file, ACCESS);
}

/* A served request has the key of a plain registration of the range. */
static bool is_served(const struct pages *pages, CUdeviceptr address, size_t size)
{
	struct ibv_mr *plain = ibv_reg_mr(pd, (void *)address, size, ACCESS);
	struct ibv_mr *mr = request_exported(pages, address, size);
	bool kept = PART(plain && mr) && PART(mr->lkey == plain->lkey);

	return kept && PART(!ibv_dereg_mr(mr)) && PART(!ibv_dereg_mr(plain));
}

static bool is_passed(const struct pages *pages, CUdeviceptr address, size_t size,
		      const char *reason)
{
	uint64_t count = statistic(reason);
	struct ibv_mr *mr = request_exported(pages, address, size);

	return PART(own(mr, address - pages->base, size)) && PART(statistic(reason) == count + 1) &&
	       PART(!ibv_dereg_mr(mr));
}

static CUdeviceptr exported;

static void allocate_again(void)
{
	CUdeviceptr address = exported;

	cuMemFree_v2(exported);
	exported = allocate();
	if (exported != address)
		exported = 0;
}

/* Another thread frees, and allocates at the same address, before the library records the export.
 */
void export_and_end(void)
{
	void (**when_exported)(void) = (void (**)(void))dlsym(RTLD_DEFAULT, "mapped_exported");
	struct pages pages;

	exported = allocate();
	*when_exported = allocate_again;
	pages = export_pages(exported, SIZE);
	*when_exported = NULL;
	trap("export", "what begins after the driver's export is not taken for what was exported",
	     PART(exported == pages.base) && is_passed(&pages, exported, SIZE, "forwarded_freed"));
	close(pages.file);
	cuMemFree_v2(exported);
}

/* The driver exports nothing more while the client waits. */
void exports_of_the_client(void)
{
	CUdeviceptr memory = allocate_bytes(4 * UNIT);
	struct pages pages = export_pages(memory, 4 * UNIT);
	const struct standin_region *region;
	struct ibv_context *adapter;
	struct ibv_pd *own_pd;
	struct ibv_mr *mr;

	standin_takes_dma_bufs = true;
	adapter = standin_open_device();
	own_pd = ibv_alloc_pd(adapter);
	mr = ibv_reg_dmabuf_mr(own_pd, UNIT, GRANULE, memory + UNIT, pages.file, ACCESS);
	standin_takes_dma_bufs = false;
	region = mr ? standin_find(mr->lkey) : NULL;
	trap("own dma-buf", "a region of a client's dma-buf is registered from that dma-buf",
	     PART(region) && PART(region->address == UNIT) && PART(region->length == GRANULE) &&
		     PART(region->iova == memory + UNIT) && PART(!ibv_dereg_mr(mr)));
	ibv_dealloc_pd(own_pd);
	ibv_close_device(adapter);
	close(pages.file);
	cuMemFree_v2(memory);
}

void exports_of_pages(void)
{
	CUdeviceptr small[4], large[2];
	struct pages of_small, of_large;
	struct ibv_mr *rounded;
	uint64_t range = statistic("forwarded_range");
	bool kept;

	for (int i = 0; i < 4; i++)
		small[i] = allocate_bytes(SMALL);
	for (int i = 0; i < 2; i++)
		large[i] = allocate_bytes(LARGE);
	kept = PART(small[1] == small[0] + 0x400) && PART(large[1] == small[0] + 0x19800);
	of_small = export_pages(small[1], SMALL);
	of_large = export_pages(large[1], LARGE);
	kept &= PART(of_small.file >= 0) && PART(of_large.file >= 0) &&
		is_served(&of_small, small[1], SMALL) && is_served(&of_large, large[1], LARGE) &&
		is_served(&of_large, large[1] + 64, 100);
	/* The last page holds the neighbour's end too. */
	kept &= is_served(&of_large, of_large.base, 64);
	kept &= is_passed(&of_large, of_large.base, of_large.size, "forwarded_range");
	rounded = ibv_reg_mr(pd, (void *)of_large.base, of_large.size, ACCESS);
	kept &= PART(own(rounded, of_large.base, of_large.size)) && PART(!ibv_dereg_mr(rounded)) &&
		PART(statistic("forwarded_range") == range + 2);
	/* The first allocation is freed; the rest of the export is unchanged. */
	cuMemFree_v2(small[0]);
	cuMemFree_v2(large[0]);
	kept &= is_served(&of_small, small[1], SMALL) && is_served(&of_large, large[1], LARGE);
	kept &= is_passed(&of_small, small[0], SMALL, "forwarded_freed");
	/* A later allocation at the address is not in the dma-buf. */
	cuMemFree_v2(large[1]);
	kept &= is_passed(&of_large, large[1], LARGE, "forwarded_freed");
	large[0] = allocate_bytes(LARGE);
	large[1] = allocate_bytes(LARGE);
	kept &= PART(large[1] == of_large.base + 0x800) &&
		is_passed(&of_large, large[1], LARGE, "forwarded_freed");
	trap("pages",
	     "of an export of whole pages each allocation is served that has lived since before",
	     kept);
	close(of_small.file);
	close(of_large.file);
	for (int i = 1; i < 4; i++)
		cuMemFree_v2(small[i]);
	for (int i = 0; i < 2; i++)
		cuMemFree_v2(large[i]);
}

static bool map(CUdeviceptr address)
{
	CUmemGenericAllocationHandle memory;

	return PART(!cuMemCreate(&memory, UNIT, &vmm_rdma, 0)) &&
	       PART(!cuMemMap(address, UNIT, 0, memory, 0)) && PART(!cuMemRelease(memory)) &&
	       PART(!cuMemSetAccess(address, UNIT, &vmm_access, 1));
}

/* Two adjacent mappings; the driver reports the reservation as one range. */
void several_mappings(void)
{
	struct ibv_mr *first, *second, *both;
	struct pages pages;
	CUdeviceptr address;
	bool kept;

	kept = PART(!cuMemAddressReserve(&address, 2 * UNIT, 0, 0, 0)) && map(address) &&
	       map(address + UNIT);
	first = ibv_reg_mr(pd, (void *)address, UNIT, ACCESS);
	second = ibv_reg_mr(pd, (void *)(address + UNIT), UNIT, ACCESS);
	both = ibv_reg_mr(pd, (void *)address, 2 * UNIT, ACCESS);
	kept &= PART(first && second && both) && PART(first->lkey != second->lkey) &&
		PART(first->lkey != both->lkey) && PART(second->lkey != both->lkey) &&
		PART(!ibv_dereg_mr(first)) && PART(!ibv_dereg_mr(second)) &&
		PART(!ibv_dereg_mr(both));
	pages = export_pages(address, 2 * UNIT);
	kept &= PART(pages.file >= 0) && is_served(&pages, address, UNIT) &&
		is_served(&pages, address + UNIT, UNIT) && is_served(&pages, address, 2 * UNIT);
	/* A later mapping at the second address is not in the dma-buf. */
	cuMemUnmap(address + UNIT, UNIT);
	kept &= map(address + UNIT) && is_served(&pages, address, UNIT) &&
		is_passed(&pages, address + UNIT, UNIT, "forwarded_freed") &&
		is_passed(&pages, address, 2 * UNIT, "forwarded_range");
	trap("trap p", "of memory in several mappings each is served on its own, and all together",
	     kept);
	close(pages.file);
	cuMemUnmap(address, 2 * UNIT);
	cuMemAddressFree(address, 2 * UNIT);
}
