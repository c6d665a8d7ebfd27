/* SPDX-License-Identifier: BSD-3-Clause */
/* ring.h -- a ring of packets from one process to another, in memory that both map
 *
 * One producer, one consumer. A producer that is killed leaves nothing behind that the consumer
 * sees: a packet becomes visible when it is complete.
 */
#ifndef PEERPIN_SIM_PLANE_RING_H
#define PEERPIN_SIM_PLANE_RING_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum packet_kind {
	PACKET_PADDING,
	/* requests */
	PACKET_SEND,
	PACKET_WRITE,
	PACKET_READ,
	PACKET_ATOMIC, /* payload: operands, 2 words */
	PACKET_DATAGRAM,
	/* responses */
	PACKET_ACKNOWLEDGE, /* this and all earlier work requests are complete */
	PACKET_REFUSE,	    /* `status`: this one is not, all earlier ones are */
	PACKET_DATA,	    /* of a READ; `status` 0 */
	PACKET_RESULT,	    /* of an ATOMIC: the former value, 1 word */
};

enum packet_flags {
	PACKET_IMMEDIATE = 1,
	PACKET_SOLICITED = 1 << 1,
	PACKET_ADD = 1 << 2, /* of an ATOMIC: fetch and add, else compare and swap */
};

/* Why a responder refuses a request. */
enum packet_status {
	REFUSED_NOT_READY = 1, /* no queue pair, or none that is connected: try again */
	REFUSED_NO_RECEIVE,    /* no receive is posted: try again after `timer` */
	REFUSED_ACCESS,
	REFUSED_INVALID,
	REFUSED_OPERATION,
};

/* A message is sent in one or more packets. */
struct packet {
	uint32_t size; /* of the packet in the ring */
	uint8_t kind, flags, status, timer;
	uint32_t to, from; /* numbers of queue pairs */
	uint32_t sequence; /* of the work request */
	uint32_t bytes;	   /* of payload, which follows */
	uint64_t length;   /* of the message */
	uint64_t offset;   /* of the payload in the message */
	uint64_t address;  /* remote */
	uint32_t key;	   /* remote key; of a datagram: queue key */
	uint32_t immediate;
	uint32_t lid;	  /* of a datagram: of the sender */
	uint32_t attempt; /* of the requester: responses to earlier ones do not count */
};

struct ring_indices {
	alignas(64) uint64_t head; /* bytes produced; written by the producer */
	alignas(64) uint64_t tail; /* bytes consumed; written by the consumer */
};

/* A process's view of one end. */
struct ring {
	struct ring_indices *shared;
	char *data;
	uint64_t size;	   /* a power of 2 */
	uint64_t own;	   /* index that this end writes */
	uint64_t other;	   /* last seen index of the other end */
	uint64_t reserved; /* end of the reserved packet */
};

void ring_attach(struct ring *ring, struct ring_indices *shared, void *data, uint64_t size);

/* Producer: room for a packet with `bytes` of payload; NULL: the ring is full. It is visible to the
 * consumer after ring_publish(). A reservation that is not published is replaced by the next one.
 */
struct packet *ring_reserve(struct ring *ring, size_t bytes);
void ring_publish(struct ring *ring);

/* Producer: bytes of payload of a packet at most: a CPU's first cache level holds them. The
 * adapter's thread, which copies device memory, sends larger packets: each copy has a cost of its
 * own. */
static inline uint64_t ring_payload(const struct ring *ring, bool in_thread)
{
	return in_thread ? ring->size / 4 : 16384;
}

/* Producer: true if the consumer has taken all packets. */
bool ring_is_consumed(struct ring *ring);

/* Consumer: the oldest packet, NULL: none. It stays until ring_consume(). */
struct packet *ring_peek(struct ring *ring);
void ring_consume(struct ring *ring);

/* Consumer: whether a packet is there, without its contents. */
static inline bool ring_has_packet(const struct ring *ring)
{
	return ring->own != __atomic_load_n(&ring->shared->head, __ATOMIC_RELAXED);
}

#endif
