/* SPDX-License-Identifier: BSD-3-Clause */
/* subscribers.c -- subscribers of random programs: the program's events, and which records end */
#include "random/heap.h"

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

static void memory_allocated_event(const struct allocation *allocation)
{
	(void)allocation;
}

static void memory_freeing_event(const struct allocation *allocation)
{
	struct memory *memory;

	pthread_mutex_lock(&world_lock);
	memory = heap_at(allocation->base);
	if (memory && memory->kept.ending < allocation->id)
		memory->kept.ending = allocation->id;
	pthread_mutex_unlock(&world_lock);
}

const struct memory_subscriber world_program = { .of_program = true,
						 .allocated = program_allocated,
						 .freeing = program_freeing };
const struct memory_subscriber world_memory = { .allocated = memory_allocated_event,
						.freeing = memory_freeing_event };

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
