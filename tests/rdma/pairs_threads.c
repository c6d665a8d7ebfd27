/* SPDX-License-Identifier: BSD-3-Clause */
/* pairs_threads.c -- several threads of a process post and poll, on the same objects and on others
 */
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "pairs.h"
#include "unit/suite.h"

CASE(threads);

#define THREADS	  4
#define SLOT	  4096u
#define IN_FLIGHT 64

struct job {
	pthread_t thread;
	struct device *device;
	struct ibv_qp *pair;
	const struct card *peer;
	unsigned int index;
	/* Of all threads together; atomic. */
	uint32_t *posted, *left; /* requests posted, completions not taken */
};

static uint32_t requests(void)
{
	return pairs_simulated() ? 2000 : 200;
}

/* At most one completion, of any thread's request. */
static void take_one(struct job *job)
{
	struct ibv_wc completion;

	if (ibv_poll_cq(job->device->cq, 1, &completion) != 1) {
		sched_yield();
		return;
	}
	must(completion.status == IBV_WC_SUCCESS);
	__atomic_sub_fetch(job->left, 1, __ATOMIC_ACQ_REL);
}

static uint32_t in_flight(const struct job *job)
{
	uint32_t taken = THREADS * requests() - __atomic_load_n(job->left, __ATOMIC_ACQUIRE);

	return __atomic_load_n(job->posted, __ATOMIC_ACQUIRE) - taken;
}

/* All threads post to one queue pair or to one of their own, and all poll one queue. */
static void *post_and_poll(void *argument)
{
	struct job *job = argument;
	char *memory = job->device->memory + job->index * SLOT;
	struct work work = work_write(job->device, job->peer, (THREADS + job->index) * SLOT, 0);

	work.local = memory;
	bytes_fill(memory, SLOT, job->index);
	for (uint32_t i = 0; i < requests(); i++) {
		work.length = i + 1 < requests() ? i % SLOT : SLOT;
		while (in_flight(job) >= IN_FLIGHT)
			take_one(job);
		__atomic_add_fetch(job->posted, 1, __ATOMIC_ACQ_REL);
		pair_post(job->pair, &work);
	}
	while (__atomic_load_n(job->left, __ATOMIC_ACQUIRE))
		take_one(job);
	return NULL;
}

static bool shared_pair;

static void post_by_threads(unsigned int self)
{
	struct ibv_qp *pairs[2 * THREADS];
	uint32_t left = THREADS * requests(), posted = 0;
	struct job jobs[THREADS];
	struct device device;

	device_open(&device, MIB);
	for (unsigned int i = 0; i < THREADS; i++) {
		pairs[i] = device_pair(&device, IBV_QPT_RC, NULL, &pairs_defaults);
		device_card(&device, pairs[i], &board->cards[self][i]);
	}
	processes_meet();
	for (unsigned int i = 0; i < THREADS; i++)
		pair_connect(pairs[i], &board->cards[!self][i], &pairs_defaults);
	processes_meet();
	for (unsigned int i = 0; i < THREADS; i++) {
		jobs[i] = (struct job){ .device = &device,
					.pair = pairs[shared_pair ? 0 : i],
					.peer = &board->cards[!self][shared_pair ? 0 : i],
					.index = i,
					.posted = &posted,
					.left = &left };
		must(!pthread_create(&jobs[i].thread, NULL, post_and_poll, &jobs[i]));
	}
	for (unsigned int i = 0; i < THREADS; i++)
		must(!pthread_join(jobs[i].thread, NULL));
	processes_meet();
	for (unsigned int i = 0; i < THREADS; i++) {
		must(bytes_are(device.memory + (THREADS + i) * SLOT, SLOT, i));
		must(!ibv_destroy_qp(pairs[i]));
	}
	device_close(&device);
}

LOOP_TEST(threads, threads_post_and_poll_on_one_queue_pair_and_on_several, 0, 2)
{
	shared_pair = _i;
	processes_run(2, post_by_threads);
}
END_TEST

/* ---- objects that come and go beside traffic ---- */

static void *make_and_end(void *argument)
{
	struct job *job = argument;
	struct ibv_mr *mr;
	struct ibv_qp *pair;
	struct ibv_cq *cq;
	struct device device = *job->device;

	while (!board_get(WORD_DONE)) {
		must((mr = ibv_reg_mr(device.pd, device.memory, SLOT, ALL_ACCESS)));
		must((cq = ibv_create_cq(device.context, 16, NULL, NULL, 0)));
		device.cq = cq;
		pair = device_pair(&device, IBV_QPT_RC, NULL, &pairs_defaults);
		pair_connect(pair, job->peer, &pairs_defaults);
		must(!ibv_destroy_qp(pair));
		must(!ibv_destroy_cq(cq));
		must(!ibv_dereg_mr(mr));
	}
	return NULL;
}

static void objects_beside_traffic(struct side *side)
{
	struct job job = { .device = &side->device, .peer = side->peer };
	struct work work = side_work(side, IBV_WR_RDMA_WRITE, MIB / 2, MIB / 2);

	must(!pthread_create(&job.thread, NULL, make_and_end, &job));
	for (uint32_t i = 0; i < requests() / 10; i++) {
		pair_post(side->pair, &work);
		cq_expect(side->device.cq, 0, IBV_WC_SUCCESS);
	}
	processes_meet();
	board_set(WORD_DONE, 1);
	must(!pthread_join(job.thread, NULL));
}

TEST(threads, a_thread_makes_and_ends_objects_beside_the_traffic_of_another)
{
	pairs_run(2, MIB, &pairs_defaults, objects_beside_traffic);
}
END_TEST

/* One thread waits for events, another posts. */
static void *wait_for_events(void *argument)
{
	struct job *job = argument;
	struct ibv_wc completion;
	struct ibv_cq *cq;
	void *cq_context;

	for (uint32_t taken = 0; taken < requests();) {
		must(!ibv_get_cq_event(job->device->channel, &cq, &cq_context));
		ibv_ack_cq_events(cq, 1);
		must(!ibv_req_notify_cq(cq, 0));
		while (ibv_poll_cq(cq, 1, &completion) == 1) {
			must(completion.status == IBV_WC_SUCCESS);
			taken++;
		}
		board_set((enum board_word)job->index, taken);
	}
	return NULL;
}

static void wait_and_post(struct side *side)
{
	struct job job = { .device = &side->device, .index = side->self };
	struct work work = side_work(side, IBV_WR_RDMA_WRITE, SLOT, SLOT);

	must(!ibv_req_notify_cq(side->device.cq, 0));
	must(!pthread_create(&job.thread, NULL, wait_for_events, &job));
	for (uint32_t i = 0; i < requests(); i++) {
		if (i > IN_FLIGHT)
			board_await((enum board_word)side->self, i - IN_FLIGHT);
		pair_post(side->pair, &work);
	}
	must(!pthread_join(job.thread, NULL));
}

TEST(threads, a_thread_that_waits_for_events_takes_the_completions_of_another)
{
	pairs_run(2, MIB, &pairs_defaults, wait_and_post);
}
END_TEST
