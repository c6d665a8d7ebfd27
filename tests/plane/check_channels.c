/* SPDX-License-Identifier: BSD-3-Clause */
/* check_channels.c -- completion channels behave as libibverbs documents */
#include <signal.h>
#include <sys/epoll.h>

#include "plane_fixture.h"

static struct ibv_comp_channel *channel;
static struct ibv_cq *cq, *other;

static void open_channel(void)
{
	plane_open();
	channel = ibv_create_comp_channel(plane.context);
	ck_assert_ptr_nonnull(channel);
	ck_assert_int_gt(channel->fd, STDERR_FILENO);
	cq = plane_queue(16, channel);
	other = plane_queue(16, channel);
}

static void close_channel(void)
{
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
	if (other)
		ck_assert_int_eq(ibv_destroy_cq(other), 0);
	ck_assert_int_eq(ibv_destroy_comp_channel(channel), 0);
	plane_close();
}

CASE(channels, .set_up = open_channel, .tear_down = close_channel);

static void expect_event(struct ibv_cq *of)
{
	struct ibv_cq *got = NULL;
	void *context = NULL;

	ck_assert(plane_is_readable(channel->fd));
	ck_assert_int_eq(ibv_get_cq_event(channel, &got, &context), 0);
	ck_assert_ptr_eq(got, of);
	ck_assert_ptr_eq(context, &plane);
	ibv_ack_cq_events(of, 1);
}

static void complete(bool solicited, enum ibv_wc_status status)
{
	queue_complete(cq, &(struct ibv_wc){ .status = status }, solicited);
}

TEST(channels, an_armed_queue_raises_one_event_at_its_next_completion)
{
	plane_complete(cq, 1, 1);
	ck_assert_int_eq(ibv_req_notify_cq(cq, 0), 0);
	ck_assert_uint_eq(plane.waits, 1);
	ck_assert(!plane_is_readable(channel->fd));
	plane_complete(cq, 2, 1);
	plane_complete(cq, 3, 1);
	expect_event(cq);
	ck_assert(!plane_is_readable(channel->fd));
}

TEST(channels, a_queue_armed_for_solicited_completions_raises_no_event_at_others)
{
	ibv_req_notify_cq(cq, 1);
	complete(false, IBV_WC_SUCCESS);
	ck_assert(!plane_is_readable(channel->fd));
	complete(true, IBV_WC_SUCCESS);
	expect_event(cq);
	ibv_req_notify_cq(cq, 1);
	complete(false, IBV_WC_WR_FLUSH_ERR);
	expect_event(cq);
	/* The wider of two requests counts. */
	ibv_req_notify_cq(cq, 0);
	ibv_req_notify_cq(cq, 1);
	complete(false, IBV_WC_SUCCESS);
	expect_event(cq);
}

TEST(channels, events_of_two_queues_come_in_order)
{
	for (int i = 0; i < 2; i++) {
		ibv_req_notify_cq(cq, 0);
		plane_complete(cq, 1, 1);
		ibv_req_notify_cq(other, 0);
		plane_complete(other, 1, 1);
	}
	expect_event(cq);
	expect_event(other);
	expect_event(cq);
	expect_event(other);
	ck_assert(!plane_is_readable(channel->fd));
}

TEST(channels, a_channel_with_a_queue_is_busy)
{
	struct ibv_comp_channel *own = ibv_create_comp_channel(plane.context);
	struct ibv_cq *user;

	ck_assert_ptr_nonnull(own);
	user = plane_queue(1, own);
	ck_assert_int_eq(ibv_destroy_comp_channel(own), EBUSY);
	ck_assert_int_eq(ibv_destroy_cq(user), 0);
	ck_assert_int_eq(ibv_destroy_comp_channel(own), 0);
}

TEST(channels, a_nonblocking_channel_without_events_returns_eagain)
{
	struct ibv_cq *got;
	void *context;

	plane_set_nonblocking(channel->fd);
	ck_assert_int_eq(ibv_get_cq_event(channel, &got, &context), -1);
	ck_assert_int_eq(errno, EAGAIN);
	ibv_req_notify_cq(cq, 0);
	plane_complete(cq, 1, 1);
	expect_event(cq);
	ck_assert_int_eq(ibv_get_cq_event(channel, &got, &context), -1);
	ck_assert_int_eq(errno, EAGAIN);
}

TEST(channels, each_event_is_an_edge)
{
	int set = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };

	ck_assert_int_eq(epoll_ctl(set, EPOLL_CTL_ADD, channel->fd, &event), 0);
	ibv_req_notify_cq(cq, 0);
	plane_complete(cq, 1, 1);
	ck_assert_int_eq(epoll_wait(set, &event, 1, 0), 1);
	ck_assert_int_eq(epoll_wait(set, &event, 1, 0), 0);
	ibv_req_notify_cq(other, 0);
	plane_complete(other, 1, 1);
	ck_assert_int_eq(epoll_wait(set, &event, 1, 0), 1);
	close(set);
	expect_event(cq);
	expect_event(other);
}

TEST(channels, unread_events_end_with_their_queue)
{
	for (int i = 0; i < 2; i++) {
		ibv_req_notify_cq(other, 0);
		plane_complete(other, 1, 1);
	}
	ibv_req_notify_cq(cq, 0);
	plane_complete(cq, 1, 1);
	ck_assert_int_eq(ibv_destroy_cq(other), 0);
	other = NULL;
	expect_event(cq);
	ck_assert(!plane_is_readable(channel->fd));
}

TEST(channels, the_end_of_the_only_queue_with_events_makes_the_channel_unreadable)
{
	ibv_req_notify_cq(other, 0);
	plane_complete(other, 1, 1);
	ck_assert(plane_is_readable(channel->fd));
	ck_assert_int_eq(ibv_destroy_cq(other), 0);
	other = NULL;
	ck_assert(!plane_is_readable(channel->fd));
}

/* ---- threads ---- */

static bool ended; /* atomic */

static void *destroy_other(void *unused)
{
	plane_thread_begins();
	ck_assert_int_eq(ibv_destroy_cq(other), 0);
	__atomic_store_n(&ended, true, __ATOMIC_RELEASE);
	return unused;
}

TEST(channels, the_end_of_a_queue_waits_for_acknowledgements)
{
	struct ibv_cq *got;
	void *context;
	pthread_t thread;

	for (int i = 0; i < 2; i++) {
		ibv_req_notify_cq(other, 0);
		plane_complete(other, 1, 1);
		ck_assert_int_eq(ibv_get_cq_event(channel, &got, &context), 0);
	}
	ck_assert_int_eq(pthread_create(&thread, NULL, destroy_other, NULL), 0);
	plane_await_thread();
	ibv_ack_cq_events(other, 1);
	plane_await_thread();
	ck_assert(!__atomic_load_n(&ended, __ATOMIC_ACQUIRE));
	ibv_ack_cq_events(other, 1);
	pthread_join(thread, NULL);
	other = NULL;
}

static void *wait_for_event(void *error)
{
	struct ibv_cq *got;
	void *context;
	int result;

	plane_thread_begins();
	result = ibv_get_cq_event(channel, &got, &context);
	*(int *)error = result ? errno : 0;
	if (!result)
		ibv_ack_cq_events(got, 1);
	return NULL;
}

TEST(channels, a_blocking_thread_gets_the_event_of_another_threads_completion)
{
	pthread_t thread;
	int error = -1;

	ibv_req_notify_cq(cq, 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_event, &error), 0);
	plane_await_thread();
	plane_complete(cq, 1, 1);
	pthread_join(thread, NULL);
	ck_assert_int_eq(error, 0);
	ck_assert(!plane_is_readable(channel->fd));
}

/* ThreadSanitizer keeps a signal until the thread calls libc. */
#ifndef __SANITIZE_THREAD__
static int handled; /* atomic */

static void handle(int number)
{
	(void)number;
	__atomic_add_fetch(&handled, 1, __ATOMIC_RELEASE);
}

static void signal_thread(pthread_t thread, int flags)
{
	struct sigaction action = { .sa_handler = handle, .sa_flags = flags };

	sigaction(SIGUSR1, &action, NULL);
	plane_await_thread();
	pthread_kill(thread, SIGUSR1);
	while (!__atomic_load_n(&handled, __ATOMIC_ACQUIRE))
		;
}

TEST(channels, a_signal_interrupts_a_blocking_thread)
{
	pthread_t thread;
	int error = -1;

	ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_event, &error), 0);
	signal_thread(thread, 0);
	pthread_join(thread, NULL);
	ck_assert_int_eq(error, EINTR);
}

TEST(channels, a_signal_with_sa_restart_does_not)
{
	pthread_t thread;
	int error = -1;

	ibv_req_notify_cq(cq, 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_event, &error), 0);
	signal_thread(thread, SA_RESTART);
	plane_await_thread();
	plane_complete(cq, 1, 1);
	pthread_join(thread, NULL);
	ck_assert_int_eq(error, 0);
}

#endif

/* AddressSanitizer keeps the marks of the stack frames that a cancellation leaves. */
#ifndef __SANITIZE_ADDRESS__
TEST(channels, a_blocking_thread_can_be_cancelled)
{
	pthread_t thread;
	int error = -1;
	void *result;

	ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_event, &error), 0);
	plane_await_thread();
	pthread_cancel(thread);
	pthread_join(thread, &result);
	ck_assert_ptr_eq(result, PTHREAD_CANCELED);
}
#endif

/* ---- forked children ---- */

static void use_as_child(void)
{
	struct ibv_async_event event;
	struct ibv_wc wc;
	struct ibv_cq *got;
	void *context;

	alarm(60); /* a child that blocks ends by a signal */
	require(context_is_inherited(plane.context));
	require(ibv_poll_cq(cq, 1, &wc) == 0);
	require(ibv_req_notify_cq(cq, 0) == 0);
	require(ibv_get_cq_event(channel, &got, &context) == -1);
	require(ibv_get_async_event(plane.context, &event) == -1);
	ibv_ack_cq_events(cq, 1);
	events_raise(plane.context, IBV_EVENT_PORT_ERR, NULL);
	events_forget(plane.context, cq);
	require(!ibv_create_cq(plane.context, 1, NULL, NULL, 0));
	require(ibv_destroy_cq(cq) == 0);
	require(ibv_destroy_cq(other) == 0);
	require(ibv_destroy_comp_channel(channel) == 0);
	require(context_uninstall(plane.context));
	require(context_install(plane.context) == 0);
	require(!context_is_inherited(plane.context));
	plane_complete(plane_queue(1, NULL), 1, 1);
}

TEST(channels, a_forked_child_does_not_block_and_does_not_disturb_its_parent)
{
	struct event_list *list = &plane.verbs.priv->events;
	struct ibv_cq *got;
	void *context;

	/* An event that is read and not acknowledged, and a lock that another thread holds. */
	ibv_req_notify_cq(cq, 0);
	plane_complete(cq, 1, 1);
	ck_assert_int_eq(ibv_get_cq_event(channel, &got, &context), 0);
	ibv_req_notify_cq(cq, 0);
	pthread_mutex_lock(&list->waiter.lock);
	plane_in_child(use_as_child);
	pthread_mutex_unlock(&list->waiter.lock);
	ck_assert(!plane_is_readable(plane.context->async_fd));
	ck_assert(!plane_is_readable(channel->fd));
	ibv_ack_cq_events(cq, 1);
	plane_complete(cq, 2, 1);
	expect_event(cq);
}

SUITE("channels")
