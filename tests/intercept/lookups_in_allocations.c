/* SPDX-License-Identifier: BSD-3-Clause */
/* lookups_in_allocations.c -- allocates during look-ups, as an allocator does at its start; prints
 * "fine" */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
	for (int i = 0; i < 1000; i++) {
		void *(*allocate)(size_t) = (void *(*)(size_t))dlsym(RTLD_DEFAULT, "malloc");
		char *memory = allocate ? allocate(1000 + (size_t)i) : NULL;

		if (!memory || !dlsym(RTLD_NEXT, "free"))
			return 1;
		memset(memory, 7, 1000);
		free(memory);
	}
	puts("fine");
	return 0;
}
