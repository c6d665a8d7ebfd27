/* SPDX-License-Identifier: BSD-3-Clause */
/* signal_safe_write.c -- blocks SIGPIPE and SIGXFSZ during a write; consumes its own
 *
 * The kernel sends both signals to the writing thread: no other thread's signal is consumed. A
 * signal that was pending before stays pending.
 */
#include "base/signal_safe_write.h"

#include <errno.h>

#include "base/kernel.h"

#define BROKEN_PIPE    ((uint64_t)1 << (13 - 1)) /* SIGPIPE */
#define FILE_TOO_LARGE ((uint64_t)1 << (25 - 1)) /* SIGXFSZ */

struct held {
	uint64_t mask, waiting; /* both before the write */
};

static struct held signal_safe_hold(void)
{
	struct held held = { 0 };
	uint64_t both = BROKEN_PIPE | FILE_TOO_LARGE;

	kernel_call(SYS_rt_sigprocmask, 0 /* SIG_BLOCK */, &both, &held.mask, sizeof(both));
	kernel_call(SYS_rt_sigpending, &held.waiting, sizeof(held.waiting));
	return held;
}

static void signal_safe_release(const struct held *held, int error)
{
	uint64_t came = error == -EPIPE ? BROKEN_PIPE : error == -EFBIG ? FILE_TOO_LARGE : 0;
	struct timespec now = { 0 };

	came &= ~held->waiting;
	if (came)
		kernel_call(SYS_rt_sigtimedwait, &came, NULL, &now, sizeof(came));
	kernel_block_signals(held->mask);
}

/* `at`: offset; below 0: that of the descriptor. */
static int signal_safe_write_from(int fd, const char *rest, size_t length, off_t at)
{
	struct held held = signal_safe_hold();
	ssize_t written;
	int error = 0;

	while (length && !error) {
		written = at < 0 ? kernel_call(SYS_write, fd, rest, length)
				 : kernel_call(SYS_pwrite64, fd, rest, length, at);
		if (written > 0) {
			rest += written;
			length -= (size_t)written;
			at += at < 0 ? 0 : written;
		} else if (written != -EINTR) {
			error = written ? (int)written : -EIO;
		}
	}
	signal_safe_release(&held, error);
	return error;
}

int signal_safe_write(int fd, const void *bytes, size_t length)
{
	return signal_safe_write_from(fd, bytes, length, -1);
}

int signal_safe_write_at(int fd, const void *bytes, size_t length, off_t at)
{
	return signal_safe_write_from(fd, bytes, length, at);
}
