/* SPDX-License-Identifier: BSD-3-Clause */
/* waiter.c -- a descriptor that is readable while a list has elements
 *
 * The descriptor, an eventfd, is for clients that poll it: it is read and written with the lock
 * held, and read only if it is readable, so no thread blocks in it. Threads in a blocking call wait
 * by futex instead: like a read of the kernel's descriptor, the system call is restarted after a
 * signal's handler that has SA_RESTART.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sim/plane/context.h"

/* Standard streams that are closed stay so. */
static int waiter_clear_streams(int fd)
{
	int moved;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	close(fd);
	return moved;
}

int waiter_make(struct waiter *waiter)
{
	waiter->fd = waiter_clear_streams(eventfd(0, EFD_CLOEXEC));
	if (waiter->fd < 0)
		return errno;
	waiter->added = 0;
	waiter->readable = false;
	pthread_mutex_init(&waiter->lock, NULL);
	pthread_cond_init(&waiter->acknowledged, NULL);
	return 0;
}

void waiter_end(struct waiter *waiter, bool inherited)
{
	close(waiter->fd);
	if (inherited)
		return;
	pthread_cond_destroy(&waiter->acknowledged);
	pthread_mutex_destroy(&waiter->lock);
}

/* Writes also where the descriptor is readable: edge-triggered epoll reports each element. */
void waiter_wake(struct waiter *waiter)
{
	uint64_t one = 1;

	waiter->readable = write(waiter->fd, &one, sizeof(one)) == sizeof(one) || waiter->readable;
	__atomic_add_fetch(&waiter->added, 1, __ATOMIC_RELAXED);
	syscall(SYS_futex, &waiter->added, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void waiter_clear(struct waiter *waiter)
{
	uint64_t count;

	if (waiter->readable)
		waiter->readable = read(waiter->fd, &count, sizeof(count)) != sizeof(count);
}

/* The thread holds no lock: it may end here. */
static int waiter_sleep(struct waiter *waiter, uint32_t seen)
{
	int type, error = 0;

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	if (syscall(SYS_futex, &waiter->added, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0))
		error = errno == EINTR ? EINTR : 0;
	pthread_setcanceltype(type, &type);
	return error;
}

int waiter_wait(struct waiter *waiter)
{
	uint32_t seen = __atomic_load_n(&waiter->added, __ATOMIC_RELAXED);
	int flags = fcntl(waiter->fd, F_GETFL), error;

	if (flags < 0)
		return errno;
	if (flags & O_NONBLOCK)
		return EAGAIN;
	pthread_mutex_unlock(&waiter->lock);
	error = waiter_sleep(waiter, seen);
	pthread_mutex_lock(&waiter->lock);
	return error;
}
