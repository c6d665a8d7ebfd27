/* SPDX-License-Identifier: BSD-3-Clause */
/* registration_hits.c -- hits: a registration and its end, inside memory that has been registered
 */
#include "registration.h"

#include <malloc.h>
#include <pthread.h>
#include <sched.h>
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

/* Each thread has one buffer. */
static uint64_t do_own_hits(void *context, unsigned int thread, uint64_t count)
{
	const struct hits *hits = context;
	uint64_t sum = 0;

	for (; count; count--)
		sum += do_one_hit(hits->pd, &hits->buffers[thread]);
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
	uint64_t (*run)(void *context, unsigned int thread, uint64_t count);
	const struct bench_operation *peer; /* NULL: none */
};

static void measure_hits(unsigned int threads, void *argument)
{
	const struct hit_case *measured = argument;
	struct bench_operation operation = { .prepare = client_set_context,
					     .run = measured->run,
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
	struct hit_case measured = { .name = name, .live = live, .run = do_hits };
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

#define OWN_BUFFERS 1024u /* threads of the harness */

static void hits_of_own_buffers(void)
{
	struct hit_case measured = { .name = "hit, 64KiB, own buffer",
				     .live = 1,
				     .run = do_own_hits };

	if (!bench_wants(measured.name))
		return;
	measured.hits = hits_begin(64 * KIB, OWN_BUFFERS);
	bench_each_threads(measure_hits, &measured);
	hits_end(measured.hits, OWN_BUFFERS);
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
				     .run = do_hits,
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

/* ---- a free, while other threads hit other memory ---- */

#define BLOCKS 40 /* of frees, every second while threads hit */
#define FREES  16 /* of a block */

struct hitters {
	struct hits *hits;
	_Atomic bool hitting, over;
	_Atomic unsigned int waiting, next;
};

static void *hit_until_over(void *argument)
{
	struct hitters *hitters = argument;
	unsigned int thread = hitters->next++;

	client_set_context(NULL, thread);
	while (!hitters->over) {
		if (hitters->hitting) {
			bench_require(do_own_hits(hitters->hits, thread, 64) == 64, "no hit");
			continue;
		}
		hitters->waiting++;
		while (!hitters->hitting && !hitters->over)
			client_pause(20);
		hitters->waiting--;
	}
	return NULL;
}

/* Of registered memory without client MRs. */
static double time_free(const struct hits *hits)
{
	struct buffer buffer = client_allocate(64 * KIB);
	double start;

	client_use(hits->pd, &buffer, 0, buffer.size);
	client_end_export(&buffer);
	start = client_now();
	bench_require(client.cuMemFree_v2(buffer.address) == CUDA_SUCCESS, "GPU memory stays");
	return client_now() - start;
}

static void measure_frees(unsigned int threads, void *name)
{
	struct hitters hitters = { .hits = hits_begin(64 * KIB, threads) };
	double times[2][BLOCKS / 2 * FREES];
	pthread_t *ids = bench_memory(threads * sizeof(*ids));
	struct bench_row row = bench_row(name, threads, threads);
	const unsigned int count = sizeof(times[0]) / sizeof(times[0][0]);

	for (unsigned int i = 0; i < threads; i++)
		bench_require(!pthread_create(&ids[i], NULL, hit_until_over, &hitters),
			      "no thread");
	for (unsigned int block = 0; block < BLOCKS; block++) {
		hitters.hitting = block % 2;
		while (hitters.waiting != (block % 2 ? 0 : threads))
			client_pause(20);
		for (unsigned int i = 0; i < FREES; i++)
			times[block % 2][block / 2 * FREES + i] = time_free(hitters.hits);
	}
	hitters.over = true;
	for (unsigned int i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	client_sort(times[0], count);
	client_set_times(&row, times[1], count);
	snprintf(row.peer, sizeof(row.peer), "no thread hits");
	row.peer_ns = times[0][count / 2];
	bench_report(row);
	hits_end(hitters.hits, threads);
	free(ids);
}

static void frees_beside_hits(void)
{
	static char name[] = "cuMemFree, registered, others hit";

	if (bench_wants(name))
		bench_each_threads(measure_frees, name);
}

/* ---- a provider's share ---- */

static const char struct_row[] = "of these, the provider's struct: calloc and free";

/* A provider's share of a hit: it makes the client's struct, hit or not. */
static uint64_t do_structs(void *size, unsigned int thread, uint64_t count)
{
	uint64_t sum = 0;

	(void)thread;
	for (; count; count--) {
		void *made = calloc(1, *(const size_t *)size);

		__asm__ volatile("" : "+r"(made) : : "memory"); /* keeps the pair of calls */
		sum += made != NULL;
		free(made);
	}
	return sum;
}

static bool check_structs(void *size, unsigned int thread, uint64_t count, uint64_t sum)
{
	(void)size;
	(void)thread;
	return sum == count;
}

static void measure_structs(unsigned int threads, void *size)
{
	struct bench_operation operation = { .run = do_structs,
					     .check = check_structs,
					     .context = size };
	struct bench_row row = bench_row(struct_row, 1, threads);

	bench_measure(&operation, NULL, &row);
	bench_report(row);
}

/* As large as the provider's own from malloc. */
static void structs_of_hits(void)
{
	struct buffer buffer;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	size_t size;

	if (!bench_wants(struct_row))
		return;
	pd = client_domain();
	buffer = client_allocate(MIB);
	mr = client_register(pd, &buffer, 0, MIB);
	bench_require(mr, "a registration failed");
	size = malloc_usable_size(mr);
	bench_require(!client.ibv_dereg_mr(mr), "a deregistration failed");
	client_free(&buffer);
	bench_require(!client.ibv_dealloc_pd(pd), "a protection domain could not be ended");
	bench_each_threads(measure_structs, &size);
}

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
	hits_of_own_buffers();
	if (client.peerpin_statistic) {
#ifdef HAVE_UCX
		hits_beside_ucx(1);
		hits_beside_ucx(10000);
#endif
		frees_beside_hits();
	}
	structs_of_hits();
}
