/* SPDX-License-Identifier: BSD-3-Clause */
/* looks.c -- a library that looks symbols up relative to itself, as wrapping libraries do */
#include <dlfcn.h>
#include <stdlib.h>

#include "looks.h"

/* Defined here and in libc: from here the next definition is libc's. */
void *calloc_of_looks(size_t count, size_t size);
void *calloc_of_looks(size_t count, size_t size)
{
	return calloc(count, size);
}

/* An optional entry point, as in the OpenMP tools interface: the program may define one. */
const char *tool_of_looks(void)
{
	return "looks";
}

void *looks_next(const char *symbol)
{
	return dlsym(RTLD_NEXT, symbol);
}

void *looks_default(const char *symbol)
{
	return dlsym(RTLD_DEFAULT, symbol);
}
