/* SPDX-License-Identifier: BSD-3-Clause */
/* subscribers.c -- events of random programs: the program's, and which records end */
#include "random/heap.h"
#include "registration/registration.h"

__thread struct world_events world_events;

static void program_allocated(const struct allocation *allocation)
{
	world_events.allocated++;
	world_events.base = allocation->base;
	world_events.allocated_id = allocation->event_id;
}

static void program_freeing(const struct allocation *allocation)
{
	world_events.freeing++;
	world_events.base = allocation->base;
	world_events.freeing_id = allocation->event_id;
}

static void memory_ending(const struct allocation *allocation)
{
	struct memory *memory;

	pthread_mutex_lock(&world_lock);
	memory = heap_at(allocation->base);
	if (memory && memory->kept.ending < allocation->id)
		memory->kept.ending = allocation->id;
	pthread_mutex_unlock(&world_lock);
}

static void memory_event(enum memory_event event, const struct allocation *allocation)
{
	if (event == MEMORY_FREEING || event == MEMORY_RELEASING)
		memory_ending(allocation);
	if (event == MEMORY_FREEING || event == MEMORY_KEEPING)
		program_freeing(allocation);
	if (event == MEMORY_FREEING || event == MEMORY_RELEASING)
		registration_freeing(allocation);
	if (event == MEMORY_ALLOCATED)
		registration_allocated(allocation);
	if (event == MEMORY_ALLOCATED || event == MEMORY_REUSED)
		program_allocated(allocation);
}

void (*const memory_hook)(enum memory_event event,
			  const struct allocation *allocation) = memory_event;

enum world_life world_life(uint64_t address, uint64_t buffer_id, uint64_t id)
{
	enum world_life life = WORLD_LIVES;
	const struct memory *memory;

	pthread_mutex_lock(&world_lock);
	memory = heap_at(address);
	if (!memory || memory->buffer_id != buffer_id || memory->kept.ended >= id)
		life = WORLD_GONE;
	else if (memory->kept.ending >= id)
		life = WORLD_ENDING;
	pthread_mutex_unlock(&world_lock);
	return life;
}

void world_record_ended(uint64_t base, uint64_t id)
{
	struct memory *memory;

	pthread_mutex_lock(&world_lock);
	memory = heap_at(base);
	if (memory && memory->kept.ended < id)
		memory->kept.ended = id;
	pthread_mutex_unlock(&world_lock);
}
