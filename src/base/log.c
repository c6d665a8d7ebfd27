/* SPDX-License-Identifier: BSD-3-Clause */
/* log.c -- formats a message with who says it, and writes it at once */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/kernel.h"
#include "base/process.h"
#include "base/system.h"

#define LINE_LENGTH 512

static const char *const level_names[] = { "none", "error", "warn", "info", "debug", "trace" };

/* The line always ends in a newline, cut off where it is too long. */
static size_t extend(size_t used, int added)
{
	if (added < 0)
		return used;
	used += (size_t)added;
	return used < LINE_LENGTH - 1 ? used : LINE_LENGTH - 2;
}

void log_write(enum log_level level, const char *format, ...)
{
	int saved_errno = errno; /* a hook must not change the caller's errno */
	char line[LINE_LENGTH];
	size_t used = 0;
	va_list arguments;

	used = extend(used, system_format(line, LINE_LENGTH, "peerpin: <%s> [%s:%d", level_names[level],
					  process_host(), kernel_process()));
	if (process_rank() >= 0)
		used = extend(used,
			      system_format(line + used, LINE_LENGTH - used, " rank %d", process_rank()));
	used = extend(used, system_format(line + used, LINE_LENGTH - used, "] "));
	va_start(arguments, format);
	used = extend(used, vsnprintf(line + used, LINE_LENGTH - used, format, arguments));
	va_end(arguments);
	line[used++] = '\n';
	if (kernel_write(STDERR_FILENO, line, used) < 0)
		errno = 0; /* nowhere to say it; statistics still count the cause */
	errno = saved_errno;
}
