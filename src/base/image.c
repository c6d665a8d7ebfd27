/* SPDX-License-Identifier: BSD-3-Clause */
/* image.c -- what both the library and the tools do with an image */
#include "base/image.h"

#include "base/text.h"

/* Any change of this text, or of the size, makes another layout. */
static const char names[] =
#define STATISTIC(name, unit, line, label, meaning) #name " "
#define TALLY(name, unit, line, label, meaning)	    #name "t "
#define HISTOGRAM(name, sum, meaning)		    #name "h "
#include "base/statistics.def"
#undef HISTOGRAM
#undef TALLY
#undef STATISTIC
	;

uint64_t image_layout(void)
{
	uint64_t hash = 0xcbf29ce484222325; /* FNV-1a */

	for (size_t i = 0; i < sizeof(names); i++)
		hash = (hash ^ (uint8_t)names[i]) * 0x100000001b3;
	return (hash ^ sizeof(struct image)) * 0x100000001b3;
}

uint64_t image_tallied(const struct image *image, enum tally tally)
{
	uint32_t threads = atomic_load_explicit(&image->header.threads, memory_order_relaxed);
	uint64_t sum = 0;

	/* What was never given out is not touched: it may have no memory yet. */
	for (uint32_t i = 0; i < threads && i < TALLIES_OWN; i++)
		sum += image_value(&image->tallies[i].counts[tally]);
	for (uint32_t i = 0; threads >= TALLIES_OWN && i < TALLIES_SHARED; i++)
		sum += image_value(&image->tallies[TALLIES_OWN + i].counts[tally]);
	return sum;
}

static void add(_Atomic uint64_t *sum, const _Atomic uint64_t *other)
{
	atomic_store_explicit(sum, image_value(sum) + image_value(other), memory_order_relaxed);
}

static void add_pinned(struct image_pinned *sum, const struct image_pinned *other)
{
	add(&sum->bytes, &other->bytes);
	add(&sum->peak, &other->peak);
}

static void copy(char *to, size_t size, const char *from)
{
	for (size_t at = 0; at < size - 1 && from[at]; at++)
		to[at] = from[at];
}

int image_adapter(struct image *image, const char *name)
{
	for (int i = 0; i < IMAGE_ADAPTERS; i++) {
		struct image_adapter *adapter = &image->adapters[i];

		if (!adapter->named) {
			copy(adapter->name, sizeof(adapter->name), name);
			atomic_store_explicit(&adapter->named, true, memory_order_release);
		}
		if (text_equals(adapter->name, name))
			return i;
	}
	return IMAGE_ADAPTERS;
}

struct image_pair *image_pair(struct image *image, int gpu, int adapter, const char *path)
{
	for (int i = 0; i < IMAGE_PAIRS; i++) {
		struct image_pair *pair = &image->pairs[i];

		if (!pair->known) {
			pair->gpu = gpu;
			pair->adapter = adapter;
			copy(pair->path, sizeof(pair->path), path);
			atomic_store_explicit(&pair->known, true, memory_order_release);
		}
		if (pair->gpu == gpu && pair->adapter == adapter && text_equals(pair->path, path))
			return pair;
	}
	return NULL;
}

void image_set_reason(struct image_pair *pair, enum image_method method, const char *reason)
{
	size_t at = 0;

	for (; at < IMAGE_REASON - 1 && reason[at]; at++)
		atomic_store_explicit(&pair->reason[at], reason[at], memory_order_relaxed);
	atomic_store_explicit(&pair->reason[at], '\0', memory_order_relaxed);
	atomic_store_explicit(&pair->reason_method, (uint32_t)method, memory_order_release);
}

const char *image_reason(const struct image_pair *pair, enum image_method method, char to[IMAGE_REASON])
{
	if (atomic_load_explicit(&pair->reason_method, memory_order_acquire) != (uint32_t)method)
		return NULL;
	for (size_t at = 0; at < IMAGE_REASON - 1; at++)
		to[at] = atomic_load_explicit(&pair->reason[at], memory_order_relaxed);
	to[IMAGE_REASON - 1] = '\0';
	return to;
}

static void add_reason(struct image_pair *pair, const struct image_pair *theirs)
{
	char reason[IMAGE_REASON];

	for (enum image_method method = IMAGE_DMA_BUF; method <= IMAGE_PEER_MEMORY; method++) {
		if (image_reason(theirs, method, reason))
			image_set_reason(pair, method, reason);
	}
}

/* Adapters are numbered as each process met them. */
static void add_places(struct image *sum, const struct image *other)
{
	int places[IMAGE_ADAPTERS];

	for (int i = 0; i < IMAGE_GPUS; i++)
		add_pinned(&sum->gpus[i], &other->gpus[i]);
	for (int i = 0; i < IMAGE_ADAPTERS; i++) {
		places[i] = IMAGE_ADAPTERS;
		if (!other->adapters[i].named)
			continue;
		places[i] = image_adapter(sum, other->adapters[i].name);
		if (places[i] < IMAGE_ADAPTERS)
			add_pinned(&sum->adapters[places[i]].pinned, &other->adapters[i].pinned);
	}
	for (int i = 0; i < IMAGE_PAIRS; i++) {
		const struct image_pair *theirs = &other->pairs[i];
		struct image_pair *pair = NULL;

		if (theirs->known && theirs->adapter >= 0 && theirs->adapter < IMAGE_ADAPTERS)
			pair = image_pair(sum, theirs->gpu, places[theirs->adapter], theirs->path);
		if (!pair)
			continue;
		add(&pair->dma_buf, &theirs->dma_buf);
		add(&pair->peer_memory, &theirs->peer_memory);
		add_reason(pair, theirs);
	}
}

void image_add(struct image *sum, const struct image *other)
{
#define STATISTIC(name, unit, line, label, meaning) add(&sum->counters.name, &other->counters.name);
#include "base/statistics.def"
#undef STATISTIC
	for (unsigned int i = 0; i < HISTOGRAM_COUNT; i++) {
		for (unsigned int bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++)
			add(&sum->histograms[i][bucket], &other->histograms[i][bucket]);
	}
	if (!sum->header.threads)
		sum->header.threads = 1;
	for (unsigned int i = 0; i < TALLY_COUNT; i++) {
		_Atomic uint64_t *count = &sum->tallies[0].counts[i];

		atomic_store_explicit(count, image_value(count) + image_tallied(other, (enum tally)i),
				      memory_order_relaxed);
	}
	add_places(sum, other);
}

static bool is_text(const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (!text[i])
			return true;
	}
	return false;
}

const char *image_refused(const struct image *image, size_t size)
{
	const struct image_header *header = &image->header;

	if (size < sizeof(*header))
		return "it is too short";
	for (size_t i = 0; i < sizeof(header->magic); i++) {
		if (header->magic[i] != IMAGE_MAGIC[i])
			return "it is no statistics of peerpin";
	}
	if (header->layout != image_layout())
		return "it is of another build of peerpin";
	if (size < sizeof(*image) || header->size != sizeof(*image))
		return "it is cut off";
	if (!is_text(header->version, sizeof(header->version)) ||
	    !is_text(header->host, sizeof(header->host)) ||
	    !is_text(header->program, sizeof(header->program)) ||
	    !is_text(header->job, sizeof(header->job)) ||
	    !is_text(header->settings, sizeof(header->settings)))
		return "its header is damaged";
	for (int i = 0; i < IMAGE_ADAPTERS; i++) {
		if (!is_text(image->adapters[i].name, IMAGE_NAME))
			return "the name of an adapter is damaged";
	}
	for (int i = 0; i < IMAGE_PAIRS; i++) {
		if (!is_text(image->pairs[i].path, sizeof(image->pairs[i].path)))
			return "a pair of GPU and adapter is damaged";
	}
	return NULL;
}
