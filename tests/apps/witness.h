/* SPDX-License-Identifier: BSD-3-Clause */
/* witness.h -- shared by the preloads that count registrations; thread-safe */
#ifndef PEERPIN_TESTS_APPS_WITNESS_H
#define PEERPIN_TESTS_APPS_WITNESS_H

#include <stdbool.h>
#include <stdint.h>

/* The next definition of a function of libibverbs behind the caller's own; aborts without one. A
 * macro, since dlsym depends on its caller. */
#define next_definition(name) witness_found(name, dlsym(RTLD_NEXT, name))
void *witness_found(const char *name, void *next);
/* The same, or NULL without one. */
#define next_if_any(name) witness_sought(name, dlsym(RTLD_NEXT, name))
void *witness_sought(const char *name, void *next);

/* Of the monotonic clock. */
uint64_t now_ns(void);

/* According to the loaded driver; false without one. */
bool is_gpu_memory(const void *addr);

/* Whether this is a thread of peerpin's, by its name. */
bool on_worker(void);

#endif
