/* SPDX-License-Identifier: BSD-3-Clause */
/* kept_choice.h -- inside kept.c and kept_choice.c: the lists, and which entry to release next
 *
 * kept.c owns the lists and kept_lock, which guards them.
 */
#ifndef PEERPIN_MEMORY_KEPT_CHOICE_H
#define PEERPIN_MEMORY_KEPT_CHOICE_H

#include "memory/kept_index.h"

#define KEPT_CLASSES	   64u
#define KEPT_SMALL_CLASSES 20u /* of them, of sizes up to KEPT_SMALL */

TAILQ_HEAD(entries, entry);

struct kept_list {
	/* By the logarithm of the size, rounded up; the least recently kept first; set up by the
	 * first one. */
	struct entries classes[KEPT_CLASSES];
	_Atomic uint64_t bytes;	 /* as the driver counts them; stored with the lock */
	_Atomic uint64_t blocks; /* of them, bytes in blocks of their own */
	/* Entries of cuMemAlloc: larger than KEPT_SMALL, and small; stored with the lock. */
	_Atomic uint64_t numbers[2];
};
extern struct kept_list kept_lists[KEPT_LISTS];

/* What to release: an entry of one list at a time. */
struct kept_choice {
	unsigned int from, to; /* lists; `to` excluded */
	CUcontext context;     /* all of it, in any order; NULL: of any context */
	uint64_t above;	       /* only while the list has more bytes */
	uint64_t unused;       /* only if the program has allocated so many times its size since */
	bool largest;	       /* first, of any context */
	const struct allocation *like; /* only of its context and kind; small if it is, or larger */
};

/* NULL: none. With kept_lock held. */
struct entry *kept_choose(const struct kept_choice *choice);

#endif
