/* SPDX-License-Identifier: BSD-3-Clause */
/* adapter_checks.c -- checks: deregistration before the free, accesses with live keys */
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

	pthread_mutex_lock(&adapter_lock);
	for (uint32_t slot = 1; slot < kernel_slots(); slot++) {
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
	/* Keep the reference: the driver stays loaded. */
	driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
	subscribe = driver ? (__typeof__(subscribe))dlsym(driver, "sim_driver_subscribe") : NULL;
	if (!subscribe)
		return false;
	subscribe(checks_memory_freed);
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

	return !range || range(start, start + length) == SIM_RANGE_OTHER;
}

int checks_range(uint64_t start, uint64_t length)
{
	__typeof__(driver_range) range = __atomic_load_n(&driver_range, __ATOMIC_ACQUIRE);

	switch (range ? range(start, start + length) : SIM_RANGE_OTHER) {
	case SIM_RANGE_ALLOCATED:
		return adapter_setting(peer) ? 0 : EFAULT;
	case SIM_RANGE_FREED:
		return EFAULT;
	default:
		return checks_host_range(start, length);
	}
}

bool checks_dmabuf(int fd, uint64_t *address, uint64_t *size)
{
	struct sim_dmabuf content;
	struct statfs files;
	off_t end;

	if (pread(fd, &content, sizeof(content), 0) == sizeof(content) &&
	    content.magic == SIM_DMABUF_MAGIC) {
		*address = content.address;
		*size = content.size;
		return true;
	}
	end = lseek(fd, 0, SEEK_END);
	*address = 0;
	*size = end > 0 ? (uint64_t)end : UINT64_MAX;
	return !fstatfs(fd, &files) && files.f_type == DMABUF_FILES;
}

/* ---- keys ---- */

/* Find the memory of an access by key. NULL: *error is set. The caller holds adapter_lock. */
static void *checks_find_memory(struct ibv_context *context, uint32_t key, uint64_t address,
				size_t bytes, int access, int *error)
{
	const struct adapter_region *region = kernel_region(key >> 8);

	if (!region || region->context != context)
		*error = -EINVAL;
	else if (region->state != ADAPTER_REGION_LIVE || region->key != key)
		*error = -ESTALE;
	else if (!(region->access & access))
		*error = -EACCES;
	else if (address < region->iova || bytes > region->length ||
		 address - region->iova > region->length - bytes)
		*error = -ERANGE;
	else if (!region->start)
		*error = -EOPNOTSUPP;
	else
		return (void *)(uintptr_t)(region->start + (address - region->iova));
	return NULL;
}

/* Copy with adapter_lock held: a deregistration, and so the free of the memory, waits. */
static int checks_use_key(struct ibv_context *context, uint32_t key, uint64_t address, void *to,
			  const void *from, size_t bytes)
{
	int access = to ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
	int error = 0;
	void *memory;

	pthread_mutex_lock(&adapter_lock);
	memory = checks_find_memory(context, key, address, bytes, access, &error);
	if (memory && to)
		memcpy(to, memory, bytes);
	else if (memory)
		memcpy(memory, from, bytes);
	pthread_mutex_unlock(&adapter_lock);
	if (error == -ESTALE) {
		adapter_count(stale_keys);
		if (adapter_setting(strict))
			adapter_die("stale key 0x%x is used, for %zu bytes at 0x%llx", key, bytes,
				    (unsigned long long)address);
	}
	return error;
}

int sim_adapter_read(struct ibv_context *context, uint32_t key, uint64_t address, void *to,
		     size_t bytes)
{
	return checks_use_key(context, key, address, to, NULL, bytes);
}

int sim_adapter_write(struct ibv_context *context, uint32_t key, uint64_t address, const void *from,
		      size_t bytes)
{
	return checks_use_key(context, key, address, NULL, from, bytes);
}
