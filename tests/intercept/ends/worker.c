/* SPDX-License-Identifier: BSD-3-Clause */
/* worker.c -- the worker: CPUs, signals, sleep, effects on other threads */
#include "ends.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static cpu_set_t cpus_of(pid_t thread)
{
	cpu_set_t cpus;

	require(!sched_getaffinity(thread, sizeof(cpus), &cpus));
	return cpus;
}

/* An idle worker ends: this one registers until "hold" is 0. */
static void start_it(void)
{
	set_up();
	occupy_worker("hold", 1);
	require(worker_thread());
}

/* The kernel cuts a full mask to the cpuset. */
static cpu_set_t cpus_of_process(void)
{
	cpu_set_t own = cpus_of(0), all;

	memset(&all, 255, sizeof(all));
	require(!sched_setaffinity(0, sizeof(all), &all));
	all = cpus_of(0);
	require(!sched_setaffinity(0, sizeof(own), &own));
	return all;
}

/* Ranks on this host: 0 without a launcher. */
static int ranks(void)
{
	const char *size = getenv("OMPI_COMM_WORLD_SIZE");

	size = size ? size : getenv("SLURM_NTASKS");
	return size ? atoi(size) : 0;
}

/* The worker of the rank that begins first may run until it chooses again. */
static void there_is_no_worker(void)
{
	uint64_t delays;

	activate();
	do {
		until(!worker_thread());
		delays = own("background_delays");
		require_cuda(cuMemFree_v2(allocate(UNIT)));
	} while (worker_thread() || own("background_delays") == delays);
}

/* The CPU of a rank that has ended is free for the workers of others. The ranks have one parent. */
static void await_all_ranks(void)
{
	struct stat status;
	char name[64];
	int fd;

	snprintf(name, sizeof(name), "/tmp/peerpin-ends.%d", (int)getppid());
	fd = open(name, O_WRONLY | O_CREAT | O_APPEND, 0600);
	require(write(fd, "", 1) == 1);
	until(!fstat(fd, &status) && status.st_size >= ranks());
	unlink(name);
	close(fd);
}

/* check_ends.sh has launchers run this. The worker may use all CPUs. */
static void it_starts_where_ranks_leave_cpus(unsigned int unused)
{
	cpu_set_t its, all = cpus_of_process();

	(void)unused;
	if (CPU_COUNT(&all) <= (ranks() ? ranks() : 1)) {
		set_up();
		there_is_no_worker();
		await_all_ranks();
		fprintf(stderr, "%d CPUs, %d ranks: no worker\n", CPU_COUNT(&all), ranks());
		return;
	}
	start_it();
	its = cpus_of(worker_thread());
	require(CPU_EQUAL(&its, &all));
	require(sched_getscheduler(worker_thread()) == SCHED_BATCH);
	fprintf(stderr, "%d CPUs, %d ranks: the worker has %d\n", CPU_COUNT(&all), ranks(),
		CPU_COUNT(&its));
}

static _Atomic int signals;
static _Atomic pid_t receiver;

static void handler(int signal)
{
	(void)signal;
	receiver = gettid();
	signals++;
}

/* If every thread blocks a signal, it must stay pending instead of reaching the worker. */
static void it_receives_no_signals(unsigned int unused)
{
	struct sigaction action = { .sa_handler = handler };
	char text[64];
	uint64_t blocked;
	sigset_t mine;

	(void)unused;
	require(!sigaction(SIGUSR1, &action, NULL));
	start_it();
	require(task_line(worker_thread(), "SigBlk", text, sizeof(text)));
	blocked = strtoull(text, NULL, 16);
	/* 32 and 33 are libc's own (setuid() and others); SIGKILL and SIGSTOP cannot be blocked. */
	require((blocked | 1ull << (SIGKILL - 1) | 1ull << (SIGSTOP - 1) | 3ull << 31) ==
		UINT64_MAX);
	sigemptyset(&mine);
	sigaddset(&mine, SIGUSR1);
	require(!pthread_sigmask(SIG_BLOCK, &mine, NULL));
	require(!kill(getpid(), SIGUSR1));
	require(!sigpending(&mine) && sigismember(&mine, SIGUSR1) && !signals);
	require(!pthread_sigmask(SIG_UNBLOCK, &mine, NULL));
	until(signals == 1);
	require(receiver == gettid());
	require(!pthread_sigmask(SIG_BLOCK, NULL, &mine) && !sigismember(&mine, SIGTERM));
	require(!setuid(getuid()));
}

/* The rank polls, and finds its memory registered. */
static void it_works_beside_a_bound_rank(unsigned int unused)
{
	cpu_set_t bound = cpus_of(0), all;
	CUdeviceptr memory;

	(void)unused;
	set_up();
	all = cpus_of_process();
	require(CPU_COUNT(&bound) == 1);
	if (CPU_COUNT(&all) == 1)
		return;
	activate();
	for (uint64_t count = 1; count <= 20; count++) {
		memory = allocate(UNIT);
		while (own("registrations_background") < count)
			;
		require(!ibv_dereg_mr(registered(memory)));
		require(own("hits") == count);
		require_cuda(cuMemFree_v2(memory));
	}
}

static struct {
	CUstream stream;
	_Atomic int stage;
} capture;

static void *capture_on_thread(void *unused)
{
	CUgraph graph;

	require_cuda(cuCtxSetCurrent(context));
	require_cuda(cuStreamBeginCapture_v2(capture.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	capture.stage = 1;
	until(capture.stage == 2);
	require_cuda(cuStreamEndCapture(capture.stream, &graph));
	return unused;
}

/* A thread allocates in its own relaxed mode while another one captures in global mode, which
 * forbids calls that cannot be captured to threads in the default mode. Neither the worker nor a
 * client request makes such a call. */
static void it_disturbs_no_capture(unsigned int dma_buf)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUstreamCaptureStatus status;
	CUdeviceptr memory;
	pthread_t thread;

	set_up();
	set("dmabuf", dma_buf);
	activate();
	require_cuda(cuStreamCreate(&capture.stream, 1));
	require(!pthread_create(&thread, NULL, capture_on_thread, NULL));
	until(capture.stage == 1);
	require_cuda(cuThreadExchangeStreamCaptureMode(&mode));
	memory = allocate(UNIT);
	require_cuda(cuThreadExchangeStreamCaptureMode(&mode));
	until(own("registrations_background") == 1);
	require(own(dma_buf ? "registrations_dma_buf" : "registrations_peer_memory") == 2);
	require(own("exports") == 0); /* the program's */
	require(!ibv_dereg_mr(registered(memory)) && own("hits") == 1);
	require_cuda(cuThreadExchangeStreamCaptureMode(&mode));
	require_cuda(cuMemFree_v2(memory));
	require_cuda(cuStreamIsCapturing(capture.stream, &status));
	require(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
	capture.stage = 2;
	pthread_join(thread, NULL);
}

#define ALL "PEERPIN_PREREGISTER=auto"

const struct test worker_tests[] = {
	{ it_starts_where_ranks_leave_cpus, "it_starts_where_ranks_leave_cpus", 0, ALL, 0, 1 },
	{ it_works_beside_a_bound_rank, "it_works_beside_a_bound_rank", 0, NULL, 0, 1 },
	TEST(it_receives_no_signals, 0, ALL),
	TEST(it_disturbs_no_capture, 1, ALL),
	TEST(it_disturbs_no_capture, 0, ALL),
	{ .name = NULL },
};
