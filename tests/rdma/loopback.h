/* SPDX-License-Identifier: BSD-3-Clause */
/* loopback.h -- a device, a protection domain and two connected queue pairs in one process
 *
 * The adapter checks a write with a remote key as one from another host. A refusal of verbs ends
 * the program with a message.
 */
#ifndef PEERPIN_TESTS_LOOPBACK_H
#define PEERPIN_TESTS_LOOPBACK_H

#include <infiniband/verbs.h>

struct loopback {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *queue;
	struct ibv_qp *near, *far;
};

/* The device RDMA_TEST_DEVICE, or the first; RDMA_TEST_GID_INDEX is the address. */
struct ibv_context *loopback_open_device(void);

void loopback_open(struct loopback *loopback);
void loopback_connect(struct loopback *loopback);

/* Write `length` bytes from `from` (local key `lkey`) to remote address `to`; returns the adapter's
 * status. After a failure the queue pairs need loopback_connect(). */
enum ibv_wc_status loopback_write(struct loopback *loopback, const void *from, uint32_t lkey,
				  uint64_t to, uint32_t rkey, uint32_t length);

/* The other direction: read `length` bytes at the remote address `from` into `to`. */
enum ibv_wc_status loopback_read(struct loopback *loopback, void *to, uint32_t lkey, uint64_t from,
				 uint32_t rkey, uint32_t length);

void loopback_disconnect(struct loopback *loopback);
void loopback_close(struct loopback *loopback);

/* Memory regions in the kernel that live threads of this process registered; of the simulated
 * adapter: all that this process registered. */
int loopback_kernel_regions(void);

/* From now on the kernel limits pinned memory of this process; not with CAP_IPC_LOCK. The simulated
 * adapter limits registered bytes. */
void loopback_limit_pinned(size_t bytes);

#endif
