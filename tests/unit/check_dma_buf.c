/* SPDX-License-Identifier: BSD-3-Clause */
/* check_dma_buf.c -- dma-buf exports: the context that is current, the thread's state afterwards */
#include "suite.h"

#include <pthread.h>
#include <sys/wait.h>

#include "forbid.h"
#include "pinning_fixture.h"

CASE(dma_buf, .set_up = set_up, .tear_down = tear_down);

LOOP_TEST(dma_buf, the_allocation_s_context_is_current_during_the_export_alone, 0, 3)
{
	static const CUcontext before[] = { NULL, &other, &of_other_device };

	if (before[_i])
		stack[depth++] = before[_i];
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(nic.dma_bufs, 1);
	ck_assert_uint_eq(gpu.pushes, 1);
	ck_assert_uint_eq(retains, 1);
}

/* The client's export, before and behind the range. */
static void set_source(int64_t before, int64_t behind)
{
	source_fd = memfd_create("client", MFD_CLOEXEC);
	request.context = &own;
	request.source = (struct dma_buf){ { .fd = source_fd },
					   HOME - (uint64_t)before,
					   BLOCK + (uint64_t)(before + behind) };
}

static const int64_t around[][2] = { { 0, 0 }, { 4096, 0 }, { 0, 4096 }, { 8192, 4096 } };

LOOP_TEST(dma_buf, a_client_s_own_dma_buf_of_the_range_is_registered_without_an_export, 0, 4)
{
	set_source(around[_i][0], around[_i][1]);
	ck_assert_int_eq(pin_by(dma_buf_pin, &request), 0);
	ck_assert_uint_eq(gpu.exports, 0);
	ck_assert_uint_eq(nic.sources, 1);
	/* It is the client's to close. */
	ck_assert_int_ge(fcntl(source_fd, F_GETFD), 0);
}

static const int64_t short_of[][2] = { { -4096, 0 }, { 0, -1 }, { -(int64_t)BLOCK, 0 } };

LOOP_TEST(dma_buf, a_client_s_own_dma_buf_of_less_than_the_range_is_not_used, 0, 3)
{
	set_source(short_of[_i][0], short_of[_i][1]);
	ck_assert_int_eq(pin_by(dma_buf_pin, &request), 0);
	ck_assert_uint_eq(gpu.exports, 1);
	ck_assert_uint_eq(nic.sources, 0);
}

LOOP_TEST(dma_buf, a_failure_of_a_client_s_own_dma_buf_is_followed_by_an_export, 0, 2)
{
	set_source(0, 0);
	nic.dma_buf = _i ? ENOMEM : EINVAL;
	ck_assert_int_eq(pin_by(dma_buf_pin, &request), -nic.dma_buf);
	/* Lack of memory has other causes. */
	ck_assert_uint_eq(gpu.exports, _i ? 0 : 1);
	ck_assert_uint_eq(nic.dma_bufs, _i ? 1 : 2);
}

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

TEST(dma_buf, a_destroyed_context_stays_current)
{
	stack[depth++] = &other;
	other.alive = false;
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_int_eq(pin(NULL), 0);
	ck_assert_uint_eq(nic.dma_bufs, 2);
}

TEST(dma_buf, what_is_current_already_is_not_pushed)
{
	stack[depth++] = &own;
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(gpu.pushes, 0);
}

static void destroy_own(void)
{
	own.alive = false;
}

LOOP_TEST(dma_buf, a_context_that_is_destroyed_meanwhile_does_not_stay_current, 0, 2)
{
	stack[depth++] = &other;
	gpu.during = destroy_own;
	gpu.pop_fails_once_dead = _i;
	ck_assert_int_eq(pin(&own), 0);
}

TEST(dma_buf, memory_of_a_destroyed_context_is_not_exported)
{
	stack[depth++] = &other;
	own.alive = false;
	request.context = &own;
	ck_assert_int_eq(pin_by(dma_buf_pin, &request), PINNING_NO_CONTEXT);
	ck_assert_uint_eq(gpu.exports, 0);
}

TEST(dma_buf, memory_without_a_context_takes_the_current_one_of_its_device)
{
	stack[depth++] = &other;
	ck_assert_int_eq(pin(NULL), 0);
	ck_assert_uint_eq(gpu.pushes, 0);
	ck_assert_uint_eq(nic.dma_bufs, 1);
}

LOOP_TEST(dma_buf, otherwise_it_takes_the_primary_one, 0, 2)
{
	if (_i)
		stack[depth++] = &of_other_device;
	ck_assert_int_eq(pin(NULL), 0);
	ck_assert_uint_eq(gpu.pushes, 1);
	ck_assert_uint_eq(retains, 1);
	ck_assert_uint_eq(nic.dma_bufs, 1);
}

TEST(dma_buf, nobody_brings_a_primary_context_to_life)
{
	primary.alive = false;
	retains = 0;
	request.context = NULL;
	ck_assert_int_eq(pin_by(dma_buf_pin, &request), PINNING_NO_CONTEXT);
	ck_assert_uint_eq(gpu.exports, 0);
	ck_assert(!primary.alive);
	/* A missing context does not mark dma-buf as failed for the pair (GPU, adapter). */
	ck_assert_int_eq(pin(NULL), 0);
	ck_assert_uint_eq(nic.peers, 1);
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(nic.dma_bufs, 1);
}

TEST(dma_buf, a_driver_that_lacks_contexts_calls_exports_in_the_current_one)
{
	standin_driver.cuCtxPushCurrent_v2 = NULL;
	standin_driver.cuDevicePrimaryCtxRetain = NULL;
	stack[depth++] = &own;
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_int_eq(pin(NULL), 0);
	ck_assert_uint_eq(nic.dma_bufs, 2);
	request.context = &other;
	ck_assert_int_eq(pin_by(dma_buf_pin, &request), PINNING_NO_CONTEXT);
	depth = 0;
	request.context = NULL;
	ck_assert_int_eq(pin_by(dma_buf_pin, &request), PINNING_NO_CONTEXT);
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

TEST(dma_buf, captures_are_not_disturbed_where_the_driver_knows_them)
{
	standin_driver.cuThreadExchangeStreamCaptureMode = NULL;
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(nic.dma_bufs, 1);
}

TEST(dma_buf, only_whole_pages_are_exported)
{
	request.context = &own;
	request.length = BLOCK - 1000;
	ck_assert_int_eq(pin_by(dma_buf_pin, &request), -EINVAL);
	ck_assert_int_eq((int)pinned.failure.call, ERRORS_EXPORT);
	ck_assert_int_eq(pinned.failure.number, CUDA_ERROR_INVALID_VALUE);
	request.length = BLOCK;
	request.base = HOME + 512;
	ck_assert_int_eq(pin_by(dma_buf_pin, &request), -EINVAL);
	ck_assert_uint_eq(gpu.exports, 0);
}

/* ---- clients that register by address ---- */

TEST(dma_buf, no_export_for_a_client_by_address_where_peer_memory_is_expected)
{
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(gpu.exports, 1);
	request.by_address = true;
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_str_eq(pinned.method->name, "peer memory");
	ck_assert_uint_eq(gpu.exports, 1);
	/* Background registrations of the pair stay as they are. */
	request.by_address = false;
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(gpu.exports, 2);
}

TEST(dma_buf, an_export_for_a_client_by_address_once_peer_memory_has_failed)
{
	request.by_address = true;
	nic.peer = EFAULT;
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(nic.peers, 1);
	ck_assert_uint_eq(gpu.exports, 1);
	nic.peer = 0;
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(nic.peers, 1);
	ck_assert_uint_eq(gpu.exports, 2);
}

TEST(dma_buf, no_memory_for_a_client_by_address_is_returned)
{
	request.by_address = true;
	nic.peer = ENOMEM;
	ck_assert_int_eq(pin(&own), -ENOMEM);
	ck_assert_uint_eq(gpu.exports, 0);
	nic.peer = 0;
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(nic.peers, 2);
}

/* No module; the GPU's peer memory without VMM memory; memory that the driver reports incapable. */
LOOP_TEST(dma_buf, an_export_for_a_client_by_address_where_peer_memory_is_not_expected, 0, 3)
{
	request.by_address = true;
	if (_i == 0)
		sysfs_remove("module");
	gpu.peer_mapped = _i != 1;
	request.dma_buf_only = _i == 2;
	depth = 0;
	stack[depth++] = &own;
	ck_assert_int_eq(pin(_i == 1 ? NULL : &own), 0);
	ck_assert_uint_eq(nic.peers, 0);
	ck_assert_uint_eq(gpu.exports, 1);
}

SUITE("dma-buf")
