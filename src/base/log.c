/* SPDX-License-Identifier: BSD-3-Clause */
/* log.c -- formats a message with its origin and writes it at once */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/identity.h"
#include "base/job_file.h"
#include "base/kernel.h"
#include "base/own_file.h"
#include "base/plain_text.h"
#include "base/process.h"
#include "base/signal_safe_write.h"
#include "base/start.h"
#include "base/text.h"

AT_START_DATA _Atomic unsigned char log_limit;

static const char level_names[][8] = { "none", "error", "warn", "info", "debug", "trace" };

/* ---- a line ---- */

struct line {
	char bytes[LOG_LINE_LENGTH];
	size_t used, text; /* text: offset of the message after its prefix */
};

/* Truncate the message; keep 1 byte for the newline. */
static void log_extend(struct line *line, const char *format, va_list arguments)
{
	size_t room = LOG_LINE_LENGTH - 1 - line->used;
	int added = vsnprintf(line->bytes + line->used, room, format, arguments);

	if (added > 0)
		line->used += (size_t)added < room ? (size_t)added : room - 1;
}

static __attribute__((format(printf, 2, 3))) void log_add(struct line *line, const char *format,
							  ...)
{
	va_list arguments;

	va_start(arguments, format);
	log_extend(line, format, arguments);
	va_end(arguments);
}

static void log_begin_line(struct line *line, enum log_level level)
{
	line->used = 0;
	log_add(line, "peerpin: <%s> [%s:%d", level_names[level], identity_host(),
		kernel_process());
	if (identity_rank() >= 0)
		log_add(line, " rank %d", identity_rank());
	log_add(line, "] ");
	line->text = line->used;
}

/* A value must neither break the line nor change the terminal. */
static void log_end_line(struct line *line)
{
	plain_text(line->bytes, '?');
	line->bytes[line->used++] = '\n';
	line->bytes[line->used] = '\0';
}

static struct own_file file; /* PEERPIN_LOG_FILE */

/* Treat /dev/stderr as unset: messages go there anyway, and each cause appears once per host. */
static const char *log_file(void)
{
	const char *pattern = config_get()->log_file;

	return pattern && identity_stream(pattern) == STDERR_FILENO ? NULL : pattern;
}

/* Ignore write errors: the statistics count the cause as well. */
static void log_print(struct line *line, enum log_level level, const char *identity)
{
	if (!start_has_stream(STDERR_FILENO))
		return;
	if (level <= LOG_WARN && !job_file_claim(text_hash(identity) + level))
		return;
	signal_safe_write(STDERR_FILENO, line->bytes, line->used);
}

/* Log once per process and once per host. */
static void log_report_no_file(int error)
{
	static atomic_flag logged = ATOMIC_FLAG_INIT;
	struct line line;

	if (atomic_flag_test_and_set_explicit(&logged, memory_order_relaxed))
		return;
	log_begin_line(&line, LOG_WARN);
	log_add(&line,
		"PEERPIN_LOG_FILE=%.200s cannot be written: %s. Messages come here instead. Name a "
		"file in a folder of this host that the program may write to.",
		config_get()->log_file, own_file_error_text(-error));
	log_end_line(&line);
	log_print(&line, LOG_WARN, "PEERPIN_LOG_FILE");
}

/* `identity`: key of a once-per-host message; NULL: the message text. */
static void log_put(struct line *line, enum log_level level, const char *identity)
{
	const char *pattern = log_file();
	int error;

	log_end_line(line);
	if (pattern) {
		error = own_file_write(&file, pattern, line->bytes, line->used);
		if (!error)
			return;
		log_report_no_file(error);
	}
	log_print(line, level, identity ? identity : line->bytes + line->text);
}

int log_take(void *unused, const char *bytes, size_t length)
{
	const char *pattern = log_file();

	(void)unused;
	if (start_has_stream(STDERR_FILENO))
		return signal_safe_write(STDERR_FILENO, bytes, length);
	return pattern ? own_file_write(&file, pattern, bytes, length) : -EBADF;
}

/* ---- messages ---- */

void log_write(enum log_level level, bool once, const char *format, ...)
{
	struct line line;
	va_list arguments;

	/* A child has its parent's log, and may wait for a thread that it lacks. */
	if (process_is_forked())
		return;
	log_begin_line(&line, level);
	va_start(arguments, format);
	log_extend(&line, format, arguments);
	va_end(arguments);
	log_put(&line, level, once ? format : NULL);
}
