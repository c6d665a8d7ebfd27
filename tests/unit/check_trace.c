/* SPDX-License-Identifier: BSD-3-Clause */
/* check_trace.c -- a trace ends with its bracket at any interleaving of writers
 *
 * own_file_write is replaced: it appends to `text`, and can hold one write in progress.
 */
#include "suite.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/own_file.h"
#include "report/trace.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char text[8192];
static bool holds;	   /* hold the next write */
static sem_t held, let_go; /* write in progress; write may continue */

int own_file_write(struct own_file *file, const char *pattern, const char *line, size_t length)
{
	bool hold;

	(void)file;
	(void)pattern;
	pthread_mutex_lock(&lock);
	hold = holds;
	holds = false;
	pthread_mutex_unlock(&lock);
	if (hold) {
		sem_post(&held);
		sem_wait(&let_go);
	}
	pthread_mutex_lock(&lock);
	strncat(text, line, length);
	pthread_mutex_unlock(&lock);
	return 0;
}

const char *own_file_error_text(int error)
{
	(void)error;
	return "";
}

static void *register_one(void *unused)
{
	trace_span("register", 1, 0x1000, 0x1000, 0, "done");
	return unused;
}

static void *end(void *unused)
{
	trace_end();
	return unused;
}

static void set_up(void)
{
	setenv("PEERPIN_TRACE_FILE", "/a/trace", 1);
	setenv("PMI_RANK", "0", 1);
	trace_begin();
	sem_init(&held, 0, 0);
	sem_init(&let_go, 0, 0);
}

static bool ends_with(const char *wanted)
{
	return strlen(text) >= strlen(wanted) &&
	       !strcmp(text + strlen(text) - strlen(wanted), wanted);
}

CASE(trace, .set_up = set_up);

/* A writer checks trace_is_on() before trace_end(), and writes after it. */
TEST(trace, who_comes_after_the_end_writes_nothing)
{
	trace_span("register", 1, 0x1000, 0x1000, 0, "done");
	trace_end();
	trace_span("register", 1, 0x2000, 0x1000, 0, "done");
	trace_allocation(true, 1, 0x3000, 0x1000, 0, "device memory");
	trace_pinned(7);
	ck_assert(ends_with("}\n]\n"));
	ck_assert_ptr_nonnull(strstr(text, "0x1000"));
	ck_assert_ptr_null(strstr(text, "0x2000"));
}

TEST(trace, a_process_is_named_with_its_rank)
{
	ck_assert_ptr_nonnull(strstr(text, "\"args\":{\"name\":\"rank 0 "));
}

TEST(trace, a_reason_is_a_text_of_json)
{
	trace_span("register", 1, 0x1000, 0x1000, 0, "\"a\\b\n\177\302\233\233\303\244");
	ck_assert_ptr_nonnull(strstr(text, "\"outcome\":\"_a_b_____\303\244\""));
}

/* trace_end() switches the trace off first, then waits for the write in progress. */
TEST(trace, the_end_waits_for_who_writes)
{
	pthread_t writer, ender;
	bool ended;

	holds = true;
	pthread_create(&writer, NULL, register_one, NULL);
	sem_wait(&held);
	pthread_create(&ender, NULL, end, NULL);
	while (trace_is_on())
		;
	pthread_mutex_lock(&lock);
	ended = strstr(text, "]\n");
	pthread_mutex_unlock(&lock);
	sem_post(&let_go);
	pthread_join(writer, NULL);
	pthread_join(ender, NULL);
	ck_assert(!ended);
	ck_assert_ptr_nonnull(strstr(text, "0x1000"));
	ck_assert(ends_with("}\n]\n"));
}

/* For example, a signal handler calls exit() during a write of its own thread. */
TEST(trace, for_who_never_comes_back_the_bracket_is_left_out)
{
	pthread_t writer;

	holds = true;
	pthread_create(&writer, NULL, register_one, NULL);
	sem_wait(&held);
	trace_end();
	sem_post(&let_go);
	pthread_join(writer, NULL);
	ck_assert_ptr_null(strstr(text, "]\n"));
	ck_assert(ends_with("},\n"));
}

SUITE("trace")
