/* SPDX-License-Identifier: BSD-3-Clause */
/* cache.c -- a registration cache for GPU memory that uses peerpin where it is there
 *
 * A cache hands out keys for ranges of memory, and must not hand out keys of memory that has been freed. Nothing tells it of
 * a free, so it compares the driver's tag of the memory (BUFFER_ID) at each use: a call into the driver. Under peerpin it
 * asks for the keys instead, and hears of each free before it happens.
 *
 * It builds without peerpin, and runs without it: the functions are looked up, and one is as good as none.
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

/* ---- the cache. Lists, where a real one has a tree. ---- */

/* Memory that we were told of, and that lives. */
struct living {
	struct living *next;
	uint64_t id, base, size;
};

/* A registration of our own, for what peerpin does not serve. */
struct entry {
	struct entry *next;
	uint64_t address, length;
	struct ibv_mr *mr;
	bool told;		/* of its memory: then we hear of its end */
	unsigned long long tag; /* the driver's, where we were not told */
};

struct cache {
	struct ibv_pd *pd;
	int access;
	struct peerpin_domain *domain;
	int subscription;
	pthread_mutex_t lock; /* guards the lists; never held around verbs or the driver */
	struct living *living;
	struct entry *entries;
	_Atomic unsigned long answered, found, registered, tag_checks; /* what it came to */
};

static __typeof__(peerpin_domain) *get_domain;
static __typeof__(peerpin_lookup) *lookup;
static __typeof__(peerpin_subscribe) *subscribe;
static __typeof__(peerpin_unsubscribe) *unsubscribe;

static void find_peerpin(void)
{
	get_domain = (__typeof__(get_domain))dlsym(RTLD_DEFAULT, "peerpin_domain");
	lookup = (__typeof__(lookup))dlsym(RTLD_DEFAULT, "peerpin_lookup");
	subscribe = (__typeof__(subscribe))dlsym(RTLD_DEFAULT, "peerpin_subscribe");
	unsubscribe = (__typeof__(unsubscribe))dlsym(RTLD_DEFAULT, "peerpin_unsubscribe");
}

static bool contains(uint64_t base, uint64_t size, uint64_t address, uint64_t length)
{
	return address >= base && length <= size && address - base <= size - length;
}

static void allocated(const struct peerpin_allocation *allocation, void *context)
{
	struct living *living = malloc(sizeof(*living));
	struct cache *cache = context;

	/* What we do not remember, we compare tags of. */
	if (!living)
		return;
	*living = (struct living){ .id = allocation->id, .base = allocation->base, .size = allocation->size };
	pthread_mutex_lock(&cache->lock);
	living->next = cache->living;
	cache->living = living;
	pthread_mutex_unlock(&cache->lock);
}

static void end_entries(struct entry *entries)
{
	struct entry *entry;

	while ((entry = entries)) {
		entries = entry->next;
		ibv_dereg_mr(entry->mr);
		free(entry);
	}
}

/* The lock is held: takes the entries that touch the range out of the cache. */
static struct entry *take_entries(struct cache *cache, uint64_t base, uint64_t size)
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

/* The driver frees the memory when this returns: by then nothing of ours may hold it. */
static void freeing(const struct peerpin_allocation *allocation, void *context)
{
	struct cache *cache = context;
	struct living **link = &cache->living, *living;
	struct entry *ended;

	pthread_mutex_lock(&cache->lock);
	while ((living = *link) && living->id != allocation->id)
		link = &living->next;
	if (living)
		*link = living->next;
	ended = take_entries(cache, allocation->base, allocation->size);
	pthread_mutex_unlock(&cache->lock);
	free(living);
	end_entries(ended);
}

static void cache_open(struct cache *cache, struct ibv_pd *pd, int access)
{
	struct peerpin_subscriber subscriber = { .struct_size = sizeof(subscriber),
						 .context = cache,
						 .allocated = allocated,
						 .freeing = freeing };

	*cache = (struct cache){ .pd = pd, .access = access, .lock = PTHREAD_MUTEX_INITIALIZER };
	find_peerpin();
	if (get_domain && lookup)
		get_domain(pd, access, &cache->domain);
	if (subscribe && unsubscribe)
		subscribe(&subscriber, &cache->subscription);
}

static void cache_close(struct cache *cache)
{
	struct living *living;

	if (cache->subscription)
		unsubscribe(cache->subscription);
	end_entries(cache->entries);
	while ((living = cache->living)) {
		cache->living = living->next;
		free(living);
	}
}

static unsigned long long tag_of(struct cache *cache, uint64_t address)
{
	unsigned long long tag = 0;

	cache->tag_checks++;
	if (cuPointerGetAttribute(&tag, CU_POINTER_ATTRIBUTE_BUFFER_ID, address) != CUDA_SUCCESS)
		return 0;
	return tag;
}

/* The lock is held. */
static bool was_told(const struct cache *cache, uint64_t address, uint64_t length)
{
	const struct living *living = cache->living;

	while (living && !contains(living->base, living->size, address, length))
		living = living->next;
	return living;
}

/* An entry that has the range, if it is still of this memory. */
static bool find_entry(struct cache *cache, uint64_t address, uint64_t length, struct peerpin_keys *keys)
{
	struct entry *entry, *ended = NULL;
	unsigned long long tag = 0;
	bool told = false;

	pthread_mutex_lock(&cache->lock);
	for (entry = cache->entries; entry; entry = entry->next) {
		if (contains(entry->address, entry->length, address, length))
			break;
	}
	if (entry) {
		*keys = (struct peerpin_keys){ entry->mr->lkey, entry->mr->rkey };
		told = entry->told;
		tag = entry->tag;
	}
	pthread_mutex_unlock(&cache->lock);
	if (!entry || told || (tag && tag_of(cache, address) == tag))
		return entry;
	pthread_mutex_lock(&cache->lock);
	ended = take_entries(cache, address, length);
	pthread_mutex_unlock(&cache->lock);
	end_entries(ended);
	return false;
}

static bool register_range(struct cache *cache, uint64_t address, uint64_t length, struct peerpin_keys *keys)
{
	struct entry *entry = calloc(1, sizeof(*entry));

	if (!entry)
		return false;
	entry->address = address;
	entry->length = length;
	entry->mr = ibv_reg_mr(cache->pd, (void *)(uintptr_t)address, length, cache->access);
	if (!entry->mr) {
		free(entry);
		return false;
	}
	*keys = (struct peerpin_keys){ entry->mr->lkey, entry->mr->rkey };
	pthread_mutex_lock(&cache->lock);
	entry->told = was_told(cache, address, length);
	pthread_mutex_unlock(&cache->lock);
	if (!entry->told)
		entry->tag = tag_of(cache, address);
	pthread_mutex_lock(&cache->lock);
	entry->next = cache->entries;
	cache->entries = entry;
	pthread_mutex_unlock(&cache->lock);
	cache->registered++;
	return true;
}

/* Keys for one use of [address, address + length). The caller owns the memory, and does not free it meanwhile. */
static bool cache_get(struct cache *cache, uint64_t address, uint64_t length, struct peerpin_keys *keys)
{
	if (cache->domain && !lookup(cache->domain, address, length, cache->access, keys)) {
		cache->answered++;
		return true;
	}
	if (find_entry(cache, address, length, keys)) {
		cache->found++;
		return true;
	}
	return register_range(cache, address, length, keys);
}

/* ---- a program that sends from buffers that come and go ---- */

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
	struct peerpin_keys keys;
	CUdeviceptr buffer;

	for (int i = 0; i < ROUNDS; i++) {
		if (cuMemAlloc(&buffer, SIZE) != CUDA_SUCCESS)
			return false;
		for (int use = 0; use < USES; use++) {
			if (!cache_get(cache, buffer, SIZE, &keys))
				return false;
			/* ibv_post_send() with keys.lkey, and the completion, go here. */
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
	printf("%lu answered, %lu found, %lu registered, %lu tag checks\n", cache.answered, cache.found,
	       cache.registered, cache.tag_checks);
	return done ? EXIT_SUCCESS : EXIT_FAILURE;
}
