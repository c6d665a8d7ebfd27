/* SPDX-License-Identifier: BSD-3-Clause */
/* queries.c -- check_queries [STEPS [SEED]]: answers to clients equal the driver's, to the byte
 *
 * Under the preload the answers may differ; without it both come from one function. The seed
 * reproduces the first part of a run, in which one thread acts at a time.
 */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/loaded.h"
#include "queries.h"

#define THREADS 4

struct functions client, own;
const struct population *whole_population;

static CUcontext context;
static CUstream stream;
static unsigned long steps = 3000;
static struct population shared; /* second part: threads query it, and change nothing */

uint64_t throw(struct dice * dice, uint64_t below)
{
	uint64_t value = dice->state += 0x9e3779b97f4a7c15;

	value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
	value = (value ^ value >> 27) * 0x94d049bb133111eb;
	return (value ^ value >> 31) % below;
}

void fail(const struct dice *dice, const char *format, ...)
{
	static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
	va_list arguments;

	pthread_mutex_lock(&once); /* never released: only the first difference is printed */
	printf("seed %llu, %s, step %lu: ", (unsigned long long)dice->seed, dice->phase,
	       dice->step);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf("\n0 passed, 1 failed, 0 skipped\n");
	fflush(stdout);
	_exit(EXIT_FAILURE);
}

/* The driver's own functions, without dlsym, which may be overridden. */
static int read_own(struct dl_phdr_info *object, size_t size, void *driver)
{
	struct object_tables tables;

	(void)size;
	if (object->dlpi_addr != ((struct link_map *)driver)->l_addr ||
	    !object_read(object, &tables))
		return 0;
#define FUNCTION(symbol, ...) own.symbol = (__typeof__(own.symbol))object_find(&tables, #symbol);
#include "memory/cuda_abi.def"
#undef FUNCTION
	return 1;
}

static bool open_driver(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	CUdevice device;

	if (!driver)
		return false;
#define FUNCTION(symbol, ...) client.symbol = (__typeof__(client.symbol))dlsym(driver, #symbol);
#include "memory/cuda_abi.def"
#undef FUNCTION
	if (!dl_iterate_phdr(read_own, driver) || !own.cuPointerGetAttribute ||
	    !own.cuPointerGetAttributes || !own.cuMemGetAddressRange_v2 ||
	    !own.cuMemRetainAllocationHandle)
		return false;
	return client.cuInit(0) == CUDA_SUCCESS && client.cuDeviceGet(&device, 0) == CUDA_SUCCESS &&
	       client.cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS &&
	       client.cuCtxSetCurrent(context) == CUDA_SUCCESS &&
	       client.cuStreamCreate(&stream, 1) == CUDA_SUCCESS;
}

/* ---- before any allocation ---- */

/* Every attribute at addresses unknown to CUDA. */
static void ask_before_memory(struct dice *dice)
{
	void *heap = malloc(64);
	const uint64_t addresses[] = { 0,
				       1,
				       (uintptr_t)&heap,
				       (uintptr_t)heap,
				       (uintptr_t)&shared,
				       0x123456789000,
				       (uint64_t)1 << 47,
				       (uint64_t)1 << 63 };

	for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
		for (int attribute = -1; attribute < 30; attribute++)
			query_attribute((CUpointer_attribute)attribute, addresses[i], dice);
	}
	free(heap);
}

/* ---- querying threads of the first part, one at a time ---- */

static struct asker {
	pthread_t thread;
	sem_t asked, answered;
	const struct query *query; /* NULL: end */
	const struct dice *dice;
	bool destroyed; /* its current context has been destroyed */
	CUcontext context;
} askers[2];

static void *answer_for(void *argument)
{
	struct asker *asker = argument;

	if (asker->destroyed && client.cuCtxCreate_v2(&asker->context, 0, 0) != CUDA_SUCCESS)
		asker->context = NULL;
	sem_post(&asker->answered);
	for (;;) {
		sem_wait(&asker->asked);
		if (!asker->query)
			return NULL;
		query_ask(asker->query, asker->dice);
		sem_post(&asker->answered);
	}
}

static void ask_by(struct asker *asker, const struct query *query, const struct dice *dice)
{
	asker->query = query;
	asker->dice = dice;
	sem_post(&asker->asked);
	if (query)
		sem_wait(&asker->answered);
}

static void begin_askers(struct dice *dice)
{
	for (int i = 0; i < 2; i++) {
		sem_init(&askers[i].asked, 0, 0);
		sem_init(&askers[i].answered, 0, 0);
		askers[i].destroyed = i == 1;
		if (pthread_create(&askers[i].thread, NULL, answer_for, &askers[i]))
			fail(dice, "no thread");
		sem_wait(&askers[i].answered);
	}
	MUST(dice, client.cuCtxDestroy_v2(askers[1].context));
}

static void end_askers(struct dice *dice)
{
	for (int i = 0; i < 2; i++) {
		ask_by(&askers[i], NULL, dice);
		pthread_join(askers[i].thread, NULL);
	}
}

/* ---- steps ---- */

static void ask(const struct population *population, struct dice *dice, bool settled)
{
	struct query query;
	int again = chance(dice, 30) ? 3 : 1;

	query_make(&query, dice, population_address(population, dice, settled));
	while (again--) {
		if (settled || chance(dice, 70))
			query_ask(&query, dice);
		else
			ask_by(&askers[throw(dice, 2)], &query, dice);
	}
}

static void set_sync_memops(const struct population *population, struct dice *dice, bool settled)
{
	uint64_t address = population_address(population, dice, settled);
	unsigned int value =
		chance(dice, 50) ? (unsigned int) throw(dice, 2) : (unsigned int) throw(dice, ~0u);
	unsigned char tokens[32];

	if (chance(dice, 50))
		client.cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address);
	else /* a token query sets SYNC_MEMOPS as well */
		client.cuPointerGetAttribute(tokens, CU_POINTER_ATTRIBUTE_P2P_TOKENS, address);
	query_attribute(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address, dice);
}

static void capture(const struct population *population, struct dice *dice)
{
	CUgraph graph;

	MUST(dice, client.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	for (uint64_t i = 1 + throw(dice, 10); i; i--)
		ask(population, dice, false);
	MUST(dice, client.cuStreamEndCapture(stream, &graph));
	MUST(dice, client.cuGraphDestroy(graph));
}

/* Also a setting that would change nothing. */
static void refuse_set_in_capture(struct dice *dice)
{
	unsigned int on = 1;
	CUdeviceptr address;
	CUresult result;
	CUgraph graph;

	MUST(dice, client.cuMemAlloc_v2(&address, 1000));
	MUST(dice, client.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
	MUST(dice, client.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	result = client.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address);
	if (result != CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
		fail(dice, "SYNC_MEMOPS in a capture: %d", (int)result);
	result = client.cuStreamEndCapture(stream, &graph);
	if (result != CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
		fail(dice, "the capture ends with %d", (int)result);
	MUST(dice, client.cuMemFree_v2(address));
}

static void live_in_a_context(struct population *population, struct dice *dice)
{
	static const enum kind kinds[] = { DEVICE, MANAGED, HOST };
	CUcontext mine;

	MUST(dice, client.cuCtxCreate_v2(&mine, 0, 0));
	for (int i = 0; i < 3 && population->count < POPULATION; i++) {
		population_allocation_of(population, dice, kinds[i]);
		population->members[population->count - 1].in_context = true;
	}
	for (int i = 0; i < 20; i++)
		ask(population, dice, false);
	MUST(dice, client.cuCtxDestroy_v2(mine));
	population_lose(population);
	for (int i = 0; i < 20; i++)
		ask(population, dice, false);
}

static void live(struct population *population, struct dice *dice, bool alone)
{
	uint64_t what = throw(dice, 100);

	if (what < 8)
		population_allocation(population, dice);
	else if (what < 13 || (what < 20 && population->count > POPULATION / 2))
		population_free(population, dice);
	else if (what < 24)
		population_turn(population, dice);
	else if (what < 30)
		set_sync_memops(population, dice, !alone);
	else if (what < 32 && alone)
		capture(population, dice);
	else if (what < 33 && alone && chance(dice, 20))
		live_in_a_context(population, dice);
	else
		ask(population, dice, !alone);
}

static void one_at_a_time(struct dice *dice)
{
	static struct population population;

	whole_population = &population;
	begin_askers(dice);
	refuse_set_in_capture(dice);
	for (; dice->step < steps; dice->step++)
		live(&population, dice, true);
	population_end(&population, dice);
	end_askers(dice);
	whole_population = NULL;
	printf("queries of kept memory: %s\n", kept_queries ? "some" : "none");
}

static void *live_beside_others(void *argument)
{
	static __thread struct population population;
	struct dice *dice = argument;

	MUST(dice, client.cuCtxSetCurrent(context));
	for (; dice->step < steps; dice->step++) {
		if (chance(dice, 25))
			ask(&shared, dice, true);
		else
			live(&population, dice, false);
	}
	population_end(&population, dice);
	return NULL;
}

/* Query the tokens first, so that later token queries change nothing. */
static void settle(struct dice *dice)
{
	unsigned char tokens[32];

	for (int kind = 0; kind < KINDS; kind++)
		population_allocation_of(&shared, dice, (enum kind)kind);
	for (int i = 0; i < shared.count; i++) {
		for (int j = 0; j < 2; j++)
			client.cuPointerGetAttribute(tokens, CU_POINTER_ATTRIBUTE_P2P_TOKENS,
						     shared.members[i].address +
							     (uint64_t)j * ((uint64_t)2 << 20));
	}
}

static void all_at_once(struct dice *dice)
{
	pthread_t threads[THREADS];
	struct dice of[THREADS];

	settle(dice);
	for (int i = 0; i < THREADS; i++) {
		of[i] = (struct dice){ .state = dice->seed + 1000003 * (uint64_t)(i + 1),
				       .seed = dice->seed,
				       .phase = "threads" };
		if (pthread_create(&threads[i], NULL, live_beside_others, &of[i]))
			fail(dice, "no thread");
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	population_end(&shared, dice);
}

int main(int count, char **arguments)
{
	struct dice dice = { .phase = "alone" };
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	dice.seed = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
	if (count > 1)
		steps = strtoul(arguments[1], NULL, 10);
	if (count > 2)
		dice.seed = strtoull(arguments[2], NULL, 10);
	dice.state = dice.seed;
	if (!open_driver()) {
		printf("no driver, no GPU, or its own functions cannot be found\n0 passed, 0 "
		       "failed, 1 "
		       "skipped\n");
		return 77;
	}
	printf("seed %llu, %lu steps%s\n", (unsigned long long)dice.seed, steps,
	       client.cuMemAlloc_v2 == own.cuMemAlloc_v2 ? ", not under the preload" : "");
	ask_before_memory(&dice);
	one_at_a_time(&dice);
	all_at_once(&dice);
	printf("2 passed, 0 failed, 0 skipped\n");
	return EXIT_SUCCESS;
}
