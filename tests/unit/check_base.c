/* SPDX-License-Identifier: BSD-3-Clause */
/* check_base.c -- counters, texts, pools, activation */
#include "suite.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/kernel.h"
#include "base/plain_text.h"
#include "base/pool.h"
#include "base/process.h"
#include "base/system.h"
#include "base/text.h"
#include "report/statistics.h"

CASE(base);

/* A program may have closed its standard streams, and write to their numbers. */
TEST(base, a_file_is_never_opened_under_the_number_of_a_standard_stream)
{
	int status = 1;

	if (!fork()) {
		for (int fd = 0; fd < 3; fd++)
			close(fd);
		status = kernel_open("/dev/null", O_RDONLY | O_CLOEXEC, 0) < 3 ||
			 kernel_open_at(AT_FDCWD, "/", O_PATH | O_CLOEXEC, 0) < 3;
		for (int fd = 0; fd < 3; fd++)
			status |= fcntl(fd, F_GETFD) >= 0;
		_exit(status);
	}
	wait(&status);
	ck_assert_int_eq(status, 0);
}

#define memcpy bytes_copy
#define memset bytes_fill
#include "base/bytes.c"
#undef memcpy
#undef memset

TEST(base, bytes_are_copied_and_filled_at_any_place_and_of_any_number)
{
	char from[64], to[64], expected[64];

	for (int i = 0; i < 64; i++)
		from[i] = (char)i;
	for (size_t at = 0; at < 9; at++) {
		for (size_t size = 0; size < 48; size++) {
			memset(expected, 'x', 64);
			memcpy(expected + at, from + 3, size);
			ck_assert_ptr_eq(bytes_fill(to, 'x', 64), to);
			ck_assert_ptr_eq(bytes_copy(to + at, from + 3, size), to + at);
			ck_assert_mem_eq(to, expected, 64);
			memset(expected + at, 0xfe, size);
			bytes_fill(to + at, 0xfe, size);
			ck_assert_mem_eq(to, expected, 64);
		}
	}
}

TEST(base, counters_are_found_by_name)
{
	uint64_t value = 99;

	statistics_count(allocations);
	statistics_add(allocations, 4);
	ck_assert_int_eq(statistics_find("allocations", &value), 0);
	ck_assert_uint_eq(value, 5);
	ck_assert_int_eq(statistics_find("allocation", &value), -ENOENT);
}

TEST(base, the_peak_of_pinned_bytes_stays)
{
	statistics_pinned(100);
	statistics_pinned(50);
	statistics_pinned(-120);
	ck_assert_uint_eq(statistics_get(pinned_bytes), 30);
	ck_assert_uint_eq(statistics_get(pinned_bytes_peak), 150);
}

TEST(base, a_number_ends_where_its_digits_do)
{
	static const struct {
		const char *text;
		uint64_t number;
		size_t digits;
	} rows[] = {
		{ "", 0, 0 },
		{ "x1", 0, 0 },
		{ "-1", 0, 0 },
		{ "0", 0, 1 },
		{ "0042.stats", 42, 4 },
		{ "7 8", 7, 1 },
		{ "18446744073709551614", UINT64_MAX - 1, 20 },
		{ "18446744073709551615", UINT64_MAX, 20 },
		{ "18446744073709551616", UINT64_MAX, 20 },
		{ "184467440737095516170", UINT64_MAX, 21 },
		{ "340282366920938463463374607431768211457", UINT64_MAX, 39 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const char *at = rows[i].text;

		ck_assert_uint_eq(text_number(&at), rows[i].number);
		ck_assert_uint_eq((size_t)(at - rows[i].text), rows[i].digits);
	}
}

/* UTF-8 of a code point below U+10000. */
static const char *encoded(unsigned int code)
{
	static char text[4];
	char *at = text;

	if (code >= 0x800)
		*at++ = (char)(0xe0 | code >> 12);
	if (code >= 0x80)
		*at++ = (char)(code < 0x800 ? 0xc0 | code >> 6 : 0x80 | (code >> 6 & 0x3f));
	*at++ = (char)(code < 0x80 ? code : 0x80 | (code & 0x3f));
	*at = '\0';
	return text;
}

TEST(base, a_plain_text_has_no_control_character_and_is_utf_8)
{
	char text[64];

	for (unsigned int code = 1; code < 0xd800; code++) {
		bool control = code < 0x20 || (code >= 0x7f && code < 0xa0) ||
			       (code >= 0x202a && code <= 0x202e) ||
			       (code >= 0x2066 && code <= 0x2069) || code == 0x61c ||
			       code == 0x200e || code == 0x200f;

		snprintf(text, sizeof(text), "a%sb", encoded(code));
		ck_assert_uint_eq(plain_text_character(text + 1), strlen(text) - 2);
		ck_assert_uint_eq(plain_text_code(text + 1, (unsigned int)strlen(text) - 2), code);
		ck_assert_uint_eq(plain_text_printable(text + 1), control ? 0 : strlen(text) - 2);
		ck_assert(plain_text_find_other(text) == (control ? text + 1 : NULL));
		plain_text(text, '?');
		ck_assert_str_eq(text, !control	      ? text
				       : code < 0x80  ? "a?b"
				       : code < 0x800 ? "a??b"
						      : "a???b");
	}
	for (unsigned int byte = 0x80; byte < 0x100; byte++) {
		snprintf(text, sizeof(text), "a%cb", (int)byte);
		ck_assert_str_eq(plain_text(text, '_'), "a_b");
		snprintf(text, sizeof(text), "a%c", (int)byte);
		ck_assert_str_eq(plain_text(text, '_'), "a_");
	}
	strcpy(text, "\xe2\x82\xac\xf0\x9f\x98\x80\xe2\x82\xf0\x9f\x98");
	ck_assert_str_eq(plain_text(text, '?'), "\xe2\x82\xac\xf0\x9f\x98\x80?????");
	strcpy(text, "");
	ck_assert_str_eq(plain_text(text, '?'), "");
}

struct thing {
	void *next_free;
	char bytes[1000];
};

TEST(base, a_pool_gives_distinct_objects_and_reuses_them)
{
	enum { COUNT = 2000 };
	static struct thing *things[COUNT];
	struct pool pool = POOL_INITIALIZER(struct thing);

	for (int i = 0; i < COUNT; i++) {
		things[i] = pool_get(&pool);
		ck_assert_ptr_nonnull(things[i]);
		ck_assert_int_eq(things[i]->bytes[0], 0);
		memset(things[i]->bytes, i % 251 + 1, sizeof(things[i]->bytes));
	}
	for (int i = 0; i < COUNT; i++)
		ck_assert_int_eq((unsigned char)things[i]->bytes[999], i % 251 + 1);
	pool_put(&pool, things[3]);
	pool_put(&pool, things[5]);
	ck_assert_ptr_eq(pool_get(&pool), things[5]);
	ck_assert_ptr_eq(pool_get(&pool), things[3]);
}

/* The kernel's number; 0: not yet. Set by a started thread, with the CPUs that it may use. */
static _Atomic int started;
static cpu_set_t cpus_of_started;

static void *note_start(void *unused)
{
	sched_getaffinity(0, sizeof(cpus_of_started), &cpus_of_started);
	started = kernel_thread();
	return unused;
}

static void await_start(const cpu_set_t *cpus)
{
	started = 0;
	ck_assert_int_eq(system_start_thread(note_start, cpus, sizeof(*cpus)), 0);
	while (!started)
		sched_yield();
}

/* The first of the CPUs alone. */
static cpu_set_t one_of(const cpu_set_t *cpus)
{
	cpu_set_t one;
	size_t i = 0;

	while (!CPU_ISSET(i, cpus))
		i++;
	CPU_ZERO(&one);
	CPU_SET(i, &one);
	return one;
}

TEST(base, a_thread_starts_on_the_given_cpus_if_the_process_may_use_any)
{
	cpu_set_t own, wanted, none;

	CPU_ZERO(&none);
	ck_assert_int_eq(sched_getaffinity(0, sizeof(own), &own), 0);
	await_start(NULL);
	ck_assert_mem_eq(&cpus_of_started, &own, sizeof(own));
	wanted = one_of(&own);
	await_start(&wanted);
	ck_assert_mem_eq(&cpus_of_started, &wanted, sizeof(wanted));
	await_start(&none);
	ck_assert_mem_eq(&cpus_of_started, &own, sizeof(own));
	await_start(&wanted); /* no second refusal */
	ck_assert_mem_eq(&cpus_of_started, &own, sizeof(own));
}

static pthread_t second;
static _Atomic bool called, returned;
static bool has_overtaken;

static void *activate_too(void *unused)
{
	(void)unused;
	called = true;
	process_activate();
	returned = true;
	return NULL;
}

/* A waiting thread yields in a loop: 10 ms of processor time show that the second thread waits. */
static bool has_had_its_chance(void)
{
	struct timespec spent;
	clockid_t clock;

	return pthread_getcpuclockid(second, &clock) || clock_gettime(clock, &spent) ||
	       spent.tv_sec || spent.tv_nsec > 10000000;
}

/* A second thread activates the library during the activation by the first. */
static void begin_slowly(void)
{
	ck_assert_int_eq(pthread_create(&second, NULL, activate_too, NULL), 0);
	while (!called)
		sched_yield();
	while (!returned && !has_had_its_chance())
		sched_yield();
	has_overtaken = returned;
}

TEST(base, a_second_begin_waits_until_the_statistics_have_their_place)
{
	process_begins = begin_slowly;
	process_activate();
	ck_assert(!has_overtaken);
	pthread_join(second, NULL);
	ck_assert(returned);
	ck_assert(process_is_active());
}

SUITE("base")
