/* SPDX-License-Identifier: BSD-3-Clause */
/* without_dma_buf.c -- makes the adapter's driver appear to have no dma-buf registration
 *
 * Preloaded behind libpeerpin.so, it rejects the system call by which libibverbs registers a
 * dma-buf, with the errno of drivers without support. Only peer memory can then register GPU
 * memory. peerpin has no setting for this, because users have no use for it.
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
