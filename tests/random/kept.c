/* SPDX-License-Identifier: BSD-3-Clause */
/* kept.c -- kept memory in the driver of random programs: whose it is, and its promises */
#include <stddef.h>

#include "base/config.h"
#include "memory/kept.h"
#include "random/heap.h"
#include "report/statistics.h"

#define HOST	  GPUS /* number of the host's list */
#define LISTS	  (GPUS + 1)
#define SMALL_MAX ((uint64_t)1 << 20)
#define LOOKED_AT 64 /* a search of the library's may skip this much other memory */

__thread uint64_t world_own_pins, world_watched_pins, world_own_releases;
__thread const struct world_region *world_watched;

static unsigned int active; /* calls that may change kept memory */
static uint64_t serial, failures;
static __thread CUcontext freeing; /* of the memory that this thread frees; NULL: none */
static struct {
	uint64_t bytes, blocks; /* as the driver counts; of them, in blocks of their own */
} lists[LISTS];
_Atomic uint64_t world_released;

static unsigned int list_of(const struct memory *memory)
{
	return memory->request.kind == ALLOCATION_HOST ? HOST : memory->gpu;
}

static uint64_t block_bytes_of(const struct memory *memory)
{
	return list_of(memory) == HOST || memory->size <= SMALL_MAX
		       ? 0
		       : (memory->size + BLOCK - 1) / BLOCK * BLOCK;
}

static uint64_t bytes_of(const struct memory *memory)
{
	uint64_t blocks = block_bytes_of(memory);

	return blocks ? blocks : memory->size;
}

static uint64_t limit_of(unsigned int list)
{
	uint64_t keep = config_get()->keep;

	if (list == HOST)
		return config_get()->keep_host;
	if (keep == CONFIG_AUTO)
		return gpu_bytes();
	return keep & CONFIG_SHARE ? gpu_bytes() / 100 * (keep & ~CONFIG_SHARE) : keep;
}

void kept_count(const struct memory *memory, bool begins)
{
	uint64_t bytes = bytes_of(memory), blocks = block_bytes_of(memory);
	unsigned int list = list_of(memory);

	lists[list].bytes += begins ? bytes : -bytes;
	lists[list].blocks += begins ? blocks : -blocks;
}

void kept_ended(struct memory *memory)
{
	if (memory->kept.given_up)
		kept_count(memory, false);
}

/* ---- counters and limits ---- */

void world_keep_begin(void)
{
	pthread_mutex_lock(&world_lock);
	active++;
	pthread_mutex_unlock(&world_lock);
}

static void must_be(const char *what, uint64_t value, uint64_t expected)
{
	if (value != expected)
		broken("%s: %llu bytes, and %llu are kept", what, (unsigned long long)value,
		       (unsigned long long)expected);
}

static void compare(void)
{
	uint64_t sum = 0;
	CUdevice device;

	for (unsigned int i = 0; i < GPUS; i++) {
		sum += lists[i].bytes;
		must_be("a GPU's list", kept_bytes(i), lists[i].bytes);
	}
	must_be("the host's list", kept_bytes(KEPT_HOST), lists[HOST].bytes);
	if (context_get_device(&device) == CUDA_SUCCESS)
		must_be("free memory of a GPU", keep_free_bytes(), lists[device].blocks);
	must_be("kept_bytes", statistics_get(kept_bytes), sum);
	must_be("kept_host_bytes", statistics_get(kept_host_bytes), lists[HOST].bytes);
	if (statistics_get(kept_bytes_peak) < sum)
		broken("the peak of the kept bytes is below them");
	for (unsigned int i = 0; i < LISTS; i++) {
		if (lists[i].bytes > limit_of(i))
			broken("%llu bytes are kept, and the limit is %llu",
			       (unsigned long long)lists[i].bytes, (unsigned long long)limit_of(i));
	}
}

void world_keep_end(void)
{
	pthread_mutex_lock(&world_lock);
	if (!--active)
		compare();
	pthread_mutex_unlock(&world_lock);
}

bool world_is_keepable(uint64_t base)
{
	const struct memory *memory;
	bool keepable;

	pthread_mutex_lock(&world_lock);
	memory = heap_at(base);
	keepable = bytes_of(memory) <= limit_of(list_of(memory));
	pthread_mutex_unlock(&world_lock);
	return keepable;
}

/* ---- frees ---- */

uint64_t world_give_up(uint64_t base, const struct world_region *region)
{
	struct memory *memory;
	uint64_t number;

	pthread_mutex_lock(&world_lock);
	memory = heap_at(base);
	memory->kept.given_up = true;
	memory->kept.surely = false;
	memory->kept.region = *region;
	memory->kept.evictions = statistics_get(evictions);
	memory->kept.serial = number = ++serial;
	freeing = memory->context;
	kept_count(memory, true);
	pthread_mutex_unlock(&world_lock);
	return number;
}

void world_take_back(uint64_t base)
{
	struct memory *memory;

	pthread_mutex_lock(&world_lock);
	memory = heap_at(base);
	if (!memory || !memory->kept.given_up)
		broken("memory at 0x%llx, which was not kept, is not the program's",
		       (unsigned long long)base);
	memory->kept.given_up = false;
	freeing = NULL;
	kept_count(memory, false);
	pthread_mutex_unlock(&world_lock);
}

void world_has_kept(uint64_t base, uint64_t number)
{
	struct memory *memory;

	pthread_mutex_lock(&world_lock);
	memory = heap_at(base);
	/* Another thread may have reused it, or made the library release it. */
	if (memory && memory->base == base && memory->kept.given_up &&
	    memory->kept.serial == number)
		memory->kept.surely = true;
	freeing = NULL;
	pthread_mutex_unlock(&world_lock);
}

/* ---- choices of the library ---- */

/* Kept memory of the list (LISTS: of any) and of the context (NULL: of any) that was given up
 * between the two. */
static unsigned int count_kept(unsigned int list, CUcontext context, uint64_t after,
			       uint64_t before)
{
	const struct memory *memory = NULL;
	unsigned int count = 0;

	while ((memory = heap_next(memory)))
		count += memory->kept.given_up && (list == LISTS || list_of(memory) == list) &&
			 (!context || memory->context == context) && memory->kept.serial > after &&
			 memory->kept.serial < before;
	return count;
}

/* The smallest kept memory for the request, the most recently kept first; NULL: none. */
static const struct memory *best_kept(CUcontext context, const struct keep_request *request)
{
	const struct memory *memory = NULL, *best = NULL;

	while ((memory = heap_next(memory))) {
		if (memory->kept.given_up && memory->context == context &&
		    world_fits(&memory->request, request) &&
		    (!best || memory->size < best->size ||
		     (memory->size == best->size && memory->kept.serial > best->kept.serial)))
			best = memory;
	}
	return best;
}

void world_must_have_released(uint64_t base)
{
	const struct memory *memory;

	pthread_mutex_lock(&world_lock);
	memory = heap_at(base);
	if (count_kept(list_of(memory), memory->context, 0, UINT64_MAX))
		broken("a free of 0x%llx releases nothing, and no memory may be kept",
		       (unsigned long long)base);
	pthread_mutex_unlock(&world_lock);
}

/* ---- reuse ---- */

/* The class of sizes: of blocks, or eight for each power of two. */
static uint64_t class_of(uint64_t size)
{
	uint64_t unit = 512;

	while (size <= SMALL_MAX && unit * 16 <= size)
		unit *= 2;
	if (size > SMALL_MAX)
		unit = BLOCK;
	return (size + unit - 1) / unit * unit;
}

bool world_fits(const struct keep_request *one, const struct keep_request *other)
{
	uint64_t most = class_of(other->size);

	if (one->kind != other->kind || one->flags != other->flags)
		return false;
	if (one->kind == ALLOCATION_HOST)
		return one->size == other->size;
	/* Small memory serves small requests, of two thirds of its class at least. */
	if (other->size <= SMALL_MAX)
		most = most + most / 2 < SMALL_MAX ? most + most / 2 : SMALL_MAX;
	return one->size >= other->size && class_of(one->size) <= most;
}

uint64_t world_reuse_begins(CUcontext context, const struct keep_request *request)
{
	const struct memory *best = NULL;
	uint64_t expected = 0;

	pthread_mutex_lock(&world_lock);
	active++;
	context->reusing++;
	context->reuses++;
	if (world_threads == 1)
		best = best_kept(context, request);
	if (best)
		expected = count_kept(LISTS, NULL, best->kept.serial, UINT64_MAX) < LOOKED_AT
				   ? best->base
				   : WORLD_UNKNOWN;
	pthread_mutex_unlock(&world_lock);
	return expected;
}

void world_reuse_ends(CUcontext context)
{
	pthread_mutex_lock(&world_lock);
	context->reusing--;
	pthread_mutex_unlock(&world_lock);
	world_keep_end();
}

static bool is_alone(void)
{
	return world_threads == 1 && config_get()->preregister == PREREGISTER_OFF;
}

struct world_reused world_reuse(uint64_t base, CUcontext context,
				const struct keep_request *request)
{
	struct world_reused reused;
	struct memory *memory;

	pthread_mutex_lock(&world_lock);
	memory = heap_at(base);
	if (!memory || memory->base != base || memory->gone)
		broken("0x%llx is handed out, and no memory is there", (unsigned long long)base);
	if (!memory->kept.given_up)
		broken("0x%llx is handed out, and the program has it", (unsigned long long)base);
	if (memory->context != context || !world_fits(&memory->request, request))
		broken("0x%llx is handed out for another request, or in another context",
		       (unsigned long long)base);
	memory->kept.given_up = memory->kept.surely = false;
	kept_count(memory, false);
	reused = (struct world_reused){ .size = memory->size,
					.own = base >= HOME + SHARED_BLOCKS * BLOCK,
					.rdma_capable = memory->rdma_capable,
					.failures = failures };
	/* A failure lowers the pin limit, which may evict later. With other threads the eviction
	 * may follow. */
	if (!failures || (is_alone() && memory->kept.evictions == statistics_get(evictions)))
		reused.region = memory->kept.region;
	pthread_mutex_unlock(&world_lock);
	return reused;
}

/* ---- releases ---- */

/* Inside a free, which waits for the freed memory's context alone, only memory of it. */
static void must_be_next(const struct memory *released)
{
	unsigned int list = list_of(released);

	if (freeing && released->context != freeing)
		broken("a free releases kept memory at 0x%llx of another context",
		       (unsigned long long)released->base);
	if (world_threads == 1 && count_kept(list, released->context, 0, released->kept.serial) &&
	    count_kept(list, NULL, 0, UINT64_MAX) <= LOOKED_AT)
		broken("kept memory at 0x%llx is released before older memory of its context",
		       (unsigned long long)released->base);
}

static CUresult release(uint64_t base, bool host)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	struct memory *memory;

	pthread_mutex_lock(&world_lock);
	memory = heap_at(base);
	world_released++;
	world_own_releases++;
	if (!context_is_relaxed())
		broken("kept memory is freed in a mode that disturbs captures");
	if (!memory || memory->base != base || !memory->kept.given_up)
		broken("the library frees 0x%llx, which is not kept", (unsigned long long)base);
	if (host != (memory->request.kind == ALLOCATION_HOST))
		broken("the library frees kept memory at 0x%llx by the wrong function",
		       (unsigned long long)base);
	must_be_next(memory);
	if (!memory->gone) {
		if (!host && memory->kept.ending <= memory->kept.ended)
			broken("the library frees kept memory at 0x%llx without an event",
			       (unsigned long long)base);
		heap_end(memory);
		result = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&world_lock);
	return result;
}

static CUresult release_device(CUdeviceptr address)
{
	return release(address, false);
}

static CUresult release_host(void *address)
{
	return release((uintptr_t)address, true);
}

const struct keep_targets keep_targets = { .free_device = release_device,
					   .free_host = release_host };

uint64_t world_kept_at(int device)
{
	CUdevice current = 0;
	uint64_t bytes = 0;

	context_get_device(&current);
	pthread_mutex_lock(&world_lock);
	for (unsigned int i = 0; i < LISTS; i++) {
		if (device == KEEP_DEVICES
			    ? i != HOST
			    : i == (device == KEEP_HOST ? HOST : (unsigned int)current))
			bytes += lists[i].bytes;
	}
	pthread_mutex_unlock(&world_lock);
	return bytes;
}

void world_may_evict(void)
{
	pthread_mutex_lock(&world_lock);
	failures++;
	pthread_mutex_unlock(&world_lock);
}

uint64_t world_failures(void)
{
	uint64_t count;

	pthread_mutex_lock(&world_lock);
	count = failures;
	pthread_mutex_unlock(&world_lock);
	return count;
}

/* ---- hidden memory ---- */

uint64_t world_hidden(uint64_t address)
{
	const struct memory *memory;
	uint64_t number = 0;

	pthread_mutex_lock(&world_lock);
	memory = heap_at(address);
	if (memory && memory->kept.given_up && memory->kept.surely && !memory->context->reusing)
		number = memory->buffer_id * 0x9e3779b97f4a7c15u ^
			 memory->kept.serial * 0xbf58476d1ce4e5b9u ^
			 memory->context->reuses * 0x94d049bb133111ebu;
	pthread_mutex_unlock(&world_lock);
	return number;
}

void world_must_not_be_kept(uint64_t address)
{
	const struct memory *memory;

	pthread_mutex_lock(&world_lock);
	memory = heap_at(address);
	if (memory && memory->kept.given_up && memory->kept.surely)
		broken("a call of the program reaches kept memory at 0x%llx",
		       (unsigned long long)address);
	pthread_mutex_unlock(&world_lock);
}

void world_must_keep_nothing(CUcontext context)
{
	pthread_mutex_lock(&world_lock);
	if (count_kept(LISTS, context, 0, UINT64_MAX))
		broken("memory of a context is still kept at its end");
	pthread_mutex_unlock(&world_lock);
}
