/* SPDX-License-Identifier: BSD-3-Clause */
/* check_worker_cpus.c -- CPUs that the worker chooses, with simulated threads, cpuset and sysfs */
#include "suite.h"

#include <errno.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/job_file.h"
#include "base/kernel.h"
#include "base/own_thread.h"
#include "registration/worker_cpus.h"
#include "job_fixture.h"
#include "standin.h"
#include "sysfs_fixture.h"

#define GPU "bus/pci/devices/0000:01:00.0"

/* CPUs are bits of one word. */
static uint64_t cpuset, worker;	 /* of the process; of the calling thread */
static struct kernel_cpus first; /* of a worker that starts */
static bool is_refused;		 /* by seccomp */
static struct {
	int number;
	uint64_t cpus;
} threads[8];

static long set_cpus(uint64_t cpus)
{
	if (is_refused)
		return -EPERM;
	if (!(cpus & cpuset))
		return -EINVAL;
	worker = cpus & cpuset;
	return 0;
}

static long get_cpus(int thread, struct kernel_cpus *cpus)
{
	if (!thread || thread == gettid()) {
		cpus->words[0] = worker;
		return 8;
	}
	for (size_t i = 0; i < sizeof(threads) / sizeof(threads[0]); i++) {
		if (threads[i].number == thread) {
			cpus->words[0] = threads[i].cpus;
			return 8;
		}
	}
	return -ESRCH;
}

/* In place of the library's. */
long kernel_enter(long number, long a, long b, long c, long d, long e, long f)
{
	struct kernel_cpus *cpus = (struct kernel_cpus *)c;
	long result;

	if (number == SYS_sched_setaffinity) {
		require(!a);
		return set_cpus(cpus->words[0]);
	}
	if (number == SYS_sched_getaffinity)
		return get_cpus((int)a, cpus);
	if (number == SYS_getcpu) {
		*(unsigned int *)a = 5;
		return 0;
	}
	if (number == SYS_openat && !strcmp((const char *)b, "/proc/self/task"))
		b = (long)sysfs_path("task");
	result = syscall(number, a, b, c, d, e, f);
	return result == -1 ? -errno : result;
}

static CUresult get_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	*value = attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID;
	return device ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

static void add_thread(int number, uint64_t cpus)
{
	static unsigned int count;
	char name[32];

	threads[count].number = number;
	threads[count++].cpus = cpus;
	snprintf(name, sizeof(name), "task/%d/", number);
	sysfs_make_folders(name);
}

/* Another thread, that may run on all of the 8 CPUs, has started the worker. */
static void set_up(void)
{
	standin_reset();
	standin_driver.cuDeviceGetAttribute = get_attribute;
	sysfs_begin();
	sysfs_make_file(GPU "/vendor", "0x10de\n");
	cpuset = worker = 0xff;
	add_thread(gettid(), 0);
	add_thread(11, 0xff);
}

/* Also the next choice, which no longer knows the thread that has started the worker. */
static void begin(const char *setting)
{
	if (setting)
		setenv("PEERPIN_WORKER_CPUS", setting, 1);
	worker_cpus_to_start(&first);
	worker_cpus_choose(0);
	worker_cpus_choose(0);
}

CASE(cpus, .set_up = set_up, .tear_down = sysfs_end);

TEST(cpus, the_worker_starts_beside_the_thread_that_starts_it)
{
	struct kernel_cpus current;

	begin(NULL);
	ck_assert(kernel_get_current_cpu(&current));
	for (size_t i = 0; i < KERNEL_CPU_WORDS; i++)
		ck_assert_uint_eq(first.words[i], ~current.words[i]);
	ck_assert_uint_eq(current.words[0], 1 << 5);
}

TEST(cpus, and_leaves_the_cpu_of_that_thread_until_the_next_choice)
{
	worker_cpus_to_start(&first);
	worker_cpus_choose(0);
	ck_assert_uint_eq(worker, 0xdf);
	worker_cpus_choose(0);
	ck_assert_uint_eq(worker, 0xff);
	cpuset = 1 << 5;
	worker_cpus_to_start(&first);
	worker_cpus_choose(0);
	ck_assert_uint_eq(worker, 1 << 5);
}

TEST(cpus, or_on_listed_ones)
{
	begin("1,3-4");
	ck_assert_uint_eq(first.words[0], 0x1a);
	ck_assert_uint_eq(first.words[1], 0);
}

TEST(cpus, or_as_that_thread)
{
	setenv("PEERPIN_WORKER_CPUS", "inherit", 1);
	ck_assert(!worker_cpus_to_start(&first));
}

TEST(cpus, the_worker_may_run_on_all_cpus_of_the_process)
{
	worker = 1 << 2; /* as the thread that has started it */
	begin(NULL);
	ck_assert_uint_eq(worker, 0xff);
	ck_assert(!worker_cpus_switch());
}

TEST(cpus, but_not_on_those_to_which_a_thread_is_bound_alone)
{
	add_thread(12, 1 << 3);
	add_thread(13, 1 << 4 | 1 << 5);
	add_thread(14, 1 << 7);
	begin("auto");
	ck_assert_uint_eq(worker, 0x77);
}

TEST(cpus, unless_there_are_no_others)
{
	cpuset = 3;
	add_thread(12, 1);
	add_thread(13, 2);
	begin(NULL);
	ck_assert_uint_eq(worker, 3);
}

TEST(cpus, threads_that_are_bound_later_count_at_the_next_choice)
{
	begin(NULL);
	ck_assert_uint_eq(worker, 0xff);
	threads[1].cpus = 1;
	worker_cpus_choose(0);
	ck_assert_uint_eq(worker, 0xfe);
	threads[1].cpus = 2;
	worker_cpus_choose(0);
	ck_assert_uint_eq(worker, 0xfd);
}

TEST(cpus, a_thread_that_has_ended_meanwhile_has_no_cpu)
{
	add_thread(12, 1);
	threads[2].number = 0;
	begin(NULL);
	ck_assert_uint_eq(worker, 0xff);
}

TEST(cpus, where_the_threads_are_unknown_all_are_used)
{
	add_thread(12, 1);
	sysfs_remove("task");
	begin(NULL);
	ck_assert_uint_eq(worker, 0xff);
}

TEST(cpus, where_the_kernel_refuses_the_worker_stays)
{
	worker = 6;
	is_refused = true;
	begin(NULL);
	ck_assert_uint_eq(worker, 6);
	ck_assert(!worker_cpus_switch());
}

/* ---- ranks of the job ---- */

static void set_up_job(void)
{
	set_up();
	forget_launchers();
	make_folder();
	setenv("OMPI_COMM_WORLD_RANK", "0", 1);
	setenv("PMIX_NAMESPACE", "ranks", 1);
}

static void tear_down_job(void)
{
	sysfs_end();
	remove_folder();
}

static void join(uint64_t cpus)
{
	worker = cpus;
	job_file_join();
}

/* Another process of the job, whose first thread may run on these CPUs. */
static void join_rank(uint64_t cpus)
{
	start_rank(join, cpus);
}

CASE(ranks, .set_up = set_up_job, .tear_down = tear_down_job);

TEST(ranks, cpus_to_which_a_rank_is_bound_alone_are_left)
{
	join_rank(1 << 2);
	join_rank(1 << 7);
	join_rank(0x18);
	begin(NULL);
	ck_assert_uint_eq(worker, 0x7b);
	ck_assert(worker_cpus_are_left());
}

TEST(ranks, those_bound_later_count_at_the_next_choice)
{
	join_rank(1);
	begin(NULL);
	ck_assert_uint_eq(worker, 0xfe);
	join_rank(2);
	ck_assert(worker_cpus_choose(0));
	ck_assert_uint_eq(worker, 0xfc);
}

TEST(ranks, where_each_cpu_has_a_rank_none_is_left)
{
	cpuset = worker = 3;
	join_rank(1);
	ck_assert(worker_cpus_are_left());
	worker_cpus_to_start(&first);
	ck_assert(worker_cpus_choose(0));
	join_rank(2);
	ck_assert(!worker_cpus_are_left());
	ck_assert(!worker_cpus_choose(0));
	cpuset = 7;
	ck_assert(worker_cpus_choose(0));
	ck_assert(worker_cpus_are_left());
	ck_assert_uint_eq(worker, 4);
}

TEST(ranks, a_cpu_of_a_rank_is_not_taken_although_threads_are_bound_to_all_others)
{
	cpuset = worker = 3;
	join_rank(1);
	add_thread(12, 1);
	add_thread(13, 2);
	begin(NULL);
	ck_assert_uint_eq(worker, 2);
}

LOOP_TEST(ranks, of_a_setting_they_are_used_all_the_same, 0, 2)
{
	cpuset = worker = 3;
	join_rank(1);
	join_rank(2);
	begin(_i ? "0-1" : "inherit");
	ck_assert(worker_cpus_choose(0));
	ck_assert(worker_cpus_are_left());
	ck_assert_uint_eq(worker, 3);
}

TEST(ranks, where_the_cpus_are_unknown_the_worker_works)
{
	cpuset = worker = 0;
	join_rank(1);
	ck_assert(worker_cpus_choose(0));
	ck_assert(worker_cpus_are_left());
}

/* ---- near the GPU ---- */

TEST(cpus, those_near_the_gpu_come_first_and_then_all)
{
	sysfs_make_file(GPU "/local_cpulist", "0-3,16-19\n");
	add_thread(12, 1);
	begin(NULL);
	ck_assert_uint_eq(worker, 0x0e);
	ck_assert(worker_cpus_switch());
	ck_assert_uint_eq(worker, 0xfe);
	ck_assert(worker_cpus_switch());
	ck_assert_uint_eq(worker, 0x0e);
	ck_assert(worker_cpus_switch());
	worker_cpus_choose(0);
	ck_assert_uint_eq(worker, 0x0e);
}

LOOP_TEST(cpus, where_none_is_near_or_all_are_there_is_one_choice, 0, 5)
{
	static const char *const near[] = { "0-7\n", "0-63\n", "8-15\n", "\n", "none\n" };

	sysfs_make_file(GPU "/local_cpulist", near[_i]);
	begin(NULL);
	ck_assert_uint_eq(worker, 0xff);
	ck_assert(!worker_cpus_switch());
	ck_assert_uint_eq(worker, 0xff);
}

TEST(cpus, where_the_gpu_is_unknown_there_is_one_choice)
{
	sysfs_make_file(GPU "/local_cpulist", "0-3\n");
	begin(NULL);
	worker_cpus_choose(-1);
	ck_assert_uint_eq(worker, 0xff);
	ck_assert(!worker_cpus_switch());
	worker_cpus_choose(0);
	ck_assert_uint_eq(worker, 0x0f);
	sysfs_make_file(GPU "/vendor", "0x8086\n");
	worker_cpus_choose(0);
	ck_assert_uint_eq(worker, 0xff);
}

/* ---- PEERPIN_WORKER_CPUS ---- */

TEST(cpus, inherited_ones_are_those_of_the_thread_that_starts_the_worker)
{
	add_thread(12, 1 << 2);
	worker = 0x0c;
	begin("Inherit");
	ck_assert_uint_eq(worker, 0x0c);
	ck_assert(!worker_cpus_switch());
	worker = 0x30; /* the next worker */
	begin(NULL);
	ck_assert_uint_eq(worker, 0x30);
}

TEST(cpus, inherited_ones_far_from_the_gpu_are_not_lost)
{
	sysfs_make_file(GPU "/local_cpulist", "0-3\n");
	worker = 0x18;
	begin("inherit");
	ck_assert_uint_eq(worker, 0x08);
	worker_cpus_choose(0);
	ck_assert_uint_eq(worker, 0x08);
	ck_assert(worker_cpus_switch());
	ck_assert_uint_eq(worker, 0x18);
}

TEST(cpus, listed_ones_are_used_whatever_is_bound_to_them)
{
	add_thread(12, 1 << 3);
	begin("1,3-4");
	ck_assert_uint_eq(worker, 0x1a);
	ck_assert(!worker_cpus_switch());
}

TEST(cpus, of_listed_ones_too_those_near_the_gpu_come_first)
{
	sysfs_make_file(GPU "/local_cpulist", "0-3\n");
	begin("2-6");
	ck_assert_uint_eq(worker, 0x0c);
	ck_assert(worker_cpus_switch());
	ck_assert_uint_eq(worker, 0x7c);
}

/* After a loan the worker goes back to CPUs that it may use. */
TEST(cpus, listed_ones_that_the_process_may_not_use_do_not_count)
{
	sysfs_make_file(GPU "/local_cpulist", "8-15\n");
	begin("0-1,8-9");
	ck_assert_uint_eq(worker, 3);
	ck_assert(!worker_cpus_switch());
	own_thread_begin();
	own_thread_lent = true;
	worker = 1 << 5;
	own_thread_take_back();
	ck_assert_uint_eq(worker, 3);
}

static unsigned int lines_in(FILE *file, const char *text)
{
	unsigned int count = 0;
	char line[1024];

	rewind(file);
	while (fgets(line, sizeof(line), file))
		count += !!strstr(line, text);
	return count;
}

TEST(cpus, a_list_of_others_alone_is_named_once_and_auto_is_used)
{
	FILE *file = tmpfile();
	int stderr_before = dup(STDERR_FILENO);

	ck_assert(file && dup2(fileno(file), STDERR_FILENO) == STDERR_FILENO);
	add_thread(12, 1);
	begin("8,10-11");
	ck_assert_uint_eq(worker, 0xfe);
	worker_cpus_choose(0);
	ck_assert_uint_eq(worker, 0xfe);
	dup2(stderr_before, STDERR_FILENO);
	close(stderr_before);
	ck_assert_uint_eq(lines_in(file, "PEERPIN_WORKER_CPUS=8,10-11 has no CPU that the process "
					 "may use"),
			  1);
	fclose(file);
}

SUITE("worker cpus")
