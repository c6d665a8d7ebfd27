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

int signal_safe_write(int fd, const void *bytes, size_t length)
{
	struct held held = signal_safe_hold();
	const char *rest = bytes;
	ssize_t written;
	int error = 0;

	while (length && !error) {
		written = kernel_call(SYS_write, fd, rest, length);
		if (written > 0) {
			rest += written;
			length -= (size_t)written;
		} else if (written != -EINTR) {
			error = written ? (int)written : -EIO;
		}
	}
	signal_safe_release(&held, error);
	return error;
}
