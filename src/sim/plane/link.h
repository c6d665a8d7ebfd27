/* SPDX-License-Identifier: BSD-3-Clause */
/* link.h -- rings between this process and another: requests and responses, in both directions
 *
 * Each process makes the two rings that it produces, when it first sends to the other; the other
 * opens them. Responses have a ring of their own: they are consumed without producing anything, and
 * a full ring of requests cannot keep them back.
 *
 * plane_lock guards all links.
 */
#ifndef PEERPIN_SIM_PLANE_LINK_H
#define PEERPIN_SIM_PLANE_LINK_H

#include "sim/plane/ring.h"
#include "sim/plane/segment.h"

struct pair;

/* The response to a READ, sent in pieces as the ring takes them. */
struct link_reading {
	bool active;
	uint32_t pair, sequence;
	uint64_t sent;
};

struct link {
	unsigned int place; /* of the other process */
	uint32_t incarnation;
	bool produces; /* the rings to it exist */
	bool consumes; /* the rings from it are open */
	/* A thread copies to or from device memory for this link, without plane_lock: no other
	 * thread uses its rings. */
	bool taken;
	bool awaited;	/* a response is: see progress.c */
	uint64_t retry; /* ns; there was no memory for rings: not before this time again */
	void *produced, *consumed; /* mappings */
	size_t produced_size, consumed_size;
	struct ring requests, responses;	     /* to the other process */
	struct ring their_requests, their_responses; /* from it */
	struct link_reading reading;
	struct pair *owed;  /* queue pairs that owe an acknowledgement; by pair->next_owed */
	unsigned int pairs; /* queue pairs that refer to it */
	bool closed;	    /* freed with the last reference */
	struct link *next;  /* all links of this process that are not closed */
};

/* All links that are not closed. */
extern struct link *link_first;

/* The link to a process, with rings to it. NULL: no process has this place, or no memory is left
 * for the rings. */
struct link *link_to(unsigned int place);

/* Make the rings to the other process of a link. False: no memory. */
bool link_produce(struct link *link);

/* Open the rings that other processes have made since the last call. */
void link_accept(void);

/* Make a queue pair's reference one to another link. NULL: to none. */
void link_refer(struct link **reference, struct link *to);

/* Close the rings of a link whose process has ended. Frees it if no queue pair refers to it. */
void link_close(struct link *link);

/* A forked child has none of its parent's links. */
void link_forget_all(void);

/* Make packets visible, and wake the other process's thread unless a poll there sees them soon. */
void link_publish(struct link *link, struct ring *ring);

/* Wake the other process's thread if it sleeps and no other thread there polls. */
void link_nudge(struct link *link);

#endif
