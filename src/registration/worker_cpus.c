/* SPDX-License-Identifier: BSD-3-Clause */
/* worker_cpus.c -- CPUs of the worker
 *
 * MPI libraries bind each rank to a core, and a rank polls there. The worker inherits the CPUs of
 * the thread that starts it, so it would wait for the rank's core. By default it takes all CPUs
 * that the kernel lets the process use, its cpuset: a whole job step on a host of Slurm with
 * cgroups, the whole host elsewhere. It leaves those to which a rank of the job is bound alone, and
 * if others are left those of bound threads of this process. On these it works only while one is
 * idle (worker.c).
 *
 * Where every CPU has a bound rank there is no worker. These CPUs seem idle while their ranks wait
 * in the driver, and a worker that loses the CPU to a rank holds the driver's locks: with 16 ranks
 * on 16 CPUs and one GPU, each with a worker that paused up to 64 ms, allocation, request and free
 * took 1.35 times as long as without (H200).
 */
#include "registration/worker_cpus.h"

#include "base/config.h"
#include "base/cpu_list.h"
#include "base/job_file.h"
#include "base/log.h"
#include "base/own_thread.h"
#include "base/text.h"
#include "registration/topology.h"

static struct kernel_cpus cpuset; /* none: not asked for */
static struct kernel_cpus inherited, near, all;
static struct kernel_cpus
	starting; /* of the thread that has started the worker, until it chooses */
static bool is_near;

/* Removes `others` from `cpus`, or keeps only these; unless nothing would be left. */
static void worker_cpus_narrow(struct kernel_cpus *cpus, const struct kernel_cpus *others,
			       bool keep)
{
	struct kernel_cpus left = *cpus;

	for (size_t i = 0; i < KERNEL_CPU_WORDS; i++)
		left.words[i] &= keep ? others->words[i] : ~others->words[i];
	if (kernel_count_cpus(&left))
		*cpus = left;
}

/* Adds the thread's CPU to `taken` if the thread is bound to it alone. */
static bool worker_cpus_add_bound(const char *thread, void *taken)
{
	struct kernel_cpus *cpus = taken, own;

	if (kernel_get_cpus((int)text_number(&thread), &own) && kernel_count_cpus(&own) == 1) {
		for (size_t i = 0; i < KERNEL_CPU_WORDS; i++)
			cpus->words[i] |= own.words[i];
	}
	return true;
}

/* The worker itself may run on all by now. */
static void worker_cpus_leave_bound(struct kernel_cpus *cpus)
{
	struct kernel_cpus taken = { 0 };
	int folder = kernel_open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);

	if (folder < 0)
		return;
	kernel_walk(folder, worker_cpus_add_bound, &taken);
	kernel_close(folder);
	worker_cpus_narrow(cpus, &taken, false);
}

/* The CPUs of the cpuset that no rank is bound to. */
static struct kernel_cpus worker_cpus_without_rank(void)
{
	struct kernel_cpus cpus;

	job_file_cpus(&cpus);
	for (size_t i = 0; i < KERNEL_CPU_WORDS; i++)
		cpus.words[i] = cpuset.words[i] & ~cpus.words[i];
	return cpus;
}

/* A worker that starts leaves its starter's CPU, too: the kernel may move it there after a doze,
 * and that thread runs on. Of 60 arenas of 40 pieces registered in 2.5 ms 9 had the whole too late
 * without this, 1 with it (2 CPUs). */
static void worker_cpus_take_all(void)
{
	kernel_set_all_cpus();
	kernel_get_cpus(0, &cpuset);
	all = worker_cpus_without_rank();
	worker_cpus_leave_bound(&all);
	worker_cpus_narrow(&all, &starting, false);
	starting = (struct kernel_cpus){ 0 };
}

/* False: the process may use none of the list's CPUs. */
static bool worker_cpus_take_listed(const char *list)
{
	if (cpu_list_parse(list, &all) && !kernel_set_cpus(0, &all))
		return kernel_get_cpus(0, &all);
	log_once(LOG_WARN,
		 "PEERPIN_WORKER_CPUS=%.80s has no CPU that the process may use: the worker uses "
		 "those of 'auto'. Name CPUs of the process's cpuset.",
		 list);
	return false;
}

static bool worker_cpus_inherit(void)
{
	const char *setting = config_get()->worker_cpus;

	return setting && text_equals_in_any_case(setting, "inherit");
}

bool worker_cpus_to_start(struct kernel_cpus *cpus)
{
	const char *setting = config_get()->worker_cpus;

	kernel_get_cpus(0, &inherited);
	if (setting && cpu_list_parse(setting, cpus))
		return true;
	if (worker_cpus_inherit() || !kernel_get_current_cpu(&starting))
		return false;
	for (size_t i = 0; i < KERNEL_CPU_WORDS; i++)
		cpus->words[i] = ~starting.words[i];
	return true;
}

bool worker_cpus_are_left(void)
{
	struct kernel_cpus left = worker_cpus_without_rank();

	return !kernel_count_cpus(&cpuset) || kernel_count_cpus(&left);
}

bool worker_cpus_choose(int device)
{
	const char *setting = config_get()->worker_cpus;
	struct kernel_cpus near_gpu;

	if (worker_cpus_inherit())
		all = inherited;
	else if (!setting || !worker_cpus_take_listed(setting))
		worker_cpus_take_all();
	near = all;
	if (topology_cpus_near(device, &near_gpu))
		worker_cpus_narrow(&near, &near_gpu, true);
	is_near = true;
	if (kernel_count_cpus(&near))
		own_thread_run_on(&near);
	return !kernel_count_cpus(&cpuset) || kernel_count_cpus(&near);
}

bool worker_cpus_switch(void)
{
	if (kernel_count_cpus(&near) == kernel_count_cpus(&all))
		return false;
	is_near = !is_near;
	own_thread_run_on(is_near ? &near : &all);
	return true;
}
