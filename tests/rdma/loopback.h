/* SPDX-License-Identifier: BSD-3-Clause */
/* loopback.h -- a device, a protection domain and two connected queue pairs in one process
 *
 * What one side writes with a remote key, the adapter checks as it would for another host's write.
 * Everything here ends the test program with a message if verbs refuse it.
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

/* The device that RDMA_TEST_DEVICE names, or the first; RDMA_TEST_GID_INDEX tells the address. */
struct ibv_context *loopback_open_device(void);

void loopback_open(struct loopback *loopback);
void loopback_connect(struct loopback *loopback);

/* Writes `length` bytes from `from` (in a region with local key `lkey`) to remote address `to`;
 * returns what the adapter said. The queue pairs are of no use after a failure until
 * loopback_connect(). */
enum ibv_wc_status loopback_write(struct loopback *loopback, const void *from, uint32_t lkey,
				  uint64_t to, uint32_t rkey, uint32_t length);

/* The same in the other direction: reads `length` bytes at the remote address `from` into `to`. */
enum ibv_wc_status loopback_read(struct loopback *loopback, void *to, uint32_t lkey, uint64_t from,
				 uint32_t rkey, uint32_t length);

void loopback_disconnect(struct loopback *loopback);
void loopback_close(struct loopback *loopback);

/* How many memory regions the kernel holds that were registered by a thread of this process which
 * still lives. */
int loopback_kernel_regions(void);

#endif
