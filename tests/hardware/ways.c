/* SPDX-License-Identifier: BSD-3-Clause */
/* ways.c -- by which ways this adapter registers this GPU's memory when nothing stands between
 *
 * Runs without peerpin: what it finds is what peerpin has to reach as well. One line for each way,
 * "yes" or "no" with the call that refused and its error.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "rdma/gpu.h"
#include "rdma/loopback.h"

#define SIZE   ((size_t)2 << 20)
#define RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static void tell(const char *way, struct ibv_mr *mr, const char *call)
{
	if (mr)
		printf("%s: yes\n", way);
	else
		printf("%s: no: %s: %s\n", way, call, strerror(errno));
	if (mr && ibv_dereg_mr(mr))
		printf("%s: its region could not be given back: %s\n", way, strerror(errno));
}

int main(void)
{
	struct loopback loopback;
	uint64_t address;
	char name[128];
	int fd, error;

	gpu_open();
	gpu_name(name, sizeof(name));
	printf("GPU: %s\n", name);
	loopback_open(&loopback);
	printf("adapter: %s\n", ibv_get_device_name(loopback.context->device));
	address = gpu_allocate(SIZE);
	error = gpu_export(address, SIZE, &fd);
	if (error) {
		printf("dma-buf: no: cuMemGetHandleForAddressRange: error %d\n", error);
	} else {
		errno = 0;
		tell("dma-buf", ibv_reg_dmabuf_mr(loopback.pd, 0, SIZE, address, fd, RIGHTS),
		     "ibv_reg_dmabuf_mr");
		close(fd);
	}
	errno = 0;
	tell("peer memory", ibv_reg_mr(loopback.pd, (void *)address, SIZE, RIGHTS), "ibv_reg_mr");
	gpu_free(address);
	loopback_close(&loopback);
	return 0;
}
