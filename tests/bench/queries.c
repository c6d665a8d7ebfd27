/* SPDX-License-Identifier: BSD-3-Clause */
/* queries.c -- cost of a client's pointer queries, beside the driver's own answers
 *
 * The client's functions come from dlsym: peerpin's wrappers where it is preloaded. The driver's
 * own come from its symbol table. Every answer must equal the driver's. Needs a driver, real or
 * simulated, and libc alone: it runs on GPU machines.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/loaded.h"
#include "bench.h"
#include "memory/cuda_abi.h"

#define GPU_BYTES ((size_t)1 << 20)
#define SKIPPED	  77

/* ---- the two sides ---- */

#define FUNCTIONS(X)                                                                               \
	X(cuInit)                                                                                  \
	X(cuDriverGetVersion)                                                                      \
	X(cuDeviceGet)                                                                             \
	X(cuDeviceGetName)                                                                         \
	X(cuDevicePrimaryCtxRetain)                                                                \
	X(cuCtxSetCurrent)                                                                         \
	X(cuCtxGetCurrent)                                                                         \
	X(cuMemAlloc_v2)                                                                           \
	X(cuMemRelease)                                                                            \
	X(cuMemRetainAllocationHandle)                                                             \
	X(cuPointerGetAttribute)                                                                   \
	X(cuPointerGetAttributes)

struct functions {
#define X(name) __typeof__(name) *name;
	FUNCTIONS(X)
#undef X
};

static struct functions client, driver;

static void find_client(void *library)
{
#define X(name)                                                                                    \
	client.name = (__typeof__(name) *)dlsym(library, #name);                                   \
	bench_require(client.name, "the driver lacks " #name);
	FUNCTIONS(X)
#undef X
}

static int find_driver(struct dl_phdr_info *object, size_t size, void *library)
{
	struct link_map *map = NULL;
	struct object_tables tables;

	(void)size;
	if (dlinfo(library, RTLD_DI_LINKMAP, &map) || object->dlpi_addr != map->l_addr ||
	    strcmp(object->dlpi_name, map->l_name))
		return 0;
	bench_require(object_read(object, &tables), "the driver has no symbols");
#define X(name)                                                                                    \
	driver.name = (__typeof__(name) *)object_find(&tables, #name);                             \
	bench_require(driver.name, "not in the driver's symbol table: " #name);
	FUNCTIONS(X)
#undef X
	return 1;
}

/* ---- the questions: each gives a number that is made of all that was answered ---- */

static inline uint64_t mix(uint64_t one, uint64_t other)
{
	return one * 31 + other;
}

static inline uint64_t ask_one(const struct functions *functions, CUpointer_attribute attribute,
			       uint64_t at)
{
	uint64_t value = 0; /* as wide as the widest */

	return mix(functions->cuPointerGetAttribute(&value, attribute, at), value);
}

static inline uint64_t ask_buffer_id(const struct functions *functions, uint64_t at)
{
	return ask_one(functions, CU_POINTER_ATTRIBUTE_BUFFER_ID, at);
}

static inline uint64_t ask_pool(const struct functions *functions, uint64_t at)
{
	return ask_one(functions, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, at);
}

/* The first three are Open MPI's. */
static inline uint64_t ask_list(const struct functions *functions, uint64_t at, unsigned int count)
{
	CUpointer_attribute attributes[] = {
		CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_CONTEXT,
		CU_POINTER_ATTRIBUTE_IS_MANAGED,  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
		CU_POINTER_ATTRIBUTE_BUFFER_ID,
	};
	uint64_t values[5] = { 0 };
	void *places[] = { &values[0], &values[1], &values[2], &values[3], &values[4] };
	uint64_t answer = functions->cuPointerGetAttributes(count, attributes, places, at);

	for (unsigned int i = 0; i < count; i++)
		answer = mix(answer, values[i]);
	return answer;
}

static inline uint64_t ask_three(const struct functions *functions, uint64_t at)
{
	return ask_list(functions, at, 3);
}

static inline uint64_t ask_five(const struct functions *functions, uint64_t at)
{
	return ask_list(functions, at, 5);
}

static inline uint64_t ask_handle(const struct functions *functions, uint64_t at)
{
	CUmemGenericAllocationHandle handle = 0;
	CUresult result = functions->cuMemRetainAllocationHandle(&handle, (void *)at);

	if (result == CUDA_SUCCESS)
		functions->cuMemRelease(handle);
	return result;
}

/* Queries of Open MPI 4.1 for each buffer, in its order. */
static inline uint64_t ask_as_open_mpi(const struct functions *functions, uint64_t at)
{
	uint64_t answer = ask_handle(functions, at);
	CUcontext current = NULL;

	answer = mix(answer, ask_pool(functions, at));
	answer = mix(answer, ask_three(functions, at));
	answer = mix(answer, functions->cuCtxGetCurrent(&current));
	return mix(answer, (uint64_t)current);
}

/* ---- queried addresses ---- */

struct place {
	const struct functions *functions;
	uint64_t address;
	uint64_t answer; /* the driver's */
};

/* A loop for each query, so that only the calls differ. */
#define RUN(ask)                                                                                   \
	static uint64_t run_##ask(void *context, unsigned int thread, uint64_t count)              \
	{                                                                                          \
		const struct place *place = context;                                               \
		uint64_t sum = 0;                                                                  \
                                                                                                   \
		(void)thread;                                                                      \
		for (; count; count--)                                                             \
			sum += ask(place->functions, place->address);                              \
		return sum;                                                                        \
	}
RUN(ask_buffer_id)
RUN(ask_five)
RUN(ask_as_open_mpi)

struct question {
	const char *name;
	uint64_t (*ask)(const struct functions *functions, uint64_t at);
	uint64_t (*run)(void *context, unsigned int thread, uint64_t count);
};

static const struct question questions[] = {
	{ "BUFFER_ID", ask_buffer_id, run_ask_buffer_id },
	{ "five attributes", ask_five, run_ask_five },
	{ "Open MPI's check", ask_as_open_mpi, run_ask_as_open_mpi },
};

static bool check_answers(void *context, unsigned int thread, uint64_t count, uint64_t sum)
{
	const struct place *place = context;

	(void)thread;
	return sum == count * place->answer;
}

/* ---- the bench ---- */

static CUcontext context;
static char machine[128];

static const char *add_to_machine(void)
{
	return machine[0] ? machine : NULL;
}

static void set_context(void *argument, unsigned int thread)
{
	(void)argument;
	(void)thread;
	bench_require(client.cuCtxSetCurrent(context) == CUDA_SUCCESS, "no context for a thread");
}

struct measured {
	const struct question *question;
	const char *name;
	struct place place;
};

static void measure_with(unsigned int threads, void *argument)
{
	struct measured *measured = argument;
	struct place of_driver = measured->place;
	struct bench_operation ours = { .prepare = set_context,
					.run = measured->question->run,
					.check = check_answers,
					.context = &measured->place };
	struct bench_operation theirs = ours;
	struct bench_row row = bench_row(measured->name, 1, threads);

	of_driver.functions = &driver;
	theirs.context = &of_driver;
	snprintf(row.peer, sizeof(row.peer), "driver");
	bench_measure(&ours, &theirs, &row);
	bench_report(row);
}

static void ask_all_of(const char *memory, uint64_t address)
{
	struct measured measured = { .place = { .functions = &client, .address = address } };
	char name[80];

	for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
		measured.question = &questions[i];
		measured.name = name;
		snprintf(name, sizeof(name), "%s: %s", memory, questions[i].name);
		if (!bench_wants(name))
			continue;
		measured.place.answer = questions[i].ask(&driver, address);
		bench_each_threads(measure_with, &measured);
	}
}

/* False: nothing to query. */
static bool begin(CUdeviceptr *memory)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	CUdevice device;
	char name[64];
	int version = 0;

	if (!library) {
		fprintf(stderr, "queries: skipped: %s\n", dlerror());
		return false;
	}
	find_client(library);
	bench_require(dl_iterate_phdr(find_driver, library),
		      "the driver is not among the loaded objects");
	if (client.cuInit(0) != CUDA_SUCCESS || client.cuDeviceGet(&device, 0) != CUDA_SUCCESS) {
		fprintf(stderr, "queries: skipped: the driver has no device\n");
		return false;
	}
	bench_require(client.cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS &&
			      client.cuCtxSetCurrent(context) == CUDA_SUCCESS,
		      "no context");
	bench_require(client.cuMemAlloc_v2(memory, GPU_BYTES) == CUDA_SUCCESS, "no GPU memory");
	bench_require(client.cuDeviceGetName(name, sizeof(name), device) == CUDA_SUCCESS &&
			      client.cuDriverGetVersion(&version) == CUDA_SUCCESS,
		      "the device has no name");
	snprintf(machine, sizeof(machine), "%s, CUDA %d.%d", name, version / 1000,
		 version % 1000 / 10);
	if (!dlsym(RTLD_DEFAULT, "peerpin_statistic"))
		fprintf(stderr, "queries: peerpin is not preloaded: both sides are the driver\n");
	return true;
}

int main(int argc, char **argv)
{
	static const unsigned int threads[] = { 1, 2, 4, 8, 16, 0 };
	static const struct bench bench = {
		.name = "queries",
		.about = "What a client's questions about GPU and host pointers cost through the "
			 "functions that it\nis given, beside the driver's own.\n",
		.threads = threads,
		.add_to_machine = add_to_machine,
	};
	CUdeviceptr memory;

	bench_begin(&bench, argc, argv);
	if (!begin(&memory))
		return SKIPPED;
	ask_all_of("GPU", memory);
	ask_all_of("host", (uint64_t)bench_memory(GPU_BYTES));
	return bench_end();
}
