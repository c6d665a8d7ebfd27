/* SPDX-License-Identifier: BSD-3-Clause */
/* bytes.c -- memcpy and memset of the library itself, for calls that the compiler adds
 *
 * A copy of a struct may become such a call anywhere, also in code that runs inside dlsym or before
 * main. A program or another preload may replace libc's, and look up the original by dlsym. Not in
 * libcore: a program that links it keeps its own.
 */
#include <stddef.h>

__attribute__((visibility("hidden"))) void *memcpy(void *restrict to, const void *restrict from,
						   size_t size);
__attribute__((visibility("hidden"))) void *memset(void *to, int byte, size_t size);

/* The barriers keep the compiler from turning a loop into a call of the function that it is in. */

void *memcpy(void *restrict to, const void *restrict from, size_t size)
{
	const char *next = from;

	for (char *at = to, *end = at + size; at < end; at++, next++) {
		*at = *next;
		__asm__ volatile("" : "+r"(at), "+r"(next) : : "memory");
	}
	return to;
}

void *memset(void *to, int byte, size_t size)
{
	for (char *at = to, *end = at + size; at < end; at++) {
		*at = (char)byte;
		__asm__ volatile("" : "+r"(at) : : "memory");
	}
	return to;
}
