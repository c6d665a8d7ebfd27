/* SPDX-License-Identifier: BSD-3-Clause */
/* allocate.c -- allocates in each way that gpu_buffers.c intercepts, the last one by mmap, and
 * twice in sizes that it forwards */
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SIZE 65536
#define WAYS 8

static bool holds(const unsigned char *buffer, size_t size, int value)
{
	size_t good = 0;

	while (buffer && good < size && buffer[good] == value)
		good++;
	return buffer && good == size;
}

int main(void)
{
	static const size_t sizes[WAYS] = { SIZE, SIZE, SIZE, SIZE, SIZE, 100, 1 << 20, SIZE };
	static const size_t alignments[WAYS] = { 16, 4096, 4096, 65536, 4096, 16, 16, 4096 };
	void *buffers[WAYS] = { malloc(SIZE),
				memalign(4096, SIZE),
				NULL,
				aligned_alloc(65536, SIZE),
				valloc(SIZE),
				malloc(100),
				malloc(1 << 20),
				mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) };
	bool kept = !posix_memalign(&buffers[2], 4096, SIZE);

	for (int i = 0; i < WAYS; i++) {
		kept = kept && buffers[i] && (uintptr_t)buffers[i] % alignments[i] == 0;
		if (kept)
			memset(buffers[i], i + 1, sizes[i]);
	}
	buffers[0] = realloc(buffers[0], 2 * SIZE);
	for (int i = 0; i < WAYS; i++) {
		kept = kept && holds(buffers[i], sizes[i], i + 1);
		if (i < WAYS - 1)
			free(buffers[i]);
	}
	kept = kept && !munmap(buffers[WAYS - 1], SIZE);
	puts(kept ? "all kept" : "not kept");
	return !kept;
}
