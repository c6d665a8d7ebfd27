/* SPDX-License-Identifier: BSD-3-Clause */
/* demo.c -- `peerpin demo`: one small client on the simulated driver and adapter, without and with
 * the library
 *
 * usage: peerpin-demo LIBRARY   runs itself twice, the second time with LIBRARY preloaded
 *
 * The client knows nothing of peerpin: it allocates GPU memory, registers it, lets a peer write
 * into it by its key, and frees it. The adapter counts its registrations by thread: those of the
 * client's own thread are on the send path.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory/cuda_abi.h"
#include "sim/adapter_verbs.h"
#include "sim/sim_adapter.h"

#define ROUNDS	4
#define BUFFERS 16
#define SIZE	((size_t)1 << 20)
#define DELAY	1000 /* microseconds of a registration, added to the simulated adapter's own time */
#define ACCESS	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

/* Counts of the client after its first round, in the order in which it prints them. */
struct result {
	unsigned long long sends, on_path, all, wrong;
};

static void demo_require(bool done, const char *what)
{
	if (done)
		return;
	fprintf(stderr, "peerpin demo: %s failed\n", what);
	exit(1);
}

#define require(condition) demo_require(condition, #condition)

static unsigned long long demo_count(const char *name)
{
	uint64_t value = 0;

	require(!sim_adapter_statistic(name, &value));
	return value;
}

/* ---- the client ---- */

static struct ibv_pd *demo_open(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *adapter;
	CUcontext context;
	CUdevice gpu;

	require(cuInit(0) == CUDA_SUCCESS && cuDeviceGet(&gpu, 0) == CUDA_SUCCESS &&
		cuCtxCreate_v2(&context, 0, gpu) == CUDA_SUCCESS);
	require(list && list[0]);
	adapter = ibv_open_device(list[0]);
	require(adapter);
	return ibv_alloc_pd(adapter);
}

/* Registers the buffer, as an MPI library does on a send, and deregisters it. The peer writes. */
static void demo_send(struct ibv_pd *pd, CUdeviceptr buffer, unsigned char value,
		      struct result *result)
{
	unsigned long long before = demo_count("main_thread");
	struct ibv_mr *mr = ibv_reg_mr(pd, (void *)buffer, SIZE, ACCESS);
	unsigned char sent[64], arrived[sizeof(sent)];

	require(mr);
	result->on_path += demo_count("main_thread") - before;
	result->sends++;
	memset(sent, value, sizeof(sent));
	require(!sim_adapter_write(pd->context, mr->rkey, buffer, sent, sizeof(sent)));
	require(cuMemcpyDtoH_v2(arrived, buffer, sizeof(arrived)) == CUDA_SUCCESS);
	for (size_t i = 0; i < sizeof(sent); i++)
		result->wrong += arrived[i] != value;
	require(!ibv_dereg_mr(mr));
}

static void demo_round(struct ibv_pd *pd, unsigned int round, struct result *result)
{
	CUdeviceptr buffers[BUFFERS];

	for (unsigned int i = 0; i < BUFFERS; i++)
		require(cuMemAlloc_v2(&buffers[i], SIZE) == CUDA_SUCCESS);
	/* The program computes. */
	usleep(BUFFERS * (DELAY + 2000));
	for (unsigned int i = 0; i < BUFFERS; i++)
		demo_send(pd, buffers[i], (unsigned char)(round * BUFFERS + i), result);
	for (unsigned int i = 0; i < BUFFERS; i++)
		require(cuMemFree_v2(buffers[i]) == CUDA_SUCCESS);
}

/* In the first round peerpin learns what the program sends. */
static int demo_client(void)
{
	struct result first = { 0 }, result = { 0 };
	struct ibv_pd *pd;

	require(!sim_adapter_set("delay", DELAY));
	pd = demo_open();
	require(pd);
	demo_round(pd, 0, &first);
	result.all = 0 - demo_count("registrations");
	for (unsigned int round = 1; round <= ROUNDS; round++)
		demo_round(pd, round, &result);
	result.all += demo_count("registrations");
	printf("%llu %llu %llu %llu\n", result.sends, result.on_path, result.all,
	       result.wrong + first.wrong);
	return 0;
}

/* ---- both runs ---- */

struct run {
	struct result result;
	char summary[8192];
};

static void demo_execute(const char *library, const int out[2], const int err[2])
{
	dup2(out[1], STDOUT_FILENO);
	dup2(err[1], STDERR_FILENO);
	close(out[0]);
	close(out[1]);
	close(err[0]);
	close(err[1]);
	if (*library)
		setenv("LD_PRELOAD", library, 1);
	else
		unsetenv("LD_PRELOAD");
	setenv("PEERPIN_SUMMARY", "table", 1);
	execl("/proc/self/exe", "peerpin-demo", "--client", (char *)NULL);
	_exit(127);
}

static void demo_read(int fd, char *to, size_t size)
{
	size_t used = 0;
	ssize_t length;

	while ((length = read(fd, to + used, size - 1 - used)) > 0 ||
	       (length < 0 && errno == EINTR))
		used += length > 0 ? (size_t)length : 0;
	to[used] = '\0';
	close(fd);
}

/* What the client prints fits into the pipes: it ends without a reader. */
static bool demo_run(const char *library, struct run *run)
{
	struct result *result = &run->result;
	int out[2], err[2], status = 0;
	char line[200];
	pid_t child;

	if (pipe(out) || pipe(err))
		return false;
	child = fork();
	if (!child)
		demo_execute(library, out, err);
	close(out[1]);
	close(err[1]);
	demo_read(out[0], line, sizeof(line));
	demo_read(err[0], run->summary, sizeof(run->summary));
	if (child < 0 || waitpid(child, &status, 0) != child || status ||
	    sscanf(line, "%llu %llu %llu %llu", &result->sends, &result->on_path, &result->all,
		   &result->wrong) != 4) {
		fprintf(stderr, "%speerpin demo: the client ended with status 0x%x\n", run->summary,
			(unsigned int)status);
		return false;
	}
	return true;
}

static void demo_print(const struct run *without, const struct run *with)
{
	const struct result *a = &without->result, *b = &with->result;

	printf("A program allocates %u buffers of 1 MiB of GPU memory, computes, sends them, and "
	       "frees\n"
	       "them: %u rounds after a first one, in which peerpin learns what the program "
	       "sends.\n"
	       "GPU and adapter are simulated.\n\n",
	       BUFFERS, ROUNDS);
	printf("%-36s%12s%15s\n", "after the first round", "without", "with peerpin");
	printf("%-36s%12llu%15llu\n", "sends", a->sends, b->sends);
	printf("%-36s%12llu%15llu\n", "registrations on the send path", a->on_path, b->on_path);
	printf("%-36s%12llu%15llu\n", "registrations in the background", a->all - a->on_path,
	       b->all - b->on_path);
	printf("%-36s%12llu%15llu\n\n", "bytes wrong", a->wrong, b->wrong);
}

static void demo_explain(const char *summary)
{
	printf("The summary that peerpin prints when such a program exits:\n\n%s\n"
	       "GPUDirect RDMA  whether GPU memory was registered with an adapter, and how\n"
	       "requests        registrations that the program requested: a hit took none, "
	       "\"waited\" "
	       "is\n"
	       "                for one that had begun\n"
	       "registrations   those that peerpin made: before a request, or inside one (the "
	       "first\n"
	       "                request shows peerpin which memory the program sends)\n"
	       "frees           each ends the registrations of its memory first; missed must be "
	       "0\n\n"
	       "Next: peerpin doctor    whether GPUDirect RDMA works on this host\n"
	       "      peerpin mpirun -n 4 ./app\n",
	       summary);
}

int main(int count, char **arguments)
{
	static struct run without, with;

	if (count == 2 && !strcmp(arguments[1], "--client"))
		return demo_client();
	if (count != 2) {
		fprintf(stderr, "peerpin demo: it takes no arguments\n");
		return 2;
	}
	if (!demo_run("", &without) || !demo_run(arguments[1], &with))
		return 1;
	demo_print(&without, &with);
	demo_explain(with.summary);
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "peerpin demo: standard output: %s\n", strerror(errno));
		return 1;
	}
	/* Without a worker's time slice the figures may differ; wrong data never. */
	return without.result.wrong || with.result.wrong || !with.summary[0];
}
