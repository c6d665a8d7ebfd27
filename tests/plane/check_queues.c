/* SPDX-License-Identifier: BSD-3-Clause */
/* check_queues.c -- completion queues of the simulated adapter behave as libibverbs documents */
#include <stdio.h>

#include "plane_fixture.h"

CASE(queues, .set_up = plane_open, .tear_down = plane_close);

static struct ibv_wc found[16];

/* Of the completions found by one poll, the ids in order: "7 8 " */
static const char *poll_ids(struct ibv_cq *cq, int most)
{
	static char text[256];
	int count = ibv_poll_cq(cq, most, found), used = 0;

	ck_assert_int_ge(count, 0);
	text[0] = 0;
	for (int i = 0; i < count; i++)
		used += sprintf(text + used, "%d ", (int)found[i].wr_id);
	return text;
}

TEST(queues, a_queue_has_at_least_the_requested_size)
{
	static const int sizes[] = { 1, 2, 3, 100, 4096, 5000 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct ibv_cq *cq = plane_queue(sizes[i], NULL);

		ck_assert_int_ge(cq->cqe, sizes[i]);
		for (int n = 0; n < sizes[i]; n++)
			plane_complete(cq, (uint64_t)n, 1);
		for (int n = 0; n < sizes[i]; n++) {
			require(ibv_poll_cq(cq, 1, found) == 1);
			require(found[0].wr_id == (uint64_t)n);
		}
		ck_assert(!plane_is_readable(plane.context->async_fd));
		ck_assert_int_eq(ibv_destroy_cq(cq), 0);
	}
}

static void refused(int cqe, struct ibv_comp_channel *channel, int vector)
{
	errno = 0;
	ck_assert_ptr_null(ibv_create_cq(plane.context, cqe, NULL, channel, vector));
	ck_assert_int_eq(errno, EINVAL);
}

TEST(queues, a_wrong_size_vector_or_channel_is_refused)
{
	struct ibv_device_attr attributes;
	struct ibv_comp_channel other = { .context = NULL };

	ck_assert_int_eq(ibv_query_device(plane.context, &attributes), 0);
	refused(0, NULL, 0);
	refused(-1, NULL, 0);
	refused(attributes.max_cqe + 1, NULL, 0);
	refused(1, NULL, -1);
	refused(1, NULL, plane.context->num_comp_vectors);
	refused(1, &other, 0);
}

TEST(queues, completions_are_polled_in_order_as_many_as_there_is_room_for)
{
	struct ibv_cq *cq = plane_queue(4, NULL);

	for (uint64_t round = 0; round < 5; round++) {
		for (uint64_t id = 1; id <= 4; id++)
			plane_complete(cq, id, 7);
		ck_assert_str_eq(poll_ids(cq, 0), "");
		ck_assert_str_eq(poll_ids(cq, 3), "1 2 3 ");
		ck_assert_int_eq(found[2].qp_num, 7);
		plane_complete(cq, 5, 7);
		ck_assert_str_eq(poll_ids(cq, 9), "4 5 ");
		ck_assert_str_eq(poll_ids(cq, 9), "");
	}
	ck_assert_int_lt(ibv_poll_cq(cq, -1, found), 0);
	ibv_destroy_cq(cq);
}

TEST(queues, a_full_queue_drops_completions_and_raises_one_event)
{
	struct ibv_cq *cq = plane_queue(4, NULL);
	struct ibv_async_event event;

	for (int id = 1; id <= cq->cqe; id++)
		plane_complete(cq, (uint64_t)id, 1);
	ck_assert(!plane_is_readable(plane.context->async_fd));
	plane_complete(cq, 98, 1);
	plane_complete(cq, 99, 1);
	ck_assert_int_eq(ibv_get_async_event(plane.context, &event), 0);
	ck_assert_int_eq(event.event_type, IBV_EVENT_CQ_ERR);
	ck_assert_ptr_eq(event.element.cq, cq);
	ck_assert(!plane_is_readable(plane.context->async_fd));
	ck_assert_str_eq(poll_ids(cq, 16), "1 2 3 4 ");
	ibv_ack_async_event(&event);
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
}

TEST(queues, completions_of_a_queue_pair_end_with_it)
{
	struct ibv_cq *cq = plane_queue(8, NULL);

	queue_reference(cq);
	queue_reference(cq);
	for (uint64_t id = 1; id <= 6; id++)
		plane_complete(cq, id, id % 2 ? 11 : 12);
	queue_release(cq, 11);
	ck_assert_int_eq(ibv_destroy_cq(cq), EBUSY);
	plane_complete(cq, 7, 12);
	ck_assert_str_eq(poll_ids(cq, 16), "2 4 6 7 ");
	queue_release(cq, 12);
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
}

#define THREAD_COMPLETIONS 20000

static bool taken[THREAD_COMPLETIONS + 1];
static unsigned int taken_count; /* atomic */

static void *poll_many(void *cq)
{
	struct ibv_wc wc[8];
	uint64_t last = 0;
	int got;

	while (__atomic_load_n(&taken_count, __ATOMIC_RELAXED) < THREAD_COMPLETIONS) {
		got = ibv_poll_cq(cq, 8, wc);
		require(got >= 0);
		for (int i = 0; i < got; i++) {
			require(wc[i].wr_id > last);
			last = wc[i].wr_id;
			require(!__atomic_exchange_n(&taken[last], true, __ATOMIC_RELAXED));
			__atomic_add_fetch(&taken_count, 1, __ATOMIC_RELAXED);
		}
	}
	return NULL;
}

TEST(queues, two_threads_poll_each_completion_once_in_order)
{
	struct ibv_cq *cq = plane_queue(THREAD_COMPLETIONS, NULL);
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, poll_many, cq), 0);
	for (uint64_t id = 1; id <= THREAD_COMPLETIONS; id++)
		plane_complete(cq, id, 1);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(taken_count, THREAD_COMPLETIONS);
	ibv_destroy_cq(cq);
}

SUITE("queues")
