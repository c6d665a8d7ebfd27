/* SPDX-License-Identifier: BSD-3-Clause */
/* adapter_access.c -- accesses to registered memory by key; deregistrations wait for them */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "sim/adapter.h"
#include "sim/adapter_access.h"

#define LAST 64 /* bytes that a copy stores last */

/* Signalled with adapter_lock held, at the end of a region's last use while someone waits. */
static pthread_cond_t access_ended = PTHREAD_COND_INITIALIZER;
static unsigned int access_waiters; /* guarded by adapter_lock */

/* ---- uses ---- */

/* Return 0, and the region, or an error. The caller holds adapter_lock. */
static int access_check(struct ibv_context *context, uint32_t domain, uint32_t key,
			uint64_t address, uint64_t bytes, int access, struct adapter_region **found)
{
	struct adapter_region *region = kernel_region(key >> 8);

	if (!region || region->context != context)
		return -EINVAL;
	if (region->state != ADAPTER_REGION_LIVE || region->ending || region->key != key)
		return -ESTALE;
	if (domain != ADAPTER_ANY_DOMAIN && region->pd != domain)
		return -EINVAL;
	if ((region->access & access) != access)
		return -EACCES;
	if (address < region->iova || bytes > region->length ||
	    address - region->iova > region->length - bytes)
		return -ERANGE;
	if (!region->start)
		return -EOPNOTSUPP;
	*found = region;
	return 0;
}

int adapter_use_begin(struct ibv_context *context, uint32_t domain, uint32_t key, uint64_t address,
		      uint64_t bytes, int access, struct adapter_use *use)
{
	struct adapter_region *region = NULL;
	int error;

	pthread_mutex_lock(&adapter_lock);
	error = access_check(context, domain, key, address, bytes, access, &region);
	if (!error) {
		region->uses++;
		*use = (struct adapter_use){ .slot = key >> 8,
					     .memory = region->start + (address - region->iova),
					     .device = region->memory.device };
	}
	pthread_mutex_unlock(&adapter_lock);
	if (error == -ESTALE)
		adapter_count(stale_keys);
	return error;
}

void adapter_use_end(const struct adapter_use *use)
{
	pthread_mutex_lock(&adapter_lock);
	if (!--kernel_region(use->slot)->uses && access_waiters)
		pthread_cond_broadcast(&access_ended);
	pthread_mutex_unlock(&adapter_lock);
}

void access_wait(uint32_t slot)
{
	access_waiters++;
	/* The table may move meanwhile. */
	while (kernel_region(slot)->uses)
		pthread_cond_wait(&access_ended, &adapter_lock);
	access_waiters--;
}

/* In a forked child: accesses by threads of the parent never end. */
static void access_begin_child(void)
{
	for (uint32_t slot = 1; slot < kernel_slots(); slot++)
		kernel_region(slot)->uses = 0;
	access_waiters = 0;
	access_ended = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
}

static __attribute__((constructor)) void access_start(void)
{
	pthread_atfork(NULL, NULL, access_begin_child);
}

/* ---- copies ---- */

/* The use keeps the region, and so the parts. */
static struct adapter_memory access_memory(const struct adapter_use *use)
{
	struct adapter_memory memory;

	pthread_mutex_lock(&adapter_lock);
	memory = kernel_region(use->slot)->memory;
	pthread_mutex_unlock(&adapter_lock);
	return memory;
}

void adapter_copy_from(const struct adapter_use *use, uint64_t offset, void *to, size_t bytes)
{
	struct adapter_memory memory;

	if (!use->device) {
		adapter_dma_begin();
		memcpy(to, (const void *)(uintptr_t)(use->memory + offset), bytes);
		adapter_dma_end();
		return;
	}
	memory = access_memory(use);
	memory_copy_from(&memory, use->memory + offset, to, bytes);
}

void adapter_copy_to(const struct adapter_use *use, uint64_t offset, const void *from, size_t bytes,
		     bool ends)
{
	char *to = (char *)(uintptr_t)(use->memory + offset);
	size_t first = !ends ? bytes : bytes > LAST ? bytes - LAST : 0;
	struct adapter_memory memory;

	if (use->device) {
		memory = access_memory(use);
		memory_copy_to(&memory, use->memory + offset, from, bytes, ends);
		return;
	}
	adapter_dma_begin();
	memcpy(to, from, first);
	if (ends) {
		atomic_thread_fence(memory_order_release);
		memcpy(to + first, (const char *)from + first, bytes - first);
	}
	adapter_dma_end();
}

/* ---- accesses of a test ---- */

/* The program's own stale key is a mistake of the program, or of a library that caches keys. */
static int access_once(struct ibv_context *context, uint32_t key, uint64_t address, size_t bytes,
		       int access, struct adapter_use *use)
{
	int error =
		adapter_use_begin(context, ADAPTER_ANY_DOMAIN, key, address, bytes, access, use);

	if (error == -ESTALE && adapter_setting(strict))
		adapter_die("stale key 0x%x is used, for %zu bytes at 0x%llx", key, bytes,
			    (unsigned long long)address);
	return error;
}

int sim_adapter_mapping(struct ibv_context *context, uint32_t key)
{
	struct adapter_region *region;
	int mapping = -EINVAL;

	pthread_mutex_lock(&adapter_lock);
	region = kernel_region(key >> 8);
	if (region && region->context == context)
		mapping = region->state == ADAPTER_REGION_LIVE && region->key == key ? region->pcie
										     : -ESTALE;
	pthread_mutex_unlock(&adapter_lock);
	return mapping;
}

int sim_adapter_read(struct ibv_context *context, uint32_t key, uint64_t address, void *to,
		     size_t bytes)
{
	struct adapter_use use;
	int error = access_once(context, key, address, bytes, IBV_ACCESS_REMOTE_READ, &use);

	if (error)
		return error;
	adapter_copy_from(&use, 0, to, bytes);
	adapter_use_end(&use);
	return 0;
}

int sim_adapter_write(struct ibv_context *context, uint32_t key, uint64_t address, const void *from,
		      size_t bytes)
{
	struct adapter_use use;
	int error = access_once(context, key, address, bytes, IBV_ACCESS_REMOTE_WRITE, &use);

	if (error)
		return error;
	adapter_copy_to(&use, 0, from, bytes, true);
	adapter_use_end(&use);
	return 0;
}
