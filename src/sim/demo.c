/* SPDX-License-Identifier: BSD-3-Clause */
/* demo.c -- `peerpin demo`: times of a small client on the simulated driver and adapter, without
 * and with the library
 *
 * usage: peerpin-demo LIBRARY   runs itself 4 times, twice with LIBRARY preloaded
 *
 * Status 1: a result was wrong. Few hits on busy CPUs are correct: the demo states the reason.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "memory/cuda_abi.h"
#include "sim/adapter_verbs.h"
#include "sim/sim_adapter.h"

#define DEMO_BUFFERS   16
#define DEMO_ROUNDS    8 /* after a first one */
#define DEMO_SAMPLES   (DEMO_ROUNDS * DEMO_BUFFERS)
#define DEMO_MAX_DELAY 10000

/* Statistics of peerpin that the demo reads. */
#define DEMO_STATISTICS(STATISTIC)                                                                 \
	STATISTIC(requests)                                                                        \
	STATISTIC(hits)                                                                            \
	STATISTIC(forwarded)                                                                       \
	STATISTIC(background_delays)

/* The client prints these numbers in this order. Without peerpin its statistics are 0. */
struct demo_result {
	uint64_t wrong_bytes;
	uint64_t outlived;  /* registrations that outlived their memory */
	uint64_t live_keys; /* keys that reached memory after its free */
#define STATISTIC(name) uint64_t name;
	DEMO_STATISTICS(STATISTIC)
#undef STATISTIC
	uint64_t request_ns[DEMO_SAMPLES];
	uint64_t cycle_ns[DEMO_SAMPLES]; /* allocation, request, deregistration and free */
};

#define DEMO_NUMBERS (sizeof(struct demo_result) / sizeof(uint64_t))

/* ---- the client: GPU memory that a peer writes ----
 *
 * It knows nothing of peerpin, but for statistics at its end. In each round it allocates buffers,
 * computes, and registers each as an MPI library does on a send. A peer writes into the buffer by
 * its key. Before the frees the client deregisters all buffers but one.
 */

#define SIZE   ((size_t)1 << 20)
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

struct buffer {
	CUdeviceptr address;
	struct ibv_mr *mr;
	uint32_t key;
	uint64_t request_ns, cycle_ns;
};

static void client_require(bool done, const char *what)
{
	if (done)
		return;
	fprintf(stderr, "peerpin demo: %s failed\n", what);
	exit(1);
}

#define require(condition) client_require(condition, #condition)

static uint64_t client_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct ibv_pd *client_open(void)
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

static void client_allocate(struct buffer *buffer)
{
	uint64_t start = client_now();

	require(cuMemAlloc_v2(&buffer->address, SIZE) == CUDA_SUCCESS);
	buffer->cycle_ns = client_now() - start;
}

/* The time for which a GPU computes. An idle CPU registers all buffers in half of it. */
static void client_compute(unsigned long delay)
{
	unsigned long us = DEMO_BUFFERS * (2 * delay + 250);
	struct timespec time = { .tv_sec = (time_t)(us / 1000000),
				 .tv_nsec = (long)(us % 1000000) * 1000 };

	while (nanosleep(&time, &time))
		;
}

static void client_request(struct ibv_pd *pd, struct buffer *buffer)
{
	uint64_t start = client_now();

	buffer->mr = ibv_reg_mr(pd, (void *)buffer->address, SIZE, ACCESS);
	buffer->request_ns = client_now() - start;
	buffer->cycle_ns += buffer->request_ns;
	require(buffer->mr);
	buffer->key = buffer->mr->rkey;
}

static void client_receive(struct ibv_pd *pd, const struct buffer *buffer, unsigned char value,
			   struct demo_result *result)
{
	unsigned char sent[64], arrived[sizeof(sent)];

	memset(sent, value, sizeof(sent));
	require(!sim_adapter_write(pd->context, buffer->key, buffer->address, sent, sizeof(sent)));
	require(cuMemcpyDtoH_v2(arrived, buffer->address, sizeof(arrived)) == CUDA_SUCCESS);
	for (size_t i = 0; i < sizeof(sent); i++)
		result->wrong_bytes += arrived[i] != value;
}

static void client_deregister(struct buffer *buffer)
{
	uint64_t start = client_now();

	require(!ibv_dereg_mr(buffer->mr));
	buffer->cycle_ns += client_now() - start;
	buffer->mr = NULL;
}

static void client_free(struct buffer *buffer)
{
	uint64_t start = client_now();

	require(cuMemFree_v2(buffer->address) == CUDA_SUCCESS);
	buffer->cycle_ns += client_now() - start;
}

/* Round 0 is the first. */
static void client_round(struct ibv_pd *pd, unsigned int round, unsigned long delay,
			 struct demo_result *result)
{
	struct buffer buffers[DEMO_BUFFERS], *last = &buffers[DEMO_BUFFERS - 1], *buffer;

	for (buffer = buffers; buffer <= last; buffer++)
		client_allocate(buffer);
	client_compute(delay);
	for (buffer = buffers; buffer <= last; buffer++) {
		client_request(pd, buffer);
		client_receive(pd, buffer,
			       (unsigned char)(round * DEMO_BUFFERS + (buffer - buffers)), result);
		if (buffer != last || !round)
			client_deregister(buffer);
	}
	for (buffer = buffers; buffer <= last; buffer++)
		client_free(buffer);
	for (buffer = buffers; buffer <= last; buffer++)
		result->live_keys +=
			!sim_adapter_write(pd->context, buffer->key, buffer->address, "", 1);
	if (!round)
		return;
	client_deregister(last);
	for (unsigned int i = 0; i < DEMO_BUFFERS; i++) {
		result->request_ns[(round - 1) * DEMO_BUFFERS + i] = buffers[i].request_ns;
		result->cycle_ns[(round - 1) * DEMO_BUFFERS + i] = buffers[i].cycle_ns;
	}
}

/* 0 without peerpin. */
static uint64_t client_statistic(const char *name)
{
	int (*statistic)(const char *, uint64_t *) =
		(__typeof__(statistic))dlsym(RTLD_DEFAULT, "peerpin_statistic");
	uint64_t value = 0;

	require(!statistic || !statistic(name, &value));
	return value;
}

/* Runs the client, and prints its result. A registration takes `delay` us. Returns the status.
 *
 * In the first round peerpin learns which memory the program sends. */
static int demo_client(unsigned long delay)
{
	static struct demo_result result;
	struct ibv_pd *pd;

	/* Count mistakes instead of the abort. */
	require(!sim_adapter_set("outlive", 1) && !sim_adapter_set("strict", 0));
	pd = client_open();
	require(pd);
	client_round(pd, 0, delay, &result);
#define STATISTIC(name) result.name = 0 - client_statistic(#name);
	DEMO_STATISTICS(STATISTIC)
#undef STATISTIC
	/* Those of the first round count, too: they may be the last. */
	result.background_delays = 0;
	for (unsigned int round = 1; round <= DEMO_ROUNDS; round++)
		client_round(pd, round, delay, &result);
#define STATISTIC(name) result.name += client_statistic(#name);
	DEMO_STATISTICS(STATISTIC)
#undef STATISTIC
	require(!sim_adapter_statistic("outlived", &result.outlived));
	for (size_t i = 0; i < DEMO_NUMBERS; i++)
		printf("%llu\n", (unsigned long long)((const uint64_t *)&result)[i]);
	return 0;
}

/* ---- two sides ---- */

typedef unsigned long long ull;

#define DELAY	"PEERPIN_SIM_ADAPTER_DELAY"
#define RUNS	2 /* of each side */
#define SAMPLES (RUNS * DEMO_SAMPLES)

/* Runs without the library, or with it: sums, and all samples. */
struct side {
	struct demo_result sum;
	uint64_t request_ns[SAMPLES], cycle_ns[SAMPLES]; /* sorted */
	char summary[8192];				 /* of the last run */
};

/* ---- runs ---- */

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

static bool demo_parse(const char *text, struct demo_result *result)
{
	uint64_t *numbers = (uint64_t *)result;
	char *end;

	for (size_t i = 0; i < DEMO_NUMBERS; i++, text = end) {
		numbers[i] = strtoull(text, &end, 10);
		if (end == text)
			return false;
	}
	return true;
}

/* The text of the client fits into the pipes: it ends without a reader. */
static bool demo_run(const char *library, struct demo_result *result, char *summary, size_t size)
{
	static char text[DEMO_NUMBERS * sizeof("18446744073709551615\n")];
	int out[2], err[2], status = 0;
	pid_t child;

	if (pipe(out) || pipe(err))
		return false;
	child = fork();
	if (!child)
		demo_execute(library, out, err);
	close(out[1]);
	close(err[1]);
	demo_read(out[0], text, sizeof(text));
	demo_read(err[0], summary, size);
	if (child < 0 || waitpid(child, &status, 0) != child || status ||
	    !demo_parse(text, result)) {
		fprintf(stderr, "%speerpin demo: the client ended with status 0x%x\n", summary,
			(unsigned int)status);
		return false;
	}
	return true;
}

static int demo_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void demo_add(struct side *side, unsigned int run, const struct demo_result *result)
{
	memcpy(side->request_ns + (size_t)run * DEMO_SAMPLES, result->request_ns,
	       sizeof(result->request_ns));
	memcpy(side->cycle_ns + (size_t)run * DEMO_SAMPLES, result->cycle_ns,
	       sizeof(result->cycle_ns));
	for (size_t i = 0; i < DEMO_NUMBERS; i++)
		((uint64_t *)&side->sum)[i] += ((const uint64_t *)result)[i];
}

/* Both orders: the machine may become slower or faster meanwhile. */
static bool demo_measure(const char *library, struct side sides[2])
{
	static const unsigned int order[2 * RUNS] = { 0, 1, 1, 0 };
	static struct demo_result result;

	memset(sides, 0, 2 * sizeof(*sides));
	for (unsigned int run = 0; run < 2 * RUNS; run++) {
		struct side *side = &sides[order[run]];

		if (!demo_run(order[run] ? library : "", &result, side->summary,
			      sizeof(side->summary)))
			return false;
		demo_add(side, run / 2, &result);
	}
	for (struct side *side = sides; side < sides + 2; side++) {
		qsort(side->request_ns, SAMPLES, sizeof(uint64_t), demo_compare);
		qsort(side->cycle_ns, SAMPLES, sizeof(uint64_t), demo_compare);
	}
	return true;
}

/* ---- output ---- */

static bool demo_has_few_hits(const struct demo_result *with)
{
	return with->hits * 10 < with->requests * 9;
}

static void demo_print_cause(const struct demo_result *with)
{
	printf("%llu hits in %llu requests: ", (ull)with->hits, (ull)with->requests);
	if (with->background_delays)
		printf("no CPU was idle (background_delays: %llu). While no CPU is\n"
		       "idle, peerpin leaves the registration to the request, as without "
		       "peerpin.\n",
		       (ull)with->background_delays);
	else
		printf("the others preceded the end of their background registration.\n");
}

static void demo_print_times(const char *what, const uint64_t *without, const uint64_t *with)
{
	printf("%-43s%12.1f%15.1f\n", what, (double)without[SAMPLES / 2] / 1e3,
	       (double)with[SAMPLES / 2] / 1e3);
	printf("%-43s%12.1f%15.1f\n", "  90th percentile", (double)without[SAMPLES * 9 / 10] / 1e3,
	       (double)with[SAMPLES * 9 / 10] / 1e3);
}

static void demo_print_count(const char *what, uint64_t without, uint64_t with)
{
	printf("%-43s%12llu%15llu\n", what, (ull)without, (ull)with);
}

static void demo_print(const struct side sides[2], const char *delay)
{
	const struct side *without = &sides[0], *with = &sides[1];

	printf("GPU and adapter are simulated. A registration takes %s us, a setting "
	       "(" DELAY ").\n"
	       "A program allocates %u buffers of 1 MiB, computes, requests a registration of "
	       "each,\n"
	       "receives data, deregisters all but one, and frees them: %u rounds, after a first "
	       "one\n"
	       "that is not counted; each side runs twice. The first request of a run begins\n"
	       "background registration.\n\n",
	       delay, DEMO_BUFFERS, DEMO_ROUNDS);
	printf("%-43s%12s%15s\n", "time, us", "without", "with peerpin");
	demo_print_times("a request for a registration, median", without->request_ns,
			 with->request_ns);
	demo_print_times("allocate, register, deregister and free", without->cycle_ns,
			 with->cycle_ns);
	printf("\n%-43s%12s%15s\n", "count", "without", "with peerpin");
	demo_print_count("requests", SAMPLES, with->sum.requests);
	demo_print_count("  hits: the registration was ready", 0, with->sum.hits);
	demo_print_count("memory freed while registered", RUNS * DEMO_ROUNDS, RUNS * DEMO_ROUNDS);
	demo_print_count("  registrations that outlived the memory", without->sum.outlived,
			 with->sum.outlived);
	demo_print_count("bytes wrong", without->sum.wrong_bytes, with->sum.wrong_bytes);
	printf("\nBefore each free peerpin ends the registrations of the memory: old keys are "
	       "invalid, "
	       "and\nno page stays pinned.\n\n");
	if (demo_has_few_hits(&with->sum)) {
		demo_print_cause(&with->sum);
		printf("Run the demo again when a CPU is idle.\n\n");
	}
}

static void demo_explain(const char *summary)
{
	printf("The summary that peerpin prints when such a program exits. It is of the last run, "
	       "and\n"
	       "counts its first round, too: %u rounds of %u requests, with hits of their "
	       "own.\n\n%s\n"
	       "GPUDirect RDMA  whether GPU memory was registered with an adapter, and how\n"
	       "requests        registrations that the program requested: a hit took none, "
	       "\"waited\" "
	       "is\n"
	       "                for one that had begun\n"
	       "registrations   those that peerpin made: before a request, or inside one\n"
	       "frees           each ends the registrations of its memory first, and then frees\n"
	       "                it; missed must be 0\n\n"
	       "Next: peerpin doctor    whether GPUDirect RDMA works on this host\n"
	       "      peerpin mpirun -n 4 ./app\n",
	       DEMO_ROUNDS + 1, DEMO_BUFFERS, summary);
}

/* Reports the first fault. */
static bool demo_is_right(const struct side sides[2])
{
	const struct demo_result *without = &sides[0].sum, *with = &sides[1].sum;
	uint64_t wrong_bytes = without->wrong_bytes + with->wrong_bytes;

	if (wrong_bytes)
		fprintf(stderr, "peerpin demo: %llu bytes are wrong\n", (ull)wrong_bytes);
	else if (with->requests != SAMPLES || with->forwarded)
		fprintf(stderr,
			"peerpin demo: peerpin forwarded %llu of %d requests (peerpin config: its "
			"settings)\n",
			(ull)(SAMPLES - with->requests + with->forwarded), SAMPLES);
	else if (with->outlived)
		fprintf(stderr, "peerpin demo: %llu registrations outlived their memory\n",
			(ull)with->outlived);
	else if (with->live_keys)
		fprintf(stderr, "peerpin demo: %llu keys were valid after the free\n",
			(ull)with->live_keys);
	else if (!with->hits && !with->background_delays)
		fprintf(stderr, "peerpin demo: no hit, though a CPU was idle (peerpin config: its "
				"settings)\n");
	else if (!sides[1].summary[0])
		fprintf(stderr, "peerpin demo: peerpin printed no summary\n");
	else
		return true;
	return false;
}

/* False: not allowed. */
static bool demo_read_delay(const char *text, unsigned long *delay)
{
	char *end;

	*delay = strtoul(text, &end, 10);
	return end != text && !*end && *text != '-' && *delay <= DEMO_MAX_DELAY;
}

int main(int count, char **arguments)
{
	static struct side sides[2];
	const char *text = getenv(DELAY);
	unsigned long delay;

	if (count != 2) {
		fprintf(stderr, "peerpin demo: it takes no arguments\n");
		return 2;
	}
	text = text ? text : "0";
	if (!demo_read_delay(text, &delay)) {
		fprintf(stderr, "peerpin demo: " DELAY "=%s is not allowed (0 to %d us)\n", text,
			DEMO_MAX_DELAY);
		return 2;
	}
	if (!strcmp(arguments[1], "--client"))
		return demo_client(delay);
	if (!demo_measure(arguments[1], sides))
		return 1;
	if (demo_has_few_hits(&sides[1].sum)) {
		demo_print_cause(&sides[1].sum);
		printf("The demo measures once more.\n\n");
		fflush(stdout);
		if (!demo_measure(arguments[1], sides))
			return 1;
	}
	demo_print(sides, text);
	demo_explain(sides[1].summary);
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "peerpin demo: standard output: %s\n", strerror(errno));
		return 1;
	}
	return !demo_is_right(sides);
}
