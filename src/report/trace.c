/* SPDX-License-Identifier: BSD-3-Clause */
/* trace.c -- writes trace events as JSON */
#include "report/trace.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/atomics.h"
#include "base/config.h"
#include "base/identity.h"
#include "base/kernel.h"
#include "base/log.h"
#include "base/own_file.h"
#include "base/plain_text.h"
#include "base/start.h"
#include "base/system.h"
#include "base/text.h"
#include "report/statistics.h"

_Atomic bool trace_wanted;
static struct own_file file;
static int refused; /* 0, or -errno of the first line */

#define LINE 512

/* Print nanoseconds as microseconds, the unit of the format. */
#define MICROSECONDS	     "%llu.%03u"
#define microseconds(number) (unsigned long long)(number) / 1000, (unsigned int)((number) % 1000)

static void trace_log_end(int error)
{
	log_once(LOG_WARN, "PEERPIN_TRACE_FILE=%s: %s. The trace ends here; the program continues.",
		 config_get()->trace_file, own_file_error_text(-error));
}

/* Omit a line that is too long. Return 0, or -errno, which ends the trace. */
static int trace_add_list(const char *format, va_list arguments)
{
	char line[LINE];
	int length = vsnprintf(line, LINE, format, arguments), error;

	if (length <= 0 || length >= LINE)
		return 0;
	error = own_file_write(&file, config_get()->trace_file, line, (size_t)length);
	if (error)
		store_relaxed(&trace_wanted, false);
	return error;
}

static __attribute__((format(printf, 1, 2))) int trace_add(const char *format, ...)
{
	va_list arguments;
	int error;

	va_start(arguments, format);
	error = trace_add_list(format, arguments);
	va_end(arguments);
	return error;
}

/* Replace characters that a JSON text may not contain. */
static void trace_make_plain(const char *text, char *to, size_t size)
{
	text_copy(to, size, text);
	for (char *at = plain_text(to, '_'); *at; at++) {
		if (*at == '"' || *at == '\\')
			*at = '_';
	}
}

/* Name the calling thread, once: before its first event. */
static int trace_name_thread(void)
{
	static __thread bool is_named __attribute__((tls_model("initial-exec")));
	char name[16] = "", plain[16];

	if (is_named)
		return 0;
	is_named = true;
	kernel_thread_name(name);
	trace_make_plain(name, plain, sizeof(plain));
	return trace_add("{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%d,"
			 "\"args\":{\"name\":\"%s\"}},\n",
			 kernel_process(), kernel_thread(), plain);
}

/* Number of threads that write a line, plus ENDING before the last line: nothing may follow its
 * bracket. */
#define ENDING 0x80000000u
static _Atomic uint32_t writers;

static __attribute__((format(printf, 1, 2))) void trace_write(const char *format, ...)
{
	va_list arguments;
	int error = 0;

	va_start(arguments, format);
	if (!(add_seq_cst(&writers, 1) & ENDING)) {
		error = trace_name_thread();
		if (!error)
			error = trace_add_list(format, arguments);
	}
	subtract_seq_cst(&writers, 1);
	va_end(arguments);
	if (error)
		trace_log_end(error);
}

/* Prevent new lines and wait for current ones. Return false after 1 s: a line is
 * still being written by a thread that the exit stopped, or to a file that accepts nothing. */
static bool trace_await_writers(void)
{
	enum { WAITS = 1000, WAIT_NS = 1000000 };

	or_seq_cst(&writers, ENDING);
	for (int i = 0; load_seq_cst(&writers) != ENDING && i < WAITS; i++)
		kernel_sleep(WAIT_NS);
	return load_seq_cst(&writers) == ENDING;
}

void trace_begin(void)
{
	char program[64], host[64], rank[24] = "";

	if (!config_get()->trace_file)
		return;
	store_relaxed(&trace_wanted, true);
	trace_make_plain(start_program(), program, sizeof(program));
	trace_make_plain(identity_host(), host, sizeof(host));
	if (identity_rank() >= 0)
		snprintf(rank, sizeof(rank), "rank %d ", identity_rank());
	refused = trace_add("[\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"tid\":%d,"
			    "\"args\":{\"name\":\"%s%s, %s\"}},\n",
			    kernel_process(), kernel_thread(), rank, program, host);
}

void trace_begun(void)
{
	if (refused)
		trace_log_end(refused);
}

void trace_end(void)
{
	int error = 0;

	if (!trace_is_on())
		return;
	store_relaxed(&trace_wanted, false);
	/* Without the bracket the file is like that of a killed process. */
	if (trace_await_writers())
		error = trace_add("{\"ph\":\"i\",\"name\":\"exit\",\"cat\":\"process\","
				  "\"s\":\"p\",\"pid\":%d,\"tid\":%d,\"ts\":" MICROSECONDS "}\n]\n",
				  kernel_process(), kernel_thread(), microseconds(system_clock()));
	if (error)
		trace_log_end(error);
}

void trace_allocation(bool begins, uint64_t id, uint64_t base, uint64_t size, int gpu,
		      const char *kind)
{
	trace_write("{\"ph\":\"%c\",\"name\":\"%s\",\"cat\":\"allocation\",\"id\":\"%llu\","
		    "\"pid\":%d,\"tid\":%d,\"ts\":" MICROSECONDS
		    ",\"args\":{\"address\":\"0x%llx\",\"bytes\":%llu,\"gpu\":%d}},\n",
		    begins ? 'b' : 'e', kind, (unsigned long long)id, kernel_process(),
		    kernel_thread(), microseconds(system_clock()), (unsigned long long)base,
		    (unsigned long long)size, gpu);
}

void trace_span(const char *what, uint64_t start, uint64_t base, uint64_t length, int gpu,
		const char *outcome)
{
	uint64_t duration = system_clock() - start;
	char plain[128];

	trace_make_plain(outcome, plain, sizeof(plain));
	trace_write("{\"ph\":\"X\",\"name\":\"%s\",\"cat\":\"registration\",\"pid\":%d,"
		    "\"tid\":%d,\"ts\":" MICROSECONDS ",\"dur\":" MICROSECONDS
		    ",\"args\":{\"address\":\"0x%llx\",\"bytes\":%llu,\"gpu\":%d,"
		    "\"outcome\":\"%s\"}},\n",
		    what, kernel_process(), kernel_thread(), microseconds(start),
		    microseconds(duration), (unsigned long long)base, (unsigned long long)length,
		    gpu, plain);
}

void trace_pinned(uint64_t bytes)
{
	trace_write("{\"ph\":\"C\",\"name\":\"pinned\",\"cat\":\"registration\",\"pid\":%d,"
		    "\"tid\":%d,\"ts\":" MICROSECONDS ",\"args\":{\"bytes\":%llu}},\n",
		    kernel_process(), kernel_thread(), microseconds(system_clock()),
		    (unsigned long long)bytes);
}
