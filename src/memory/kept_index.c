/* SPDX-License-Identifier: BSD-3-Clause */
/* kept_index.c -- hash tables of kept allocations: by the request, and of device memory by its
 * class
 */
#include "memory/kept_index.h"

#define BUCKETS	  4096u
#define LOOKED_AT 64u /* entries of a class */

static LIST_HEAD(bucket, entry) buckets[BUCKETS];
static struct bucket classes[BUCKETS];

static unsigned int kept_index_hash(CUcontext context, const struct keep_request *request)
{
	uint64_t mixed = (uintptr_t)context >> 4;

	mixed = (mixed ^ request->kind ^ request->detail << 8) * 0x9e3779b97f4a7c15u;
	mixed = (mixed ^ mixed >> 29 ^ request->width) * 0x9e3779b97f4a7c15u;
	mixed = (mixed ^ mixed >> 29 ^ request->height) * 0x9e3779b97f4a7c15u;
	return (unsigned int)(mixed >> 52) % BUCKETS;
}

static struct bucket *kept_index_class(CUcontext context, uint64_t bytes)
{
	return &classes[kept_index_hash(context, &(struct keep_request){ .width = bytes })];
}

static bool kept_index_is_for(const struct entry *entry, CUcontext context,
			      const struct keep_request *request)
{
	const struct keep_request *other = &entry->kept.request;

	return entry->kept.allocation.context == context && other->kind == request->kind &&
	       other->detail == request->detail && other->width == request->width &&
	       other->height == request->height;
}

void kept_index_add(struct entry *entry)
{
	const struct keep_request *request = &entry->kept.request;
	CUcontext context = entry->kept.allocation.context;

	LIST_INSERT_HEAD(&buckets[kept_index_hash(context, request)], entry, in_bucket);
	if (request->kind == ALLOCATION_DEVICE)
		LIST_INSERT_HEAD(kept_index_class(context, kept_class_of(request->width)), entry,
				 in_class);
}

void kept_index_remove(struct entry *entry)
{
	LIST_REMOVE(entry, in_bucket);
	if (entry->kept.request.kind == ALLOCATION_DEVICE)
		LIST_REMOVE(entry, in_class);
}

/* The smallest of at least `width` in the class of `bytes`. Collisions look at fewer. */
static struct entry *kept_index_find_in(CUcontext context, uint64_t width, uint64_t bytes)
{
	struct entry *entry = LIST_FIRST(kept_index_class(context, bytes)), *best = NULL;
	uint64_t has;

	for (unsigned int i = 0; entry && i < LOOKED_AT; i++, entry = LIST_NEXT(entry, in_class)) {
		has = entry->kept.request.width;
		if (entry->kept.allocation.context == context && has >= width && has <= bytes &&
		    (!best || has < best->kept.request.width))
			best = entry;
	}
	return best;
}

struct entry *kept_index_find(CUcontext context, const struct keep_request *request)
{
	struct entry *entry;

	LIST_FOREACH(entry, &buckets[kept_index_hash(context, request)], in_bucket) {
		if (kept_index_is_for(entry, context, request))
			return entry;
	}
	if (request->kind != ALLOCATION_DEVICE)
		return NULL;
	for (uint64_t bytes = kept_class_of(request->width); bytes <= kept_most_of(request->width);
	     bytes = kept_class_of(bytes + 1)) {
		entry = kept_index_find_in(context, request->width, bytes);
		if (entry)
			return entry;
	}
	return NULL;
}
