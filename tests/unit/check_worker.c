/* SPDX-License-Identifier: BSD-3-Clause */
/* check_worker.c -- background registration with concurrent requests and frees */
#include "suite.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "registration/background.h"
#include "registration/methods.h"
#include "registration/objects.h"
#include "registration_fixture.h"

static void *free_on_thread(void *argument)
{
	end(*(uint64_t *)argument);
	return NULL;
}

CASE(worker, .set_up = set_up, .timeout = 300);

/* ---- the worker's dma-buf, here a file ---- */

static _Atomic int exported = -1;
static _Atomic ino_t exported_file;
static _Atomic bool export_may_end;
static _Atomic unsigned int pinned_from_export;

static void export_home(struct pin_request *request)
{
	standin_called();
	if (request->base != HOME)
		return;
	request->source = (struct dma_buf){ dma_buf_opened(memfd_create("dma-buf", MFD_CLOEXEC)),
					    request->base, request->length };
	exported_file = request->source.file.inode;
	exported = request->source.file.fd;
	while (!export_may_end)
		sched_yield();
}

static bool accept_all(const struct pin_request *request)
{
	return request->length;
}

static int pin_from_export(const struct pin_request *request, struct pin_result *result)
{
	pinned_from_export += request->source.length && request->source.file.fd == exported;
	return standin_method.pin(request, result);
}

/* The worker exports HOME until `export_may_end`. */
static void begin_export(void)
{
	static struct registration_method method = { .name = "exporting",
						     .pin = pin_from_export,
						     .prepare = export_home,
						     .accepts = accept_all };

	method.unpin = standin_method.unpin;
	enable_domain();
	registration_forced_method = &method;
	begin(HOME, BLOCK);
	while (exported < 0)
		sched_yield();
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* The worker may open another file by that number. */
static bool is_exported_open(void)
{
	struct stat status;

	return !fstat(exported, &status) && status.st_ino == exported_file;
}

TEST(worker, a_client_does_not_wait_for_an_export)
{
	begin_export();
	ck_assert_uint_ne(ask(0, HOME, BLOCK), 0);
	ck_assert_uint_eq(statistics_get(waited), 0);
	ck_assert_uint_eq(statistics_get(synchronous_queued), 1);
	export_may_end = true;
	while (is_exported_open())
		sched_yield();
	begin(HOME + 4 * BLOCK, BLOCK);
	await("registrations_background", 1); /* not of HOME */
	ck_assert_uint_eq(standin_registrations(), 3);
	ck_assert_uint_eq(pinned_from_export, 0);
}

TEST(worker, the_worker_registers_from_its_export)
{
	begin_export();
	export_may_end = true;
	await("registrations_background", 1);
	ck_assert_uint_eq(pinned_from_export, 1);
	ck_assert_uint_ne(ask(0, HOME, BLOCK), 0);
	ck_assert_uint_eq(statistics_tallied(TALLY_hits), 1);
	end(HOME);
	ck_assert(!is_exported_open());
}

/* The program closes descriptors that it did not open, and opens a file of its own. */
TEST(worker, a_file_of_the_program_in_the_export_s_place_is_not_closed)
{
	begin_export();
	ck_assert_int_eq(close(exported), 0);
	ck_assert_int_eq(dup2(STDERR_FILENO, exported), exported);
	export_may_end = true;
	await("registrations_background", 1);
	end(HOME); /* waits for the worker's close */
	ck_assert(is_open(exported));
}

static void *free_exported_on_thread(void *open_after)
{
	end(HOME);
	*(bool *)open_after = is_open(exported);
	return NULL;
}

/* An open dma-buf keeps freed memory allocated. */
TEST(worker, a_free_waits_until_the_export_is_closed)
{
	bool open_after = true;
	pthread_t thread;

	begin_export();
	ck_assert_int_eq(pthread_create(&thread, NULL, free_exported_on_thread, &open_after), 0);
	await("frees", 1);
	export_may_end = true;
	pthread_join(thread, NULL);
	ck_assert(!open_after);
	ck_assert_uint_eq(standin_registrations(), 1);
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

CASE(all, .set_up = set_up, .timeout = 300);

TEST(all, a_thread_that_cannot_be_started_is_tried_again)
{
	FILE *log = tmpfile();
	char line[512] = "";
	int allocations = 0;

	/* A file is standard error if it is standard output, too (base/start.h). */
	ck_assert(log && dup2(fileno(log), STDOUT_FILENO) == STDOUT_FILENO);
	ck_assert_int_eq(dup2(STDOUT_FILENO, STDERR_FILENO), STDERR_FILENO);
	refusing = true;
	enable_domain();
	rewind(log);
	ck_assert(fgets(line, sizeof(line), log) && strstr(line, "pthread_create: EAGAIN (11)"));
	ck_assert_uint_eq(refused, 1);
	while (allocations < 1000)
		begin(HOME + (uint64_t)allocations++ * 2 * BLOCK + 2000 * BLOCK, BLOCK);
	/* Retries with increasing intervals. */
	ck_assert_uint_ge(refused, 5);
	ck_assert_uint_le(refused, 12);
	ck_assert_uint_eq(statistics_get(registrations_background), 0);
	refusing = false;
	while (allocations < 3000)
		begin(HOME + (uint64_t)allocations++ * 2 * BLOCK + 2000 * BLOCK, BLOCK);
	await("registrations_background", 3000);
}

/* Two threads end one region: the second finds no index entry, and must not return before the
 * deregistration. */
static void must_not_end(pthread_t thread)
{
	struct timespec deadline;

	/* Too short a timeout can only miss a fault, never report a false one. */
	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_nsec += 200000000;
	deadline.tv_sec += deadline.tv_nsec / 1000000000;
	deadline.tv_nsec %= 1000000000;
	ck_assert_int_eq(pthread_timedjoin_np(thread, NULL, &deadline), ETIMEDOUT);
}

static void *close_on_thread(void *unused)
{
	registration_pd_closing(&pd);
	return unused;
}

TEST(worker, a_protection_domain_waits_for_a_free_that_deregisters_in_it)
{
	uint64_t address = HOME;
	pthread_t freeing, closing;

	begin(HOME, BLOCK);
	ck_assert_uint_ne(ask(0, HOME, 4096), 0);
	registration_drop(&client_mrs[0]);
	standin_block_unpin(true);
	ck_assert_int_eq(pthread_create(&freeing, NULL, free_on_thread, &address), 0);
	standin_await_blocked_unpin();
	ck_assert_int_eq(pthread_create(&closing, NULL, close_on_thread, NULL), 0);
	/* The close has begun once requests are forwarded for their domain. */
	standin_fail_with(-EIO);
	begin(HOME + 2 * BLOCK, BLOCK);
	while (!statistics_get(forwarded_domain))
		ck_assert_uint_eq(ask(1, HOME + 2 * BLOCK, 4096), 0);
	must_not_end(closing);
	standin_block_unpin(false);
	pthread_join(freeing, NULL);
	pthread_join(closing, NULL);
	ck_assert_uint_eq(standin_registered(), 0);
}

TEST(worker, a_free_waits_for_the_end_of_the_protection_domain_that_deregisters_it)
{
	uint64_t address = HOME;
	pthread_t freeing, closing;

	begin(HOME, BLOCK);
	ck_assert_uint_ne(ask(0, HOME, 4096), 0);
	registration_drop(&client_mrs[0]);
	standin_block_unpin(true);
	ck_assert_int_eq(pthread_create(&closing, NULL, close_on_thread, NULL), 0);
	standin_await_blocked_unpin();
	ck_assert_int_eq(pthread_create(&freeing, NULL, free_on_thread, &address), 0);
	await("frees", 1);
	must_not_end(freeing);
	standin_block_unpin(false);
	pthread_join(closing, NULL);
	pthread_join(freeing, NULL);
	ck_assert_uint_eq(standin_registered(), 0);
}

/* Threads allocate, request and free at random over a few shared addresses. No region is left, and
 * each key covers its request's memory. */
#define STRESS_THREADS 4

static pthread_mutex_t slots[8];

static void *stress(void *argument)
{
	unsigned int seed = (unsigned int)(uintptr_t)argument * 7919;
	int handle = (int)(uintptr_t)argument * 16;

	for (int round = 0; round < 3000; round++) {
		int slot = rand_r(&seed) % 8;
		uint64_t base = HOME + (uint64_t)slot * 8192;
		uint32_t key;

		pthread_mutex_lock(&slots[slot]);
		begin(base, 8000);
		key = ask(handle, base + 100, 1000);
		if (!key || !standin_covers(key, base + 100))
			return (void *)"a request got a key that does not cover its memory";
		if (rand_r(&seed) % 2)
			registration_drop(&client_mrs[handle]);
		end(base);
		pthread_mutex_unlock(&slots[slot]);
		registration_drop(&client_mrs[handle]);
	}
	return NULL;
}

TEST(worker, nothing_leaks_and_nothing_is_stale_under_load)
{
	pthread_t threads[STRESS_THREADS];
	void *complaint;

	for (int i = 0; i < 8; i++)
		pthread_mutex_init(&slots[i], NULL);
	for (int i = 0; i < STRESS_THREADS; i++)
		ck_assert_int_eq(
			pthread_create(&threads[i], NULL, stress, (void *)(uintptr_t)(i + 1)), 0);
	for (int i = 0; i < STRESS_THREADS; i++) {
		pthread_join(threads[i], &complaint);
		ck_assert_msg(!complaint, "%s", (const char *)complaint);
	}
	ck_assert_uint_eq(standin_registered(), 0);
	ck_assert_uint_eq(statistics_get(pinned_bytes), 0);
	ck_assert_uint_eq(statistics_get(missed_frees), 0);
	ck_assert_uint_eq(statistics_get(internal_errors), 0);
	ck_assert_uint_eq(statistics_tallied(TALLY_requests),
			  statistics_tallied(TALLY_hits) + statistics_get(waited) +
				  statistics_get(synchronous_queued) + statistics_get(synchronous) +
				  statistics_get(forwarded));
}

SUITE("worker")
