/* SPDX-License-Identifier: BSD-3-Clause */
/* ring.c -- a ring of packets: contiguous, in multiples of a cache line
 *
 * The indices are released after the bytes that they cover and acquired before these are read. The
 * consumer distrusts the shared memory no more than its own: all processes are of one user.
 */
#include "sim/plane/ring.h"

#include <string.h>

#define LINE 64

_Static_assert(sizeof(struct packet) == LINE, "a packet's header is one cache line");

void ring_attach(struct ring *ring, struct ring_indices *shared, void *data, uint64_t size)
{
	*ring = (struct ring){ .shared = shared, .data = data, .size = size };
}

static bool ring_has_room(struct ring *ring, uint64_t end)
{
	if (end - ring->other <= ring->size)
		return true;
	ring->other = __atomic_load_n(&ring->shared->tail, __ATOMIC_ACQUIRE);
	return end - ring->other <= ring->size;
}

struct packet *ring_reserve(struct ring *ring, size_t bytes)
{
	uint64_t size = (sizeof(struct packet) + bytes + LINE - 1) & ~(uint64_t)(LINE - 1);
	uint64_t at = ring->own & (ring->size - 1), padding = 0;
	struct packet *packet;

	if (at + size > ring->size)
		padding = ring->size - at;
	if (!ring_has_room(ring, ring->own + padding + size))
		return NULL;
	if (padding) {
		packet = (struct packet *)(ring->data + at);
		packet->kind = PACKET_PADDING;
		packet->size = (uint32_t)padding;
		at = 0;
	}
	packet = (struct packet *)(ring->data + at);
	packet->size = (uint32_t)size;
	packet->bytes = (uint32_t)bytes;
	ring->reserved = ring->own + padding + size;
	return packet;
}

void ring_publish(struct ring *ring)
{
	ring->own = ring->reserved;
	__atomic_store_n(&ring->shared->head, ring->own, __ATOMIC_RELEASE);
}

bool ring_is_consumed(struct ring *ring)
{
	if (ring->other != ring->own)
		ring->other = __atomic_load_n(&ring->shared->tail, __ATOMIC_ACQUIRE);
	return ring->other == ring->own;
}

struct packet *ring_peek(struct ring *ring)
{
	struct packet *packet;

	for (;;) {
		if (ring->own == ring->other) {
			ring->other = __atomic_load_n(&ring->shared->head, __ATOMIC_ACQUIRE);
			if (ring->own == ring->other)
				return NULL;
		}
		packet = (struct packet *)(ring->data + (ring->own & (ring->size - 1)));
		if (packet->kind != PACKET_PADDING)
			return packet;
		ring->own += packet->size;
	}
}

void ring_consume(struct ring *ring)
{
	const struct packet *packet =
		(const struct packet *)(ring->data + (ring->own & (ring->size - 1)));

	ring->own += packet->size;
	__atomic_store_n(&ring->shared->tail, ring->own, __ATOMIC_RELEASE);
}
