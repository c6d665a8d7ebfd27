/* SPDX-License-Identifier: BSD-3-Clause */
/* plane_fixture.c -- stand-ins for the simulated adapter's other parts */
#include <sched.h>
#include <stdio.h>
#include <sys/wait.h>

#include "plane_fixture.h"
#include "sim/sim_adapter.h"

struct plane_fixture plane;

unsigned int adapter_number(const struct ibv_context *context)
{
	(void)context;
	return plane.adapter;
}

int adapter_regions_max(void)
{
	return 1000;
}

int adapter_count_object(const struct ibv_pd *pd, int change)
{
	if (pd != &plane.pd)
		return EINVAL;
	plane.domain_objects += change;
	return 0;
}

struct ibv_pd *sim_adapter_parent_domain(struct ibv_pd *pd)
{
	return pd;
}

int post_send(struct ibv_qp *qp, struct ibv_send_wr *request, struct ibv_send_wr **bad)
{
	(void)qp;
	*bad = request;
	return EOPNOTSUPP;
}

int post_receive(struct ibv_qp *qp, struct ibv_recv_wr *request, struct ibv_recv_wr **bad)
{
	(void)qp;
	*bad = request;
	return EOPNOTSUPP;
}

int post_shared_receive(struct ibv_srq *srq, struct ibv_recv_wr *request, struct ibv_recv_wr **bad)
{
	(void)srq;
	*bad = request;
	return EOPNOTSUPP;
}

void progress_poll(bool goes_on)
{
	(void)goes_on;
	__atomic_add_fetch(&plane.polls, 1, __ATOMIC_RELAXED);
	if (plane.progress)
		plane.progress();
}

void progress_wait(void)
{
	__atomic_add_fetch(&plane.waits, 1, __ATOMIC_RELAXED);
}

void plane_open(void)
{
	plane = (struct plane_fixture){ .context = &plane.verbs.context };
	plane.verbs.sz = sizeof(plane.verbs);
	plane.context->abi_compat = __VERBS_ABI_IS_EXTENDED;
	plane.context->device = &plane.device;
	plane.context->num_comp_vectors = 1;
	plane.pd.context = plane.context;
	ck_assert_int_eq(context_install(plane.context), 0);
}

void plane_close(void)
{
	ck_assert(context_uninstall(plane.context));
}

void plane_complete(struct ibv_cq *cq, uint64_t id, uint32_t pair)
{
	queue_complete(cq, &(struct ibv_wc){ .wr_id = id, .qp_num = pair }, false);
}

struct ibv_cq *plane_queue(int cqe, struct ibv_comp_channel *channel)
{
	struct ibv_cq *cq = ibv_create_cq(plane.context, cqe, &plane, channel, 0);

	ck_assert_ptr_nonnull(cq);
	return cq;
}

bool plane_is_readable(int fd)
{
	struct pollfd one = { .fd = fd, .events = POLLIN };

	return poll(&one, 1, 0) == 1 && one.revents == POLLIN;
}

void plane_set_nonblocking(int fd)
{
	ck_assert_int_eq(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
}

void plane_in_child(void (*function)(void))
{
	int status;
	pid_t child = fork();

	if (!child) {
		function();
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_msg(WIFEXITED(status) && !WEXITSTATUS(status), "the child ended with 0x%x",
		      status);
}

/* The third field of the thread's stat file is its state. */
static pid_t second_thread; /* atomic; 0: not yet */

void plane_thread_begins(void)
{
	__atomic_store_n(&second_thread, gettid(), __ATOMIC_RELEASE);
}

void plane_await_thread(void)
{
	char path[64], text[256], state = 0;
	FILE *file;

	while (!__atomic_load_n(&second_thread, __ATOMIC_ACQUIRE))
		sched_yield();
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)second_thread);
	while (state != 'S') {
		sched_yield();
		file = fopen(path, "r");
		ck_assert_ptr_nonnull(file);
		if (fgets(text, sizeof(text), file) && strrchr(text, ')'))
			state = strrchr(text, ')')[2];
		fclose(file);
	}
}
