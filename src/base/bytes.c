/* SPDX-License-Identifier: BSD-3-Clause */
/* bytes.c -- memcpy and memset of the library itself, for calls that the compiler adds
 *
 * A copy of a struct may become such a call anywhere, also in code that runs inside dlsym or before
 * main. A program or another preload may replace libc's, and look up the original by dlsym. Not in
 * libcore: a program that links it keeps its own.
 */
#include <stddef.h>
#include <stdint.h>

/* Keeps the compiler from turning a loop into a call of the function that it is in. */
#ifdef __clang__
#define BYTES_LOOP __attribute__((no_builtin("memcpy", "memset")))
#else
#define BYTES_LOOP __attribute__((optimize("no-tree-loop-distribute-patterns")))
#endif

typedef uint64_t word __attribute__((may_alias, aligned(1)));

__attribute__((visibility("hidden"))) void *memcpy(void *restrict to, const void *restrict from,
						   size_t size);
__attribute__((visibility("hidden"))) void *memset(void *to, int byte, size_t size);

BYTES_LOOP void *memcpy(void *restrict to, const void *restrict from, size_t size)
{
	const char *next = from;
	char *at = to;

	for (; size >= sizeof(word); size -= sizeof(word)) {
		*(word *)at = *(const word *)next;
		at += sizeof(word);
		next += sizeof(word);
	}
	while (size--)
		*at++ = *next++;
	return to;
}

BYTES_LOOP void *memset(void *to, int byte, size_t size)
{
	uint64_t bytes = (unsigned char)byte * (uint64_t)0x0101010101010101;
	char *at = to;

	for (; size >= sizeof(word); size -= sizeof(word)) {
		*(word *)at = bytes;
		at += sizeof(word);
	}
	while (size--)
		*at++ = (char)byte;
	return to;
}
