/* SPDX-License-Identifier: BSD-3-Clause */
/* world.c -- below random programs: units of memory, the kernel, the layers' connections */
#include "random/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "memory/driver.h"

pthread_mutex_t world_lock = PTHREAD_MUTEX_INITIALIZER;
const char *world_repeat = "";
__thread unsigned int world_thread;
__thread bool world_is_client;
__thread uint64_t world_operation;
_Atomic uint64_t world_recent[WORLD_THREADS];

_Noreturn void broken(const char *format, ...)
{
	char text[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	fprintf(stderr, "broken: %s\n  in thread %u, at its operation %llu\n  again: %s\n", text,
		world_thread, (unsigned long long)world_operation, world_repeat);
	abort();
}

/* ---- connections of the layers ---- */

const struct driver_calls *driver_calls(void)
{
	return &world_driver;
}

static const char *get_device_name(struct ibv_device *device)
{
	return (const char *)device;
}

static int query_device(struct ibv_context *context, struct ibv_device_attr *attributes)
{
	(void)context;
	*attributes = (struct ibv_device_attr){ .max_mr = (int)world_region_limit() };
	return 0;
}

const struct verbs_calls *verbs_calls(void)
{
	static const struct verbs_calls calls = { .ibv_get_device_name = get_device_name,
						  .ibv_query_device = query_device };

	return &calls;
}

const char *peerpin_version(void);
const char *peerpin_version(void)
{
	return "test";
}

/* ---- units: may only be registered while they contain an allocation ---- */

static struct {
	uint32_t living;  /* allocations with a part of it */
	uint32_t regions; /* regions, with those in flight */
	bool failed;	  /* a registration failed since it was last empty */
} units[BLOCKS * BLOCK / GRANULE];

static uint64_t unit_of(uint64_t address)
{
	return (address - HOME) / GRANULE;
}

void world_units_begin(uint64_t base, uint64_t size)
{
	for (uint64_t unit = unit_of(base); unit <= unit_of(base + size - 1); unit++)
		units[unit].living++;
}

void world_units_end(uint64_t base, uint64_t size)
{
	for (uint64_t unit = unit_of(base); unit <= unit_of(base + size - 1); unit++) {
		if (--units[unit].living)
			continue;
		if (units[unit].regions)
			broken("a registration outlives its memory: 0x%llx is freed, and %u "
			       "regions hold the "
			       "unit at 0x%llx",
			       (unsigned long long)base, units[unit].regions,
			       (unsigned long long)(HOME + unit * GRANULE));
		units[unit].failed = false;
	}
}

bool world_has_failed(uint64_t address)
{
	bool failed;

	pthread_mutex_lock(&world_lock);
	failed = units[unit_of(address)].failed;
	pthread_mutex_unlock(&world_lock);
	return failed;
}

static void hold_units(const struct pin_request *request)
{
	uint64_t end = request->base + request->length;

	if (!request->length || (request->base | request->length) % 4096 || request->base < HOME ||
	    end > HOME + BLOCKS * BLOCK)
		broken("0x%llx, %llu bytes, are no pages", (unsigned long long)request->base,
		       (unsigned long long)request->length);
	for (uint64_t unit = unit_of(request->base); unit <= unit_of(end - 1); unit++) {
		if (!units[unit].living)
			broken("0x%llx, %llu bytes, are registered, and no memory lives in the "
			       "unit at "
			       "0x%llx",
			       (unsigned long long)request->base,
			       (unsigned long long)request->length,
			       (unsigned long long)(HOME + unit * GRANULE));
		units[unit].regions++;
	}
}

static void leave_units(uint64_t base, uint64_t length, bool failed)
{
	for (uint64_t unit = unit_of(base); unit <= unit_of(base + length - 1); unit++) {
		units[unit].regions--;
		units[unit].failed |= failed;
	}
}

/* ---- kernel ---- */

#define PDS 64

static struct device {
	struct ibv_context context; /* first: found by its address */
	struct kernel_pd {
		const struct ibv_pd *pd; /* NULL: the number is free */
		unsigned int regions;	 /* regions, with those in flight */
	} pds[PDS];
} devices[DEVICES];

static char names[DEVICES][16]; /* of the adapters; their addresses identify them */
static unsigned int adapters = DEVICES, region_limit;

struct ibv_context *world_device(unsigned int number)
{
	return &devices[number].context;
}

unsigned int world_adapter(const struct ibv_context *context)
{
	return (unsigned int)((const struct device *)context - devices) % adapters;
}

const char *world_adapter_name(unsigned int adapter)
{
	return names[adapter];
}

unsigned int world_region_limit(void)
{
	return region_limit;
}

unsigned int world_from_environment(const char *name, unsigned int otherwise)
{
	const char *value = getenv(name);

	return value ? (unsigned int)strtoul(value, NULL, 0) : otherwise;
}

void world_plug_in(unsigned int threads)
{
	adapters = world_from_environment("CHECK_RANDOM_ADAPTERS", DEVICES);
	region_limit = threads * world_from_environment("CHECK_RANDOM_REGIONS", 0);
	for (unsigned int i = 0; i < DEVICES; i++) {
		snprintf(names[i], sizeof(names[i]), "world%u", i);
		devices[i].context.device = (struct ibv_device *)names[i % adapters];
	}
}

void world_pd_open(unsigned int device, struct ibv_pd *pd)
{
	uint32_t number = 0;

	pthread_mutex_lock(&world_lock);
	while (number < PDS && devices[device].pds[number].pd)
		number++;
	if (number == PDS)
		broken("the test opens too many protection domains");
	*pd = (struct ibv_pd){ .context = world_device(device), .handle = number };
	devices[device].pds[number].pd = pd;
	pthread_mutex_unlock(&world_lock);
}

/* NULL: no domain opened with this struct. */
static struct kernel_pd *kernel_pd_of(const struct ibv_pd *pd)
{
	struct device *device = (struct device *)pd->context;

	return pd->handle < PDS && device->pds[pd->handle].pd == pd ? &device->pds[pd->handle]
								    : NULL;
}

void world_pd_end(const struct ibv_pd *pd)
{
	struct kernel_pd *kernel_pd;

	pthread_mutex_lock(&world_lock);
	kernel_pd = kernel_pd_of(pd);
	if (kernel_pd->regions)
		broken("a protection domain is to end with %u regions in it, and clients hold none",
		       kernel_pd->regions);
	kernel_pd->pd = NULL;
	pthread_mutex_unlock(&world_lock);
}

void world_device_close(unsigned int number)
{
	pthread_mutex_lock(&world_lock);
	for (unsigned int i = 0; i < PDS; i++) {
		struct kernel_pd *kernel_pd = &devices[number].pds[i];

		if (kernel_pd->regions)
			broken("a device is closed with %u regions in it", kernel_pd->regions);
		kernel_pd->pd = NULL;
	}
	pthread_mutex_unlock(&world_lock);
}

void world_hold(const struct pin_request *request)
{
	struct kernel_pd *kernel_pd = kernel_pd_of(request->pd);

	if (!kernel_pd)
		broken("a registration in a protection domain that has ended, or by another's "
		       "struct");
	hold_units(request);
	kernel_pd->regions++;
}

void world_let_go(const struct ibv_pd *pd, uint64_t base, uint64_t length, bool failed)
{
	struct kernel_pd *kernel_pd = kernel_pd_of(pd);

	if (!kernel_pd)
		broken("a protection domain has ended with 0x%llx, %llu bytes, registered in it",
		       (unsigned long long)base, (unsigned long long)length);
	kernel_pd->regions--;
	leave_units(base, length, failed);
}
