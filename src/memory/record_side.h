/* SPDX-License-Identifier: BSD-3-Clause */
/* record_side.h -- inside the table: fields of a record that queries and requests do not load */
#ifndef PEERPIN_MEMORY_RECORD_SIDE_H
#define PEERPIN_MEMORY_RECORD_SIDE_H

#include "base/arena.h"
#include "base/atomics.h"
#include "memory/lookup.h"

/* Writers hold table_lock; any thread may read the atomic fields. */
struct record_side {
	uint32_t next_unused;	   /* of an unused record */
	_Atomic uint64_t event_id; /* 0: the allocation's id; RECORD_HIDDEN; or a later id */
	_Atomic uint64_t keep_key; /* what distinguishes host memory for keep.h */
	_Atomic uint64_t traits;   /* of a hidden record, which shows others */
} __attribute__((aligned(32)));

#define RECORD_HIDDEN 1 /* below every id */

/* By slot. */
extern struct arena table_sides __attribute__((visibility("hidden")));

static inline struct record_side *table_side(uint32_t slot)
{
	return (struct record_side *)table_sides.base + slot;
}

/* A new id for an allocation. With table_lock held. */
uint64_t table_next_id(void);

#endif
