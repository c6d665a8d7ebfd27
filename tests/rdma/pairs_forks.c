/* SPDX-License-Identifier: BSD-3-Clause */
/* pairs_forks.c -- children of a process with queue pairs */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pairs.h"
#include "unit/suite.h"

/* A real adapter's memory is not in a child unless ibv_fork_init() was called, and its objects are
 * those of the parent: a child that destroys them does. */
CASE(forks, .applies = pairs_simulated);

#define SIZE 20000u

enum child {
	CHILD_EXITS,	     /* without handlers */
	CHILD_RUNS_HANDLERS, /* of exit */
	CHILD_DESTROYS,	     /* its parent's queues */
	CHILD_OPENS,	     /* the device itself, and sends to itself */
	CHILDREN
};

static enum fork_way way;
static enum child child;

static bool is_asleep(const char *thread)
{
	char name[64], text[512] = "", *behind;
	int fd;

	snprintf(name, sizeof(name), "/proc/self/task/%.16s/stat", thread);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		must(read(fd, text, sizeof(text) - 1) >= 0);
		close(fd);
	}
	behind = strrchr(text, ')');
	return !behind || behind[2] == 'S';
}

/* Until each other thread sleeps. One that has just begun holds locks of AddressSanitizer's
 * allocator, which a child would wait for. */
static void await_other_threads(void)
{
	struct dirent *entry;
	DIR *threads;
	bool asleep;

	do {
		threads = opendir("/proc/self/task");
		must(threads);
		asleep = true;
		while ((entry = readdir(threads))) {
			if (entry->d_name[0] != '.' && atoi(entry->d_name) != gettid())
				asleep &= is_asleep(entry->d_name);
		}
		closedir(threads);
	} while (!asleep && !sched_yield());
}

/* Two queue pairs of the same process. */
static void send_to_itself(void)
{
	struct ibv_qp *pairs[2];
	struct device device;
	struct card cards[2];
	struct work work;

	device_open(&device, MIB);
	for (int i = 0; i < 2; i++) {
		pairs[i] = device_pair(&device, IBV_QPT_RC, NULL, &pairs_defaults);
		device_card(&device, pairs[i], &cards[i]);
	}
	for (int i = 0; i < 2; i++)
		pair_connect(pairs[i], &cards[!i], &pairs_defaults);
	bytes_fill(device.memory, SIZE, 3);
	work = work_write(&device, &cards[1], SIZE, SIZE);
	pair_post(pairs[0], &work);
	cq_expect(device.cq, 0, IBV_WC_SUCCESS);
	must(bytes_are(device.memory + SIZE, SIZE, 3));
	for (int i = 0; i < 2; i++)
		must(!ibv_destroy_qp(pairs[i]));
	device_close(&device);
}

static void be_child(struct device *device, struct ibv_qp *pair)
{
	switch (child) {
	case CHILD_RUNS_HANDLERS:
		exit(0);
	case CHILD_DESTROYS:
		ibv_destroy_qp(pair);
		ibv_destroy_cq(device->cq);
		ibv_destroy_comp_channel(device->channel);
		break;
	case CHILD_OPENS:
		send_to_itself();
		break;
	default:
		break;
	}
	_exit(0);
}

static void make_child(struct device *device, struct ibv_qp *pair)
{
	pid_t pid;
	int status;

	await_other_threads();
	pid = fork_by(way);
	must(pid >= 0);
	if (!pid)
		be_child(device, pair);
	must(waitpid(pid, &status, 0) == pid);
	must(!status);
}

/* The other process writes to this one all the while. */
static void with_children(struct side *side)
{
	struct work work = side_work(side, IBV_WR_RDMA_WRITE, SIZE, SIZE);

	while (side->self && !board_get(WORD_DONE)) {
		pair_post(side->pair, &work);
		cq_expect(side->device.cq, 0, IBV_WC_SUCCESS);
	}
	for (uint32_t i = 0; !side->self && i < 10; i++) {
		make_child(&side->device, side->pair);
		work.id = i;
		pair_post(side->pair, &work);
		cq_expect(side->device.cq, i, IBV_WC_SUCCESS);
	}
	board_set(WORD_DONE, 1);
}

LOOP_TEST(forks, children_do_not_disturb_the_traffic_of_their_parent, 0, FORK_WAYS *CHILDREN)
{
	way = (enum fork_way)(_i / CHILDREN);
	child = (enum child)(_i % CHILDREN);
	/* Without handlers a child may find locks of its parent's threads, as malloc's: only
	 * functions that take none are allowed to it. */
	if (way != FORK && child >= CHILD_DESTROYS)
		return;
	if (PAIRS_SLOW && child == CHILD_OPENS)
		return; /* ThreadSanitizer allows no threads to a child */
	pairs_run(2, MIB, &pairs_defaults, with_children);
}
END_TEST

/* The child goes on, and talks to its parent. */
static void parent_and_child(unsigned int self)
{
	struct ibv_qp *pair;
	struct device device;
	struct card cards[2];
	unsigned int me;
	struct work work;
	int status;
	pid_t pid;

	if (self)
		return;
	device_open(&device, MIB);
	pair = device_pair(&device, IBV_QPT_RC, NULL, &pairs_defaults);
	device_card(&device, pair, &board->cards[0][1]);
	await_other_threads();
	pid = fork_by(way);
	must(pid >= 0);
	me = !pid;
	if (me) {
		device_open(&device, MIB);
		pair = device_pair(&device, IBV_QPT_RC, NULL, &pairs_defaults);
		device_card(&device, pair, &board->cards[1][0]);
		board_set(WORD_STAGE, 1);
	}
	board_await(WORD_STAGE, 1);
	cards[0] = board->cards[0][1];
	cards[1] = board->cards[1][0];
	pair_connect(pair, &cards[!me], &pairs_defaults);
	processes_meet();
	bytes_fill(device.memory, SIZE, me);
	work = work_write(&device, &cards[!me], SIZE, SIZE);
	pair_post(pair, &work);
	cq_expect(device.cq, 0, IBV_WC_SUCCESS);
	processes_meet();
	must(bytes_are(device.memory + SIZE, SIZE, !me));
	processes_meet();
	must(!ibv_destroy_qp(pair));
	device_close(&device);
	if (me)
		_exit(0);
	must(waitpid(pid, &status, 0) == pid && !status);
}

/* Two meet, of which one is the child: the second process ends at once. */
LOOP_TEST(forks, a_child_that_opens_the_device_talks_to_its_parent, 0, FORK_WAYS)
{
	way = (enum fork_way)_i;
	if (PAIRS_SLOW)
		return;
	processes_run(2, parent_and_child);
}
END_TEST
