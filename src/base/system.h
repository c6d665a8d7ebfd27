/* SPDX-License-Identifier: BSD-3-Clause */
/* system.h -- libc functions that the library must not, or should not, reference by name
 *
 * A name that a preload references is looked up at the start of every process of a job (kernel.h),
 * used or not; the functions here are looked up at use. glibc 2.34 moved the functions of libdl and
 * libpthread into libc under a new version. An older glibc refuses a library that references the
 * new version ("version GLIBC_2.34 not found"), and with it the preloaded program.
 */
#ifndef PEERPIN_BASE_SYSTEM_H
#define PEERPIN_BASE_SYSTEM_H

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

/* Call libc's own dlsym, not an override; RTLD_NEXT: the object after this library. For the
 * caller's own look-up alone: it changes what dlerror() returns to the thread (loaded.h). All
 * functions of this header: any thread, any time, no lock of peerpin, no allocation. */
void *system_dlsym(void *handle, const char *symbol);
/* Return the address of libc's dlsym; NULL: not found. */
const void *system_libc_dlsym(void);

unsigned long system_auxiliary(unsigned long type); /* getauxval; 0: not known */

/* The formatting functions keep errno. */
int system_format(char *to, size_t size, const char *format, ...) /* snprintf */
	__attribute__((format(printf, 3, 4)));
int system_format_list(char *to, size_t size, const char *format, va_list arguments) /* vsnprintf */
	__attribute__((format(printf, 3, 0)));

const char *system_error_text(int error); /* strerror */

/* Return ns of CLOCK_MONOTONIC. Without a system call: a miss takes the time several times. */
uint64_t system_clock(void);

/* The same clock at its last tick, a few ms ago at most: a few ns. */
uint64_t system_coarse_clock(void);

/* Look up the functions behind system_format(), system_error_text(), system_clock() and the 5
 * functions that follow. Call before a lock of peerpin is held around them: a look-up waits for the
 * lock of the dynamic linker's list. */
void system_prepare(void);

/* Disable cancellation of the thread until the release. For calls that would leave work half done
 * for which other threads wait. Calls nest. */
int system_hold_cancellation(void);
void system_release_cancellation(int held);

/* Wait on the condition; the thread is not cancelled with the mutex held. */
void system_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
void system_wake(pthread_cond_t *condition); /* wake all waiters */

/* atexit; does nothing if libc has no __cxa_atexit. */
void system_at_exit(void (*handler)(void *unused));

/* pthread_atfork, until the end of the process: a handler in the child alone. */
void system_at_fork(void (*in_child)(void));

/* Start a detached thread, on one of `cpus` unless NULL or the process may use none of them. Return
 * 0 or an errno value; ENOSYS in a program without libpthread. */
struct kernel_cpus;
int system_start_thread(void *(*run)(void *), const struct kernel_cpus *cpus);

#endif
