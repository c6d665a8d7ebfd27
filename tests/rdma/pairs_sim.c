/* SPDX-License-Identifier: BSD-3-Clause */
/* pairs_sim.c -- what the simulated adapter alone promises: its fabrics, and where their files are
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fabric.h"
#include "pairs.h"
#include "unit/suite.h"

CASE(sim, .applies = pairs_simulated);

#define SIZE 100000u

/* ---- fabrics ---- */

static const char *other_fabric(void)
{
	static char name[64];

	snprintf(name, sizeof(name), "%s-other", getenv("PEERPIN_SIM_ADAPTER_SEGMENT"));
	return name;
}

/* Process 1 is in another fabric. Each has the first place there, so that its own queue pair would
 * have the other's number but for one more in process 1. */
static void in_another_fabric(unsigned int self)
{
	struct connection connection = pairs_defaults;
	struct ibv_qp *pairs[2], *another = NULL;
	struct device device;
	struct work work;

	connection.timeout = 14;
	connection.retries = 1;
	if (self)
		must(!setenv("PEERPIN_SIM_ADAPTER_SEGMENT", other_fabric(), 1));
	device_open(&device, MIB);
	if (self)
		another = device_pair(&device, IBV_QPT_RC, NULL, &connection);
	pairs_mesh(&device, self, pairs, NULL, &connection);
	work = work_write(&device, &board->cards[!self][self], SIZE, SIZE);
	pair_post(pairs[!self], &work);
	cq_expect(device.cq, 0, IBV_WC_RETRY_EXC_ERR);
	processes_meet();
	must(bytes_all(device.memory, MIB, 0));
	pairs_end(pairs);
	if (another)
		must(!ibv_destroy_qp(another));
	device_close(&device);
}

TEST(sim, processes_of_separate_fabrics_do_not_reach_each_other)
{
	processes_run(2, in_another_fabric);
	fabric_remove(other_fabric());
}
END_TEST

/* ---- connections ---- */

#define ROUNDS	 300
#define MESSAGES 50

static void connection_reset(struct ibv_qp *pair)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct ibv_qp_attr start = { .qp_state = IBV_QPS_INIT,
				     .port_num = 1,
				     .qp_access_flags = ALL_ACCESS };

	must(!ibv_modify_qp(pair, &reset, IBV_QP_STATE));
	must(!ibv_modify_qp(pair, &start,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

/* A receive of this round has a message of this round. Completions of earlier ones may be left. */
static void connection_check(const struct device *device, uint64_t round)
{
	struct ibv_wc completions[MESSAGES];
	int count = ibv_poll_cq(device->cq, MESSAGES, completions);

	for (int i = 0; i < count; i++) {
		uint64_t id = completions[i].wr_id;

		must(completions[i].status == IBV_WC_SUCCESS);
		if (id / MESSAGES == round)
			must(*(uint64_t *)(device->memory + id % MESSAGES * 8) == round);
	}
}

static void reconnect(unsigned int self)
{
	struct ibv_qp *pair;
	struct device device;
	struct work work;

	device_open(&device, MIB);
	pair = device_pair(&device, IBV_QPT_RC, NULL, &pairs_defaults);
	device_card(&device, pair, &board->cards[self][!self]);
	processes_meet();
	work = (struct work){
		.opcode = IBV_WR_SEND, .local = device.memory, .length = 8, .lkey = device.mr->lkey
	};
	for (uint64_t round = 0; round < ROUNDS; round++) {
		pair_connect(pair, &board->cards[!self][self], &pairs_defaults);
		for (uint64_t i = 0; self && i < MESSAGES; i++)
			pair_receive(pair, round * MESSAGES + i, device.memory + i * 8, 8,
				     device.mr->lkey, 1);
		processes_meet();
		if (self) {
			connection_check(&device, round);
		} else {
			*(uint64_t *)device.memory = round;
			for (unsigned int i = 0; i < MESSAGES; i++)
				pair_post(pair, &work);
		}
		connection_reset(pair);
		processes_meet();
	}
	must(!ibv_destroy_qp(pair));
	device_close(&device);
}

/* Both connections have the same sequence numbers. */
TEST(sim, messages_of_a_connection_do_not_reach_the_next_one_of_the_queue_pair)
{
	processes_run(2, reconnect);
}
END_TEST

/* ---- little memory for files ---- */

#define ALL_PARTS ((PROCESSES_MOST + 1) * (size_t)SIZE)

static void move_among_all(struct side *side)
{
	struct device *device = &side->device;
	struct work work;

	bytes_fill(device->memory, SIZE, side->self);
	processes_meet();
	for (unsigned int to = 0; to < processes_count(); to++) {
		if (to == side->self)
			continue;
		work = work_write(device, &board->cards[to][side->self],
				  (size_t)(side->self + 1) * SIZE, SIZE);
		pair_post(side->pairs[to], &work);
	}
	for (unsigned int i = 1; i < processes_count(); i++)
		cq_expect(device->cq, 0, IBV_WC_SUCCESS);
	processes_meet();
	for (unsigned int from = 0; from < processes_count(); from++)
		must(from == side->self ||
		     bytes_are(device->memory + (from + 1) * (size_t)SIZE, SIZE, from));
}

/* 0 or an errno. */
static int mount_small(const char *options)
{
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("small", "/dev/shm", "tmpfs", 0, options))
		return errno;
	return 0;
}

/* Room for rings of full size, for the list of processes alone, and for nothing. */
LOOP_TEST(sim, every_byte_moves_with_little_memory_for_files, 0, 3)
{
	static const char *const options[] = { "size=16m", "size=1m", "size=64k" };
	int error = mount_small(options[_i]);

	if (error) {
		printf("not run with a small /dev/shm: no mount namespace: %s\n", strerror(error));
		return;
	}
	pairs_run(4, ALL_PARTS, &pairs_defaults, move_among_all);
	ck_assert_int_eq(fabric_files(), 0);
}
END_TEST

/* ---- programs that close what they do not know ---- */

static void without_descriptors(unsigned int self)
{
	struct ibv_qp *pairs[2];
	struct device device;
	struct work work;

	device_open(&device, MIB);
	bytes_fill(device.memory, SIZE, self);
	pairs_mesh(&device, self, pairs, NULL, &pairs_defaults);
	work = work_write(&device, &board->cards[!self][self], SIZE, SIZE);
	for (uint64_t i = 0; i < 200; i++) {
		if (i == 100)
			must(!syscall(SYS_close_range, 3, ~0u, 0));
		work.id = i;
		pair_post(pairs[!self], &work);
		cq_expect(device.cq, i, IBV_WC_SUCCESS);
	}
	processes_meet();
	must(bytes_are(device.memory + SIZE, SIZE, !self));
	pairs_end(pairs);
}

TEST(sim, transfers_go_on_after_a_process_closed_all_descriptors)
{
	processes_run(2, without_descriptors);
}
END_TEST
