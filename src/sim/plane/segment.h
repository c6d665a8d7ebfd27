/* SPDX-License-Identifier: BSD-3-Clause */
/* segment.h -- which processes of a user take part in the simulated fabric of this host
 *
 * A folder in /dev/shm, else in /tmp, holds the file "processes" and one file for each new link
 * (link.h). PEERPIN_SIM_ADAPTER_SEGMENT names the folder: other names are separate fabrics.
 */
#ifndef PEERPIN_SIM_PLANE_SEGMENT_H
#define PEERPIN_SIM_PLANE_SEGMENT_H

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#define SEGMENT_PROCESSES 1024
#define SEGMENT_PATH_MAX  256

/* Shared between processes; all fields are accessed atomically. */
struct segment_process {
	alignas(64) uint32_t
		incarnation;	/* changes with each process in this place; 0: never used */
	uint32_t doorbell;	/* futex of the adapter's thread */
	uint32_t sleeping;	/* 1: the thread waits for the doorbell */
	uint32_t links_changed; /* incremented after a bit in `links` is set */
	/* Time of the last poll, in ns of CLOCK_MONOTONIC, updated every few us. 0: none polls. */
	uint64_t polled;
	/* Processes that made a link to this one, which it has not opened yet. */
	alignas(64) uint64_t links[SEGMENT_PROCESSES / 64];
};

/* Take a place among the processes. Idempotent; a forked child takes one of its own. Return 0 or an
 * errno. The caller holds plane_lock. */
int segment_join(void);

/* False in a process that has not joined, as a forked child. Any thread, no lock. */
bool segment_joined(void);

/* This process's place, and a place's record. segment_joined() must be true. */
unsigned int segment_self(void);
struct segment_process *segment_process(unsigned int place);

/* Whether the process that had this incarnation of a place still runs. Takes some us. */
bool segment_is_alive(unsigned int place, uint32_t incarnation);

/* Wake the adapter's thread of a process if it sleeps. */
void segment_ring(unsigned int place);

/* Name of the file of a link in the fabric's folder, made by the process with this incarnation of
 * the place `from`. `to` has SEGMENT_PATH_MAX bytes. */
void segment_link_path(unsigned int from, uint32_t incarnation, unsigned int place, char *to);

/* Remove the name of a link's file, and the file that it is a symbolic link to. */
void segment_unlink(const char *path);

/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t segment_now(void);

#define SEGMENT_FRESH                                                                              \
	((uint64_t)50000) /* ns: a process that polled so recently polls again soon                \
			   */

/* Whether threads of a process poll, as far as other processes see. */
static inline bool segment_polls(const struct segment_process *process, uint64_t now)
{
	return now - __atomic_load_n(&process->polled, __ATOMIC_RELAXED) < SEGMENT_FRESH;
}

#endif
