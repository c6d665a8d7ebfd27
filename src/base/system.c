/* SPDX-License-Identifier: BSD-3-Clause */
/* system.c -- calls functions of libc that are found in its symbol table
 *
 * No version name and no private function is used: both have come and gone (T1 and T2 of
 * tests/intercept/check_traps.sh).
 */
#include "base/system.h"

#include <errno.h>
#include <stddef.h>
#include <time.h>

#include "base/atomics.h"
#include "base/kernel.h"
#include "base/loaded.h"

/* FOUND(search, name, result, parameters...) defines system_find_name(), which returns the result
 * of `search` for this name and keeps it if not NULL. loaded_in_libc: libc's own function.
 * loaded_first: the first one in the program's scope. On an old system a plug-in may have loaded
 * libpthread outside that scope. */
#define FOUND(search, name, result, ...)                                                           \
	typedef result name##_function(__VA_ARGS__);                                               \
	static name##_function *system_find_##name(void)                                           \
	{                                                                                          \
		static name##_function *cached; /* racing threads store equal values */            \
		name##_function *found = __atomic_load_n(&cached, __ATOMIC_ACQUIRE);               \
                                                                                                   \
		if (!found) {                                                                      \
			found = (name##_function *)search(#name);                                  \
			__atomic_store_n(&cached, found, __ATOMIC_RELEASE);                        \
		}                                                                                  \
		return found;                                                                      \
	}

FOUND(loaded_in_libc, dlsym, void *, void *handle, const char *symbol)
FOUND(loaded_in_libc, clock_gettime, int, clockid_t clock, struct timespec *now)
/* The program's: a sanitizer's or profiler's runtime must see each thread. glibc 2.34 moved both
 * into libc, so no reference to them serves older and newer systems. */
FOUND(loaded_first, pthread_create, int, pthread_t *thread, const pthread_attr_t *attributes,
      void *(*run)(void *), void *argument)
FOUND(loaded_first, pthread_attr_setaffinity_np, int, pthread_attr_t *attributes, size_t size,
      const cpu_set_t *cpus)

const void *system_libc_dlsym(void)
{
	return (const void *)system_find_dlsym();
}

void *system_dlsym(void *handle, const char *symbol)
{
	dlsym_function *function = system_find_dlsym();
	void *found = function ? function(handle, symbol) : NULL;

	/* No tail call: RTLD_NEXT is relative to this library. */
	__asm__ volatile("" : "+r"(found));
	return found;
}

static uint64_t system_read_clock(clockid_t clock)
{
	clock_gettime_function *function = system_find_clock_gettime();
	struct timespec now;

	if (!function || function(clock, &now))
		return kernel_time(clock);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t system_clock(void)
{
	return system_read_clock(CLOCK_MONOTONIC);
}

uint64_t system_coarse_clock(void)
{
	return system_read_clock(CLOCK_MONOTONIC_COARSE);
}

/* `cpus` NULL: those of the calling thread. A detached thread that libc ends, because the kernel
 * refuses the CPUs, frees itself. */
static int system_start_on(const cpu_set_t *cpus, size_t size, void *(*run)(void *))
{
	pthread_create_function *create = system_find_pthread_create();
	pthread_attr_setaffinity_np_function *bind = system_find_pthread_attr_setaffinity_np();
	pthread_attr_t attributes;
	pthread_t thread;
	int error = create && bind ? pthread_attr_init(&attributes) : ENOSYS;

	if (error)
		return error;
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	if (cpus)
		error = bind(&attributes, size, cpus);
	if (!error)
		error = create(&thread, &attributes, run, NULL);
	pthread_attr_destroy(&attributes);
	return error;
}

int system_start_thread(void *(*run)(void *), const cpu_set_t *cpus, size_t size)
{
	/* A refusal takes as long as several starts. */
	static _Atomic bool refused;
	int error;

	if (cpus && !load_relaxed(&refused)) {
		error = system_start_on(cpus, size, run);
		/* EAGAIN: no thread at all. */
		if (!error || error == EAGAIN)
			return error;
		store_relaxed(&refused, true);
	}
	return system_start_on(NULL, 0, run);
}
