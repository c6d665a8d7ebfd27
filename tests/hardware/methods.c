/* SPDX-License-Identifier: BSD-3-Clause */
/* methods.c -- methods by which this adapter registers this GPU's memory without peerpin
 *
 * peerpin must reach the same methods. Prints a line per method: "yes", or "no" with the failed
 * call and its error.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "rdma/gpu.h"
#include "rdma/loopback.h"

#define SIZE   ((size_t)2 << 20)
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static void report(const char *method, struct ibv_mr *mr, const char *call)
{
	if (mr)
		printf("%s: yes\n", method);
	else
		printf("%s: no: %s: %s\n", method, call, strerror(errno));
	if (mr && ibv_dereg_mr(mr))
		printf("%s: its region could not be deregistered: %s\n", method, strerror(errno));
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
		report("dma-buf", ibv_reg_dmabuf_mr(loopback.pd, 0, SIZE, address, fd, ACCESS),
		       "ibv_reg_dmabuf_mr");
		close(fd);
	}
	errno = 0;
	report("peer memory", ibv_reg_mr(loopback.pd, (void *)address, SIZE, ACCESS), "ibv_reg_mr");
	gpu_free(address);
	loopback_close(&loopback);
	return 0;
}
