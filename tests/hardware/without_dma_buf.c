/* SPDX-License-Identifier: BSD-3-Clause */
/* without_dma_buf.c -- an adapter whose driver cannot register dma-bufs, as libibverbs sees it
 *
 * Preloaded behind libpeerpin.so it refuses the one system call by which libibverbs registers a
 * dma-buf, with the errno of drivers that have none. So GPU memory can only be registered by peer
 * memory, and what is seen then was seen by that way. peerpin has no setting for this: users gain
 * nothing by it.
 */
#include <errno.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of enum uverbs_default_objects and uverbs_methods_mr, which installed headers of before
 * Linux 5.12 lack. */
#define OBJECT_MR	  7
#define METHOD_REG_DMABUF 4

__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...)
{
	const struct ib_uverbs_ioctl_hdr *header;
	va_list arguments;

	va_start(arguments, request);
	header = va_arg(arguments, const struct ib_uverbs_ioctl_hdr *);
	va_end(arguments);
	if (request == RDMA_VERBS_IOCTL && header->object_id == OBJECT_MR &&
	    header->method_id == METHOD_REG_DMABUF) {
		errno = EOPNOTSUPP;
		return -1;
	}
	return (int)syscall(SYS_ioctl, fd, request, header);
}
