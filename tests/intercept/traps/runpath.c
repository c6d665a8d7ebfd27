/* SPDX-License-Identifier: BSD-3-Clause */
/* runpath.c -- opens a library by a name that only its own run path resolves */
#include <dlfcn.h>
#include <stdio.h>

int main(void)
{
	void *found = dlopen("libtrap_runpath.so", RTLD_NOW);

	if (!found)
		printf("%s\n", dlerror());
	return !found;
}
