/* SPDX-License-Identifier: BSD-3-Clause */
/* witness.c -- memory type of a registration, and its thread */
#include "stacks/verbs_witness.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#define MAX_LIVE	   8192
#define MEMORY_TYPE	   2 /* CU_POINTER_ATTRIBUTE_MEMORY_TYPE */
#define MEMORY_TYPE_DEVICE 2 /* CU_MEMORYTYPE_DEVICE */

typedef int attribute_fn(void *data, int attribute, unsigned long long ptr);

/* Open MPI loads libibverbs outside of RTLD_NEXT's scope. */
void *witness_sought(const char *name, void *next)
{
	void *library;

	if (next)
		return next;
	library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
	return library ? dlsym(library, name) : NULL;
}

void *witness_found(const char *name, void *next)
{
	next = witness_sought(name, next);
	if (!next) {
		fprintf(stderr, "witness: no %s behind this one\n", name);
		abort();
	}
	return next;
}

bool is_gpu_memory(const void *addr)
{
	void *cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
	attribute_fn *attribute;
	unsigned int type = 0;
	bool gpu;

	if (!cuda)
		return false;
	attribute = (attribute_fn *)dlsym(cuda, "cuPointerGetAttribute");
	gpu = attribute && !attribute(&type, MEMORY_TYPE, (uintptr_t)addr) &&
	      type == MEMORY_TYPE_DEVICE;
	dlclose(cuda);
	return gpu;
}

bool on_worker(void)
{
	char name[16] = "";

	prctl(PR_GET_NAME, name);
	return !strncmp(name, "peerpin", strlen("peerpin"));
}

static void *live_gpu[MAX_LIVE]; /* under live_lock */
static pthread_mutex_t live_lock = PTHREAD_MUTEX_INITIALIZER;

bool live_replace(void *from, void *to)
{
	bool found = false;

	pthread_mutex_lock(&live_lock);
	for (int i = 0; i < MAX_LIVE && !found; i++) {
		found = live_gpu[i] == from;
		if (found)
			live_gpu[i] = to;
	}
	pthread_mutex_unlock(&live_lock);
	return found;
}
