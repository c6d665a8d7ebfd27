/* SPDX-License-Identifier: BSD-3-Clause */
/* forks.h -- the ways to make a child that has a copy of the memory */
#ifndef PEERPIN_TESTS_FORKS_H
#define PEERPIN_TESTS_FORKS_H

#include <signal.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

enum fork_way { FORK, FORK_WITHOUT_HANDLERS, CLONE, FORK_WAYS };

extern pid_t _Fork(void) __attribute__((weak)); /* glibc 2.34 */

/* ThreadSanitizer knows fork() alone: after the others it takes the parent's threads for its own. */
#ifndef __has_feature /* gcc's macro is the next one */
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define FORK_ALONE 1
#else
#define FORK_ALONE 0
#endif

static inline pid_t fork_by(enum fork_way way)
{
	if (way == FORK || FORK_ALONE)
		return fork();
	if (way == FORK_WITHOUT_HANDLERS && _Fork)
		return _Fork();
	return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

#endif
