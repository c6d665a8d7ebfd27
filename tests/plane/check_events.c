/* SPDX-License-Identifier: BSD-3-Clause */
/* check_events.c -- asynchronous events behave as libibverbs documents */
#include "plane_fixture.h"

static bool ended; /* atomic */

CASE(asynchronous, .set_up = plane_open, .tear_down = plane_close);

static struct ibv_qp pair;
static struct ibv_srq receives;

static void expect_asynchronous(enum ibv_event_type type, void *element,
				struct ibv_async_event *event)
{
	ck_assert(plane_is_readable(plane.context->async_fd));
	ck_assert_int_eq(ibv_get_async_event(plane.context, event), 0);
	ck_assert_int_eq(event->event_type, type);
	ck_assert_ptr_eq(event->element.qp, element);
}

TEST(asynchronous, events_are_read_in_order)
{
	struct ibv_async_event event;

	pair.context = receives.context = plane.context;
	ck_assert_int_gt(plane.context->async_fd, STDERR_FILENO);
	events_raise(plane.context, IBV_EVENT_QP_FATAL, &pair);
	events_raise(plane.context, IBV_EVENT_SRQ_LIMIT_REACHED, &receives);
	events_raise(plane.context, IBV_EVENT_PORT_ACTIVE, NULL);
	expect_asynchronous(IBV_EVENT_QP_FATAL, &pair, &event);
	ibv_ack_async_event(&event);
	expect_asynchronous(IBV_EVENT_SRQ_LIMIT_REACHED, &receives, &event);
	ibv_ack_async_event(&event);
	ck_assert_int_eq(ibv_get_async_event(plane.context, &event), 0);
	ck_assert_int_eq(event.event_type, IBV_EVENT_PORT_ACTIVE);
	ck_assert_int_eq(event.element.port_num, 1);
	ibv_ack_async_event(&event);
	plane_set_nonblocking(plane.context->async_fd);
	ck_assert_int_eq(ibv_get_async_event(plane.context, &event), -1);
	ck_assert_int_eq(errno, EAGAIN);
	events_forget(plane.context, &pair);
	events_forget(plane.context, &receives);
}

TEST(asynchronous, unread_events_end_with_their_element)
{
	struct ibv_async_event event;

	pair.context = receives.context = plane.context;
	events_raise(plane.context, IBV_EVENT_QP_FATAL, &pair);
	events_raise(plane.context, IBV_EVENT_SRQ_ERR, &receives);
	events_raise(plane.context, IBV_EVENT_QP_LAST_WQE_REACHED, &pair);
	events_forget(plane.context, &pair);
	events_raise(plane.context, IBV_EVENT_SRQ_LIMIT_REACHED, &receives);
	expect_asynchronous(IBV_EVENT_SRQ_ERR, &receives, &event);
	ibv_ack_async_event(&event);
	expect_asynchronous(IBV_EVENT_SRQ_LIMIT_REACHED, &receives, &event);
	ibv_ack_async_event(&event);
	ck_assert(!plane_is_readable(plane.context->async_fd));
	events_raise(plane.context, IBV_EVENT_QP_FATAL, &pair);
	events_forget(plane.context, &pair);
	ck_assert(!plane_is_readable(plane.context->async_fd));
}

TEST(asynchronous, the_unread_event_of_a_full_queue_ends_with_it)
{
	struct ibv_cq *full = plane_queue(1, NULL);

	plane_complete(full, 1, 1);
	plane_complete(full, 2, 1);
	ck_assert(plane_is_readable(plane.context->async_fd));
	ck_assert_int_eq(ibv_destroy_cq(full), 0);
	ck_assert(!plane_is_readable(plane.context->async_fd));
}

static void *forget_pair(void *unused)
{
	plane_thread_begins();
	events_forget(plane.context, &pair);
	__atomic_store_n(&ended, true, __ATOMIC_RELEASE);
	return unused;
}

TEST(asynchronous, the_end_of_an_element_waits_for_acknowledgements)
{
	struct ibv_async_event events[2], of_another;
	pthread_t thread;

	pair.context = receives.context = plane.context;
	events_raise(plane.context, IBV_EVENT_SRQ_ERR, &receives);
	ck_assert_int_eq(ibv_get_async_event(plane.context, &of_another), 0);
	events_raise(plane.context, IBV_EVENT_QP_FATAL, &pair);
	events_raise(plane.context, IBV_EVENT_QP_LAST_WQE_REACHED, &pair);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(ibv_get_async_event(plane.context, &events[i]), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, forget_pair, NULL), 0);
	plane_await_thread();
	ibv_ack_async_event(&of_another);
	ibv_ack_async_event(&events[1]);
	plane_await_thread();
	ck_assert(!__atomic_load_n(&ended, __ATOMIC_ACQUIRE));
	ibv_ack_async_event(&events[0]);
	pthread_join(thread, NULL);
}

SUITE("events")
