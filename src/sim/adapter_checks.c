/* SPDX-License-Identifier: BSD-3-Clause */
/* adapter_checks.c -- checks: deregistration before the free, memory that can be registered */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "sim/adapter.h"
#include "sim/freed.h"

#define PAGE	     ((uint64_t)4096)
#define BLOCK	     ((uint64_t)2 << 20)
#define DMABUF_FILES 0x444d4142 /* DMA_BUF_MAGIC: file system type of dma-bufs */

/* Atomic. NULL: no driver loaded yet, or not the simulated one. */
static __typeof__(sim_driver_range) *driver_range;
static __typeof__(sim_driver_take_pages) *driver_pages; /* stored before */

/* ---- freed memory ---- */

/* True if a block in the freed range has no device memory left under the region. */
static bool checks_outlives_block(const struct adapter_region *region, uint64_t base, uint64_t size,
				  sim_driver_has_memory *has_memory)
{
	uint64_t end = region->start + region->length, from, to;

	for (uint64_t block = base & ~(BLOCK - 1); block < base + size; block += BLOCK) {
		from = block > region->start ? block : region->start;
		to = block + BLOCK < end ? block + BLOCK : end;
		if (from < to && !has_memory(from, to))
			return true;
	}
	return false;
}

static void checks_memory_freed(uint64_t base, uint64_t size, sim_driver_has_memory *has_memory)
{
	struct adapter_region *region, first = { .state = ADAPTER_REGION_NONE };
	bool aborts = !adapter_setting(outlive);
	uint32_t slots;

	pthread_mutex_lock(&adapter_lock);
	slots = kernel_slots(); /* later ones do not have this memory */
	for (uint32_t slot = 1; slot < slots; slot++) {
		region = kernel_region(slot);
		if ((region->state != ADAPTER_REGION_LIVE &&
		     region->state != ADAPTER_REGION_IN_FLIGHT) ||
		    !region->start || region->start >= base + size ||
		    base >= region->start + region->length ||
		    !checks_outlives_block(region, base, size, has_memory))
			continue;
		if (first.state == ADAPTER_REGION_NONE)
			first = *region;
		if (region->state == ADAPTER_REGION_LIVE)
			kernel_outlived(region);
		/* Accesses under way reach the memory before it goes. */
		access_wait(slot);
	}
	pthread_mutex_unlock(&adapter_lock);
	if (first.state != ADAPTER_REGION_NONE && aborts)
		adapter_die(
			"a registration outlives its memory: key 0x%x, %llu bytes at 0x%llx, %s%s; "
			"0x%llx, %llu bytes, is freed",
			first.key, (unsigned long long)first.length,
			(unsigned long long)first.start,
			first.dmabuf < 0 ? "by address" : "by dma-buf",
			first.state == ADAPTER_REGION_IN_FLIGHT ? ", in flight" : "",
			(unsigned long long)base, (unsigned long long)size);
}

bool checks_begin(void)
{
	void (*subscribe)(sim_driver_freed *);
	void *driver;

	if (__atomic_load_n(&driver_range, __ATOMIC_ACQUIRE))
		return true;
	if (adapter_setting(real_driver))
		return false;
	/* Keep the reference: the driver stays loaded. */
	driver = driver_open();
	subscribe = driver ? (__typeof__(subscribe))dlsym(driver, "sim_driver_subscribe") : NULL;
	if (!subscribe) {
		if (driver)
			dlclose(driver);
		return false;
	}
	subscribe(checks_memory_freed);
	__atomic_store_n(&driver_pages,
			 (__typeof__(driver_pages))dlsym(driver, "sim_driver_take_pages"),
			 __ATOMIC_RELAXED);
	__atomic_store_n(&driver_range, (__typeof__(driver_range))dlsym(driver, "sim_driver_range"),
			 __ATOMIC_RELEASE);
	return true;
}

/* ---- memory to register ---- */

static int checks_host_range(uint64_t start, uint64_t length)
{
	uint64_t from = start & ~(PAGE - 1), end = start + length, size;
	unsigned char pages[4096];

	for (; from < end; from += size) {
		size = end - from < sizeof(pages) * PAGE ? end - from : sizeof(pages) * PAGE;
		if (mincore((void *)(uintptr_t)from, size, pages))
			return EFAULT;
	}
	return 0;
}

bool checks_is_host(uint64_t start, uint64_t length)
{
	__typeof__(driver_range) range = __atomic_load_n(&driver_range, __ATOMIC_ACQUIRE);

	return range ? range(start, start + length) == SIM_RANGE_OTHER
		     : !memory_is_device(start, length, false);
}

void checks_take_pages(uint64_t start, uint64_t length)
{
	bool taken = false;

	if (!__atomic_load_n(&driver_range, __ATOMIC_ACQUIRE))
		taken = driver_take_pages(start, length);
	else if (driver_range(start, start + length) == SIM_RANGE_ALLOCATED)
		taken = __atomic_load_n(&driver_pages, __ATOMIC_RELAXED)(start, length);
	if (taken)
		adapter_count(page_requests);
}

int checks_range(uint64_t start, uint64_t length, struct adapter_memory *memory)
{
	__typeof__(driver_range) range = __atomic_load_n(&driver_range, __ATOMIC_ACQUIRE);

	*memory = (struct adapter_memory){ 0 };
	if (!range && memory_is_device(start, length, false))
		return adapter_setting(peer) ? memory_read(start, length, memory) : EFAULT;
	switch (range ? range(start, start + length) : SIM_RANGE_OTHER) {
	case SIM_RANGE_ALLOCATED:
		return adapter_setting(peer) ? 0 : EFAULT;
	case SIM_RANGE_FREED:
		return EFAULT;
	default:
		return checks_host_range(start, length);
	}
}

bool checks_dmabuf(int fd, uint64_t *address, uint64_t *size, bool *pcie)
{
	struct sim_dmabuf content;
	struct statfs files;
	off_t end;

	if (pread(fd, &content, sizeof(content), 0) == sizeof(content) &&
	    content.magic == SIM_DMABUF_MAGIC) {
		*address = adapter_setting(real_driver) ? 0 : content.address;
		*size = content.size;
		*pcie = content.flags & SIM_DMABUF_PCIE;
		return true;
	}
	end = lseek(fd, 0, SEEK_END);
	*address = 0;
	*pcie = false;
	*size = end > 0 ? (uint64_t)end : UINT64_MAX;
	return !fstatfs(fd, &files) && files.f_type == DMABUF_FILES;
}
