/* SPDX-License-Identifier: BSD-3-Clause */
/* log.h -- one line on standard error for what the user should know
 *
 * A message is formatted into a buffer on the stack and written with one write(2): no stream is touched, no
 * memory allocated, no lock taken, so it may be called from any hook on any thread. A disabled message
 * costs one compare. Never called from the dlsym path.
 */
#ifndef PEERPIN_BASE_LOG_H
#define PEERPIN_BASE_LOG_H

#include <stdatomic.h>

#include "base/config.h"

void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_message(level, ...)                                                                              \
	do {                                                                                                 \
		if ((level) <= config_get()->log)                                                            \
			log_write((level), __VA_ARGS__);                                                     \
	} while (0)

/* Once for each place in the code: a cause is told, not each of its victims. */
#define log_once(level, ...)                                                                                 \
	do {                                                                                                 \
		static atomic_flag told = ATOMIC_FLAG_INIT;                                                  \
		if ((level) <= config_get()->log &&                                                          \
		    !atomic_flag_test_and_set_explicit(&told, memory_order_relaxed))                         \
			log_write((level), __VA_ARGS__);                                                     \
	} while (0)

#endif
