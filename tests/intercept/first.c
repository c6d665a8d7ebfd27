/* SPDX-License-Identifier: BSD-3-Clause */
/* first.c -- the first allocation of a process while other locks are held: prints a line for each
 * case, and hangs in none
 *
 * constructor PLUGIN: a plug-in's constructor allocates while another thread, in the first
 * allocation, needs the dynamic linker's lock (first_plugin.c)
 *
 * pipe: a log line of the library waits for the reader of standard error, which allocates first
 *
 * allocator: the first allocation calls the program's allocator, which allocates from the driver
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../sleeps.h"
#include "memory/cuda_abi.h"

#define SIZE ((size_t)1 << 20)

/* glibc allocates a block of this many exit handlers with calloc. */
#define HANDLERS 32

extern void *__libc_calloc(size_t count, size_t size);

static volatile bool from_driver, is_inside;
static volatile unsigned int zeroed, taken;
static size_t last, piece; /* sizes: of the last request, and of a block of exit handlers */

/* As a preloaded allocator with memory from the driver; but the simulated driver allocates too. */
void *calloc(size_t count, size_t size)
{
	CUdeviceptr address;

	zeroed++;
	last = size;
	if (from_driver && size == piece && !is_inside) {
		is_inside = true;
		taken += !cuMemAllocManaged(&address, SIZE, 1);
		is_inside = false;
	}
	return __libc_calloc(count, size);
}

static void nothing(void)
{
}

/* The next registration allocates a block. */
static void fill_handlers(void)
{
	unsigned int before = zeroed;

	while (zeroed == before)
		atexit(nothing);
	piece = last;
	for (int i = 1; i < HANDLERS; i++)
		atexit(nothing);
}

static int in_allocator(void)
{
	CUdeviceptr address;

	fill_handlers();
	from_driver = true;
	if (cuMemAlloc_v2(&address, SIZE))
		return 1;
	from_driver = false;
	printf("allocator: %u pieces came from the driver meanwhile\n", taken);
	return !taken;
}

static int in_constructor(const char *plugin)
{
	void *handle = dlopen(plugin, RTLD_NOW);
	int (*end)(void) = handle ? (int (*)(void))dlsym(handle, "plugin_end") : NULL;

	if (!end)
		return 1;
	return end();
}

static CUcontext context;
static _Atomic int first_thread;

static void *begin_first(void *unused)
{
	CUdeviceptr address;

	(void)unused;
	if (cuCtxSetCurrent(context))
		return "no context";
	first_thread = (int)syscall(SYS_gettid);
	return cuMemAlloc_v2(&address, SIZE) ? "no memory" : NULL;
}

static int in_pipe(void)
{
	void *complaint = "";
	CUdeviceptr address;
	char byte = 0;
	pthread_t other;
	int ends[2];

	if (pipe2(ends, O_NONBLOCK))
		return 1;
	while (write(ends[1], &byte, 1) == 1)
		;
	if (fcntl(ends[1], F_SETFL, 0) || dup2(ends[1], STDERR_FILENO) < 0 ||
	    pthread_create(&other, NULL, begin_first, NULL))
		return 1;
	while (!first_thread || !sleeps(first_thread))
		sched_yield();
	if (cuMemAlloc_v2(&address, SIZE))
		return 1;
	while (read(ends[0], &byte, 1) == 1)
		;
	if (pthread_join(other, &complaint) || complaint)
		return 1;
	puts("pipe: both have their memory");
	return 0;
}

int main(int count, char **arguments)
{
	CUdeviceptr address;
	CUdevice device;

	setvbuf(stdout, NULL, _IONBF, 0);
	/* These allocate nothing, and their symbols are resolved. */
	if (cuInit(0) || cuDeviceGet(&device, 0) || cuCtxCreate_v2(&context, 0, device) ||
	    !cuMemAlloc_v2(&address, 0) || !cuMemAllocManaged(&address, 0, 1) ||
	    !cuMemFree_v2(SIZE))
		return 2;
	if (count > 2 && !strcmp(arguments[1], "constructor"))
		return in_constructor(arguments[2]);
	return count > 1 && !strcmp(arguments[1], "pipe") ? in_pipe() : in_allocator();
}
