/* SPDX-License-Identifier: BSD-3-Clause */
/* first.c -- the first memory of a process begins where somebody waits: prints a line for each way,
 * and hangs in none
 *
 *  constructor PLUGIN: a plug-in's constructor begins memory while another thread, which began the
 * first, needs the dynamic linker's lock (first_plugin.c) pipe: a library of ours that has
 * something to complain of waits for who reads standard error, who begins memory first allocator:
 * the first memory's beginning needs memory of the program's allocator, which gets it from the
 * driver
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

#include "first.h"
#include "memory/cuda_abi.h"

#define SIZE ((size_t)1 << 20)

/* glibc gives a new piece of so many exit handlers, out of calloc. */
#define HANDLERS 32

extern void *__libc_calloc(size_t count, size_t size);

static volatile bool from_driver, is_inside;
static volatile unsigned int zeroed, taken;
static size_t last, piece; /* sizes: of the last one, and of a piece of exit handlers */

/* As those that are loaded to put a program's memory where its GPU can use it; but the simulated
 * driver asks for some itself. */
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

/* The next one needs a piece. */
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
static _Atomic int speaker; /* the thread that begins the first */

static void *begin_first(void *unused)
{
	CUdeviceptr address;

	(void)unused;
	if (cuCtxSetCurrent(context))
		return "no context";
	speaker = (int)syscall(SYS_gettid);
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
	while (!speaker || !sleeps(speaker))
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
	/* These begin nothing, and whatever is looked up on the way has been. */
	if (cuInit(0) || cuDeviceGet(&device, 0) || cuCtxCreate_v2(&context, 0, device) ||
	    !cuMemAlloc_v2(&address, 0) || !cuMemAllocManaged(&address, 0, 1) ||
	    !cuMemFree_v2(SIZE))
		return 2;
	if (count > 2 && !strcmp(arguments[1], "constructor"))
		return in_constructor(arguments[2]);
	return count > 1 && !strcmp(arguments[1], "pipe") ? in_pipe() : in_allocator();
}
