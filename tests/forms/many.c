/* SPDX-License-Identifier: BSD-3-Clause */
/* many.c -- forms with many pieces of an allocation, many allocations, many protection domains */
#include "forms.h"

#include <pthread.h>
#include <stdlib.h>

#include "../vmm.h"

/* ---- pieces ---- */

/* All held at once, from [address, address + total). */
static void pieces_held(CUdeviceptr address, size_t total, size_t piece, bool dma_buf)
{
	unsigned int count = (unsigned int)((total + piece - 1) / piece);
	struct ibv_mr **mrs = calloc(count, sizeof(*mrs));

	require(mrs);
	for (unsigned int i = 0; i < count; i++) {
		CUdeviceptr at = address + i * piece;
		size_t length = i + 1 < count ? piece : total - i * piece;

		if (dma_buf)
			mrs[i] = by_own_dma_buf(pd, at, length, ACCESS);
		else
			mrs[i] = by_address(pd, at, length, ACCESS);
		check_bytes(mrs[i], at, at, length);
	}
	for (unsigned int i = 0; i < count; i++)
		drop(mrs[i]);
	free(mrs);
}

static void pieces_rounds(size_t size, bool dma_buf)
{
	size_t piece = 8 * BLOCK, total = 40 * piece + size;
	CUdeviceptr address = allocate(total);

	for (int round = 0; round < ROUNDS; round++)
		pieces_held(address, total, piece, dma_buf);
}

FORM_IS(pieces, pieces_rounds(size, false))
FORM_IS(pieces_buf, pieces_rounds(size, true))

#define CHUNKS 9
#define CHUNK  ((size_t)64 << 20)

struct chunk {
	CUdeviceptr address;
	size_t length;
	struct ibv_mr *mr;
};

static void *chunk_register(void *argument)
{
	struct chunk *chunk = argument;

	chunk->mr = ibv_reg_mr(pd, (void *)chunk->address, chunk->length, ACCESS);
	return NULL;
}

/* A thread for each. */
FORM_RUN(chunks)
{
	CUdeviceptr address;
	struct chunk chunks[CHUNKS];
	pthread_t threads[CHUNKS];

	size = round_up(size, sizeof(uint64_t));
	address = allocate((CHUNKS - 1) * CHUNK + size);
	for (int round = 0; round < ROUNDS; round++) {
		for (size_t i = 0; i < CHUNKS; i++) {
			chunks[i] = (struct chunk){ .address = address + i * CHUNK,
						    .length = i + 1 < CHUNKS ? CHUNK : size };
			require(!pthread_create(&threads[i], NULL, chunk_register, &chunks[i]));
		}
		for (int i = 0; i < CHUNKS; i++) {
			pthread_join(threads[i], NULL);
			record(chunks[i].mr, true);
		}
		for (int i = 0; i < CHUNKS; i++) {
			check_bytes(chunks[i].mr, chunks[i].address, chunks[i].address,
				    chunks[i].length);
			drop(chunks[i].mr);
		}
	}
}

/* Messages from end to end of 64 MiB, not held. */
static void messages_rounds(CUdeviceptr address, size_t size)
{
	for (int round = 0; round < ROUNDS; round++) {
		for (size_t at = 0; at + size <= (size_t)64 << 20; at += size) {
			buf_message(address + at, size);
		}
	}
}

FORM_IS(messages, messages_rounds(allocate((size_t)64 << 20), size))
FORM_IS(messages_pool, messages_rounds(allocate_from_pool((size_t)64 << 20), size))

/* `count` messages at fixed places; `window`: held until so many later ones. */
static void arena_rounds(size_t size, unsigned int count, unsigned int window)
{
	size_t step = ((size_t)64 << 20) / count;
	CUdeviceptr address = allocate(((size_t)64 << 20) + size);
	struct ibv_mr *held[4] = { NULL };

	for (unsigned int i = 0; i < ROUNDS * count; i++) {
		CUdeviceptr at = address + i % count * round_down(step, 16);

		drop(held[i % window]);
		held[i % window] = by_address(pd, at, size, ACCESS);
		check_bytes(held[i % window], at, at, size);
	}
	for (unsigned int i = 0; i < window; i++)
		drop(held[i]);
}

FORM_IS(arena, arena_rounds(size % 100000 + 5001, 100, 1))
FORM_IS(arena_window, arena_rounds(size % 100000 + 5001, 100, 4))
FORM_IS(arena_off, arena_rounds(size % 100000 + 5001, 100, 1))

/* From one address. */
FORM_RUN(lengths)
{
	CUdeviceptr address = allocate(100 * 600001 + size);

	for (int round = 0; round < ROUNDS; round++) {
		for (size_t i = 1; i <= 100; i++) {
			message(address, i * 600001, ACCESS);
		}
	}
}

/* ---- allocations ---- */

FORM_RUN(buffers)
{
	enum { COUNT = 5000 };
	CUdeviceptr *addresses = calloc(COUNT, sizeof(*addresses));

	require(addresses);
	size = size % 200000 + 5001;
	for (int i = 0; i < COUNT; i++)
		addresses[i] = allocate(size);
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < COUNT; i++)
			drop(by_address(pd, addresses[i], size, ACCESS));
	}
	free(addresses);
}

/* As many tensors, each with a live export. */
FORM_RUN(exports)
{
	enum { COUNT = 1100 };
	CUdeviceptr *addresses = calloc(COUNT, sizeof(*addresses));
	int *fds = calloc(COUNT, sizeof(*fds));

	require(addresses && fds);
	size = size % 20000 + 5001;
	for (int i = 0; i < COUNT; i++) {
		addresses[i] = allocate(size);
		fds[i] = export_range(round_down(addresses[i], PAGE),
				      round_up(addresses[i] + size, PAGE), 0);
	}
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < COUNT; i++)
			check_and_drop(by_dma_buf(pd, fds[i], addresses[i] % PAGE, size,
						  addresses[i], ACCESS),
				       addresses[i], size);
	}
	for (int i = 0; i < COUNT; i++)
		close(fds[i]);
	free(addresses);
	free(fds);
}

/* ---- protection domains ---- */

/* Protection domain i of `pds` is of the context i of `devices`, or of `device`. */
static void domains_rounds(size_t size, struct ibv_context **devices, struct ibv_pd **pds,
			   unsigned int count)
{
	CUdeviceptr address = allocate(size);

	for (unsigned int i = 0; i < count; i++)
		pds[i] = ibv_alloc_pd(devices ? devices[i] : device);
	for (int round = 0; round < ROUNDS; round++) {
		for (unsigned int i = 0; i < count; i++)
			check_and_drop(by_address(pds[i], address, size, ACCESS), address, size);
	}
	for (unsigned int i = 0; i < count; i++)
		record(!ibv_dealloc_pd(pds[i]), false);
}

FORM_RUN(domains)
{
	struct ibv_pd *pds[100];

	domains_rounds(size, NULL, pds, 100);
}

FORM_RUN(contexts)
{
	struct ibv_context *devices[16];
	struct ibv_pd *pds[16];

	for (int i = 0; i < 16; i++) {
		devices[i] = ibv_open_device(device->device);
		require(devices[i]);
	}
	domains_rounds(size, devices, pds, 16);
	for (int i = 0; i < 16; i++)
		record(!ibv_close_device(devices[i]), false);
}

FORM_RUN(domain_per_message)
{
	CUdeviceptr address = allocate(size);

	for (int i = 0; i < 4 * ROUNDS; i++) {
		struct ibv_pd *one = ibv_alloc_pd(device);

		check_and_drop(by_address(one, address, size, ACCESS), address, size);
		record(!ibv_dealloc_pd(one), false);
	}
}
