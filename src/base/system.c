/* SPDX-License-Identifier: BSD-3-Clause */
/* system.c -- calls libc functions without their names
 *
 * No version name and no private function is used: both have come and gone (facts/interception.md,
 * traps T1 and T2).
 *
 * Functions about threads are the program's: a sanitizer's or profiler's runtime must see each
 * thread and each wait. They are called once the program uses CUDA or verbs, never within dlsym.
 * All others are libc's own: replacements need them before they are ready, or change results.
 */
#include "base/system.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/kernel.h"
#include "base/loaded.h"
#include "base/text.h"

/* Defines system_find_name(), which returns the result of `search` and keeps it if not NULL. All
 * callers share one pointer, so that system_prepare() serves all. */
#define CACHED(name, type, search)                                                                 \
	static type *system_find_##name(void)                                                      \
	{                                                                                          \
		static type *cached; /* racing threads store equal values */                       \
		type *found = __atomic_load_n(&cached, __ATOMIC_ACQUIRE);                          \
                                                                                                   \
		if (!found) {                                                                      \
			found = (type *)(search);                                                  \
			__atomic_store_n(&cached, found, __ATOMIC_RELEASE);                        \
		}                                                                                  \
		return found;                                                                      \
	}

/* Call the function; `otherwise`: the result where libc lacks it. */
#define LIBC_CALL(name, otherwise, ...)                                                            \
	({                                                                                         \
		name##_function *function = system_find_##name();                                  \
		function ? function(__VA_ARGS__) : (otherwise);                                    \
	})

/* OWN(name, result, parameters...) defines system_find_name(), which returns libc's own function or
 * NULL; FIRST() the first one in the program's scope. On an old system a plug-in may have loaded
 * libpthread outside that scope. */
#define OWN(name, result, ...)                                                                     \
	typedef result name##_function(__VA_ARGS__);                                               \
	CACHED(name, name##_function, loaded_in_libc(#name))
#define FIRST(name, result, ...)                                                                   \
	typedef result name##_function(__VA_ARGS__);                                               \
	CACHED(name, name##_function, loaded_first(#name))

OWN(dlsym, void *, void *handle, const char *symbol)
OWN(getauxval, unsigned long, unsigned long type)
OWN(clock_gettime, int, clockid_t clock, struct timespec *now)
OWN(vsnprintf, int, char *to, size_t size, const char *format, va_list arguments)
OWN(strerror, char *, int error)
OWN(__cxa_atexit, int, void (*handler)(void *), void *argument, void *object)
/* Target of pthread_atfork, which is linked statically. */
OWN(__register_atfork, int, void (*before)(void), void (*after)(void), void (*in_child)(void),
    void *object)
FIRST(pthread_setcancelstate, int, int state, int *before)
FIRST(pthread_cond_wait, int, pthread_cond_t *condition, pthread_mutex_t *mutex)
FIRST(pthread_cond_broadcast, int, pthread_cond_t *condition)
FIRST(pthread_create, int, pthread_t *thread, const pthread_attr_t *attributes,
      void *(*run)(void *), void *argument)
FIRST(pthread_attr_init, int, pthread_attr_t *attributes)
FIRST(pthread_attr_setdetachstate, int, pthread_attr_t *attributes, int state)
FIRST(pthread_attr_setaffinity_np, int, pthread_attr_t *attributes, size_t size,
      const cpu_set_t *cpus)
FIRST(pthread_attr_destroy, int, pthread_attr_t *attributes)

const void *system_libc_dlsym(void)
{
	return (const void *)system_find_dlsym();
}

void *system_dlsym(void *handle, const char *symbol)
{
	void *found = LIBC_CALL(dlsym, NULL, handle, symbol);

	/* No tail call: RTLD_NEXT is relative to this library. */
	__asm__ volatile("" : "+r"(found));
	return found;
}

unsigned long system_auxiliary(unsigned long type)
{
	return LIBC_CALL(getauxval, 0, type);
}

int system_format_list(char *to, size_t size, const char *format, va_list arguments)
{
	int saved_errno = errno, length;

	if (size)
		*to = '\0';
	length = LIBC_CALL(vsnprintf, 0, to, size, format, arguments);
	errno = saved_errno;
	return length;
}

int system_format(char *to, size_t size, const char *format, ...)
{
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = system_format_list(to, size, format, arguments);
	va_end(arguments);
	return length;
}

const char *system_error_text(int error)
{
	int saved_errno = errno;
	const char *text = LIBC_CALL(strerror, "unknown error", error);

	errno = saved_errno;
	return text;
}

uint64_t system_clock(void)
{
	struct timespec now;

	if (LIBC_CALL(clock_gettime, -1, CLOCK_MONOTONIC, &now))
		return kernel_time(CLOCK_MONOTONIC);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t system_coarse_clock(void)
{
	struct timespec now;

	if (LIBC_CALL(clock_gettime, -1, CLOCK_MONOTONIC_COARSE, &now))
		return kernel_time(CLOCK_MONOTONIC_COARSE);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void system_prepare(void)
{
	system_find_clock_gettime();
	system_find_vsnprintf();
	system_find_strerror();
	system_find_pthread_setcancelstate();
	system_find_pthread_cond_wait();
	system_find_pthread_cond_broadcast();
}

int system_hold_cancellation(void)
{
	int state = PTHREAD_CANCEL_ENABLE;

	LIBC_CALL(pthread_setcancelstate, 0, PTHREAD_CANCEL_DISABLE, &state);
	return state;
}

void system_release_cancellation(int held)
{
	LIBC_CALL(pthread_setcancelstate, 0, held, NULL);
}

void system_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
	pthread_cond_wait_function *wait = system_find_pthread_cond_wait();
	int held = system_hold_cancellation();

	wait(condition, mutex);
	system_release_cancellation(held);
}

void system_wake(pthread_cond_t *condition)
{
	system_find_pthread_cond_broadcast()(condition);
}

void system_at_exit(void (*handler)(void *unused))
{
	/* No object handle: the library is never unloaded. */
	LIBC_CALL(__cxa_atexit, 0, handler, NULL, NULL);
}

void system_at_fork(void (*in_child)(void))
{
	LIBC_CALL(__register_atfork, 0, NULL, NULL, in_child, NULL);
}

/* `cpus` NULL: those of the calling thread. A detached thread that libc ends, because the kernel
 * refuses the CPUs, frees itself. */
static int system_start_on(const struct kernel_cpus *cpus, void *(*run)(void *))
{
	pthread_attr_t attributes;
	pthread_t thread;
	int error = LIBC_CALL(pthread_attr_init, ENOSYS, &attributes);

	if (error)
		return error;
	LIBC_CALL(pthread_attr_setdetachstate, 0, &attributes, PTHREAD_CREATE_DETACHED);
	if (cpus)
		error = LIBC_CALL(pthread_attr_setaffinity_np, ENOSYS, &attributes, sizeof(*cpus),
				  (const cpu_set_t *)cpus);
	if (!error)
		error = LIBC_CALL(pthread_create, ENOSYS, &thread, &attributes, run, NULL);
	LIBC_CALL(pthread_attr_destroy, 0, &attributes);
	return error;
}

int system_start_thread(void *(*run)(void *), const struct kernel_cpus *cpus)
{
	/* A refusal takes as long as several starts. */
	static _Atomic bool refused;
	int error;

	if (cpus && !load_relaxed(&refused)) {
		error = system_start_on(cpus, run);
		/* EAGAIN: no thread at all. */
		if (!error || error == EAGAIN)
			return error;
		store_relaxed(&refused, true);
	}
	return system_start_on(NULL, run);
}
