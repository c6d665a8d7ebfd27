/* SPDX-License-Identifier: BSD-3-Clause */
/* kept_index.h -- kept allocations by context and request; with kept_lock held */
#ifndef PEERPIN_MEMORY_KEPT_INDEX_H
#define PEERPIN_MEMORY_KEPT_INDEX_H

#include <sys/queue.h>

#include "memory/kept.h"

struct entry {
	struct entry *next_free;
	struct kept kept;
	uint64_t since;		     /* kept_allocated() at the free */
	LIST_ENTRY(entry) in_bucket; /* of equal requests */
	LIST_ENTRY(entry) in_class;  /* device memory: of the class */
	TAILQ_ENTRY(entry) in_list;  /* of the class; or releasing */
};

void kept_index_add(struct entry *entry);
void kept_index_remove(struct entry *entry);

/* As kept_take(). */
struct entry *kept_index_find(CUcontext context, const struct keep_request *request);

#endif
