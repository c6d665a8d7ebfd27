/* SPDX-License-Identifier: BSD-3-Clause */
/* pinned.c -- pinned bytes per GPU, adapter and method; samples over time */
#include "base/atomics.h"
#include "report/statistics.h"

#include <pthread.h>

#include "base/process.h"
#include "base/system.h"
#include "base/text.h"

static void pinned_change(_Atomic uint64_t *bytes, _Atomic uint64_t *peak, int64_t amount)
{
	uint64_t now = add_relaxed(bytes, (uint64_t)amount) + (uint64_t)amount;
	uint64_t most = segment_value(peak);

	while ((int64_t)(now - most) > 0 &&
	       !atomic_compare_exchange_weak_explicit(peak, &most, now, memory_order_relaxed,
						      memory_order_relaxed))
		;
}

/* ---- over time ---- */

/* One thread samples at a time; others do not wait. That thread samples again if another thread
 * requested a sample meanwhile. */
static atomic_flag sampling = ATOMIC_FLAG_INIT;
static _Atomic bool requested;

static void pinned_set_sample(struct segment_sample *sample, uint64_t at, uint64_t registrations,
			      uint64_t pinned, uint64_t requests, uint64_t hits)
{
	store_relaxed(&sample->registrations, registrations);
	store_relaxed(&sample->pinned_bytes, pinned);
	store_relaxed(&sample->requests, requests);
	store_relaxed(&sample->hits, hits);
	store_relaxed(&sample->at_ns, at);
}

/* Halve the resolution of the timeline: of 2 samples keep the later one. */
static void pinned_halve(struct segment_timeline *timeline)
{
	struct segment_sample *samples = timeline->samples;

	for (unsigned int i = 0; i < SEGMENT_SAMPLES / 2; i++) {
		const struct segment_sample *later = &samples[2 * i + 1];
		const struct segment_sample *from =
			segment_value(&later->at_ns) ? later : &samples[2 * i];

		pinned_set_sample(&samples[i], segment_value(&from->at_ns),
				  segment_value(&from->registrations),
				  segment_value(&from->pinned_bytes),
				  segment_value(&from->requests), segment_value(&from->hits));
	}
	for (unsigned int i = SEGMENT_SAMPLES / 2; i < SEGMENT_SAMPLES; i++)
		pinned_set_sample(&samples[i], 0, 0, 0, 0, 0);
	add_relaxed(&timeline->shift, 1);
}

/* First interval between samples: 2^24 ns, 16.8 ms. */
#define FIRST_SHIFT 24

/* Sum the threads' tallies only after a quarter of the interval: the sum takes longer than the
 * rest. Update the registered bytes at each change: the following change may be long in coming. */
static void pinned_take_sample(uint64_t at)
{
	struct segment_timeline *timeline = &statistics_segment.timeline;
	struct segment_sample *entry;
	uint64_t slot;

	if (!load_relaxed(&timeline->shift))
		store_relaxed(&timeline->shift, FIRST_SHIFT);
	while ((slot = at >> timeline->shift) >= SEGMENT_SAMPLES)
		pinned_halve(timeline);
	entry = &timeline->samples[slot];
	if (!segment_value(&entry->at_ns) ||
	    at - segment_value(&entry->at_ns) >= (uint64_t)1 << (timeline->shift - 2)) {
		pinned_set_sample(entry, at ? at : 1, statistics_get(registrations),
				  statistics_get(pinned_bytes), statistics_tallied(TALLY_requests),
				  statistics_tallied(TALLY_hits));
		return;
	}
	store_relaxed(&entry->registrations, statistics_get(registrations));
	store_relaxed(&entry->pinned_bytes, statistics_get(pinned_bytes));
}

static void pinned_sample(void)
{
	uint64_t began = segment_value(&statistics_segment.header.clock_ns);

	if (!began)
		return;
	store_seq_cst(&requested, true);
	while (load_seq_cst(&requested) && !atomic_flag_test_and_set(&sampling)) {
		store_seq_cst(&requested, false);
		pinned_take_sample(system_clock() - began);
		atomic_flag_clear(&sampling);
	}
}

/* ---- GPU, adapter, method ---- */

/* Guards the allocation of slots for adapters and pairs, and a pair's reason. Last in the lock
 * order: no other lock is taken and no foreign code called under this lock. */
static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER;

int statistics_adapter(const char *name)
{
	int found;

	if (!*name || text_length(name) >= SEGMENT_NAME)
		return -1;
	lock_take(&slots_lock);
	found = segment_adapter(&statistics_segment, name);
	lock_drop(&slots_lock);
	return found < SEGMENT_ADAPTERS ? found : -1;
}

void statistics_pinned(int gpu, int adapter, int64_t bytes)
{
	struct segment *segment = &statistics_segment;

	pinned_change(&segment->counters.pinned_bytes, &segment->counters.pinned_bytes_peak, bytes);
	if (gpu >= 0 && gpu < SEGMENT_GPUS)
		pinned_change(&segment->gpus[gpu].bytes, &segment->gpus[gpu].peak, bytes);
	if (adapter >= 0)
		pinned_change(&segment->adapters[adapter].pinned.bytes,
			      &segment->adapters[adapter].pinned.peak, bytes);
	pinned_sample();
}

_Atomic uint64_t *statistics_registered_by(int gpu, int adapter, const char *path,
					   const char *method, const char *reason)
{
	struct segment_pair *pair;

	if (adapter < 0)
		return NULL;
	lock_take(&slots_lock);
	pair = segment_pair(&statistics_segment, gpu, adapter, path, method);
	if (pair && reason)
		segment_set_reason(&statistics_segment, pair, reason);
	lock_drop(&slots_lock);
	return pair ? &pair->registrations : NULL;
}
