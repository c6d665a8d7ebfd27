/* SPDX-License-Identifier: BSD-3-Clause */
/* keep_work.c -- work in a stream: a kernel, or a thread on the simulated driver */
#include "keep.h"

#include <dlfcn.h>
#include <pthread.h>

#include "sim/freed.h"
#include "statistic.h"

#define BLOCKS	   16 /* of the GPU's 100 and more processors */
#define THREADS	   256
#define WRITES_MAX 100

/* For the oldest GPU that current drivers support. Each thread writes every n-th word. */
static const char kernel_text[] = ".version 6.4\n"
				  ".target sm_75\n"
				  ".address_size 64\n"
				  ".visible .entry fill(.param .u64 to, .param .u64 words,\n"
				  "	.param .u64 ns, .param .u32 value)\n"
				  "{\n"
				  "	.reg .pred %p<3>;\n"
				  "	.reg .b32 %r<8>;\n"
				  "	.reg .b64 %d<12>;\n"
				  "	ld.param.u64 %d1, [to];\n"
				  "	ld.param.u64 %d2, [words];\n"
				  "	ld.param.u64 %d3, [ns];\n"
				  "	ld.param.u32 %r1, [value];\n"
				  "	cvta.to.global.u64 %d1, %d1;\n"
				  "	mov.u32 %r2, %ctaid.x;\n"
				  "	mov.u32 %r3, %ntid.x;\n"
				  "	mov.u32 %r4, %tid.x;\n"
				  "	mov.u32 %r5, %nctaid.x;\n"
				  "	mad.lo.u32 %r6, %r2, %r3, %r4;\n"
				  "	mul.lo.u32 %r7, %r5, %r3;\n"
				  "	cvt.u64.u32 %d4, %r6;\n"
				  "	cvt.u64.u32 %d5, %r7;\n"
				  "	mov.u64 %d6, %globaltimer;\n"
				  "	add.u64 %d7, %d6, %d3;\n"
				  "again:\n"
				  "	mov.u64 %d8, %d4;\n"
				  "next:\n"
				  "	setp.ge.u64 %p1, %d8, %d2;\n"
				  "	@%p1 bra done;\n"
				  "	shl.b64 %d9, %d8, 2;\n"
				  "	add.u64 %d10, %d1, %d9;\n"
				  "	st.volatile.global.u32 [%d10], %r1;\n"
				  "	add.u64 %d8, %d8, %d5;\n"
				  "	bra next;\n"
				  "done:\n"
				  "	mov.u64 %d6, %globaltimer;\n"
				  "	setp.lt.u64 %p2, %d6, %d7;\n"
				  "	@%p2 bra again;\n"
				  "	ret;\n"
				  "}\n";

static int (*launch_kernel)(void *function, unsigned int grid_x, unsigned int grid_y,
			    unsigned int grid_z, unsigned int block_x, unsigned int block_y,
			    unsigned int block_z, unsigned int shared, CUstream stream,
			    void **parameters, void **extra);
static void *kernel;

/* ---- without kernels: a thread, for which the simulated driver's waits wait ---- */

struct writes {
	CUcontext context;
	volatile unsigned int *to;
	uint64_t words, ns;
	unsigned int value;
	bool done;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t one_done = PTHREAD_COND_INITIALIZER;
static struct writes all[WRITES_MAX]; /* the lock guards .done */
static int launched;

static void *work_write(void *argument)
{
	struct writes *writes = argument;
	double end = seconds() + (double)writes->ns / 1e9;

	do {
		for (uint64_t i = 0; i < writes->words; i++)
			writes->to[i] = writes->value;
	} while (seconds() < end);
	pthread_mutex_lock(&lock);
	writes->done = true;
	pthread_cond_broadcast(&one_done);
	pthread_mutex_unlock(&lock);
	return NULL;
}

static CUresult work_await(CUcontext context)
{
	pthread_mutex_lock(&lock);
	for (int i = 0; i < launched; i++) {
		while (all[i].context == context && !all[i].done)
			pthread_cond_wait(&one_done, &lock);
	}
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

static bool work_simulate(void)
{
	__typeof__(sim_driver_subscribe_work) *subscribe =
		(__typeof__(subscribe))dlsym(RTLD_DEFAULT, "sim_driver_subscribe_work");

	if (subscribe)
		subscribe(work_await);
	return subscribe;
}

static void work_begin(struct writes writes)
{
	pthread_t thread;

	must_cuda(cuCtxGetCurrent(&writes.context));
	must(launched < WRITES_MAX);
	pthread_mutex_lock(&lock);
	all[launched] = writes;
	must(!pthread_create(&thread, NULL, work_write, &all[launched++]));
	pthread_mutex_unlock(&lock);
	must(!pthread_detach(thread));
}

/* ---- */

bool work_load(void)
{
	int (*get_function)(void **function, CUmodule module, const char *name);
	CUmodule module;

	get_function = (__typeof__(get_function))dlsym(RTLD_DEFAULT, "cuModuleGetFunction");
	launch_kernel = (__typeof__(launch_kernel))dlsym(RTLD_DEFAULT, "cuLaunchKernel");
	if (work_simulate())
		return true;
	if (!get_function || !launch_kernel)
		return false;
	must_cuda(cuModuleLoadData(&module, kernel_text));
	must_cuda(get_function(&kernel, module, "fill"));
	return true;
}

void work_launch(CUstream stream, uint64_t to, uint64_t words, unsigned int value, uint64_t ns)
{
	void *parameters[] = { &to, &words, &ns, &value };

	if (kernel)
		must_cuda(launch_kernel(kernel, BLOCKS, 1, 1, THREADS, 1, 1, 0, stream, parameters,
					NULL));
	else
		work_begin((struct writes){ .to = (volatile unsigned int *)to,
					    .words = words,
					    .ns = ns,
					    .value = value });
}
