/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_buffers.c -- replaces large buffers of a program without CUDA by memory of the CUDA driver (a
 * preload)
 *
 * Distributions build programs without CUDA. Allocations by their own code with malloc, memalign,
 * posix_memalign, aligned_alloc or valloc, from GPU_BUFFERS_MIN bytes (default 4096) to
 * GPU_BUFFERS_MAX (default: any), come from cuMemAlloc, and free returns them there. The same for
 * libraries in GPU_BUFFERS_OF: prefixes of file names, separated by commas. All others are
 * forwarded to libc; with GPU_BUFFERS_PROGRAM=no the program's own code too.
 *
 * Built with GPU_MAPS, as gpu_maps.so, also anonymous mappings that these make by mmap. UCX hooks
 * mmap: gpu_buffers.so leaves it alone.
 *
 * Only for the simulated driver: the processor may access its device memory. Without room in the
 * driver the buffer is libc's, and a line reports it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cuda.h>

#define EXPORT	    __attribute__((visibility("default")))
#define MAX_BUFFERS 1024
#define ALIGNMENT   256 /* minimum that cuMemAlloc guarantees */

/* glibc's own without a look-up: a look-up may allocate. */
void *__libc_malloc(size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void *__libc_realloc(void *old, size_t size);
void __libc_free(void *buffer);

struct buffer {
	void *start;
	CUdeviceptr allocation;
	size_t size;
};

/* Recursive: peerpin may register memory inside its allocation, and verbs call malloc and free. */
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static struct buffer
	buffers[MAX_BUFFERS]; /* under lock, as all below; `used` is also read without */
static size_t used;
static bool tried, works;
static CUcontext context;

static bool is_large(size_t size)
{
	static size_t smallest, largest;

	if (!smallest) {
		const char *text = getenv("GPU_BUFFERS_MAX");

		largest = text ? strtoul(text, NULL, 0) : SIZE_MAX;
		text = getenv("GPU_BUFFERS_MIN");
		smallest = text ? strtoul(text, NULL, 0) : 4096;
	}
	return size >= smallest && size <= largest;
}

static bool is_named(const char *file)
{
	const char *names = getenv("GPU_BUFFERS_OF");
	const char *slash = strrchr(file, '/');

	file = slash ? slash + 1 : file;
	while (names && *names) {
		size_t length = strcspn(names, ",");

		if (length && !strncmp(file, names, length))
			return true;
		names += length + (names[length] == ',');
	}
	return false;
}

static bool is_program(const void *caller)
{
	const char *excluded = getenv("GPU_BUFFERS_PROGRAM");
	Dl_info object, program;

	if (!dladdr(caller, &object) || !dladdr((void *)getauxval(AT_ENTRY), &program))
		return false;
	if (object.dli_fbase == program.dli_fbase)
		return !excluded || strcmp(excluded, "no") != 0;
	return is_named(object.dli_fname);
}

/* Called with the lock held; the driver's own allocations are forwarded. */
static bool ready(void)
{
	CUdevice device;

	if (!tried) {
		tried = true;
		works = !cuInit(0) && !cuDeviceGet(&device, 0) &&
			!cuDevicePrimaryCtxRetain(&context, device);
		if (!works)
			fprintf(stderr, "gpu_buffers: there is no CUDA device\n");
	}
	/* The thread may have no context yet. */
	return works && !cuCtxSetCurrent(context);
}

static void *take(size_t alignment, size_t size)
{
	struct buffer *buffer;
	void *start = NULL;
	CUdeviceptr allocation;
	size_t extra = alignment > ALIGNMENT ? alignment : 0;

	pthread_mutex_lock(&lock);
	for (buffer = buffers; buffer < buffers + MAX_BUFFERS && buffer->start; buffer++)
		;
	if (buffer < buffers + MAX_BUFFERS && ready() && !cuMemAlloc(&allocation, size + extra)) {
		start = (void *)(uintptr_t)(extra ? (allocation + extra - 1) / extra * extra
						  : allocation);
		*buffer = (struct buffer){ start, allocation, size };
		__atomic_store_n(&used, used + 1, __ATOMIC_RELAXED);
	} else {
		fprintf(stderr, "gpu_buffers: %zu bytes are not of a GPU\n", size);
	}
	pthread_mutex_unlock(&lock);
	return start;
}

/* Whether it was a replaced one; stores and removes the entry. */
static bool give_up(void *start, struct buffer *found)
{
	bool ours = false;

	/* Most programs free often and have few buffers. */
	if (!start || !__atomic_load_n(&used, __ATOMIC_RELAXED))
		return false;
	pthread_mutex_lock(&lock);
	for (struct buffer *buffer = buffers; !ours && buffer < buffers + MAX_BUFFERS; buffer++) {
		if (buffer->start != start)
			continue;
		ours = true;
		*found = *buffer;
		buffer->start = NULL;
		__atomic_store_n(&used, used - 1, __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&lock);
	return ours;
}

static void release(const struct buffer *buffer)
{
	/* At exit the driver may be gone. */
	if (!cuCtxSetCurrent(context))
		cuMemFree(buffer->allocation);
}

static void *allocate(size_t alignment, size_t size, const void *caller)
{
	void *start = NULL;

	if (is_large(size) && is_program(caller))
		start = take(alignment, size);
	if (start)
		return start;
	return alignment > sizeof(max_align_t) ? __libc_memalign(alignment, size)
					       : __libc_malloc(size);
}

EXPORT void *malloc(size_t size)
{
	return allocate(1, size, __builtin_return_address(0));
}

EXPORT void *memalign(size_t alignment, size_t size)
{
	return allocate(alignment, size, __builtin_return_address(0));
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
	return allocate(alignment, size, __builtin_return_address(0));
}

EXPORT void *valloc(size_t size)
{
	return allocate(sysconf(_SC_PAGESIZE), size, __builtin_return_address(0));
}

EXPORT int posix_memalign(void **buffer, size_t alignment, size_t size)
{
	void *start;

	if (!alignment || alignment % sizeof(void *) || (alignment & (alignment - 1)))
		return EINVAL;
	start = allocate(alignment, size, __builtin_return_address(0));
	if (!start)
		return ENOMEM;
	*buffer = start;
	return 0;
}

EXPORT void *realloc(void *old, size_t size)
{
	struct buffer buffer;
	void *start;

	if (!give_up(old, &buffer))
		return __libc_realloc(old, size);
	start = __libc_malloc(size);
	if (start)
		memcpy(start, old, size < buffer.size ? size : buffer.size);
	release(&buffer);
	return start;
}

EXPORT void free(void *start)
{
	struct buffer buffer;

	if (give_up(start, &buffer))
		release(&buffer);
	else
		__libc_free(start);
}

#ifdef GPU_MAPS
EXPORT void *mmap(void *where, size_t length, int protection, int flags, int fd, off_t offset)
{
	const int kind = MAP_PRIVATE | MAP_ANONYMOUS;
	void *start = NULL;

	if (!where && flags == kind && is_large(length) && is_program(__builtin_return_address(0)))
		start = take((size_t)sysconf(_SC_PAGESIZE), length);
	return start ? start
		     : (void *)syscall(SYS_mmap, where, length, protection, flags, fd, offset);
}

EXPORT int munmap(void *start, size_t length)
{
	struct buffer buffer;

	if (!give_up(start, &buffer))
		return (int)syscall(SYS_munmap, start, length);
	release(&buffer);
	return 0;
}
#endif
