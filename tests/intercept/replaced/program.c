/* SPDX-License-Identifier: BSD-3-Clause */
/* program.c -- a program that reaches all of the library: look-ups, loads, memory, registrations, a
 * fork, exit
 *
 * Prints, for each step, errno and the text of dlerror() after it: with an argument, of a look-up
 * that failed before the step. Under the preload they are as without.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory/cuda_abi.h"
#include "sim/adapter_verbs.h"

#define SIZE ((size_t)1 << 20)

static CUdeviceptr address;
static CUcontext context;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static struct ibv_context *device;

static int step_not_initialized(void)
{
	return cuMemAlloc_v2(&address, SIZE) == CUDA_ERROR_NOT_INITIALIZED;
}

static int step_initialize(void)
{
	return !cuInit(0) && !cuDevicePrimaryCtxRetain(&context, 0) && !cuCtxSetCurrent(context);
}

static int step_get_proc_address(void)
{
	void *found = NULL;

	return !cuGetProcAddress_v2("cuMemFree", &found, 12000, 0, NULL) && found;
}

static int step_allocate(void)
{
	return !cuMemAlloc_v2(&address, SIZE);
}

static int step_query(void)
{
	uint64_t id;

	return !cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address);
}

static int step_open(void)
{
	int count;
	struct ibv_device **devices = ibv_get_device_list(&count);

	device = devices && count ? ibv_open_device(devices[0]) : NULL;
	return !!device;
}

static int step_domain(void)
{
	pd = ibv_alloc_pd(device);
	return !!pd;
}

static int step_register(void)
{
	mr = ibv_reg_mr(pd, (void *)address, SIZE, IBV_ACCESS_LOCAL_WRITE);
	return !!mr;
}

static int step_deregister(void)
{
	return !ibv_dereg_mr(mr);
}

static int step_free(void)
{
	return !cuMemFree_v2(address);
}

static int step_close(void)
{
	return !ibv_dealloc_pd(pd) && !ibv_close_device(device);
}

static const struct {
	const char *name;
	int (*run)(void);
} steps[] = {
	{ "a call before cuInit", step_not_initialized },
	{ "cuInit", step_initialize },
	{ "cuGetProcAddress", step_get_proc_address },
	{ "cuMemAlloc", step_allocate },
	{ "cuPointerGetAttribute", step_query },
	{ "ibv_open_device", step_open },
	{ "ibv_alloc_pd", step_domain },
	{ "ibv_reg_mr", step_register },
	{ "ibv_dereg_mr", step_deregister },
	{ "a second ibv_reg_mr", step_register },
	{ "a second ibv_dereg_mr", step_deregister },
	{ "cuMemFree", step_free },
	{ "ibv_close_device", step_close },
};

static int run_all(int fails_before)
{
	const char *text;
	int done, error;

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		dlerror();
		if (fails_before)
			dlsym(RTLD_DEFAULT, "no_such_name");
		errno = EXDEV;
		done = steps[i].run();
		error = errno;
		text = dlerror();
		printf("%s: %d, errno %d, dlerror %s\n", steps[i].name, done, error,
		       text ? text : "none");
		if (!done)
			return 2;
	}
	return 0;
}

int main(int argc, char **argv)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	int status = 0;
	pid_t child;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!dlsym(RTLD_DEFAULT, "malloc") || !driver || !dlsym(driver, "cuMemFree_v2") ||
	    !dlsym(driver, "cuGetProcAddress_v2"))
		return 2;
	(void)argv;
	status = run_all(argc > 1);
	if (status)
		return status;
	child = fork();
	if (!child)
		exit(!dlsym(driver, "cuMemFree_v2"));
	if (child < 0 || waitpid(child, &status, 0) != child || status)
		return 3;
	return 0;
}
