/* SPDX-License-Identifier: BSD-3-Clause */
/* pinned.c -- how much is registered, of which GPU, on which adapter, by which method; and how that went over time */
#include "base/statistics.h"

#include <pthread.h>

#include "base/text.h"

static void change(_Atomic uint64_t *bytes, _Atomic uint64_t *peak, int64_t amount)
{
	uint64_t now =
		atomic_fetch_add_explicit(bytes, (uint64_t)amount, memory_order_relaxed) + (uint64_t)amount;
	uint64_t most = segment_value(peak);

	while ((int64_t)(now - most) > 0 &&
	       !atomic_compare_exchange_weak_explicit(peak, &most, now, memory_order_relaxed,
						      memory_order_relaxed))
		;
}

/* ---- over time ---- */

/* Taken alone, and nobody waits for it: who takes one takes another one for those who came meanwhile. */
static atomic_flag sampling = ATOMIC_FLAG_INIT;
static _Atomic bool wanted;

static void keep(struct segment_sample *sample, uint64_t at, uint64_t registrations, uint64_t pinned,
		 uint64_t requests, uint64_t hits)
{
	atomic_store_explicit(&sample->registrations, registrations, memory_order_relaxed);
	atomic_store_explicit(&sample->pinned_bytes, pinned, memory_order_relaxed);
	atomic_store_explicit(&sample->requests, requests, memory_order_relaxed);
	atomic_store_explicit(&sample->hits, hits, memory_order_relaxed);
	atomic_store_explicit(&sample->at_ns, at, memory_order_relaxed);
}

/* Twice the time takes the same room: of two samples the later one stays. */
static void halve(struct segment_timeline *timeline)
{
	struct segment_sample *samples = timeline->samples;

	for (unsigned int i = 0; i < SEGMENT_SAMPLES / 2; i++) {
		const struct segment_sample *later = &samples[2 * i + 1];
		const struct segment_sample *from = segment_value(&later->at_ns) ? later : &samples[2 * i];

		keep(&samples[i], segment_value(&from->at_ns), segment_value(&from->registrations),
		     segment_value(&from->pinned_bytes), segment_value(&from->requests),
		     segment_value(&from->hits));
	}
	for (unsigned int i = SEGMENT_SAMPLES / 2; i < SEGMENT_SAMPLES; i++)
		keep(&samples[i], 0, 0, 0, 0, 0);
	atomic_fetch_add_explicit(&timeline->shift, 1, memory_order_relaxed);
}

/* So that the first samples are some 16 ms apart. */
#define FIRST_SHIFT 24

/* Adding up every thread's tallies takes longer than the rest: they are renewed after a quarter of the sample's stretch. What is
 * registered is always that of the last change, since nothing may change for a long time. */
static void take_sample(uint64_t at)
{
	struct segment_timeline *timeline = &statistics_segment.timeline;
	struct segment_sample *place;
	uint64_t slot;

	if (!atomic_load_explicit(&timeline->shift, memory_order_relaxed))
		atomic_store_explicit(&timeline->shift, FIRST_SHIFT, memory_order_relaxed);
	while ((slot = at >> timeline->shift) >= SEGMENT_SAMPLES)
		halve(timeline);
	place = &timeline->samples[slot];
	if (!segment_value(&place->at_ns) ||
	    at - segment_value(&place->at_ns) >= (uint64_t)1 << (timeline->shift - 2)) {
		keep(place, at ? at : 1, statistics_get(registrations), statistics_get(pinned_bytes),
		     statistics_tallied(TALLY_requests), statistics_tallied(TALLY_hits));
		return;
	}
	atomic_store_explicit(&place->registrations, statistics_get(registrations), memory_order_relaxed);
	atomic_store_explicit(&place->pinned_bytes, statistics_get(pinned_bytes), memory_order_relaxed);
}

static void sample(void)
{
	uint64_t began = segment_value(&statistics_segment.header.clock_ns);

	if (!began)
		return;
	atomic_store(&wanted, true);
	while (atomic_load(&wanted) && !atomic_flag_test_and_set(&sampling)) {
		atomic_store(&wanted, false);
		take_sample(statistics_clock() - began);
		atomic_flag_clear(&sampling);
	}
}

/* ---- where ---- */

/* Guards who takes a free place for a name or a pair, and a pair's reason. The last lock in any order: nothing is called with it. */
static pthread_mutex_t places_lock = PTHREAD_MUTEX_INITIALIZER;

int statistics_adapter(const char *name)
{
	int found;

	if (!*name || text_length(name) >= SEGMENT_NAME)
		return -1;
	pthread_mutex_lock(&places_lock);
	found = segment_adapter(&statistics_segment, name);
	pthread_mutex_unlock(&places_lock);
	return found < SEGMENT_ADAPTERS ? found : -1;
}

void statistics_pinned(int gpu, int adapter, int64_t bytes)
{
	struct segment *segment = &statistics_segment;

	change(&segment->counters.pinned_bytes, &segment->counters.pinned_bytes_peak, bytes);
	if (gpu >= 0 && gpu < SEGMENT_GPUS)
		change(&segment->gpus[gpu].bytes, &segment->gpus[gpu].peak, bytes);
	if (adapter >= 0)
		change(&segment->adapters[adapter].pinned.bytes, &segment->adapters[adapter].pinned.peak,
		       bytes);
	sample();
}

void statistics_registered_by(int gpu, int adapter, const char *path, bool dma_buf, const char *reason)
{
	struct segment_pair *pair;

	if (adapter < 0)
		return;
	pthread_mutex_lock(&places_lock);
	pair = segment_pair(&statistics_segment, gpu, adapter, path);
	if (pair && reason)
		segment_set_reason(pair, dma_buf ? SEGMENT_DMA_BUF : SEGMENT_PEER_MEMORY, reason);
	pthread_mutex_unlock(&places_lock);
	if (pair)
		atomic_fetch_add_explicit(dma_buf ? &pair->dma_buf : &pair->peer_memory, 1,
					  memory_order_relaxed);
}
