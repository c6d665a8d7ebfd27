/* SPDX-License-Identifier: BSD-3-Clause */
/* standin.c -- a driver of variables, and a subscriber */
#include "standin.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/keep.h"
#include "memory/table.h"
#include "registration/lock.h"
#include "registration/methods.h"

#define MEMORIES 16384

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

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
	must_not_hold(&registration_mutex, "registration_mutex");
	must_not_hold(&table_lock, "table_lock");
}

/* ---- driver ---- */

static struct memory {
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
		id = ++last_buffer_id;
		memories[i] = (struct memory){ .base = base,
					       .size = size,
					       .buffer_id = id,
					       .context = context,
					       .rdma_capable = rdma_capable };
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

CUcontext standin_context(uint64_t base)
{
	CUcontext context = NULL;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < MEMORIES; i++) {
		if (memories[i].size && memories[i].base == base)
			context = memories[i].context;
	}
	pthread_mutex_unlock(&lock);
	return context;
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

static void answer(const struct memory *memory, CUpointer_attribute attribute, void *data)
{
	if (attribute == CU_POINTER_ATTRIBUTE_CONTEXT)
		*(CUcontext *)data = memory->context;
	else if (attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID)
		*(uint64_t *)data = memory->buffer_id;
	else if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
		*(int *)data = memory->device;
	else if (attribute == CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE)
		*(unsigned int *)data = memory->rdma_capable;
	else if (!memory->described)
		return;
	else if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)
		*(uint64_t *)data = memory->base;
	else if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE)
		*(uint64_t *)data = memory->size;
	else if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
		*(unsigned int *)data = memory->host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
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
		for (unsigned int j = 0; j < count; j++)
			answer(&memories[i], attributes[j], data[j]);
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

/* The tests of kept memory have their own. */
__attribute__((weak)) const struct keep_targets keep_targets = { NULL, NULL };

/* ---- events ---- */

struct standin_events standin_events, standin_program_events;
bool standin_with_registration, standin_with_threads;
void (*standin_in_freeing)(void);

/* Tests with registration have threads. */
static void count(_Atomic unsigned int *events, struct allocation *last,
		  const struct allocation *allocation)
{
	(*events)++;
	if (!standin_with_registration && !standin_with_threads)
		*last = *allocation;
}

static void allocated(const struct allocation *allocation)
{
	count(&standin_events.allocated, &standin_events.last_allocated, allocation);
	if (standin_with_registration)
		registration_allocated(allocation);
}

static void freeing(const struct allocation *allocation)
{
	count(&standin_events.freeing, &standin_events.last_freeing, allocation);
	if (standin_in_freeing)
		standin_in_freeing();
	if (standin_with_registration)
		registration_freeing(allocation);
}

static void program_allocated(const struct allocation *allocation)
{
	count(&standin_program_events.allocated, &standin_program_events.last_allocated,
	      allocation);
}

static void program_freeing(const struct allocation *allocation)
{
	count(&standin_program_events.freeing, &standin_program_events.last_freeing, allocation);
}

static void memory_event(enum memory_event event, const struct allocation *allocation)
{
	if (event == MEMORY_FREEING || event == MEMORY_KEEPING)
		program_freeing(allocation);
	if (event == MEMORY_FREEING || event == MEMORY_RELEASING)
		freeing(allocation);
	if (event == MEMORY_ALLOCATED)
		allocated(allocation);
	if (event == MEMORY_ALLOCATED || event == MEMORY_REUSED)
		program_allocated(allocation);
}

void (*const memory_hook)(enum memory_event event,
			  const struct allocation *allocation) = memory_event;

bool standin_more_memory(void)
{
	void *more =
		mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return more != MAP_FAILED && !munmap(more, 1 << 20);
}

void standin_reset(void)
{
	pthread_mutex_lock(&lock);
	memset(memories, 0, sizeof(memories));
	sync_memops = 0;
	pthread_mutex_unlock(&lock);
	standin_adapter_reset();
	standin_events = standin_program_events = (struct standin_events){ 0 };
	standin_with_registration = false;
	standin_attributes = NULL;
	standin_driver = (struct driver_calls)DRIVER;
	standin_verbs = (struct verbs_calls){ 0 };
	registration_forced_method = &standin_method;
}
