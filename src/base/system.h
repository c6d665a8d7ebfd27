/* SPDX-License-Identifier: BSD-3-Clause */
/* system.h -- what is needed of libc under names that the library must not refer to, or had better not
 *
 * A name that a preload refers to is looked up at the start of every process of a job (kernel.h), used or not; these
 * are looked up when they are used. And glibc 2.34 moved the functions of libdl and libpthread into libc and gave them a new version. A library that
 * refers to them is refused by every older glibc ("version GLIBC_2.34 not found"), and with it the program that
 * it is preloaded into. Nothing here is referred to: the functions are found among what is loaded.
 */
#ifndef PEERPIN_BASE_SYSTEM_H
#define PEERPIN_BASE_SYSTEM_H

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>

/* libc's dlsym itself, past every override. RTLD_NEXT means: next to this library. Like all of this header it
 * may be called on any thread and at any time, takes no lock of ours, and allocates nothing. */
void *system_dlsym(void *handle, const char *symbol);
void *system_dlvsym(void *handle, const char *symbol, const char *version);
/* The address of libc's dlsym; NULL if it was not found. */
const void *system_libc_dlsym(void);

bool system_dladdr(const void *address, Dl_info *object);

/* A handle of a library that is loaded already; NULL if it is not. It is never closed: others hold pointers
 * into the library. */
void *system_find_library(const char *soname);

/* A handle of the program itself: what is looked up by it is looked up in its scope, in order. */
void *system_own_scope(void);

/* A function of the dynamic linker: the definition next to this library, or libc's where that is out of sight of the
 * program's scope, as libdl may be on an old system. */
void *system_next(const char *symbol);

int system_format(char *to, size_t size, const char *format, ...) /* snprintf */
	__attribute__((format(printf, 3, 4)));
int system_format_list(char *to, size_t size, const char *format, va_list arguments) /* vsnprintf */
	__attribute__((format(printf, 3, 0)));

const char *system_error_text(int error); /* strerror */
const char *system_program(void);	  /* base name of the executable; looked up once, with the settings */
const char *system_environment(const char *name); /* getenv, but of nobody's own making */

/* Looks up what the next four, system_format and system_error_text call. A look-up waits for the dynamic linker's lock, which is
 * held while constructors of plug-ins run, and these may allocate: so it must have happened before a lock of ours is
 * taken around them. */
void system_prepare(void);

/* The thread is not cancelled until it is released: for calls that would leave something half done, and which others wait
 * for. They nest. */
int system_hold_cancellation(void);
void system_release_cancellation(int held);

/* Waits on the condition; the thread is not cancelled with the mutex. */
void system_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
void system_wake(pthread_cond_t *condition); /* all who wait */

/* atexit; nothing where there is no such thing. */
void system_at_exit(void (*handler)(void *unused));

/* pthread_atfork, for the life of the process. */
void system_at_fork(void (*before)(void), void (*after)(void), void (*in_child)(void));

/* A detached thread. 0 or an errno value; ENOSYS in a program without libpthread. */
int system_start_thread(void *(*run)(void *));

#endif
