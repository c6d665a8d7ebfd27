/* SPDX-License-Identifier: BSD-3-Clause */
/* check_ready_exports.c -- dma-bufs of regions, for clients that export the same range */
#include "suite.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory/memory.h"
#include "memory/table.h"
#include "registration/methods.h"
#include "registration/objects.h"
#include "registration_fixture.h"

#define LIMIT 1000 /* of descriptors, but in tests of it */

static CUresult device_result;
static CUdevice current_device;

static CUresult get_device(CUdevice *device)
{
	standin_called();
	*device = current_device;
	return device_result;
}

/* ---- dma-bufs: files of this name ---- */

static _Atomic unsigned int exported;
static int least_descriptor; /* of the worker's exports */
static void (*during_export)(void);
static struct registration_method method;

static void export_for_worker(struct pin_request *request)
{
	int fd;

	standin_called();
	fd = memfd_create("ready", MFD_CLOEXEC);
	if (least_descriptor) {
		int low = fd;

		fd = fcntl(low, F_DUPFD_CLOEXEC, least_descriptor);
		close(low);
	}
	exported++;
	request->source = (struct dma_buf){ dma_buf_opened(fd), request->base, request->length };
	if (during_export)
		during_export();
}

static bool is_dma_buf(int fd)
{
	char name[64], path[32];
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	length = readlink(path, name, sizeof(name) - 1);
	name[length < 0 ? 0 : length] = '\0';
	return !strncmp(name, "/memfd:ready", strlen("/memfd:ready"));
}

static unsigned int open_dma_bufs(void)
{
	unsigned int open = 0;

	for (int fd = 0; fd < 1024; fd++)
		open += is_dma_buf(fd);
	return open;
}

/* The greatest number of a dma-buf that is open. */
static int last_dma_buf(void)
{
	int fd = 1023;

	while (fd >= 0 && !is_dma_buf(fd))
		fd--;
	return fd;
}

static void (*during_pin)(void);

static int pin_from(const struct pin_request *request, struct pin_result *result)
{
	int error;

	if (during_pin)
		during_pin();
	error = standin_method.pin(request, result);
	result->from_source = !error && request->source.length;
	return error;
}

static bool accepts(const struct pin_request *request)
{
	return request->length;
}

static unsigned int open_at_deregistration;

static int unpin(struct ibv_mr *mr)
{
	open_at_deregistration = open_dma_bufs();
	return standin_method.unpin(mr);
}

/* ---- the client ---- */

static bool over_pcie; /* exports, and requests by them */

static void use(struct ibv_pd *in, uint64_t address, uint64_t length, bool dma_buf)
{
	struct registration_request request = request_in(in, 200, address, length, RIGHTS);
	struct registration_keys keys;

	request.dma_buf = dma_buf;
	request.pcie = dma_buf && over_pcie;
	request.youngest = dma_buf ? memory_youngest() : 0;
	require(registration_request(&request, &keys));
	require(registration_drop(request.client_mr));
	await_rescans();
}

static int export_of(uint64_t address, uint64_t size)
{
	const struct found_export wanted = { address, size, 0, over_pcie };
	struct found_export found;
	int fd = registration_export(&wanted);

	if (fd >= 0) {
		ck_assert(is_dma_buf(fd) && memory_find_export(fd, &found));
		ck_assert(found.address == address && found.size == size && found.youngest &&
			  found.pcie == over_pcie);
	}
	return fd;
}

/* True if the client's export is answered. */
static bool is_ready(uint64_t address, uint64_t size)
{
	int fd = export_of(address, size);

	return fd >= 0 && !close(fd);
}

static void allocate(unsigned int block)
{
	begin(HOME + block * BLOCK, BLOCK);
	use(&pd, HOME + block * BLOCK, BLOCK, true);
}

/* Valgrind refuses a change of the hard limit. */
static void limit_descriptors(rlim_t most)
{
	struct rlimit limit;

	ck_assert(!getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = most;
	ck_assert(!setrlimit(RLIMIT_NOFILE, &limit));
}

static void set_up_with_exports(void)
{
	limit_descriptors(LIMIT);
	set_up_eager();
	standin_driver.cuCtxGetDevice = get_device;
	method = (struct registration_method){ .name = "dma-buf",
					       .prepare = export_for_worker,
					       .accepts = accepts,
					       .pin = pin_from,
					       .unpin = unpin };
	registration_forced_method = &method;
}

/* The client has brought a dma-buf: later regions keep theirs. */
static void set_up_ready(void)
{
	set_up_with_exports();
	allocate(1000);
	ck_assert_uint_eq(open_dma_bufs(), 0);
}

CASE(ready_exports, .set_up = set_up_ready);

/* ---- answers ---- */

TEST(ready_exports, a_client_s_export_of_a_registered_range_is_another_descriptor_of_its_dma_buf)
{
	struct stat first, second;
	int one, other;

	begin(HOME, BLOCK);
	ck_assert_uint_eq(exported, 1);
	ck_assert_uint_eq(open_dma_bufs(), 1);
	one = export_of(HOME, BLOCK);
	other = export_of(HOME, BLOCK);
	ck_assert(one > 2 && other > 2 && one != other);
	ck_assert(!fstat(one, &first) && !fstat(other, &second) && first.st_ino == second.st_ino);
	ck_assert_int_eq(fcntl(one, F_GETFD), FD_CLOEXEC);
	ck_assert_int_eq(fcntl(one, F_GETFL) & O_ACCMODE, O_RDWR);
	ck_assert(!close(one) && !close(other));
	ck_assert_uint_eq(open_dma_bufs(), 1);
	ck_assert_uint_eq(exported, 1);
	ck_assert_uint_eq(statistics_get(exports_ready), 2);
	/* The client registers from it: a hit. */
	use(&pd, HOME, BLOCK, true);
	ck_assert_uint_eq(standin_registrations(), 2);
}

/* As UCX: it exports, and registers by its dma-buf. */
static void use_from(int fd, uint64_t address, uint64_t length)
{
	struct registration_request request = request_in(&pd, 200, address, length, RIGHTS);
	uint64_t base = address / PAGE * PAGE;
	struct registration_keys keys;

	request.dma_buf = true;
	request.youngest = memory_youngest();
	request.source = (struct dma_buf){ { .fd = fd },
					   base,
					   (address + length + PAGE - 1) / PAGE * PAGE - base };
	require(registration_request(&request, &keys));
	require(registration_drop(request.client_mr));
}

static void *free_home(void *unused)
{
	end(HOME);
	return unused;
}

/* ---- ends beside the worker's export ---- */

static pthread_t asking, freeing;
static _Atomic bool freed, freed_too_early;

static void *ask_home(void *unused)
{
	struct registration_request request = request_in(&pd, 200, HOME, BLOCK, RIGHTS);
	struct registration_keys keys;

	request.dma_buf = true;
	request.youngest = memory_youngest();
	if (registration_request(&request, &keys))
		registration_drop(request.client_mr);
	return unused;
}

static void *free_home_and_tell(void *unused)
{
	end(HOME);
	freed = true;
	return unused;
}

static void begin_free(void)
{
	struct allocation allocation;

	ck_assert(!pthread_create(&freeing, NULL, free_home_and_tell, NULL));
	while (memory_find(HOME, &allocation))
		sched_yield();
}

static void take_over_and_free(void)
{
	during_export = NULL;
	standin_block(true);
	ck_assert(!pthread_create(&asking, NULL, ask_home, NULL));
	standin_await_blocked(1);
	begin_free();
}

static int unpin_and_look(struct ibv_mr *mr)
{
	freed_too_early |= freed;
	return unpin(mr);
}

/* A client registers the region that the worker is preparing, and another thread frees. */
TEST(ready_exports, a_free_waits_for_the_client_that_took_over_from_the_worker)
{
	method.unpin = unpin_and_look;
	during_export = take_over_and_free;
	begin(HOME, BLOCK);
	/* A free that has not waited is over by now. */
	for (int i = 0; i < 1000 && !freed; i++)
		sched_yield();
	standin_block(false);
	pthread_join(asking, NULL);
	pthread_join(freeing, NULL);
	ck_assert(!freed_too_early);
	ck_assert_uint_eq(open_dma_bufs(), 0);
	ck_assert_uint_eq(standin_registered(), 1);
	ck_assert_uint_eq(statistics_get(internal_errors), 0);
}

static pthread_t closing;

static void *close_first(void *unused)
{
	registration_pd_closing(&pd);
	return unused;
}

static bool first_is_closing(void)
{
	struct domain *domain;
	bool is;

	registration_lock();
	domain = domain_after(NULL, 0);
	is = !domain || domain->owner->closing;
	registration_unlock();
	return is;
}

static void close_first_domain(void)
{
	during_pin = NULL;
	ck_assert(!pthread_create(&closing, NULL, close_first, NULL));
	while (!first_is_closing())
		sched_yield();
}

/* Of the first domain's region: that of the second one is created, and not registered. */
static int unpin_beside_a_free(struct ibv_mr *mr)
{
	method.unpin = unpin;
	begin_free();
	for (int i = 0; i < 1000 && !freed; i++)
		sched_yield();
	return unpin(mr);
}

/* What ended in the first domain is deregistered before the second one's export. */
TEST(ready_exports, memory_that_is_freed_before_its_export_is_not_exported)
{
	static struct ibv_pd second = { .context = DEVICE, .handle = 2 };
	unsigned int before;

	registration_pd_opened(&second, false);
	use(&second, HOME + 1000 * BLOCK, BLOCK, true);
	end(HOME + 1000 * BLOCK);
	before = exported;
	during_pin = close_first_domain;
	method.unpin = unpin_beside_a_free;
	begin(HOME, BLOCK);
	pthread_join(closing, NULL);
	pthread_join(freeing, NULL);
	ck_assert_uint_eq(exported, before + 1);
	ck_assert_uint_eq(statistics_get(internal_errors), 0);
}

/* ---- files of registrations by others ---- */

TEST(ready_exports, a_client_s_own_dma_buf_serves_its_next_exports)
{
	struct stat first, second;
	int fd = memfd_create("ready", MFD_CLOEXEC), other;

	setenv("PEERPIN_PREREGISTER", "off", 1);
	standin_with_registration = false; /* no background registration */
	begin(HOME + 512, PAGE);
	standin_with_registration = true;
	use_from(fd, HOME + 512, PAGE);
	ck_assert(!fstat(fd, &first) && !close(fd));
	ck_assert_uint_eq(open_dma_bufs(), 1);
	other = export_of(HOME, 2 * PAGE);
	ck_assert(other >= 0 && !fstat(other, &second) && first.st_ino == second.st_ino);
	ck_assert(!close(other));
	end(HOME + 512);
	ck_assert_uint_eq(open_dma_bufs(), 0);
}

TEST(ready_exports, a_client_s_dma_buf_of_another_range_is_not_kept)
{
	int fd = memfd_create("ready", MFD_CLOEXEC);

	standin_with_registration = false;
	begin(HOME, 64 * BLOCK);
	standin_with_registration = true;
	use_from(fd, HOME, PAGE);
	ck_assert(!close(fd));
	use(&pd, HOME + 32 * BLOCK, PAGE, true);
	ck_assert_uint_eq(open_dma_bufs(), 1);
	ck_assert(is_ready(HOME, PAGE) && !is_ready(HOME, 64 * BLOCK));
}

static void force_other_method(void)
{
	registration_forced_method = &standin_method;
}

/* Such a file would be the last reference to the dma-buf. */
TEST(ready_exports, a_region_keeps_only_the_file_that_it_is_registered_from)
{
	during_export = force_other_method;
	begin(HOME, BLOCK);
	ck_assert_uint_eq(exported, 1);
	ck_assert_uint_eq(open_dma_bufs(), 0);
}

/* ---- numbers of descriptors ---- */

TEST(ready_exports, without_a_free_descriptor_the_driver_answers)
{
	begin(HOME, BLOCK);
	limit_descriptors((rlim_t)last_dma_buf() + 1);
	while (dup(STDERR_FILENO) >= 0)
		;
	ck_assert(!is_ready(HOME, BLOCK));
	ck_assert_uint_eq(open_dma_bufs(), 1);
	/* A sanitizer's runtime opens files at the exit. */
	limit_descriptors(LIMIT);
}

TEST(ready_exports, a_number_of_a_standard_stream_stays_free)
{
	int saved = dup(STDIN_FILENO);

	ck_assert(!close(STDIN_FILENO));
	begin(HOME, BLOCK);
	ck_assert_uint_eq(exported, 1);
	ck_assert_int_eq(fcntl(STDIN_FILENO, F_GETFD), -1);
	ck_assert_int_eq(dup(saved), STDIN_FILENO);
}

/* ---- descriptors that the program closes ---- */

static int in_child(int (*function)(int argument), int argument)
{
	int status, child = fork();

	if (!child)
		_exit(function(argument));
	require(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* The parent has a record lock of the file. */
static int sees_lock(int fd)
{
	struct flock lock = { .l_type = F_WRLCK };

	return !fcntl(fd, F_GETLK, &lock) && lock.l_type == F_WRLCK;
}

/* The program's file under the number stays open, and locked. */
TEST(ready_exports, a_number_that_the_program_has_reused_is_left_alone)
{
	struct flock lock = { .l_type = F_WRLCK };
	int fd;

	begin(HOME, BLOCK);
	fd = last_dma_buf();
	ck_assert_int_eq(dup2(memfd_create("program's", MFD_CLOEXEC), fd), fd);
	ck_assert(!fcntl(fd, F_SETLK, &lock));
	ck_assert(!is_ready(HOME, BLOCK));
	ck_assert_int_eq(in_child(sees_lock, fd), 1);
	end(HOME);
	ck_assert_int_eq(in_child(sees_lock, fd), 1);
}

TEST(ready_exports, a_file_that_the_program_has_closed_is_exported_by_the_driver)
{
	begin(HOME, BLOCK);
	ck_assert(!close(last_dma_buf()));
	ck_assert(!is_ready(HOME, BLOCK));
	end(HOME);
}

/* ---- children ---- */

static int count_dma_bufs(int unused)
{
	(void)unused;
	return (int)open_dma_bufs();
}

static unsigned int open_in_child(void)
{
	return (unsigned int)in_child(count_dma_bufs, 0);
}

/* A dma-buf would keep memory allocated that the parent frees. */
TEST(ready_exports, a_forked_child_has_none_of_the_files)
{
	int fd;

	begin(HOME, BLOCK);
	begin(HOME + BLOCK, BLOCK);
	ck_assert_uint_eq(open_dma_bufs(), 2);
	ck_assert_uint_eq(open_in_child(), 0);
	fd = export_of(HOME, BLOCK);
	/* The program's own. */
	ck_assert_uint_eq(open_in_child(), 1);
	ck_assert_uint_eq(open_dma_bufs(), 3);
	ck_assert(!close(fd) && is_ready(HOME, BLOCK) && is_ready(HOME + BLOCK, BLOCK));
}

/* A child would not close it. */
TEST(ready_exports, a_file_above_the_table_of_descriptors_is_not_kept)
{
	struct rlimit limit;

	ck_assert(!getrlimit(RLIMIT_NOFILE, &limit));
	if (limit.rlim_max <= DMA_BUF_DESCRIPTORS)
		return;
	limit_descriptors(DMA_BUF_DESCRIPTORS + 1);
	least_descriptor = DMA_BUF_DESCRIPTORS;
	begin(HOME, BLOCK);
	ck_assert_int_eq(fcntl(DMA_BUF_DESCRIPTORS, F_GETFD), -1);
	least_descriptor--;
	begin(HOME + BLOCK, BLOCK);
	ck_assert_int_eq(fcntl(DMA_BUF_DESCRIPTORS - 1, F_GETFD), FD_CLOEXEC);
	ck_assert_uint_eq(exported, 2);
	end(HOME + BLOCK);
	ck_assert_int_eq(fcntl(DMA_BUF_DESCRIPTORS - 1, F_GETFD), -1);
	limit_descriptors(LIMIT);
}

TEST(ready_exports, a_child_forked_while_a_region_ends_has_not_its_file)
{
	pthread_t freeing;

	begin(HOME, BLOCK);
	standin_block_unpin(true);
	ck_assert(!pthread_create(&freeing, NULL, free_home, NULL));
	standin_await_blocked_unpin();
	ck_assert_uint_eq(open_in_child(), 0);
	standin_block_unpin(false);
	pthread_join(freeing, NULL);
}

/* ---- threads ---- */

static _Atomic bool done;

static void *export_often(void *unused)
{
	struct found_export wanted = { HOME, BLOCK, 0, false };
	int fd;

	while (!done) {
		fd = registration_export(&wanted);
		require(fd < 0 || (is_dma_buf(fd) && !close(fd)));
		sched_yield();
	}
	return unused;
}

/* Takes the numbers that become free. */
static void *open_often(void *unused)
{
	while (!done)
		require(!close(dup(STDERR_FILENO)));
	return unused;
}

TEST(ready_exports, regions_end_beside_exports)
{
	pthread_t threads[3];

	for (size_t i = 0; i < 3; i++)
		ck_assert(!pthread_create(&threads[i], NULL, i ? export_often : open_often, NULL));
	for (unsigned int i = 0; i < 500; i++) {
		allocate(i % 2 ? 0 : 1);
		end(HOME + (i % 2 ? 0 : BLOCK));
	}
	begin(HOME, BLOCK);
	await("exports_ready", 1);
	end(HOME);
	done = true;
	for (size_t i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(open_dma_bufs(), 0);
}

SUITE("ready exports")
