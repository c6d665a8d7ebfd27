/* SPDX-License-Identifier: BSD-3-Clause */
/* lookup_library.c -- a library that looks symbols up relative to itself, as wrapping libraries do
 */
#include <dlfcn.h>
#include <stdlib.h>

#include "lookup_library.h"

/* Defined here and in libc: from here the next definition is libc's. */
void *calloc_of_library(size_t count, size_t size);
void *calloc_of_library(size_t count, size_t size)
{
	return calloc(count, size);
}

/* An optional entry point, as in the OpenMP tools interface: the program may define one. */
const char *tool_of_library(void)
{
	return "library";
}

void *library_next(const char *symbol)
{
	return dlsym(RTLD_NEXT, symbol);
}

void *library_default(const char *symbol)
{
	return dlsym(RTLD_DEFAULT, symbol);
}
