/* SPDX-License-Identifier: BSD-3-Clause */
/* system.h -- what is needed of libc under names that the library must not refer to
 *
 * glibc 2.34 moved the functions of libdl and libpthread into libc and gave them a new version. A library that
 * refers to them is refused by every older glibc ("version GLIBC_2.34 not found"), and with it the program that
 * it is preloaded into. Nothing here is referred to: the functions are found among what is loaded.
 */
#ifndef PEERPIN_BASE_SYSTEM_H
#define PEERPIN_BASE_SYSTEM_H

#include <dlfcn.h>
#include <pthread.h>
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

/* A detached thread. 0 or an errno value; ENOSYS in a program without libpthread. */
int system_start_thread(void *(*run)(void *));

#endif
