/* SPDX-License-Identifier: BSD-3-Clause */
/* plane_fixture.h -- a device context of the data plane, without queue pairs and without the other
 * parts of the simulated adapter
 */
#ifndef PEERPIN_TESTS_PLANE_FIXTURE_H
#define PEERPIN_TESTS_PLANE_FIXTURE_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "sim/adapter_access.h"
#include "sim/plane/context.h"
#include "../unit/suite.h"

struct plane_fixture {
	struct ibv_device device;
	struct verbs_context verbs;
	struct ibv_context *context; /* in `verbs` */
	struct ibv_pd pd;
	unsigned int adapter;	   /* of the context */
	int domain_objects;	   /* counted in the domain */
	unsigned int polls, waits; /* calls of progress_poll() and progress_wait(); atomic */
	void (*progress)(void);	   /* called by progress_poll(), if not NULL */
};

extern struct plane_fixture plane;

void plane_open(void);
void plane_close(void);

/* Add a successful completion of a queue pair. */
void plane_complete(struct ibv_cq *cq, uint64_t id, uint32_t pair);

/* A completion queue of the context. */
struct ibv_cq *plane_queue(int cqe, struct ibv_comp_channel *channel);

/* Whether the descriptor is readable now. */
bool plane_is_readable(int fd);
void plane_set_nonblocking(int fd);

/* Run in a forked child, which exits with status 0. */
void plane_in_child(void (*function)(void));

/* A test's second thread calls the first; the test then waits until it sleeps in a system call. */
void plane_thread_begins(void);
void plane_await_thread(void);

#endif
