/* SPDX-License-Identifier: BSD-3-Clause */
/* cache.c -- a registration cache for GPU memory that uses peerpin if present
 *
 * A cache returns keys for ranges of memory, and must not return keys of freed memory. Without
 * notice of frees, it compares the driver's tag of the memory (BUFFER_ID) at each use, a call into
 * the driver. With peerpin, the cache receives each free before it happens.
 *
 * The cache builds and runs without peerpin: it looks up each function and works with any subset.
 *
 *   cc -I.../include cache.c -o cache -libverbs -lcuda -lpthread -ldl
 *   ./cache; peerpin ./cache
 */
#include <cuda.h>
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <peerpin.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- the cache: lists, where a production cache has a tree ---- */

struct keys {
	uint32_t lkey, rkey;
};

/* Live memory that peerpin has reported. */
struct live {
	struct live *next;
	uint64_t id, base, size;
};

/* A registration. */
struct entry {
	struct entry *next;
	uint64_t address, length;
	struct ibv_mr *mr;
	bool reported;		/* peerpin reports the free of its memory */
	unsigned long long tag; /* the driver's, if not reported */
};

struct cache {
	struct ibv_pd *pd;
	int access;
	int subscription;
	pthread_mutex_t lock; /* guards the lists; never held around verbs or the driver */
	struct live *live;
	struct entry *entries;
	_Atomic unsigned long found, registered, tag_checks; /* results */
};

static __typeof__(peerpin_subscribe) *subscribe;
static __typeof__(peerpin_unsubscribe) *unsubscribe;

static void cache_find_peerpin(void)
{
	subscribe = (__typeof__(subscribe))dlsym(RTLD_DEFAULT, "peerpin_subscribe");
	unsubscribe = (__typeof__(unsubscribe))dlsym(RTLD_DEFAULT, "peerpin_unsubscribe");
}

static bool cache_contains(uint64_t base, uint64_t size, uint64_t address, uint64_t length)
{
	return address >= base && length <= size && address - base <= size - length;
}

/* Copies to and from the memory then return when they are complete, so that an adapter sends the
 * copied data (docs/memory-ordering.md). The driver refuses it for VMM memory: the program has to
 * synchronize before each send. It slows copies: a production cache sets it at the first use. */
static void cache_set_sync(uint64_t address)
{
	unsigned int on = 1;

	cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address);
}

static void cache_allocated(const struct peerpin_allocation *allocation, void *context)
{
	struct live *live = malloc(sizeof(*live));
	struct cache *cache = context;

	/* Ranges in unrecorded memory fall back to tags. */
	if (!live)
		return;
	*live = (struct live){ .id = allocation->id,
			       .base = allocation->base,
			       .size = allocation->size };
	cache_set_sync(live->base);
	pthread_mutex_lock(&cache->lock);
	live->next = cache->live;
	cache->live = live;
	pthread_mutex_unlock(&cache->lock);
}

static void cache_deregister(struct entry *entries)
{
	struct entry *entry;

	while ((entry = entries)) {
		entries = entry->next;
		ibv_dereg_mr(entry->mr);
		free(entry);
	}
}

/* Remove the entries that overlap the range from the cache. The caller holds the lock. */
static struct entry *cache_take_entries(struct cache *cache, uint64_t base, uint64_t size)
{
	struct entry **link = &cache->entries, *entry, *taken = NULL;

	while ((entry = *link)) {
		if (entry->address - base >= size && base - entry->address >= entry->length) {
			link = &entry->next;
			continue;
		}
		*link = entry->next;
		entry->next = taken;
		taken = entry;
	}
	return taken;
}

/* The driver frees the memory when this callback returns: remove all registrations of it before. */
static void cache_freeing(const struct peerpin_allocation *allocation, void *context)
{
	struct cache *cache = context;
	struct live **link = &cache->live, *live;
	struct entry *ended;

	pthread_mutex_lock(&cache->lock);
	while ((live = *link) && live->id != allocation->id)
		link = &live->next;
	if (live)
		*link = live->next;
	ended = cache_take_entries(cache, allocation->base, allocation->size);
	pthread_mutex_unlock(&cache->lock);
	free(live);
	cache_deregister(ended);
}

static void cache_open(struct cache *cache, struct ibv_pd *pd, int access)
{
	struct peerpin_subscriber subscriber = { .struct_size = sizeof(subscriber),
						 .context = cache,
						 .allocated = cache_allocated,
						 .freeing = cache_freeing };

	*cache = (struct cache){ .pd = pd, .access = access, .lock = PTHREAD_MUTEX_INITIALIZER };
	cache_find_peerpin();
	if (subscribe && unsubscribe)
		subscribe(&subscriber, &cache->subscription);
}

static void cache_close(struct cache *cache)
{
	struct live *live;

	if (cache->subscription)
		unsubscribe(cache->subscription);
	cache_deregister(cache->entries);
	while ((live = cache->live)) {
		cache->live = live->next;
		free(live);
	}
}

static unsigned long long cache_query_tag(struct cache *cache, uint64_t address)
{
	unsigned long long tag = 0;

	cache->tag_checks++;
	if (cuPointerGetAttribute(&tag, CU_POINTER_ATTRIBUTE_BUFFER_ID, address) != CUDA_SUCCESS)
		return 0;
	return tag;
}

/* The caller holds the lock. */
static bool cache_is_reported(const struct cache *cache, uint64_t address, uint64_t length)
{
	const struct live *live = cache->live;

	while (live && !cache_contains(live->base, live->size, address, length))
		live = live->next;
	return live;
}

/* True if an entry contains the range and still belongs to this memory. */
static bool cache_find_entry(struct cache *cache, uint64_t address, uint64_t length,
			     struct keys *keys)
{
	struct entry *entry, *ended = NULL;
	unsigned long long tag = 0;
	bool reported = false;

	pthread_mutex_lock(&cache->lock);
	for (entry = cache->entries; entry; entry = entry->next) {
		if (cache_contains(entry->address, entry->length, address, length))
			break;
	}
	if (entry) {
		*keys = (struct keys){ entry->mr->lkey, entry->mr->rkey };
		reported = entry->reported;
		tag = entry->tag;
	}
	pthread_mutex_unlock(&cache->lock);
	if (!entry || reported || (tag && cache_query_tag(cache, address) == tag))
		return entry;
	pthread_mutex_lock(&cache->lock);
	ended = cache_take_entries(cache, address, length);
	pthread_mutex_unlock(&cache->lock);
	cache_deregister(ended);
	return false;
}

static bool cache_register(struct cache *cache, uint64_t address, uint64_t length,
			   struct keys *keys)
{
	struct entry *entry = calloc(1, sizeof(*entry));

	if (!entry)
		return false;
	cache_set_sync(address);
	entry->address = address;
	entry->length = length;
	entry->mr = ibv_reg_mr(cache->pd, (void *)(uintptr_t)address, length, cache->access);
	if (!entry->mr) {
		free(entry);
		return false;
	}
	*keys = (struct keys){ entry->mr->lkey, entry->mr->rkey };
	pthread_mutex_lock(&cache->lock);
	entry->reported = cache_is_reported(cache, address, length);
	pthread_mutex_unlock(&cache->lock);
	if (!entry->reported)
		entry->tag = cache_query_tag(cache, address);
	pthread_mutex_lock(&cache->lock);
	entry->next = cache->entries;
	cache->entries = entry;
	pthread_mutex_unlock(&cache->lock);
	cache->registered++;
	return true;
}

/* Keys for one use of [address, address + length). The caller owns the memory and does not free it
 * during the use. */
static bool cache_get(struct cache *cache, uint64_t address, uint64_t length, struct keys *keys)
{
	if (cache_find_entry(cache, address, length, keys)) {
		cache->found++;
		return true;
	}
	return cache_register(cache, address, length, keys);
}

/* ---- a program that sends from short-lived buffers ---- */

#define SIZE   ((size_t)1 << 20)
#define ROUNDS 100
#define USES   10

static struct ibv_pd *open_adapter(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context = devices && devices[0] ? ibv_open_device(devices[0]) : NULL;

	if (devices)
		ibv_free_device_list(devices);
	return context ? ibv_alloc_pd(context) : NULL;
}

static bool send_from_buffers(struct cache *cache)
{
	struct keys keys;
	CUdeviceptr buffer;

	for (int i = 0; i < ROUNDS; i++) {
		if (cuMemAlloc(&buffer, SIZE) != CUDA_SUCCESS)
			return false;
		for (int use = 0; use < USES; use++) {
			if (!cache_get(cache, buffer, SIZE, &keys))
				return false;
			/* Add ibv_post_send() with keys.lkey, and its completion, here. */
		}
		if (cuMemFree(buffer) != CUDA_SUCCESS)
			return false;
	}
	return true;
}

int main(void)
{
	struct cache cache;
	struct ibv_pd *pd;
	CUcontext context;
	CUdevice device;
	bool done;

	if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) ||
	    cuCtxSetCurrent(context)) {
		fputs("no GPU\n", stderr);
		return EXIT_FAILURE;
	}
	pd = open_adapter();
	if (!pd) {
		fputs("no adapter\n", stderr);
		return EXIT_FAILURE;
	}
	cache_open(&cache, pd, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	done = send_from_buffers(&cache);
	cache_close(&cache);
	printf("%lu found, %lu registered, %lu tag checks\n", cache.found, cache.registered,
	       cache.tag_checks);
	return done ? EXIT_SUCCESS : EXIT_FAILURE;
}
