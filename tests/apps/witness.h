/* SPDX-License-Identifier: BSD-3-Clause */
/* witness.h -- what the preloads that count registrations have in common; any thread may call these
 */
#ifndef PEERPIN_TESTS_APPS_WITNESS_H
#define PEERPIN_TESTS_APPS_WITNESS_H

#include <stdbool.h>
#include <stdint.h>

/* The next definition of a function of libibverbs behind the caller's own; without one the process
 * is aborted. A macro, since what is next goes by who calls dlsym. */
#define next_definition(name) witness_found(name, dlsym(RTLD_NEXT, name))
void *witness_found(const char *name, void *next);
/* The same, or NULL where there is none. */
#define next_if_any(name) witness_sought(name, dlsym(RTLD_NEXT, name))
void *witness_sought(const char *name, void *next);

/* Of the monotonic clock. */
uint64_t now_ns(void);

/* As the driver that is loaded says; without one nothing is. */
bool is_gpu_memory(const void *addr);

/* Whether this is a thread of peerpin's own, by its name. */
bool on_worker(void);

#endif
