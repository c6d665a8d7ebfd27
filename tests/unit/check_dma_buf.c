/* SPDX-License-Identifier: BSD-3-Clause */
/* check_dma_buf.c -- dma-buf exports: descriptors that the program closes, children, forbidden calls */
#include "suite.h"

#include <pthread.h>
#include <sys/wait.h>

#include "forbid.h"
#include "pinning_fixture.h"

CASE(dma_buf, .set_up = set_up, .tear_down = tear_down);

/* ---- descriptors that the program closes meanwhile ---- */

static int program_fd;

static void program_reuses(int fd)
{
	nic.during = NULL;
	ck_assert_int_eq(close(fd), 0);
	program_fd = memfd_create("program's", MFD_CLOEXEC);
	ck_assert_int_eq(program_fd, fd);
}

static void prepare_source(void)
{
	request.context = &own;
	dma_buf_prepare(&request);
	ck_assert_uint_eq(request.source.length, BLOCK);
}

static void assert_program_s_file_is_open(void)
{
	ck_assert_int_eq(fcntl(program_fd, F_GETFD), FD_CLOEXEC);
	ck_assert_int_eq(close(program_fd), 0);
}

/* The adapter may have found the program's file under the number. */
TEST(dma_buf, a_registration_during_which_the_export_was_closed_is_not_used)
{
	request.context = &own;
	nic.during = program_reuses;
	ck_assert_int_eq(dma_buf_pin(&request, &pinned), -EAGAIN);
	ck_assert_ptr_null(pinned.mr);
	ck_assert_uint_eq(nic.ended, 1);
	assert_program_s_file_is_open();
}

TEST(dma_buf, a_failure_for_a_closed_export_is_of_the_moment)
{
	request.context = &own;
	nic.during = program_reuses;
	nic.dma_buf = EINVAL;
	ck_assert_int_eq(pinning_pin(&request, &pinned), -EAGAIN);
	ck_assert_int_eq((int)pinned.failure.call, ERRORS_REG_DMABUF);
	ck_assert_int_eq(pinned.failure.number, EBADF);
	ck_assert_uint_eq(nic.ended + nic.peers, 0);
	assert_program_s_file_is_open();
}

/* During the registration, or before it. */
LOOP_TEST(dma_buf, a_prepared_export_that_was_closed_is_followed_by_another, 0, 2)
{
	prepare_source();
	if (_i)
		program_reuses(request.source.file.fd);
	else
		nic.during = program_reuses;
	ck_assert_int_eq(dma_buf_pin(&request, &pinned), 0);
	ck_assert_uint_eq(gpu.exports, 2);
	ck_assert_uint_eq(nic.dma_bufs, _i ? 1 : 2);
	ck_assert_uint_eq(nic.ended, _i ? 0 : 1);
	dma_buf_close(&request.source.file);
	assert_program_s_file_is_open();
}

/* ---- children ---- */

static bool child_has_it;

static void fork_with(int fd)
{
	int status;
	pid_t child = fork();

	if (!child)
		_exit(fcntl(fd, F_GETFD) >= 0);
	require(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
	child_has_it = WEXITSTATUS(status);
}

/* It would keep memory allocated that the parent frees. */
LOOP_TEST(dma_buf, a_child_forked_during_a_registration_has_no_export, 0, 2)
{
	dma_buf_expect_forks();
	request.context = &own;
	if (_i)
		prepare_source();
	nic.during = fork_with;
	child_has_it = true;
	ck_assert_int_eq(dma_buf_pin(&request, &pinned), 0);
	ck_assert(!child_has_it);
	if (_i)
		dma_buf_close(&request.source.file);
}

TEST(dma_buf, a_child_has_a_file_of_the_program_with_the_number_of_an_export)
{
	request.context = &own;
	prepare_source();
	program_reuses(request.source.file.fd);
	fork_with(program_fd);
	ck_assert(child_has_it);
	dma_buf_close(&request.source.file);
	assert_program_s_file_is_open();
}

/* ---- profiles that forbid the comparison of files ---- */

/* A thread, since the profile remains: error numbers of fstat and newfstatat. */
static void *pin_without(void *forbidden)
{
	const int *errors = forbidden;

	require(!errors[0] || forbid(SYS_fstat, (unsigned int)errors[0]));
	require(!errors[1] || forbid(SYS_newfstatat, (unsigned int)errors[1]));
	require(dma_buf_pin(&request, &pinned) == -errors[1]);
	dma_buf_prepare(&request);
	return NULL;
}

/* glibc calls one or the other: a profile may name it alone. */
static const int forbidden_calls[][2] = { { EPERM, 0 }, { EPERM, EPERM }, { ENOSYS, ENOSYS } };

LOOP_TEST(dma_buf, a_profile_forbids_one_call_or_the_failure_names_it, 0, 3)
{
	int error = forbidden_calls[_i][1], unused = dup(STDERR_FILENO);
	pthread_t thread;

	close(unused);
	request.context = &own;
	ck_assert(!pthread_create(&thread, NULL, pin_without, (void *)forbidden_calls[_i]));
	pthread_join(thread, NULL);
	ck_assert_uint_eq(gpu.exports, 2);
	ck_assert_uint_eq(request.source.length, error ? 0 : BLOCK);
	held_file_close(&request.source.file);
	if (error) {
		ck_assert_int_eq((int)pinned.failure.call, ERRORS_FSTAT);
		ck_assert_int_eq(pinned.failure.number, error);
	}
	/* No export is left open. */
	ck_assert_int_eq(dup(STDERR_FILENO), unused);
}

static void program_releases(void)
{
	release(0);
	ck_assert(primary.alive);
	/* The driver frees a context's memory with the last release of the context. */
	standin_free(HOME + 8 * BLOCK);
}

TEST(dma_buf, memory_that_our_own_release_has_ended_is_not_recorded_any_longer)
{
	struct allocation found;

	standin_allocate(HOME + 8 * BLOCK, BLOCK, &primary, true);
	memory_allocated(ALLOCATION_DEVICE, HOME + 8 * BLOCK, BLOCK);
	standin_allocate(HOME + 9 * BLOCK, BLOCK, &own, true);
	memory_allocated(ALLOCATION_DEVICE, HOME + 9 * BLOCK, BLOCK);
	/* No event for an allocation without a context and unknown to the driver: it may be the
	 * one in flight. */
	standin_allocate(HOME, BLOCK, NULL, true);
	memory_allocated(ALLOCATION_POOL, HOME, BLOCK);
	standin_free(HOME);
	ck_assert_int_eq(pin(NULL), 0);
	ck_assert_uint_eq(standin_events.freeing, 0);
	gpu.during = program_releases;
	ck_assert_int_eq(pin(NULL), 0);
	ck_assert(!primary.alive);
	ck_assert_uint_eq(retains, 0);
	ck_assert(!memory_find(HOME + 8 * BLOCK, &found));
	ck_assert(memory_find(HOME + 9 * BLOCK, &found));
	ck_assert(memory_find(HOME, &found));
	ck_assert_uint_eq(standin_events.freeing, 1);
}

/* ---- clients that register by address ---- */

SUITE("dma-buf")
