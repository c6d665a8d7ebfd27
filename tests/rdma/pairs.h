/* SPDX-License-Identifier: BSD-3-Clause */
/* pairs.h -- queue pairs between a test's processes, with one region of memory in each
 *
 * A refusal of verbs ends the process (must()).
 */
#ifndef PEERPIN_TESTS_PAIRS_H
#define PEERPIN_TESTS_PAIRS_H

#include <time.h>

#include "forks.h"
#include "processes.h"

#define MIB ((size_t)1 << 20)
#define ALL_ACCESS                                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)
/* Under ThreadSanitizer, which is slow. */
#define PAIRS_SLOW FORK_ALONE
#define PAIRS_QKEY 0x11111111u

struct device {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;		  /* of all completions */
	struct ibv_comp_channel *channel; /* of cq */
	struct ibv_mr *mr;		  /* all access flags */
	char *memory;
	size_t size;
};

/* Attributes of a connection; pairs_defaults where a test does not care. */
struct connection {
	int access; /* of the queue pair */
	uint8_t timeout, retries, rnr_retry, rnr_timer;
};
extern const struct connection pairs_defaults;

/* Whether the adapter is the simulated one; then tests may be longer. */
bool pairs_simulated(void);

/* Soft-RoCE differs: it reports no events of refused requests, and has another status of its own
 * for local errors. */
bool pairs_soft_roce(void);
enum ibv_wc_status pairs_local_error(enum ibv_wc_status status);

/* Of the monotonic clock. */
time_t pairs_seconds(void);

/* Open RDMA_TEST_DEVICE, or the first device, and register `size` bytes. */
void device_open(struct device *device, size_t size);
void device_close(struct device *device);

/* The next event but that a connection is there is this one, of a queue pair or receive queue. */
void device_expect_event(const struct device *device, enum ibv_event_type type,
			 const void *element);

/* A queue pair in the state INIT. */
struct ibv_qp *device_pair(const struct device *device, enum ibv_qp_type type, struct ibv_srq *srq,
			   const struct connection *connection);
void device_card(const struct device *device, const struct ibv_qp *pair, struct card *card);
void pair_connect(struct ibv_qp *pair, const struct card *to, const struct connection *connection);

/* Datagrams: from INIT to RTS, and an address. */
void pair_start_datagrams(struct ibv_qp *pair);
struct ibv_ah *device_address(const struct device *device, const struct card *to);

/* One of a test's processes, with a queue pair to each other one. */
struct side {
	unsigned int self;
	struct device device;
	struct ibv_qp *pairs[PROCESSES_MOST]; /* pairs[self] is NULL */
	/* Of two processes: the other one. */
	struct ibv_qp *pair;
	const struct card *peer;
};

/* processes_run() and processes_start() with sides of `size` bytes, connected before `body` and
 * closed when all have returned from it. */
void pairs_run(unsigned int count, size_t size, const struct connection *connection,
	       void (*body)(struct side *side));
void pairs_start(unsigned int count, size_t size, const struct connection *connection,
		 void (*body)(struct side *side));
/* One of the sides, in a process of processes_run(). */
void pairs_side(unsigned int self, size_t size, const struct connection *connection,
		void (*body)(struct side *side));

/* A queue pair to each other process, connected. All processes call it. pairs[self] is NULL. */
void pairs_mesh(const struct device *device, unsigned int self, struct ibv_qp **pairs,
		struct ibv_srq *srq, const struct connection *connection);
void pairs_end(struct ibv_qp **pairs);

struct work {
	enum ibv_wr_opcode opcode;
	uint64_t id;
	int flags; /* IBV_SEND_* */
	uint32_t immediate;
	const void *local;
	uint32_t length, lkey;
	unsigned int pieces; /* 0: one */
	uint64_t remote;
	uint32_t rkey;
	uint64_t compare_add, swap;
};

/* Signaled works from the start of the device's memory; a WRITE goes to the card's, at `offset`,
 * and a side's work to the other side's. */
struct work side_work(const struct side *side, enum ibv_wr_opcode opcode, uint64_t offset,
		      uint32_t length);
struct work work_send(const struct device *device, uint64_t id, uint32_t length);
struct work work_write(const struct device *device, const struct card *to, uint64_t offset,
		       uint32_t length);

/* The pieces of a work's local memory differ in size, and lie one after another. */
void pair_post(struct ibv_qp *pair, const struct work *work);
void pair_receive(struct ibv_qp *pair, uint64_t id, void *memory, uint32_t length, uint32_t lkey,
		  unsigned int pieces);

enum ibv_qp_state pair_state(struct ibv_qp *pair);

/* The next completion; polls. */
void cq_next(struct ibv_cq *cq, struct ibv_wc *completion);

/* The next completion has this number and this status. */
void cq_expect(struct ibv_cq *cq, uint64_t id, enum ibv_wc_status status);

/* Bytes that depend on the seed and on their position. */
void bytes_fill(void *memory, size_t bytes, uint32_t seed);
bool bytes_are(const void *memory, size_t bytes, uint32_t seed);
bool bytes_all(const void *memory, size_t bytes, int value);

#endif
