/* SPDX-License-Identifier: BSD-3-Clause */
/* log.h -- log messages, one line each: `peerpin: <warn> [host:process rank 3] text`
 *
 * Messages go to PEERPIN_LOG_FILE or to standard error; to descriptor 2 only while that is standard
 * error (start.h). A message is formatted on the stack and written with one write(2). No stream, no
 * allocation, no lock; errno is kept: any hook on any thread may log. A disabled message costs one
 * load and one compare. Nothing is logged before the settings are read. Do not log from the dlsym
 * path.
 *
 * Of the ranks of a job on one host, one prints equal errors and warnings (job_file.h); a log file
 * is per rank. A warning names cause, consequence and fix.
 */
#ifndef PEERPIN_BASE_LOG_H
#define PEERPIN_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/atomics.h"
#include "base/config.h"

#define LOG_LINE_LENGTH 1024

/* First level that is not written. 0: the settings are not read yet. */
extern _Atomic unsigned char log_limit __attribute__((visibility("hidden")));

static inline bool log_is_on(enum log_level level)
{
	return (unsigned char)level < load_relaxed(&log_limit);
}

/* `level`: the least important level to write. */
static inline void log_set_limit(enum log_level level)
{
	store_relaxed(&log_limit, (unsigned char)(level + 1));
}

/* As log_set_limit(), unless a limit is set already. */
static inline void log_set_limit_early(enum log_level level)
{
	unsigned char unset = 0;

	replace_seq_cst(&log_limit, &unset, (unsigned char)(level + 1));
}

/* Equal messages of a host's ranks are equal by text; `once`: by format. */
void log_write(enum log_level level, bool once, const char *format, ...)
	__attribute__((format(printf, 3, 4), cold));

/* Print text that is no message (a `take` of report/output.h): to standard error; where descriptor
 * 2 is another file, to PEERPIN_LOG_FILE. Return 0 or -errno; -EBADF: to neither. */
int log_take(void *unused, const char *bytes, size_t length);

#define log_message(level, ...)                                                                    \
	do {                                                                                       \
		if (log_is_on(level))                                                              \
			log_write((level), false, __VA_ARGS__);                                    \
	} while (0)

/* Log once per call site and process: a cause, not each occurrence. */
#define log_once(level, ...)                                                                       \
	do {                                                                                       \
		static atomic_flag logged_ = ATOMIC_FLAG_INIT;                                     \
		if (log_is_on(level) &&                                                            \
		    !atomic_flag_test_and_set_explicit(&logged_, memory_order_relaxed))            \
			log_write((level), true, __VA_ARGS__);                                     \
	} while (0)

#endif
