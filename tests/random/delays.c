/* SPDX-License-Identifier: BSD-3-Clause */
/* delays.c -- delays before a lock is taken and after it is released, for races that the scheduler
 * seldom makes: the linker puts these functions in the place of libc's, in all layers */
#include <pthread.h>
#include <time.h>

#include "random/program.h"

#define LONGEST 300000 /* ns */

static unsigned int one_time_in; /* 0: never */

void delays_begin(unsigned int one_in_so_many)
{
	one_time_in = one_in_so_many;
}

static void delay(const pthread_mutex_t *lock)
{
	static __thread struct source luck;
	struct timespec duration = { 0 };

	if (!one_time_in)
		return;
	if (!luck.state)
		luck = source_of_seed((uintptr_t)&luck, (uintptr_t)lock);
	if (!one_in(&luck, one_time_in))
		return;
	duration.tv_nsec = choose(&luck, LONGEST);
	nanosleep(&duration, NULL);
}

int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);
int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);

int __wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
	delay(lock);
	return __real_pthread_mutex_lock(lock);
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
	int error = __real_pthread_mutex_unlock(lock);

	delay(lock);
	return error;
}
