/* SPDX-License-Identifier: BSD-3-Clause */
/* pair.h -- queue pairs and receive queues: their state, guarded by plane_lock
 *
 * The number of a queue pair has its process's place in the upper and an index in the lower bits:
 * it is the address of the queue pair in the fabric.
 */
#ifndef PEERPIN_SIM_PLANE_PAIR_H
#define PEERPIN_SIM_PLANE_PAIR_H

#include <pthread.h>

#include "sim/plane/link.h"
#include "sim/plane/plane.h"

#define PAIR_MTU 4096 /* bytes of a datagram at most */
#define PAIR_GRH 40   /* bytes before a received datagram */

extern pthread_mutex_t plane_lock;

/* ---- receive.c ---- */

struct receive_work {
	uint64_t id;
	uint64_t length; /* bytes of all pieces */
	unsigned int count;
	struct ibv_sge pieces[PLANE_SEGMENTS];
};

struct receive_queue {
	struct receive_work *works;
	uint32_t capacity, most_pieces;
	uint32_t posted, taken; /* counts */
	uint32_t limit;		/* of a shared receive queue: fewer raise an event; 0: disarmed */
};

struct shared_receive {
	struct ibv_srq srq; /* first */
	struct receive_queue queue;
	unsigned int pairs;
};

int receive_make(struct receive_queue *queue, uint32_t capacity, uint32_t pieces);
void receive_free(struct receive_queue *queue);
int receive_post(struct receive_queue *queue, const struct ibv_recv_wr *request);

/* Take the oldest receive. False: none is posted. */
bool receive_take(struct receive_queue *queue, struct receive_work *work);
static inline bool receive_is_empty(const struct receive_queue *queue)
{
	return queue->posted == queue->taken;
}

/* ---- pair.c ---- */

struct send_work {
	uint64_t id;
	enum ibv_wr_opcode opcode;
	unsigned int flags; /* IBV_SEND_* */
	uint32_t immediate; /* network order */
	uint32_t key;	    /* remote; of a datagram: queue key */
	uint64_t address;   /* remote */
	uint64_t operands[2];
	uint32_t destination; /* of a datagram: queue pair; 0: unreachable */
	uint64_t length;      /* bytes of all pieces */
	uint64_t moved;	      /* bytes sent, or received by a READ */
	unsigned int count;
	union {
		struct ibv_sge pieces[PLANE_SEGMENTS];
		char data[PLANE_INLINE]; /* IBV_SEND_INLINE */
	};
};

struct pair {
	struct ibv_qp qp; /* first */
	struct ibv_qp_init_attr made;
	struct ibv_qp_attr attributes;
	enum ibv_qp_state state;
	struct link *link; /* of a connected queue pair; NULL: not reachable */

	/* Requester. Sequences: done <= next <= posted. */
	struct send_work *works;
	uint32_t capacity;
	uint32_t done;	  /* oldest that is not complete */
	uint32_t next;	  /* next to send; the packets of this one are sent in part */
	uint32_t posted;  /* next to post */
	uint32_t reads;	  /* READs and ATOMICs under way */
	uint32_t attempt; /* counts the times that it went back */
	unsigned int receive_refusals;
	uint64_t pause_until; /* ns; after a refusal; 0: none */
	uint64_t give_up;     /* ns; of requests to a queue pair that is not ready; 0: none */
	bool active;	      /* in the list of pairs with work to send */
	struct pair *next_active;
	uint32_t round; /* of the thread, that has seen it */

	/* Responder. */
	uint32_t expected; /* sequence */
	uint64_t received; /* bytes of the message under way */
	bool receiving;	   /* `receive` is in use */
	struct receive_work receive;
	struct receive_queue own_receives;
	struct shared_receive *shared;
	bool owes; /* in the link's list */
	struct pair *next_owed;

	/* Threads that copy for this queue pair without plane_lock: it may not change or end. */
	unsigned int uses;
};

/* The queue pair of this process with a number; NULL: none. */
struct pair *pair_find(uint32_t number);

/* Call `visit` for each queue pair. */
void pair_for_each(void (*visit)(struct pair *pair, void *argument), void *argument);

static inline unsigned int pair_place(uint32_t number)
{
	return number >> PLANE_PAIR_BITS & (SEGMENT_PROCESSES - 1);
}

/* Enter the error state: everything posted completes as flushed. Raises `event` unless it is -1. */
void pair_fail(struct pair *pair, int event);

/* Wait until no thread copies for the queue pair. Releases plane_lock meanwhile. */
void pair_await_unused(struct pair *pair);
void pair_unuse(struct pair *pair);

static inline struct receive_queue *pair_receives(struct pair *pair)
{
	return pair->shared ? &pair->shared->queue : &pair->own_receives;
}

/* Refer to another link; NULL: to none. Nothing of the former one goes on. */
void pair_refer(struct pair *pair, struct link *link);

/* Take a posted receive; false: none. Raises the event of a shared receive queue's limit. */
bool pair_take_receive(struct pair *pair, struct receive_work *work);

/* ---- transfer.c ---- */

enum transfer_result {
	TRANSFER_DONE,
	TRANSFER_LATER,	  /* device memory: left to the adapter's thread */
	TRANSFER_REFUSED, /* a local key or range is wrong */
};

/* Copy `bytes` from or to the pieces' bytes at `offset`. Device memory is copied by the adapter's
 * thread alone (`in_thread`), which releases plane_lock meanwhile: `pair` and `link` do not change.
 */
enum transfer_result transfer_gather(struct pair *pair, struct link *link,
				     const struct ibv_sge *pieces, unsigned int count,
				     uint64_t offset, void *to, uint32_t bytes, bool in_thread);
enum transfer_result transfer_scatter(struct pair *pair, struct link *link,
				      const struct ibv_sge *pieces, unsigned int count,
				      uint64_t offset, const void *from, uint32_t bytes,
				      bool in_thread);

/* Copy `bytes` from or to remotely accessible memory, of which `length` bytes at `address` are
 * accessed in all. `bytes` may be 0. */
enum transfer_result transfer_read(struct pair *pair, struct link *link, uint32_t key,
				   uint64_t address, uint64_t length, uint64_t offset, void *to,
				   uint32_t bytes, bool in_thread);
enum transfer_result transfer_write(struct pair *pair, struct link *link, uint32_t key,
				    uint64_t address, uint64_t length, uint64_t offset,
				    const void *from, uint32_t bytes, bool in_thread);

/* Atomic operation on 8 bytes; the former value goes to `*former`. */
enum transfer_result transfer_atomic(struct pair *pair, struct link *link, uint32_t key,
				     uint64_t address, bool add, const uint64_t operands[2],
				     uint64_t *former, bool in_thread);

/* ---- request.c ---- */

/* Send what the link's rings take. */
void request_run(struct pair *pair, bool in_thread);

/* Send for all queue pairs with work. */
void request_run_all(bool in_thread);

/* Whether a queue pair has work to send that waits for anything but the end of a pause. */
bool request_is_held(void);

/* Put a queue pair on the list of those with work. */
void request_activate(struct pair *pair);
void request_deactivate(struct pair *pair);
void request_forget_all(void);

/* End the requests of a queue pair whose peer has ended. */
void request_check_peer(struct pair *pair);

/* Complete the oldest work request. */
void request_complete(struct pair *pair, enum ibv_wc_status status);

/* Complete all before `sequence`. */
void request_complete_until(struct pair *pair, uint32_t sequence);

/* Complete the oldest one with an error: the queue pair enters the error state. */
void request_fail(struct pair *pair, enum ibv_wc_status status);

struct send_work *request_work(struct pair *pair, uint32_t sequence);
bool request_is_read(const struct send_work *work); /* READ or ATOMIC */

/* Time of the next retry among all queue pairs; UINT64_MAX: none. */
uint64_t request_next_retry(void);

/* ---- response.c ---- */

/* Handle one response. False: left to the adapter's thread. */
bool response_handle(struct link *link, const struct packet *packet, bool in_thread);

/* ---- datagram.c ---- */

/* Handle one datagram. False: left to the adapter's thread. */
bool datagram_receive(struct link *link, struct pair *pair, const struct packet *packet,
		      bool in_thread);

/* ---- respond.c ---- */

/* Handle one request. False: it stays, until the ring of responses has room or for the thread. */
bool respond_request(struct link *link, const struct packet *packet, bool in_thread);

/* Go on with a READ that is being answered. True: none is left. */
bool respond_read(struct link *link, bool in_thread);

/* Send owed acknowledgements. */
void respond_acknowledge(struct link *link);

/* Remove a queue pair that ends from the list of those that owe. */
void respond_forget(struct pair *pair);

/* ---- progress.c ---- */

/* Start the adapter's thread of this process, once. Return 0 or an errno. The caller holds
 * plane_lock. */
int progress_start(void);

/* A forked child has no thread. The caller holds plane_lock. */
void progress_forget(void);

/* Handle the packets that have arrived. The caller holds plane_lock. */
void progress_settle(void);

/* Wake the adapter's thread, which the caller leaves work to. */
void progress_leave(void);

/* Wake it where requests wait, as for room in a ring, and no thread polls. The caller holds
 * plane_lock. */
void progress_go_on(void);

/* The adapter's thread takes plane_lock; threads that poll stay away meanwhile. */
void progress_lock(void);

#endif
