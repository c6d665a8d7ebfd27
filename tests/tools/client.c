/* SPDX-License-Identifier: BSD-3-Clause */
/* client.c -- a program that uses GPU memory and an adapter as its arguments request, and ends in
 * any way
 *
 * usage: client WORD...  executed in order, each one of
 *   adapter      opens the first adapter and allocates a protection domain
 *   size=BYTES   size of later buffers (1 MiB)
 *   allocated=N  allocates N buffers
 *   sent=N       registers and deregisters the newest N buffers, one by one
 *   held=N       registers the newest N buffers, one by one
 *   dropped      deregisters what is held
 *   mapped=N     as sent=N, each by a dma-buf
 *   beyond       registers and deregisters a buffer together with the one behind it
 *   synced       sets SYNC_MEMOPS of all buffers
 *   pause=N      computes for N milliseconds
 *   child        starts a child that exits at once
 *   waited       requests a buffer while its background registration is in flight
 *   host=N       registers and deregisters N buffers of host memory
 *   locked=N     allocates and frees N buffers of page-locked host memory, one by one
 *   export       exports the newest buffer as a dma-buf
 *   pooled=N     allocates N buffers of the device's pool
 *   elsewhere    makes another context current
 *   free         frees all buffers
 *   to=FOLDER    changes the working folder
 *   own          closes the standard streams; its files own-1 and own-2 get the numbers 1 and 2
 *   ready        prints "ready"
 *   wait         reads standard input to its end
 *   asked        reads lines of one number N each; registers and deregisters the newest buffer N
 *                times, then prints "done"
 *   limit=BYTES  opens the GPU, then limits the size of files
 *   settled      waits until every buffer is registered (PEERPIN_PREREGISTER=auto)
 *   unhooked     looks up a driver function in a library of UCX's name (libucm_bypass.so)
 *   hooked       and patches the function, as UCX does
 * and at last exit, _exit, abort, segfault, terminate, kill, or throw (abort in a thread).
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "memory/cuda_abi.h"
#include "sim/adapter_verbs.h"
#include "sim/sim_adapter.h"

#define BUFFERS 4096
#define SECONDS 600 /* until SIGALRM */
#define ACCESS	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

#define require(condition)                                                                         \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "client: %s failed\n", #condition);                        \
			exit(3);                                                                   \
		}                                                                                  \
	} while (0)

static CUdeviceptr buffers[BUFFERS];
static unsigned int allocated;
static size_t size = (size_t)1 << 20;
static struct ibv_pd *pd;

static void open_gpu(void)
{
	static CUcontext context;
	CUdevice gpu;

	if (context)
		return;
	require(cuInit(0) == CUDA_SUCCESS);
	require(cuDeviceGet(&gpu, 0) == CUDA_SUCCESS);
	require(cuCtxCreate_v2(&context, 0, gpu) == CUDA_SUCCESS);
}

static void open_adapter(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *device;

	require(list && list[0]);
	device = ibv_open_device(list[0]);
	require(device);
	pd = ibv_alloc_pd(device);
	require(pd);
}

static void allocate(unsigned int number)
{
	open_gpu();
	for (; number; number--) {
		require(allocated < BUFFERS);
		require(cuMemAlloc_v2(&buffers[allocated++], size) == CUDA_SUCCESS);
	}
}

static void allocate_pooled(unsigned int number)
{
	open_gpu();
	for (; number; number--) {
		require(allocated < BUFFERS);
		require(cuMemAllocAsync(&buffers[allocated++], size, NULL) == CUDA_SUCCESS);
	}
}

static void enter_another_context(void)
{
	CUcontext context;

	open_gpu();
	require(cuCtxCreate_v2(&context, 0, 0) == CUDA_SUCCESS);
}

static void send_newest(unsigned int number)
{
	require(pd && number <= allocated);
	for (unsigned int i = allocated - number; i < allocated; i++) {
		struct ibv_mr *mr = ibv_reg_mr(pd, (void *)buffers[i], size, ACCESS);

		require(mr);
		require(!ibv_dereg_mr(mr));
	}
}

static struct ibv_mr *held[BUFFERS];
static unsigned int held_count;

static void hold_newest(unsigned int number)
{
	require(pd && number <= allocated && held_count + number <= BUFFERS);
	for (unsigned int i = allocated - number; i < allocated; i++) {
		held[held_count] = ibv_reg_mr(pd, (void *)buffers[i], size, ACCESS);
		require(held[held_count++]);
	}
}

static void drop_held(void)
{
	while (held_count)
		require(!ibv_dereg_mr(held[--held_count]));
}

static void map_newest(unsigned int number)
{
	require(pd && number <= allocated);
	for (unsigned int i = allocated - number; i < allocated; i++) {
		struct ibv_mr *mr;
		int file;

		require(cuMemGetHandleForAddressRange(&file, buffers[i], size,
						      CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
						      0) == CUDA_SUCCESS);
		mr = ibv_reg_dmabuf_mr(pd, 0, size, buffers[i], file, ACCESS);
		require(mr && !close(file) && !ibv_dereg_mr(mr));
	}
}

static void register_beyond(void)
{
	CUdeviceptr first = buffers[0];
	struct ibv_mr *mr;

	require(pd && allocated > 1);
	for (unsigned int i = 0; i < allocated; i++)
		first = buffers[i] < first ? buffers[i] : first;
	mr = ibv_reg_mr(pd, (void *)first, 2 * size, ACCESS);
	require(mr && !ibv_dereg_mr(mr));
}

static void set_sync(void)
{
	unsigned int on = 1;

	for (unsigned int i = 0; i < allocated; i++)
		require(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, buffers[i]) ==
			CUDA_SUCCESS);
}

static void register_host(unsigned int number)
{
	require(pd);
	for (; number; number--) {
		char *memory = malloc(size);
		struct ibv_mr *mr = ibv_reg_mr(pd, memory, size, ACCESS);

		require(mr && !ibv_dereg_mr(mr));
		free(memory);
	}
}

static void lock_host(unsigned int number)
{
	void *memory;

	open_gpu();
	for (; number; number--) {
		require(cuMemHostAlloc(&memory, size, 0) == CUDA_SUCCESS);
		require(cuMemFreeHost(memory) == CUDA_SUCCESS);
	}
}

/* The simulated GPU's memory is a file, too: open it first. */
static void limit_files(unsigned long bytes)
{
	open_gpu();
	require(!setrlimit(RLIMIT_FSIZE, &(struct rlimit){ .rlim_cur = bytes, .rlim_max = bytes }));
}

static uint64_t statistic(const char *name)
{
	int (*query)(const char *, uint64_t *) =
		(__typeof__(query))dlsym(RTLD_DEFAULT, "peerpin_statistic");
	uint64_t value = 0;

	require(query && !query(name, &value));
	return value;
}

/* No counter has the queued registrations; count the finished ones. */
static void settle(void)
{
	while (statistic("registrations") + statistic("registrations_failed") < allocated)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

static uint64_t adapter_calls(void)
{
	uint64_t by_address, by_dma_buf;

	require(!sim_adapter_statistic("reg_mr", &by_address) &&
		!sim_adapter_statistic("reg_dmabuf_mr", &by_dma_buf));
	return by_address + by_dma_buf;
}

/* Delay registrations until a request finds one in flight; double the delay after each failure. */
static void wait_in_flight(void)
{
	uint64_t calls, waited = statistic("waited");

	for (uint64_t delay = 50000; statistic("waited") == waited; delay *= 2) {
		require(!sim_adapter_set("delay", delay));
		calls = adapter_calls();
		allocate(1);
		while (adapter_calls() == calls)
			nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
		send_newest(1);
		require(!sim_adapter_set("delay", 0));
	}
}

/* The program calls the patched function nowhere. */
static unsigned char *look_up_as_ucx(void)
{
	void *plugin = dlopen("libucm_bypass.so", RTLD_NOW);
	void *(*driver_function)(const char *);

	require(plugin);
	driver_function = (__typeof__(driver_function))dlsym(plugin, "driver_function");
	require(driver_function);
	return driver_function("cuMemAllocManaged");
}

static void patch_as_ucx(void)
{
	unsigned char *code = look_up_as_ucx();
	uintptr_t page = (uintptr_t)code & ~(uintptr_t)4095;

	require(!mprotect((void *)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC));
	*code = 0xe9; /* a near jump */
}

static void wait_for_end(void)
{
	char byte;

	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
}

static void send_on_input(void)
{
	char line[32];

	while (fgets(line, sizeof(line), stdin)) {
		alarm(SECONDS);
		for (int left = atoi(line); left > 0; left--)
			send_newest(1);
		puts("done");
		fflush(stdout);
	}
}

static void start_child(void)
{
	pid_t child = fork();
	int status;

	if (!child)
		exit(0);
	require(child > 0 && waitpid(child, &status, 0) == child && !status);
}

static void *abort_here(void *unused)
{
	abort();
	return unused;
}

static void throw(void)
{
	pthread_t thread;

	require(!pthread_create(&thread, NULL, abort_here, NULL));
	pthread_join(thread, NULL);
}

static void free_all(void)
{
	while (allocated)
		require(cuMemFree_v2(buffers[--allocated]) == CUDA_SUCCESS);
}

/* As a program whose adapter then registers none. */
static void export_newest(void)
{
	int file;

	require(allocated && cuMemGetHandleForAddressRange(&file, buffers[allocated - 1], size,
							   CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
							   0) == CUDA_SUCCESS);
	close(file);
}

/* As open() after close(), but the library's worker can open no file in between. */
static void open_own_as(int number, const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT, 0600);

	require(fd >= 0 && (fd == number || (dup2(fd, number) == number && !close(fd))));
}

static void open_own(void)
{
	open_own_as(1, "own-1");
	open_own_as(2, "own-2");
}

static void end(const char *word)
{
	fflush(stdout);
	if (!strcmp(word, "exit"))
		exit(0);
	if (!strcmp(word, "_exit"))
		_exit(0);
	if (!strcmp(word, "abort"))
		abort();
	if (!strcmp(word, "segfault"))
		raise(SIGSEGV);
	if (!strcmp(word, "terminate"))
		raise(SIGTERM);
	if (!strcmp(word, "kill"))
		kill(getpid(), SIGKILL);
	if (!strcmp(word, "throw"))
		throw();
	fprintf(stderr, "client: no such word: %s\n", word);
	exit(2);
}

static void do_word(const char *word)
{
	const char *equals = strchr(word, '=');
	unsigned long number = equals ? strtoul(equals + 1, NULL, 10) : 0;

	if (!strncmp(word, "allocated=", 10))
		allocate((unsigned int)number);
	else if (!strncmp(word, "pooled=", 7))
		allocate_pooled((unsigned int)number);
	else if (!strncmp(word, "size=", 5))
		size = number;
	else if (!strncmp(word, "sent=", 5))
		send_newest((unsigned int)number);
	else if (!strncmp(word, "held=", 5))
		hold_newest((unsigned int)number);
	else if (!strncmp(word, "mapped=", 7))
		map_newest((unsigned int)number);
	else if (!strncmp(word, "pause=", 6))
		nanosleep(&(struct timespec){ .tv_nsec = (long)number * 1000000 }, NULL);
	else if (!strcmp(word, "child"))
		start_child();
	else if (!strcmp(word, "dropped"))
		drop_held();
	else if (!strcmp(word, "beyond"))
		register_beyond();
	else if (!strcmp(word, "synced"))
		set_sync();
	else if (!strncmp(word, "host=", 5))
		register_host((unsigned int)number);
	else if (!strncmp(word, "locked=", 7))
		lock_host((unsigned int)number);
	else if (!strncmp(word, "limit=", 6))
		limit_files(number);
	else if (!strncmp(word, "to=", 3))
		require(!chdir(word + 3));
	else if (!strcmp(word, "adapter"))
		open_adapter();
	else if (!strcmp(word, "own"))
		open_own();
	else if (!strcmp(word, "export"))
		export_newest();
	else if (!strcmp(word, "elsewhere"))
		enter_another_context();
	else if (!strcmp(word, "free"))
		free_all();
	else if (!strcmp(word, "ready"))
		puts("ready");
	else if (!strcmp(word, "wait"))
		wait_for_end();
	else if (!strcmp(word, "asked"))
		send_on_input();
	else if (!strcmp(word, "waited"))
		wait_in_flight();
	else if (!strcmp(word, "settled"))
		settle();
	else if (!strcmp(word, "unhooked"))
		require(look_up_as_ucx());
	else if (!strcmp(word, "hooked"))
		patch_as_ucx();
	else
		end(word);
}

int main(int count, char **words)
{
	alarm(SECONDS);
	for (int i = 1; i < count; i++)
		do_word(words[i]);
	return 0;
}
