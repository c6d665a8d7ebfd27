/* SPDX-License-Identifier: BSD-3-Clause */
/* log.h -- what the user should know, one line each: `peerpin: <warn> [host:process rank 3] text`
 *
 * On standard error, or in PEERPIN_LOG_FILE. A message is formatted into a buffer on the stack and written with one write(2):
 * no stream is touched, no memory allocated, no lock taken, errno is left alone; so it may be called from any hook on any
 * thread. A disabled message costs one load and one compare. Nothing is said before the settings have been read. Never called
 * from the dlsym path.
 *
 * Of the ranks of a job on one host one prints an equal error or warning (host_once.h); in files each has its own. A warning
 * names cause, consequence and mend.
 */
#ifndef PEERPIN_BASE_LOG_H
#define PEERPIN_BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/config.h"

#define LOG_LINE_LENGTH 1024

/* The least important level that is written; set by whoever reads the settings. */
extern _Atomic unsigned char log_limit __attribute__((visibility("hidden")));

static inline bool log_is_on(enum log_level level)
{
	return (unsigned char)level <= atomic_load_explicit(&log_limit, memory_order_relaxed);
}

static inline void log_set_limit(enum log_level level)
{
	atomic_store_explicit(&log_limit, (unsigned char)level, memory_order_relaxed);
}

/* Equal to another one if the text is; below LOG_TRACE there is a limit to how many come in a second. */
void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Equal to another one if the format is; always written. */
void log_write_once(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Says how many were left out and not yet owned up to. When the program ends. */
void log_finish(void);

#define log_message(level, ...)                                                                              \
	do {                                                                                                 \
		if (log_is_on(level))                                                                        \
			log_write((level), __VA_ARGS__);                                                     \
	} while (0)

/* Once for each place in the code: a cause is told, not each of its victims. */
#define log_once(level, ...)                                                                                 \
	do {                                                                                                 \
		static atomic_flag told = ATOMIC_FLAG_INIT;                                                  \
		if (log_is_on(level) && !atomic_flag_test_and_set_explicit(&told, memory_order_relaxed))     \
			log_write_once((level), __VA_ARGS__);                                                \
	} while (0)

#endif
