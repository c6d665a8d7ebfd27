/* SPDX-License-Identifier: BSD-3-Clause */
/* log.c -- formats a message with who says it, and writes it at once, unless it is one too many */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <unistd.h>

#include "base/host_once.h"
#include "base/identity.h"
#include "base/kernel.h"
#include "base/own_file.h"
#include "base/signal_safe_write.h"
#include "base/system.h"

#define LINES_PER_SECOND 1000

_Atomic unsigned char log_limit; /* LOG_NONE */

static const char level_names[][8] = { "none", "error", "warn", "info", "debug", "trace" };

/* ---- a line ---- */

struct line {
	char bytes[LOG_LINE_LENGTH];
	size_t used, text; /* where the message itself begins */
};

/* There is always room for the newline: what is too long is cut off. */
static void extend(struct line *line, const char *format, va_list arguments)
{
	size_t room = LOG_LINE_LENGTH - 1 - line->used;
	int added = system_format_list(line->bytes + line->used, room, format, arguments);

	if (added > 0)
		line->used += (size_t)added < room ? (size_t)added : room - 1;
}

static void add(struct line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct line *line, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	extend(line, format, arguments);
	va_end(arguments);
}

static void begin(struct line *line, enum log_level level)
{
	line->used = 0;
	add(line, "peerpin: <%s> [%s:%d", level_names[level], process_host(), kernel_process());
	if (process_rank() >= 0)
		add(line, " rank %d", process_rank());
	add(line, "] ");
	line->text = line->used;
}

/* One line it is, whatever names and values are in it. */
static void end(struct line *line)
{
	for (size_t i = 0; i < line->used; i++) {
		if ((unsigned char)line->bytes[i] < ' ' || line->bytes[i] == 0x7f)
			line->bytes[i] = '?';
	}
	line->bytes[line->used] = '\0';
}

/* If there is nowhere to say it, statistics still count the cause. */
static void print(struct line *line, enum log_level level, const char *identity)
{
	if (level <= LOG_WARN && !host_once_take(host_once_hash(identity) + level))
		return;
	line->bytes[line->used] = '\n';
	signal_safe_write(STDERR_FILENO, line->bytes, line->used + 1);
}

/* Once for each process, and each host: later messages come without this. */
static void tell_no_file(int error)
{
	static atomic_flag told = ATOMIC_FLAG_INIT;
	struct line line;

	if (atomic_flag_test_and_set_explicit(&told, memory_order_relaxed))
		return;
	begin(&line, LOG_WARN);
	add(&line,
	    "PEERPIN_LOG_FILE=%.200s cannot be written: %s. Messages come here instead. Name a file in a "
	    "folder of this host "
	    "that the program may write to.",
	    config_get()->log_file, own_file_error_text(error));
	end(&line);
	print(&line, LOG_WARN, "PEERPIN_LOG_FILE");
}

/* `identity` NULL: the text itself. */
static void put(struct line *line, enum log_level level, const char *identity)
{
	static struct own_file file;
	const char *pattern = config_get()->log_file;
	int error = 0;

	/* Where messages go in any case, and each cause once for the host. */
	if (pattern && identity_stream(pattern) == STDERR_FILENO)
		pattern = NULL;

	end(line);
	if (pattern) {
		line->bytes[line->used] = '\n';
		error = own_file_write(&file, pattern, line->bytes, line->used + 1);
		line->bytes[line->used] = '\0';
		if (!error)
			return;
		tell_no_file(error);
	}
	print(line, level, identity ? identity : line->bytes + line->text);
}

/* ---- how many ---- */

struct window {
	_Atomic uint64_t second;
	_Atomic uint32_t written, left_out;
};

/* What went wrong is not crowded out by what went well. */
static struct window windows[2];

static struct window *window_of(enum log_level level)
{
	return &windows[level <= LOG_WARN];
}

static void own_up(struct window *window, enum log_level level)
{
	uint32_t left_out = atomic_exchange_explicit(&window->left_out, 0, memory_order_relaxed);
	struct line line;

	if (!left_out)
		return;
	begin(&line, level);
	add(&line, "suppressed %u messages: more than %d came in a second", left_out, LINES_PER_SECOND);
	put(&line, level, NULL);
}

/* Who asks for everything gets everything. */
static bool is_one_too_many(enum log_level level)
{
	struct window *window = window_of(level);
	uint64_t second = atomic_load_explicit(&window->second, memory_order_relaxed);
	struct timespec now = { 0 };

	if (log_is_on(LOG_TRACE))
		return false;
	kernel_clock(&now);
	if ((uint64_t)now.tv_sec != second &&
	    atomic_compare_exchange_strong(&window->second, &second, (uint64_t)now.tv_sec)) {
		atomic_store_explicit(&window->written, 0, memory_order_relaxed);
		own_up(window, level);
	}
	if (atomic_fetch_add_explicit(&window->written, 1, memory_order_relaxed) < LINES_PER_SECOND)
		return false;
	atomic_fetch_add_explicit(&window->left_out, 1, memory_order_relaxed);
	return true;
}

void log_finish(void)
{
	own_up(&windows[0], LOG_INFO);
	own_up(&windows[1], LOG_WARN);
}

/* ---- messages ---- */

void log_write(enum log_level level, const char *format, ...)
{
	int saved_errno = errno; /* a hook must not change the caller's errno */
	struct line line;
	va_list arguments;

	if (!is_one_too_many(level)) {
		begin(&line, level);
		va_start(arguments, format);
		extend(&line, format, arguments);
		va_end(arguments);
		put(&line, level, NULL);
	}
	errno = saved_errno;
}

void log_write_once(enum log_level level, const char *format, ...)
{
	int saved_errno = errno;
	struct line line;
	va_list arguments;

	begin(&line, level);
	va_start(arguments, format);
	extend(&line, format, arguments);
	va_end(arguments);
	put(&line, level, format);
	errno = saved_errno;
}
