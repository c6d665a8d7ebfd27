/* SPDX-License-Identifier: BSD-3-Clause */
/* adapter_checks.c -- whether registrations and their memory go together, and keys that are used */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "sim/adapter.h"
#include "sim/ended.h"

#define PAGE	     ((uint64_t)4096)
#define BLOCK	     ((uint64_t)2 << 20)
#define DMABUF_FILES 0x444d4142 /* the kernel's number of the file system of dma-bufs */

static __typeof__(sim_driver_range) *driver_range; /* NULL: not the simulated driver, or none yet; atomic */

/* ---- memory that ends ---- */

/* Whether in one of the blocks that the end touches there is nothing left for the region to hold. */
static bool is_left(const struct region *region, uint64_t base, uint64_t size, sim_driver_lives *lives)
{
	uint64_t end = region->start + region->length, from, to;

	for (uint64_t block = base & ~(BLOCK - 1); block < base + size; block += BLOCK) {
		from = block > region->start ? block : region->start;
		to = block + BLOCK < end ? block + BLOCK : end;
		if (from < to && !lives(from, to))
			return true;
	}
	return false;
}

static void ended(uint64_t base, uint64_t size, sim_driver_lives *lives)
{
	struct region *region, first = { .state = REGION_NONE };
	bool abort_at_it = !adapter_setting(outlive);

	pthread_mutex_lock(&adapter_lock);
	for (uint32_t place = 1; place < kernel_places(); place++) {
		region = kernel_region(place);
		if ((region->state != REGION_ALIVE && region->state != REGION_MAKING) || !region->start ||
		    region->start >= base + size || base >= region->start + region->length ||
		    !is_left(region, base, size, lives))
			continue;
		if (first.state == REGION_NONE)
			first = *region;
		if (region->state == REGION_ALIVE)
			kernel_outlived(region);
	}
	pthread_mutex_unlock(&adapter_lock);
	if (first.state != REGION_NONE && abort_at_it)
		adapter_die("a registration outlives its memory: key 0x%x, %llu bytes at 0x%llx, %s%s; "
			    "0x%llx, %llu bytes, ends",
			    first.key, (unsigned long long)first.length, (unsigned long long)first.start,
			    first.dmabuf < 0 ? "by address" : "by dma-buf",
			    first.state == REGION_MAKING ? ", in the making" : "", (unsigned long long)base,
			    (unsigned long long)size);
}

bool checks_begin(void)
{
	void (*tell_ends)(sim_driver_ended *);
	void *driver;

	if (__atomic_load_n(&driver_range, __ATOMIC_ACQUIRE))
		return true;
	/* It stays loaded: our reference is not given back. */
	driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
	tell_ends = driver ? (__typeof__(tell_ends))dlsym(driver, "sim_driver_tell_ends") : NULL;
	if (!tell_ends)
		return false;
	tell_ends(ended);
	__atomic_store_n(&driver_range, (__typeof__(driver_range))dlsym(driver, "sim_driver_range"),
			 __ATOMIC_RELEASE);
	return true;
}

/* ---- memory that is to be registered ---- */

static int check_host(uint64_t start, uint64_t length)
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

int checks_range(uint64_t start, uint64_t length)
{
	__typeof__(driver_range) range = __atomic_load_n(&driver_range, __ATOMIC_ACQUIRE);

	switch (range ? range(start, start + length) : SIM_RANGE_OTHER) {
	case SIM_RANGE_ALIVE:
		return adapter_setting(peer) ? 0 : EFAULT;
	case SIM_RANGE_ENDED:
		return EFAULT;
	default:
		return check_host(start, length);
	}
}

bool checks_dmabuf(int fd, uint64_t *address, uint64_t *size)
{
	struct sim_dmabuf says;
	struct statfs files;
	off_t end;

	if (pread(fd, &says, sizeof(says), 0) == sizeof(says) && says.magic == SIM_DMABUF_MAGIC) {
		*address = says.address;
		*size = says.size;
		return true;
	}
	end = lseek(fd, 0, SEEK_END);
	*address = 0;
	*size = end > 0 ? (uint64_t)end : UINT64_MAX;
	return !fstatfs(fd, &files) && files.f_type == DMABUF_FILES;
}

/* ---- keys ---- */

/* The region's memory for this use, adapter_lock held; NULL and *error. */
static void *reach(struct ibv_context *context, uint32_t key, uint64_t address, size_t bytes, int right,
		   int *error)
{
	const struct region *region = kernel_region(key >> 8);

	if (!region || region->context != context)
		*error = -EINVAL;
	else if (region->state != REGION_ALIVE || region->key != key)
		*error = -ESTALE;
	else if (!(region->access & right))
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

/* The copy is made with the lock held, so that a deregistration waits for it, and with it the end of the
 * memory. */
static int use(struct ibv_context *context, uint32_t key, uint64_t address, void *to, const void *from,
	       size_t bytes)
{
	int right = to ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
	int error = 0;
	void *memory;

	pthread_mutex_lock(&adapter_lock);
	memory = reach(context, key, address, bytes, right, &error);
	if (memory && to)
		memcpy(to, memory, bytes);
	else if (memory)
		memcpy(memory, from, bytes);
	pthread_mutex_unlock(&adapter_lock);
	if (error == -ESTALE) {
		adapter_count(ended_keys);
		if (adapter_setting(strict))
			adapter_die("key 0x%x is used after its end, for %zu bytes at 0x%llx", key, bytes,
				    (unsigned long long)address);
	}
	return error;
}

int sim_adapter_read(struct ibv_context *context, uint32_t key, uint64_t address, void *to, size_t bytes)
{
	return use(context, key, address, to, NULL, bytes);
}

int sim_adapter_write(struct ibv_context *context, uint32_t key, uint64_t address, const void *from,
		      size_t bytes)
{
	return use(context, key, address, NULL, from, bytes);
}
