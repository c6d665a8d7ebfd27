/* SPDX-License-Identifier: BSD-3-Clause */
/* check_messages.c -- messages of registration: each failure once, with cause, consequence and fix;
 * operations at the info, debug and trace levels */
#include "suite.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/config.h"
#include "registration_fixture.h"
#include "report/errors.h"

static FILE *told;
static int stderr_before;

static void listen_at(const char *level, const char *preregister)
{
	setenv("PEERPIN_LOG_LEVEL", level, 1);
	setenv("PEERPIN_PREREGISTER", preregister, 1);
	unsetenv("PEERPIN_LOG_FILE");
	told = tmpfile();
	ck_assert_ptr_nonnull(told);
	stderr_before = dup(STDERR_FILENO);
	dup2(fileno(told), STDERR_FILENO);
	config_get(); /* from here on, this file is standard error (base/start.h) */
	set_up();
}

static void set_up_warn(void)
{
	listen_at("warn", "off");
}

static void set_up_background(void)
{
	listen_at("warn", "eager");
}

static void set_up_worker(void)
{
	listen_at("warn", "auto");
}

static void set_up_info(void)
{
	listen_at("info", "off");
}

static void set_up_trace(void)
{
	listen_at("trace", "off");
}

static void tear_down(void)
{
	dup2(stderr_before, STDERR_FILENO);
	close(stderr_before);
	fclose(told);
}

/* Number of lines that contain both texts. */
static unsigned int logged(const char *text, const char *and)
{
	unsigned int lines = 0;
	char line[2048];

	rewind(told);
	while (fgets(line, sizeof(line), told))
		lines += strstr(line, text) && strstr(line, and);
	return lines;
}

static uint64_t buffer(unsigned int i)
{
	return HOME + i * 2 * BLOCK;
}

static void fail_often(int error)
{
	standin_fail_with(error);
	for (unsigned int i = 0; i < 3; i++) {
		begin(buffer(i), BLOCK);
		ck_assert_uint_eq(ask((int)i, buffer(i), BLOCK), 0);
	}
}

CASE(warnings, .set_up = set_up_warn, .tear_down = tear_down);

TEST(warnings, a_failure_is_logged_once_with_cause_consequence_and_fix)
{
	fail_often(-EFAULT);
	ck_assert_uint_eq(logged("peerpin: ", ""), 1);
	ck_assert_uint_eq(logged("<warn>", "could not be registered: ibv_reg_mr: EFAULT (14): the "
					   "kernel found no pages"),
			  1);
	ck_assert_uint_eq(
		logged("Client registrations of this memory are forwarded.", "Load nvidia-peermem"),
		1);
}

TEST(warnings, an_unknown_failure_says_its_number)
{
	fail_often(-4711);
	ck_assert_uint_eq(logged("<warn>", "error 4711"), 1);
}

TEST(warnings, a_lack_of_room_says_which)
{
	fail_often(-ENOMEM);
	ck_assert_uint_eq(logged("peerpin: ", ""), 1);
	ck_assert_uint_eq(logged("<warn>", "does not fit on the adapter"), 1);
	ck_assert_uint_eq(logged("ENOMEM (12)",
				 errors_lockable() < BLOCK ? "ulimit -l" : "a limit is exhausted"),
			  1);
}

/* Sanitizers and Valgrind need addresses of their own. */
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
static unsigned long mapped_pages(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	unsigned long pages = 0;

	ck_assert(file && fscanf(file, "%lu", &pages) == 1 && !fclose(file));
	return pages;
}

/* False: the process gets more nevertheless. */
static bool limit_addresses(unsigned long more)
{
	struct rlimit limit;

	if (suite_is_under_valgrind())
		return false;
	ck_assert_int_eq(getrlimit(RLIMIT_AS, &limit), 0);
	limit.rlim_cur = mapped_pages() * (unsigned long)sysconf(_SC_PAGESIZE) + more;
	ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
	return more || !standin_more_memory();
}

/* Before the allocation is recorded, and before the client MR is. */
LOOP_TEST(warnings, a_limit_on_addresses_is_named, 0, 2)
{
	if (_i)
		begin(buffer(0), BLOCK);
	if (!limit_addresses(0))
		return;
	if (!_i)
		begin(buffer(0), BLOCK);
	ck_assert_uint_eq(ask(0, buffer(0), BLOCK), 0);
	begin(buffer(1), BLOCK);
	ck_assert_uint_eq(ask(1, buffer(1), BLOCK), 0);
	ck_assert_uint_eq(logged("peerpin: ", ""), 1);
	ck_assert_uint_eq(logged(_i ? "GPU memory is not registered: growth of records: ENOMEM (12)"
				    : "GPU memory is not recorded: growth of records: ENOMEM (12)",
				 "ulimit -v"),
			  1);
}

TEST(warnings, most_of_the_addresses_of_a_limit_are_left_to_the_program)
{
	enum { ROOM = 256 << 20 };
	unsigned long before;

	if (!limit_addresses(ROOM))
		return;
	before = mapped_pages();
	begin(buffer(0), BLOCK);
	ck_assert_uint_ne(ask(0, buffer(0), BLOCK), 0);
	ck_assert_uint_lt((mapped_pages() - before) * (unsigned long)sysconf(_SC_PAGESIZE),
			  ROOM / 2);
	ck_assert_uint_eq(logged("peerpin: ", ""), 0);
}
#endif

TEST(warnings, managed_memory_is_named_once)
{
	for (unsigned int i = 0; i < 2; i++) {
		standin_allocate(buffer(i), BLOCK, NULL, false);
		memory_allocated(i ? ALLOCATION_MANAGED : ALLOCATION_POOL, buffer(i), BLOCK);
		ck_assert_uint_eq(ask(0, buffer(i), BLOCK), 0);
		ck_assert_uint_eq(ask(0, buffer(i), BLOCK), 0);
		ck_assert_uint_eq(logged("<warn>", "managed memory (cudaMallocManaged)"), i);
	}
}

static int pin_and_tell(const struct pin_request *request, struct pin_result *result)
{
	(void)request;
	result->reported = true;
	return -EFAULT;
}

TEST(warnings, what_the_way_has_told_is_not_told_again)
{
	const struct registration_method method = { .name = "telling", .pin = pin_and_tell };

	registration_forced_method = &method;
	begin(buffer(0), BLOCK);
	ck_assert_uint_eq(ask(0, buffer(0), BLOCK), 0);
	ck_assert_uint_eq(logged("peerpin: ", ""), 0);
}

CASE(background, .set_up = set_up_background, .tear_down = tear_down);

/* _i: a lack of space, and another cause. */
LOOP_TEST(background, a_failure_is_logged_when_a_client_notices_it, 0, 2)
{
	enable_domain();
	standin_fail_with(_i ? -EFAULT : -ENOMEM);
	begin(buffer(0), BLOCK);
	ck_assert_uint_eq(statistics_get(registrations_failed), 1);
	ck_assert_uint_eq(logged("peerpin: ", ""), 0);
	ck_assert_uint_eq(ask(0, buffer(0), BLOCK), 0);
	ck_assert_uint_eq(logged("<warn>", "forwarded. "), 1);
}

/* Overrides libc's: peerpin starts the worker through dlsym. */
static _Atomic bool refusing;
static _Atomic unsigned int refused;

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
		   void *argument)
{
	__typeof__(pthread_create) *next = (__typeof__(next))dlsym(RTLD_NEXT, "pthread_create");

	if (!refusing)
		return next(thread, attributes, run, argument);
	refused++;
	return EAGAIN;
}

CASE(worker, .set_up = set_up_worker, .tear_down = tear_down, .timeout = 300);

TEST(worker, a_thread_that_cannot_be_started_is_tried_again)
{
	unsigned int allocations = 0;

	refusing = true;
	enable_domain();
	ck_assert_uint_eq(logged("<warn>", "pthread_create: EAGAIN (11)"), 1);
	ck_assert_uint_eq(refused, 1);
	while (allocations < 1000)
		begin(buffer(1000 + allocations++), BLOCK);
	/* Retries with increasing intervals. */
	ck_assert_uint_ge(refused, 5);
	ck_assert_uint_le(refused, 12);
	ck_assert_uint_eq(statistics_get(registrations_background), 0);
	refusing = false;
	while (allocations < 3000)
		begin(buffer(1000 + allocations++), BLOCK);
	await("registrations_background", 3000);
}

static int pin_by_stand_in(const struct pin_request *request, struct pin_result *result)
{
	return standin_method.pin(request, result);
}

static int refuse_to_unpin(struct ibv_mr *mr)
{
	standin_method.unpin(mr);
	return -EBUSY;
}

TEST(warnings, a_registration_that_cannot_be_ended_is_an_error)
{
	const struct registration_method method = { .name = "clinging",
						    .pin = pin_by_stand_in,
						    .unpin = refuse_to_unpin };

	registration_forced_method = &method;
	for (unsigned int i = 0; i < 3; i++) {
		begin(buffer(i), BLOCK);
		ck_assert_uint_ne(ask(0, buffer(i), BLOCK), 0);
		ck_assert(registration_drop(&client_mrs[0]));
		end(buffer(i));
	}
	ck_assert_uint_eq(logged("peerpin: ", ""), 1);
	ck_assert_uint_eq(
		logged("<error>",
		       "could not be deregistered: ibv_dereg_mr: EBUSY (16): a memory window"),
		1);
	ck_assert_uint_eq(logged("may still access", "Let the program deallocate windows"), 1);
}

CASE(info, .set_up = set_up_info, .tear_down = tear_down);

TEST(info, info_tells_of_domains_and_of_pin_limits)
{
	struct registration_keys keys;

	standin_limit(4 * BLOCK);
	for (unsigned int i = 0; i < 8; i++) {
		begin(buffer(i), BLOCK);
		ck_assert_uint_ne(ask(0, buffer(i), BLOCK), 0);
		ck_assert(registration_drop(&client_mrs[0]));
	}
	ck_assert_uint_eq(logged("<info>", "a protection domain is enabled"), 1);
	ck_assert(ask_in(&pd, 1, buffer(7), BLOCK, 1, &keys));
	ck_assert_uint_eq(logged("<info>", "a protection domain is enabled"), 2);
	ck_assert_uint_eq(
		logged("<info>",
		       "a protection domain is enabled: new GPU memory is registered there "
		       "synchronously; access flags: local read, local write, remote write, remote "
		       "read, remote atomic\n"),
		1);
	ck_assert_uint_eq(
		logged("<info>", "synchronously; access flags: local read, local write\n"), 1);
	ck_assert_uint_ge(
		logged("<info>",
		       "GPU 0: a registration was refused; the pin limit is now 8388608 bytes"),
		1);
	ck_assert_uint_eq(logged("<debug>", ""), 0);
}

CASE(trace, .set_up = set_up_trace, .tear_down = tear_down);

TEST(trace, trace_tells_of_each_request_and_what_came_of_it)
{
	struct registration_keys keys;
	char address[64];

	standin_limit(BLOCK);
	begin(buffer(0), BLOCK);
	snprintf(address, sizeof(address), "request 0x%llx, 2097152 bytes",
		 (unsigned long long)buffer(0));
	ck_assert_uint_ne(ask(0, buffer(0), BLOCK), 0);
	ck_assert_uint_eq(logged(address, "registered synchronously"), 1);
	ck_assert_uint_ne(ask(1, buffer(0), BLOCK), 0);
	ck_assert_uint_eq(logged(address, ": hit"), 1);
	ck_assert_uint_eq(ask(2, buffer(0), 4 * BLOCK), 0);
	ck_assert_uint_eq(logged("<trace>", "forwarded: range"), 1);
	ck_assert(!ask_in(&pd, 2, buffer(0), BLOCK, 1 << 6, &keys));
	ck_assert_uint_eq(logged("<trace>", "forwarded: flags"), 1);
	ck_assert_uint_eq(logged("<debug>", "register 0x"), 1);
	ck_assert(registration_drop(&client_mrs[0]));
	ck_assert(registration_drop(&client_mrs[1]));
	begin(buffer(1), BLOCK);
	ck_assert_uint_ne(ask(0, buffer(1), BLOCK), 0);
	ck_assert_uint_eq(logged("<debug> ", "2097152 bytes, evicted, in "), 1);
	ck_assert(registration_drop(&client_mrs[0]));
	end(buffer(1));
	ck_assert_uint_eq(logged("<debug>", "deregister 0x"), 2);
	ck_assert_uint_eq(logged("<trace>", "allocated 0x"), 2);
	ck_assert_uint_eq(logged("<trace>", "freeing 0x"), 1);
}

SUITE("messages")
