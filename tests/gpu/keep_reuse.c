/* SPDX-License-Identifier: BSD-3-Clause */
/* keep_reuse.c -- memory that is freed while work still writes to it, and allocated again
 *
 * keep_reuse: each round launches work that writes to an allocation, frees the allocation at once,
 * allocates as much again, fills that from another stream and checks it. The free waits for the
 * work, so that every word is the fill's. A free that keeps memory waits for an event of the
 * context, or in a free of other memory: rounds of both show that these wait.
 * keep_reuse --without-wait: the same with memory that is filled while the work runs, without a
 * free: it must be found corrupt.
 * keep_reuse --plain: allocations, work and frees for a memory checker.
 * keep_reuse --after-free: work on freed memory, for a memory checker.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "memory/cuda_abi.h"
#include "sim/freed.h"
#include "statistic.h"

#define SKIPPED	     77
#define NON_BLOCKING 1 /* CU_STREAM_NON_BLOCKING */

/* ---- work that writes to memory for some time: a kernel, or a thread on the simulated driver ----
 */

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

/* Load the kernel into the current context. False: this driver has no kernels. On the simulated
 * driver a thread stands in for the kernel. */
static bool work_load(void)
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

/* Launch work that writes `value` to all `words` at `to`, again and again until `ns` have passed.
 * It leaves most of the GPU to others. */
static void work_launch(CUstream stream, uint64_t to, uint64_t words, unsigned int value,
			uint64_t ns)
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

/* ---- the test ---- */

#define WORK_NS	      50000000u
#define OLD	      0xdeadbeefu
#define NEW	      0x600df00du
#define ROUNDS	      2
#define MIB	      ((size_t)1 << 20)
#define SIZE_MAX_HERE (64 * MIB)

static CUcontext context, other;
static CUstream writer, filler;
static unsigned int *copy; /* page-locked */
static int rounds, other_address, corrupt;

/* ---- frees, by threads in different states ---- */

static void free_here(CUdeviceptr address)
{
	must_cuda(cuMemFree_v2(address));
}

static void *free_in_thread(void *argument)
{
	CUcontext current = NULL;

	must_cuda(cuCtxGetCurrent(&current));
	must(!current);
	must_cuda(cuMemFree_v2(*(CUdeviceptr *)argument));
	return NULL;
}

static void free_without_context(CUdeviceptr address)
{
	pthread_t thread;

	must(!pthread_create(&thread, NULL, free_in_thread, &address));
	must(!pthread_join(thread, NULL));
}

static void free_in_other_context(CUdeviceptr address)
{
	must_cuda(cuCtxPushCurrent_v2(other));
	must_cuda(cuMemFree_v2(address));
	must_cuda(cuCtxPopCurrent_v2(NULL));
}

/* ---- rounds ---- */

static uint64_t count_wrong(const unsigned int *words, uint64_t count)
{
	uint64_t wrong = 0;

	for (uint64_t i = 0; i < count; i++)
		wrong += words[i] != NEW;
	return wrong;
}

/* At once, and again after all work has ended. */
static uint64_t fill_and_check(CUdeviceptr address, size_t size)
{
	uint64_t words = size / sizeof(*copy), wrong;

	must_cuda(cuMemsetD32Async(address, NEW, words, filler));
	must_cuda(cuMemcpyDtoHAsync_v2(copy, address, size, filler));
	must_cuda(cuStreamSynchronize(filler));
	wrong = count_wrong(copy, words);
	must_cuda(cuCtxSynchronize());
	must_cuda(cuMemcpyDtoH_v2(copy, address, size));
	return wrong + count_wrong(copy, words);
}

static void report(const char *name, size_t size, bool same, uint64_t wrong)
{
	rounds++;
	other_address += !same;
	corrupt += wrong != 0;
	if (wrong)
		printf("# %s, %zu bytes: %llu words are not the second allocation's\n", name, size,
		       (unsigned long long)wrong);
}

static void reuse(const char *name, void (*free)(CUdeviceptr address), size_t size)
{
	CUdeviceptr address, again;

	must_cuda(cuMemAlloc_v2(&address, size));
	work_launch(writer, address, size / sizeof(*copy), OLD, WORK_NS);
	free(address);
	must_cuda(cuMemAlloc_v2(&again, size));
	report(name, size, again == address, fill_and_check(again, size));
	must_cuda(cuMemFree_v2(again));
}

/* The work writes by way of the bus. */
static void reuse_host(size_t size)
{
	uint64_t words = size / sizeof(*copy), wrong;
	unsigned int *address, *again;

	must_cuda(cuMemHostAlloc((void **)&address, size, CU_MEMHOSTALLOC_DEVICEMAP));
	work_launch(writer, (uintptr_t)address, words, OLD, WORK_NS);
	must_cuda(cuMemFreeHost(address));
	must_cuda(cuMemHostAlloc((void **)&again, size, CU_MEMHOSTALLOC_DEVICEMAP));
	for (uint64_t i = 0; i < words; i++)
		((volatile unsigned int *)again)[i] = NEW;
	wrong = count_wrong(again, words);
	must_cuda(cuCtxSynchronize());
	report("host memory", size, again == address, wrong + count_wrong(again, words));
	must_cuda(cuMemFreeHost(again));
}

static void wait_for_event(void)
{
	__typeof__(cuCtxRecordEvent) *record =
		(__typeof__(record))dlsym(RTLD_DEFAULT, "cuCtxRecordEvent");
	CUevent event;

	if (!record) { /* a driver before CUDA 12.5 */
		must_cuda(cuCtxSynchronize());
		return;
	}
	must_cuda(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	must_cuda(record(context, event));
	must_cuda(cuEventSynchronize(event));
	must_cuda(cuEventDestroy_v2(event));
}

static void free_a_byte(void)
{
	CUdeviceptr address;

	must_cuda(cuMemAlloc_v2(&address, 1));
	must_cuda(cuMemFree_v2(address));
}

/* The work on other memory has ended after the wait. */
static void wait_for_work(const char *name, void (*wait)(void))
{
	CUdeviceptr address;

	must_cuda(cuMemAlloc_v2(&address, MIB));
	work_launch(writer, address, 1024, OLD, WORK_NS);
	wait();
	must_cuda(cuMemsetD32Async(address, NEW, 1024, filler));
	must_cuda(cuMemcpyDtoHAsync_v2(copy, address, 4096, filler));
	must_cuda(cuStreamSynchronize(filler));
	must_cuda(cuCtxSynchronize());
	must_cuda(cuMemcpyDtoH_v2(copy, address, 4096));
	report(name, MIB, true, count_wrong(copy, 1024));
	must_cuda(cuMemFree_v2(address));
}

static void reuse_without_wait(size_t size)
{
	CUdeviceptr address;

	must_cuda(cuMemAlloc_v2(&address, size));
	work_launch(writer, address, size / sizeof(*copy), OLD, WORK_NS);
	report("without a wait", size, true, fill_and_check(address, size));
	must_cuda(cuMemFree_v2(address));
}

/* ---- programs ---- */

static void prepare(void)
{
	must_cuda(cuInit(0));
	must_cuda(cuCtxCreate_v2(&other, 0, 0));
	must_cuda(cuCtxPopCurrent_v2(NULL));
	must_cuda(cuCtxCreate_v2(&context, 0, 0));
	if (!work_load()) {
		printf("skipped: this driver has no kernels\n");
		exit(SKIPPED);
	}
	must_cuda(cuStreamCreate(&writer, NON_BLOCKING));
	must_cuda(cuStreamCreate(&filler, NON_BLOCKING));
	must_cuda(cuMemHostAlloc((void **)&copy, SIZE_MAX_HERE, 0));
}

/* Everything once: the driver loads its kernels at their first use, and waits for that. */
static void warm_up(void)
{
	CUdeviceptr address;

	must_cuda(cuMemAlloc_v2(&address, MIB));
	work_launch(writer, address, 1, OLD, 0);
	must_cuda(cuCtxSynchronize());
	must(!fill_and_check(address, MIB));
	must_cuda(cuMemFree_v2(address));
}

static int reuse_all(bool waits)
{
	static const size_t sizes[] = { 64 << 10, 2 * MIB, 3 * MIB + 4096, SIZE_MAX_HERE };

	warm_up();
	for (int round = 0; round < ROUNDS; round++) {
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			if (!waits) {
				reuse_without_wait(sizes[i]);
				continue;
			}
			reuse("freed with its context", free_here, sizes[i]);
			reuse("freed without a context", free_without_context, sizes[i]);
			reuse("freed with another context", free_in_other_context, sizes[i]);
		}
		if (waits) {
			reuse_host(2 * MIB);
			reuse_host(64 << 10);
			wait_for_work("an event of the context", wait_for_event);
			wait_for_work("a free of a byte", free_a_byte);
		}
	}
	printf("%d of %d rounds corrupt, %d at another address\n", corrupt, rounds, other_address);
	return corrupt != 0;
}

/* The last free is followed by work if `after`. */
static int check_memory(bool after)
{
	CUdeviceptr address = 0;

	for (int i = 0; i < 3; i++) {
		must_cuda(cuMemAlloc_v2(&address, 2 * MIB));
		work_launch(writer, address, 1024, NEW, 0);
		must_cuda(cuCtxSynchronize());
		must_cuda(cuMemFree_v2(address));
	}
	if (after)
		work_launch(writer, address, 1024, OLD, 0);
	/* The checker ends the context. */
	printf("# synchronize: %d\n", (int)cuCtxSynchronize());
	return 0;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	prepare();
	if (!strcmp(mode, "--plain") || !strcmp(mode, "--after-free"))
		return check_memory(!strcmp(mode, "--after-free"));
	return reuse_all(strcmp(mode, "--without-wait") != 0);
}
