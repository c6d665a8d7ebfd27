/* SPDX-License-Identifier: BSD-3-Clause */
/* near.h -- what an event needs that comes after a pause, when others have had the processor's caches
 *
 * An allocation takes little work, but in many layers: after a pause most of its time is that of pages and lines
 * that are fetched one after another. So its functions stand side by side (NEAR), and its memory is asked for all
 * at once, before the driver is called, which takes longer than that (near_fetch). Both are hints: what is not
 * fetched, or is taken away again meanwhile, is fetched when it is used.
 */
#ifndef PEERPIN_BASE_NEAR_H
#define PEERPIN_BASE_NEAR_H

/* The linker puts such functions in one place, of all objects. */
#define NEAR __attribute__((hot))

/* The line is about to be written, or read. Any address will do, NULL and what is not mapped included. */
#define near_fetch(place)      __builtin_prefetch((const void *)(place), 1)
#define near_fetch_read(place) __builtin_prefetch((const void *)(place), 0)

#endif
