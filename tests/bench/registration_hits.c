/* SPDX-License-Identifier: BSD-3-Clause */
/* registration_hits.c -- hits: a registration and its end, inside memory that has been registered
 */
#include "registration.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "peer.h"

#define MANY_HELD 10000

#define ORDER ((uint64_t)1 << 14)

struct hits {
	struct ibv_pd *pd;
	struct buffer *buffers;
	uint32_t order[ORDER]; /* of their use */
	_Atomic uint64_t operations;
};

static bool do_one_hit(struct ibv_pd *pd, const struct buffer *buffer)
{
	struct ibv_mr *mr = client_register(pd, buffer, 0, buffer->size);

	return mr && mr->length == buffer->size && !client.ibv_dereg_mr(mr);
}

static uint64_t do_hits(void *context, unsigned int thread, uint64_t count)
{
	const struct hits *hits = context;
	uint64_t sum = 0, place = thread * (ORDER / 7);

	for (; count; count--, place++)
		sum += do_one_hit(hits->pd, &hits->buffers[hits->order[place % ORDER]]);
	return sum;
}

static bool check_hits(void *context, unsigned int thread, uint64_t count, uint64_t sum)
{
	struct hits *hits = context;

	(void)thread;
	hits->operations += count;
	return sum == count;
}

struct hit_case {
	struct hits *hits;
	const char *name;
	uint64_t live;
	const struct bench_operation *peer; /* NULL: none */
};

static void measure_hits(unsigned int threads, void *argument)
{
	const struct hit_case *measured = argument;
	struct bench_operation operation = { .prepare = client_set_context,
					     .run = do_hits,
					     .check = check_hits,
					     .context = measured->hits };
	struct bench_row row = bench_row(measured->name, measured->live, threads);
	uint64_t before = 0, after;

	measured->hits->operations = 0;
	if (client.peerpin_statistic)
		before = client_statistic("hits");
#ifdef HAVE_UCX
	if (measured->peer)
		snprintf(row.peer, sizeof(row.peer), PEER_NAME);
#endif
	bench_measure(&operation, measured->peer, &row);
	if (client.peerpin_statistic) {
		after = client_statistic("hits");
		if (after - before != measured->hits->operations)
			bench_fail("%s, %llu live: of %llu registrations %llu hit", measured->name,
				   (unsigned long long)measured->live,
				   (unsigned long long)measured->hits->operations,
				   (unsigned long long)(after - before));
	}
	bench_report(row);
}

static struct hits *hits_begin(size_t size, uint64_t live)
{
	struct hits *hits = bench_memory(sizeof(*hits));
	uint64_t state = 1;

	hits->pd = client_domain();
	hits->buffers = bench_memory(live * sizeof(*hits->buffers));
	for (uint64_t i = 0; i < live; i++) {
		hits->buffers[i] = client_allocate(size);
		client_use(hits->pd, &hits->buffers[i], 0, size);
	}
	for (uint64_t i = 0; i < ORDER; i++)
		hits->order[i] = (uint32_t)(bench_random(&state) % live);
	return hits;
}

static void hits_end(struct hits *hits, uint64_t live)
{
	for (uint64_t i = 0; i < live; i++)
		client_free(&hits->buffers[i]);
	bench_require(!client.ibv_dealloc_pd(hits->pd), "a protection domain could not be ended");
	free(hits->buffers);
	free(hits);
}

static void hits_of(const char *name, size_t size, uint64_t live, unsigned int held)
{
	struct hit_case measured = { .name = name, .live = live };
	struct ibv_mr **mrs;

	if (!bench_wants(name))
		return;
	mrs = bench_memory((held + 1) * sizeof(struct ibv_mr *));
	measured.hits = hits_begin(size, live);
	for (unsigned int i = 0; i < held; i++) {
		mrs[i] = client_register(measured.hits->pd, &measured.hits->buffers[i % live], 0,
					 size);
		bench_require(mrs[i], "a registration failed");
	}
	bench_each_threads(measure_hits, &measured);
	for (unsigned int i = 0; i < held; i++)
		bench_require(!client.ibv_dereg_mr(mrs[i]), "a deregistration failed");
	hits_end(measured.hits, live);
	free(mrs);
}

/* ---- beside UCX's registration cache, in the same process ---- */

#ifdef HAVE_UCX
#define PEER_KEY 2u /* of every region; 1 is a miss (peer.h) */

static uint64_t *peer_addresses; /* in the order of the hits */

static uint64_t do_with_peer(void *context, unsigned int thread, uint64_t count)
{
	const struct hits *hits = context;

	return peer_use(peer_addresses, ORDER, thread * (ORDER / 7) % ORDER, hits->buffers[0].size,
			count);
}

static bool check_peer(void *context, unsigned int thread, uint64_t count, uint64_t sum)
{
	(void)context;
	(void)thread;
	return sum == PEER_KEY * count;
}

static void hits_beside_ucx(uint64_t live)
{
	struct bench_operation peer = { .run = do_with_peer, .check = check_peer };
	struct hit_case measured = { .name = "hit, 64KiB, beside UCX's cache",
				     .live = live,
				     .peer = &peer };
	uint64_t *columns;

	if (!bench_wants(measured.name) || !peer_begin())
		return;
	peer.context = measured.hits = hits_begin(64 * KIB, live);
	columns = bench_memory(3 * live * sizeof(*columns));
	peer_addresses = bench_memory(ORDER * sizeof(*peer_addresses));
	for (uint64_t i = 0; i < live; i++) {
		columns[i] = measured.hits->buffers[i].address;
		columns[live + i] = 64 * KIB;
		columns[2 * live + i] = PEER_KEY;
	}
	for (uint64_t i = 0; i < ORDER; i++)
		peer_addresses[i] = columns[measured.hits->order[i]];
	peer_make(columns, columns + live, columns + 2 * live, live);
	bench_each_threads(measure_hits, &measured);
	hits_end(measured.hits, live);
	free(columns);
	free(peer_addresses);
}
#endif

void run_hits(void)
{
	static const uint64_t lives[] = { 1, 100, 10000 };

	hits_of("hit, 64KiB", 64 * KIB, 1, 0);
	hits_of("hit, 1MiB", MIB, 1, 0);
	hits_of("hit, 16MiB", 16 * MIB, 1, 0);
	hits_of("hit, 64MiB", 64 * MIB, 1, 0);
	for (unsigned int i = 1; i < 3; i++)
		hits_of("hit, 64KiB", 64 * KIB, lives[i], 0);
	for (unsigned int i = 0; i < 3; i++)
		hits_of("hit, 64KiB, 10000 client MRs held", 64 * KIB, lives[i],
			bench_is_quick() ? 1000 : MANY_HELD);
	if (client.peerpin_statistic) {
#ifdef HAVE_UCX
		hits_beside_ucx(1);
		hits_beside_ucx(10000);
#endif
	}
}
