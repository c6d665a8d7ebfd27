/* SPDX-License-Identifier: BSD-3-Clause */
/* plane.h -- the simulated adapter's data plane: its parts, their contracts and their locks
 *
 * Queue pairs between the processes of a user on one host. Files of this folder include
 * infiniband/verbs.h, and never adapter_verbs.h.
 *
 * verbs calls, top down:
 *   context.c    function tables of a device context
 *   attributes.c, names.c, missing.c: queries of device and port
 *   pair.c, receive.c, queue.c, channel.c, events.c, address.c: objects of verbs
 *   post.c       work requests of clients
 *   request.c    requester: sends work requests, completes them
 *   respond.c    responder: checks and executes the requests of other queue pairs
 *   progress.c   runs requester and responder: in ibv_poll_cq, else in the adapter's thread
 *   link.c       rings to and from another process
 *   ring.c       a ring of packets between two processes
 *   segment.c    which processes take part
 *   waiter.c     a descriptor to wait for events
 *
 * Lock order: plane_lock, then a completion queue's lock, an event list's lock, or adapter_lock.
 * plane_lock guards queue pairs, receive queues and links. No call into the driver is made with it.
 */
#ifndef PEERPIN_SIM_PLANE_H
#define PEERPIN_SIM_PLANE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

/* Limits that device attributes report. */
enum {
	PLANE_PAIR_BITS = 14, /* of the index of a queue pair */
	PLANE_PAIRS = 1 << PLANE_PAIR_BITS,
	PLANE_WORK_REQUESTS = 1 << 14, /* of a queue */
	PLANE_SEGMENTS = 32,	       /* of a work request */
	PLANE_INLINE = 512,	       /* bytes of a work request */
	PLANE_QUEUES = 1 << 16,	       /* completion queues, shared receive queues */
	PLANE_COMPLETIONS = 1 << 22,   /* of a completion queue */
	PLANE_READS = 16,	       /* RDMA reads and atomics in flight, of a queue pair */
};

/* ---- context.c ---- */

/* Install the data plane's functions in a new device context. Return 0 or an errno. */
int context_install(struct ibv_context *context);

/* End what the data plane has for a context that closes. False: objects of the context are left,
 * and its memory stays. */
bool context_uninstall(struct ibv_context *context);

/* Each object that refers to a context holds a reference. */
void context_reference(struct ibv_context *context);
void context_release(struct ibv_context *context);

/* True in a forked child of the process that opened the context. */
bool context_is_inherited(const struct ibv_context *context);

/* ---- queue.c: completion queues ---- */

/* Append a completion. Takes the queue's lock; callers may hold plane_lock. A full queue raises
 * IBV_EVENT_CQ_ERR and drops the completion. `solicited`: it wakes a queue that was armed for
 * solicited completions, too; completions with an error do always. */
void queue_complete(struct ibv_cq *cq, const struct ibv_wc *completion, bool solicited);

/* Drop completions of a queue pair that ends, and take one queue pair's reference of the queue.
 * ibv_destroy_cq returns EBUSY while references are left. */
void queue_reference(struct ibv_cq *cq);
void queue_release(struct ibv_cq *cq, uint32_t pair_number);

/* ---- events.c: completion channels and asynchronous events ---- */

/* Raise an asynchronous event of a context. `element` is the event's union member: a queue pair, a
 * completion queue, or a shared receive queue. Callers may hold plane_lock. */
void events_raise(struct ibv_context *context, enum ibv_event_type type, void *element);

/* Remove unread events of an element that ends, then wait until each read one is acknowledged. */
void events_forget(struct ibv_context *context, const void *element);

/* ---- address.c: address handles ---- */

/* The number of the queue pair decides where a datagram goes. An address handle that names no
 * adapter of this host reaches nothing: false. */
bool address_is_here(const struct ibv_ah_attr *attributes);
const struct ibv_ah_attr *address_attributes(const struct ibv_ah *ah);

/* Local identifier and address of an adapter. */
uint16_t address_lid(const struct ibv_context *context);
void address_gid(const struct ibv_context *context, union ibv_gid *gid);

/* ---- post.c ---- */

int post_send(struct ibv_qp *qp, struct ibv_send_wr *request, struct ibv_send_wr **bad);
int post_receive(struct ibv_qp *qp, struct ibv_recv_wr *request, struct ibv_recv_wr **bad);
int post_shared_receive(struct ibv_srq *srq, struct ibv_recv_wr *request, struct ibv_recv_wr **bad);

/* ---- progress.c ---- */

/* Called by ibv_poll_cq before it takes completions: makes progress if no other thread does.
 * `goes_on`: the client polls again soon, as far as is known: the adapter's thread may sleep. */
void progress_poll(bool goes_on);

/* The client stops polling (ibv_req_notify_cq): the adapter's thread takes over. */
void progress_wait(void);

#endif
