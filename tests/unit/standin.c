/* SPDX-License-Identifier: BSD-3-Clause */
/* standin.c -- a driver and an adapter of variables */
#include "standin.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory/table.h"
#include "registration/internal.h"

#define MEMORIES 16384
#define REGIONS	 4096

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

/* ---- caller ---- */

/* Cached: Valgrind switches threads at each system call. A forked child has another id. */
static __thread pid_t self;

static void forget_self(void)
{
	self = 0;
}

static __attribute__((constructor)) void heed_forks(void)
{
	pthread_atfork(NULL, NULL, forget_self);
}

/* glibc stores the owner in every kind of mutex. A trylock would wait, and order accesses that are
 * unordered. */
static void must_not_hold(const pthread_mutex_t *mutex, const char *name)
{
	if (!self)
		self = gettid();
	if (__atomic_load_n(&mutex->__data.__owner, __ATOMIC_RELAXED) != self)
		return;
	fprintf(stderr, "%s is held in a call into the driver or into verbs\n", name);
	abort();
}

void standin_called(void)
{
	must_not_hold(&registration_lock, "registration_lock");
	must_not_hold(&table_lock, "table_lock");
}

/* ---- driver ---- */

static struct {
	uint64_t base, size, buffer_id;
	CUcontext context;
	bool rdma_capable;
	bool described, host;
	int device;
} memories[MEMORIES];
static uint64_t last_buffer_id;
static _Atomic unsigned int sync_memops;

uint64_t standin_allocate(uint64_t base, uint64_t size, CUcontext context, bool rdma_capable)
{
	uint64_t id = 0;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; !id && i < MEMORIES; i++) {
		if (memories[i].size)
			continue;
		memories[i].base = base;
		memories[i].size = size;
		memories[i].context = context;
		memories[i].rdma_capable = rdma_capable;
		memories[i].described = memories[i].host = false;
		memories[i].device = 0;
		id = memories[i].buffer_id = ++last_buffer_id;
	}
	pthread_mutex_unlock(&lock);
	if (!id)
		abort();
	return id;
}

void standin_describe(uint64_t base, int device, bool host)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < MEMORIES; i++) {
		if (!memories[i].size || memories[i].base != base)
			continue;
		memories[i].described = true;
		memories[i].device = device;
		memories[i].host = host;
	}
	pthread_mutex_unlock(&lock);
}

void standin_free(uint64_t base)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < MEMORIES; i++) {
		if (memories[i].size && memories[i].base == base)
			memories[i].size = 0;
	}
	pthread_mutex_unlock(&lock);
}

unsigned int standin_sync_memops(void)
{
	return sync_memops;
}

CUresult (*standin_attributes)(unsigned int count, CUpointer_attribute *attributes, void **data,
			       CUdeviceptr address);

static void describe(size_t i, CUpointer_attribute attribute, void *data)
{
	if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)
		*(uint64_t *)data = memories[i].base;
	else if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE)
		*(uint64_t *)data = memories[i].size;
	else if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
		*(unsigned int *)data =
			memories[i].host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

static CUresult get_attributes(unsigned int count, CUpointer_attribute *attributes, void **data,
			       CUdeviceptr address)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	standin_called();
	if (standin_attributes)
		return standin_attributes(count, attributes, data, address);
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < MEMORIES; i++) {
		if (!memories[i].size || address - memories[i].base >= memories[i].size)
			continue;
		for (unsigned int j = 0; j < count; j++) {
			if (attributes[j] == CU_POINTER_ATTRIBUTE_CONTEXT)
				*(CUcontext *)data[j] = memories[i].context;
			else if (attributes[j] == CU_POINTER_ATTRIBUTE_BUFFER_ID)
				*(uint64_t *)data[j] = memories[i].buffer_id;
			else if (attributes[j] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
				*(int *)data[j] = memories[i].device;
			else if (attributes[j] == CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE)
				*(unsigned int *)data[j] = memories[i].rdma_capable;
			else if (memories[i].described)
				describe(i, attributes[j], data[j]);
		}
		result = CUDA_SUCCESS;
		break;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

static CUresult set_attribute(const void *value, CUpointer_attribute attribute, CUdeviceptr address)
{
	(void)address;
	standin_called();
	if (attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS && *(const unsigned int *)value)
		sync_memops++;
	return CUDA_SUCCESS;
}

#define DRIVER                                                                                     \
	{                                                                                          \
		.cuPointerGetAttributes = get_attributes, .cuPointerSetAttribute = set_attribute,  \
	}

struct driver_calls standin_driver = DRIVER;
struct verbs_calls standin_verbs;

/* A fetch precedes a call: functions that tests add are checked too. */
const struct driver_calls *driver_calls(void)
{
	standin_called();
	return &standin_driver;
}

const struct verbs_calls *verbs_calls(void)
{
	standin_called();
	return &standin_verbs;
}

const char *peerpin_version(void);
const char *peerpin_version(void)
{
	return "test";
}

/* ---- subscriber ---- */

struct standin_events standin_events, standin_program_events;
bool standin_with_registration;

static void allocated(const struct allocation *allocation)
{
	standin_events.allocated++;
	if (standin_with_registration)
		registration_subscriber.allocated(allocation);
	else
		standin_events.last_allocated = *allocation;
}

static void freeing(const struct allocation *allocation)
{
	standin_events.freeing++;
	if (standin_with_registration)
		registration_subscriber.freeing(allocation);
	else
		standin_events.last_freeing = *allocation;
}

static void program_allocated(const struct allocation *allocation)
{
	standin_program_events.allocated++;
	if (!standin_with_registration)
		standin_program_events.last_allocated = *allocation;
}

static void program_freeing(const struct allocation *allocation)
{
	standin_program_events.freeing++;
	if (!standin_with_registration)
		standin_program_events.last_freeing = *allocation;
}

static const struct memory_subscriber subscriber = { .allocated = allocated, .freeing = freeing };
static const struct memory_subscriber program = { .of_program = true,
						  .allocated = program_allocated,
						  .freeing = program_freeing };
const struct memory_subscriber *const memory_subscribers[] = { &subscriber, &program, NULL };

/* ---- adapter ---- */

static struct {
	struct ibv_mr mr;
	uint64_t base, length;
	bool registered;
} regions[REGIONS];
static unsigned int registered, registrations, attempts, in_blocked;
static bool blocked, unpin_blocked, in_blocked_unpin;
static int failure;
static uint64_t registered_bytes, limit_bytes;

static int pin(const struct pin_request *request, struct ibv_mr **mr)
{
	int error = -ENOMEM;
	bool refused = false;

	standin_called();
	pthread_mutex_lock(&lock);
	attempts++;
	in_blocked++;
	pthread_cond_broadcast(&changed);
	while (blocked)
		pthread_cond_wait(&changed, &lock);
	in_blocked--;
	if (failure)
		error = failure;
	else if (limit_bytes && registered_bytes + request->length > limit_bytes)
		refused = true;
	for (uint32_t i = 0; !failure && !refused && i < REGIONS; i++) {
		if (regions[i].registered)
			continue;
		registrations++;
		regions[i].registered = true;
		regions[i].base = request->base;
		regions[i].length = request->length;
		registered_bytes += request->length;
		/* Keys are never reused within a test: a stale key differs from a new one. */
		regions[i].mr = (struct ibv_mr){ .context = request->pd->context,
						 .pd = request->pd,
						 .handle = i,
						 .lkey = registrations,
						 .rkey = registrations };
		registered++;
		*mr = &regions[i].mr;
		error = 0;
		break;
	}
	pthread_mutex_unlock(&lock);
	return error;
}

static int unpin(struct ibv_mr *mr)
{
	int error = -EINVAL;

	standin_called();
	pthread_mutex_lock(&lock);
	in_blocked_unpin = unpin_blocked;
	pthread_cond_broadcast(&changed);
	while (unpin_blocked)
		pthread_cond_wait(&changed, &lock);
	if (regions[mr->handle].registered) {
		regions[mr->handle].registered = false;
		registered_bytes -= regions[mr->handle].length;
		registered--;
		error = 0;
	}
	pthread_mutex_unlock(&lock);
	return error;
}

const struct registration_method standin_method = { .name = "stand-in",
						    .pin = pin,
						    .unpin = unpin };

static unsigned int read_locked(const unsigned int *value)
{
	unsigned int copy;

	pthread_mutex_lock(&lock);
	copy = *value;
	pthread_mutex_unlock(&lock);
	return copy;
}

unsigned int standin_registered(void)
{
	return read_locked(&registered);
}

unsigned int standin_registrations(void)
{
	return read_locked(&registrations);
}

bool standin_covers(uint32_t key, uint64_t address)
{
	bool covers = false;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < REGIONS; i++) {
		if (regions[i].registered && regions[i].mr.lkey == key &&
		    address - regions[i].base < regions[i].length)
			covers = true;
	}
	pthread_mutex_unlock(&lock);
	return covers;
}

void standin_fail_with(int error)
{
	pthread_mutex_lock(&lock);
	failure = error;
	pthread_mutex_unlock(&lock);
}

void standin_block(bool block)
{
	pthread_mutex_lock(&lock);
	blocked = block;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

void standin_await_blocked(unsigned int count)
{
	pthread_mutex_lock(&lock);
	while (in_blocked < count)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

void standin_block_unpin(bool block)
{
	pthread_mutex_lock(&lock);
	unpin_blocked = block;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

void standin_await_blocked_unpin(void)
{
	pthread_mutex_lock(&lock);
	while (!in_blocked_unpin)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

void standin_limit(uint64_t bytes)
{
	pthread_mutex_lock(&lock);
	limit_bytes = bytes;
	pthread_mutex_unlock(&lock);
}

unsigned int standin_attempts(void)
{
	unsigned int count;

	pthread_mutex_lock(&lock);
	count = attempts;
	pthread_mutex_unlock(&lock);
	return count;
}

void standin_reset(void)
{
	pthread_mutex_lock(&lock);
	memset(memories, 0, sizeof(memories));
	memset(regions, 0, sizeof(regions));
	registered = 0;
	registrations = 0;
	attempts = 0;
	registered_bytes = 0;
	limit_bytes = 0;
	sync_memops = 0;
	blocked = unpin_blocked = in_blocked_unpin = false;
	failure = 0;
	pthread_mutex_unlock(&lock);
	standin_events = standin_program_events = (struct standin_events){ 0 };
	standin_with_registration = false;
	standin_attributes = NULL;
	standin_driver = (struct driver_calls)DRIVER;
	standin_verbs = (struct verbs_calls){ 0 };
	registration_forced_method = &standin_method;
}
