/* SPDX-License-Identifier: BSD-3-Clause */
/* adapter.c -- the adapter of random programs: regions, keys, faults */
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "random/world.h"

#define REGIONS	   (1u << 18)
#define REMOTE_KEY ((uint32_t)1 << 31) /* set in each remote key, clear in each local one */

enum state { UNUSED, LIVING, ENDING };

/* world_reaches() reads these without the lock, which would hide races from ThreadSanitizer. */
static struct region {
	struct ibv_mr mr;
	enum state state;
	uint8_t variant;
	_Atomic uint32_t key; /* 0: none */
	_Atomic uint64_t base, length;
	_Atomic int access;
	_Atomic(const struct ibv_pd *) pd;
} regions[REGIONS];

/* Free numbers, last freed first. */
static uint32_t free_numbers[REGIONS], free_count, ever_given;
static uint64_t pinned_bytes;
static unsigned int living, in_the_making;
static unsigned int taken[DEVICES]; /* regions of each adapter, with those in flight */
static struct world_counts counts;
static struct source luck;
static bool is_child;

static struct {
	enum fault kind;
	uint64_t number;
} fault;

void world_set_fault(enum fault kind, uint64_t number)
{
	pthread_mutex_lock(&world_lock);
	fault.kind = kind;
	fault.number = kind == FAULT_BYTES ? pinned_bytes + number : number;
	pthread_mutex_unlock(&world_lock);
}

static bool is_to_fail(uint64_t length)
{
	switch (fault.kind) {
	case FAULT_CALL:
		return !fault.number--;
	case FAULT_BYTES:
		return pinned_bytes + length > fault.number;
	case FAULT_RANDOM:
		return one_in(&luck, (uint32_t)fault.number);
	default:
		return false;
	}
}

/* sched_yield() calls of one registration. */
static uint64_t delay(void)
{
	if (fault.kind == FAULT_DELAY)
		return fault.number;
	return one_in(&luck, 16) ? choose(&luck, 8) : 0;
}

static void yield(uint64_t times)
{
	while (times--)
		sched_yield();
}

static struct ibv_mr *give_region(const struct pin_request *request)
{
	uint32_t number = free_count ? free_numbers[--free_count] : ever_given++;
	struct region *region = &regions[number];
	uint32_t key;

	if (number >= REGIONS)
		broken("more regions than this adapter can have");
	key = (number + 1) << 8 | ++region->variant;
	region->state = LIVING;
	region->base = request->base;
	region->length = request->length;
	region->access = request->access;
	region->pd = request->pd;
	region->mr = (struct ibv_mr){ .context = request->pd->context,
				      .pd = request->pd,
				      .handle = number,
				      .lkey = key,
				      .rkey = key | REMOTE_KEY };
	region->key = key;
	pinned_bytes += request->length;
	if (++living > counts.most_regions)
		counts.most_regions = living;
	return &region->mr;
}

/* The caller holds world_lock. */
static void take(unsigned int adapter)
{
	const char *named = config_get()->devices, *name = world_adapter_name(adapter);

	if (++taken[adapter] > world_region_limit() && world_region_limit())
		broken("an adapter that can have %u regions is asked for more, and clients hold "
		       "fewer",
		       world_region_limit());
	if (!world_is_client && named && !strncmp(named, "world", 5) && strcmp(named, name))
		broken("%s has memory registered ahead, and PEERPIN_DEVICES=%s does not name it",
		       name, named);
}

static int pin(const struct pin_request *request, struct pin_result *result)
{
	unsigned int adapter = world_adapter(request->pd->context);
	uint64_t yields;
	bool failing;

	if (is_child)
		_exit(3);
	pthread_mutex_lock(&world_lock);
	world_hold(request);
	take(adapter);
	in_the_making++;
	counts.pins++;
	failing = is_to_fail(request->length);
	yields = delay();
	pthread_mutex_unlock(&world_lock);
	world_own_pins++;
	world_watched_pins += world_watched && world_watched->pd == request->pd &&
			      world_watched->access == request->access &&
			      world_watched->address - request->base < request->length;
	if (failing)
		world_may_evict();

	yield(yields);

	pthread_mutex_lock(&world_lock);
	in_the_making--;
	if (failing) {
		counts.failures++;
		taken[adapter]--;
		world_let_go(request->pd, request->base, request->length, true);
	} else {
		result->mr = give_region(request);
	}
	pthread_mutex_unlock(&world_lock);
	return failing ? -ENOMEM : 0;
}

static int unpin(struct ibv_mr *mr)
{
	struct region *region = (struct region *)mr;
	uint64_t yields;

	if (is_child)
		_exit(4);
	pthread_mutex_lock(&world_lock);
	if (region < regions || region >= regions + ever_given ||
	    mr != &regions[region - regions].mr)
		broken("a registration is deregistered that was never made");
	if (region->state != LIVING)
		broken("region %u is deregistered twice", mr->handle);
	region->state = ENDING;
	region->key = 0;
	yields = delay();
	pthread_mutex_unlock(&world_lock);

	yield(yields);

	pthread_mutex_lock(&world_lock);
	region->state = UNUSED;
	world_let_go(region->pd, region->base, region->length, false);
	pinned_bytes -= region->length;
	taken[world_adapter(mr->context)]--;
	living--;
	counts.unpins++;
	free_numbers[free_count++] = mr->handle;
	pthread_mutex_unlock(&world_lock);
	return 0;
}

/* Relaxed: a race in the library stays visible to ThreadSanitizer. */
#define look(place) atomic_load_explicit(&(place), memory_order_relaxed)

const char *world_reaches(uint32_t lkey, uint32_t rkey, const struct ibv_pd *pd, int access,
			  uint64_t address, uint64_t length)
{
	uint32_t number = (lkey >> 8) - 1;
	const struct region *region = &regions[number];
	uint64_t base;

	if (rkey != (lkey | REMOTE_KEY))
		return "the two keys are not of one region";
	if (number >= REGIONS || look(region->key) != lkey)
		return "the key is dead";
	if (look(region->pd) != pd)
		return "the key is of another protection domain";
	if (look(region->access) != access)
		return "the key has other access flags";
	base = look(region->base);
	if (address < base || address + length > base + look(region->length))
		return "the key does not reach all of the range";
	return NULL;
}

struct world_counts world_counts(void)
{
	struct world_counts copy;

	pthread_mutex_lock(&world_lock);
	copy = counts;
	pthread_mutex_unlock(&world_lock);
	return copy;
}

void world_must_be_empty(void)
{
	pthread_mutex_lock(&world_lock);
	if (living || in_the_making)
		broken("%u regions are left, and %u in the making, though all has ended", living,
		       in_the_making);
	pthread_mutex_unlock(&world_lock);
}

void world_in_child(void)
{
	is_child = true;
}

void world_begin(uint64_t seed, unsigned int threads)
{
	static const struct registration_method method = { .name = "world",
							   .pin = pin,
							   .unpin = unpin };

	world_plug_in(threads);
	world_begin_contexts(threads);
	luck = source_of_seed(seed, WORLD_THREADS);
	fault.kind = FAULT_NONE;
	for (unsigned int i = 0; i < WORLD_THREADS; i++)
		world_recent[i] = 0;
	registration_forced_method = &method;
}
