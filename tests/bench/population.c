/* SPDX-License-Identifier: BSD-3-Clause */
/* population.c -- makes it, with an adapter that only numbers ranges */
#include "population.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench.h"
#include "../unit/standin.h"

#define BLOCK		((uint64_t)2 << 20)
#define SMALLEST	((uint64_t)512)
#define QUERIES		((uint64_t)1 << 20)
#define QUERIES_QUICK	((uint64_t)1 << 14)
#define QUERIES_HOT	((uint64_t)1 << 10) /* few enough for the nearest cache */
#define REQUEST_ALIGNED ((uint64_t)64)

const char *const shape_names[SHAPES] = { "small", "2MiB", "mixed" };

/* ---- driver: every address is allocated GPU memory ---- */

static CUresult answer(CUpointer_attribute attribute, void *value, CUdeviceptr address)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*(CUcontext *)value = (CUcontext)0x1000;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*(uint64_t *)value = address / SMALLEST;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned int *)value = CU_MEMORYTYPE_DEVICE;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)value = 0;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		*(unsigned int *)value = 1;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_MAPPED:
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		*(unsigned int *)value = 0;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*(uint64_t *)value = 0;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static CUresult get_attributes(unsigned int count, CUpointer_attribute *attributes, void **values,
			       CUdeviceptr address)
{
	CUresult result = CUDA_SUCCESS;

	for (unsigned int i = 0; i < count && result == CUDA_SUCCESS; i++)
		result = answer(attributes[i], values[i], address);
	return result;
}

/* ---- adapter ---- */

static struct ibv_mr *regions; /* made beforehand: provider's memory, not the library's */
static uint32_t region_count, region_limit;

static int pin(const struct pin_request *request, struct pin_result *result)
{
	struct ibv_mr *made = &regions[region_count];

	bench_require(region_count < region_limit, "more registrations than allocations");
	region_count++;
	*made = (struct ibv_mr){ .context = request->pd->context,
				 .pd = request->pd,
				 .handle = region_count,
				 .lkey = population_lkey(request->base, request->length),
				 .rkey = population_rkey(
					 population_lkey(request->base, request->length)) };
	result->mr = made;
	return 0;
}

static int unpin(struct ibv_mr *mr)
{
	(void)mr;
	return 0;
}

static const struct registration_method method = { .name = "numbers", .pin = pin, .unpin = unpin };

/* ---- allocations ---- */

static uint64_t size_of(enum shape shape, uint64_t *state)
{
	double size;

	switch (shape) {
	case SHAPE_SMALL:
		return SMALLEST;
	case SHAPE_2MIB:
		return BLOCK;
	default:
		/* 512 bytes are 2^9, 8 MiB 2^23. */
		size = exp2(9 + 14 * ((double)(bench_random(state) >> 11) / (double)(1ull << 53)));
		return ((uint64_t)size + SMALLEST - 1) / SMALLEST * SMALLEST;
	}
}

static void plan(struct population *population, enum shape shape)
{
	uint64_t state = 1, next = POPULATION_FIRST;

	for (uint64_t i = 0; i < population->live; i++) {
		population->bases[i] = next;
		population->sizes[i] = size_of(shape, &state);
		next += population->sizes[i];
	}
	population->end = next;
}

static struct ibv_pd pd = { .context = (struct ibv_context *)0x5000, .handle = 1 };

static void request(struct population *population, struct ibv_pd *in, uint64_t i)
{
	static char handle; /* its address stands for the provider's struct */
	struct registration_request request = { .pd = in,
						.address = population->bases[i],
						.length = population->sizes[i],
						.iova = population->bases[i],
						.access = ACCESS,
						.client_mr = &handle };
	struct registration_keys keys;

	bench_require(registration_request(&request, &keys), "a registration was not served");
	population->keys[i] = population->bases[i];
	bench_require(registration_drop(&handle), "a registration could not be given back");
}

static double resident_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	unsigned long pages = 0;

	bench_require(file && fscanf(file, "%*u %lu", &pages) == 1,
		      "/proc/self/statm cannot be read");
	fclose(file);
	return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

/* ---- queries ---- */

static void make_queries(struct queries *queries, const struct population *population,
			 uint64_t count, bool hot)
{
	uint64_t state = 2, which, places;

	*queries = (struct queries){ .addresses = bench_memory(count * sizeof(uint64_t)),
				     .keys = bench_memory(count * sizeof(uint64_t)),
				     .count = count };
	for (uint64_t i = 0; i < count; i++) {
		which = hot ? population->live / 2 : bench_random(&state) % population->live;
		places = (population->sizes[which] - REQUEST_LENGTH) / REQUEST_ALIGNED + 1;
		queries->addresses[i] =
			population->bases[which] + bench_random(&state) % places * REQUEST_ALIGNED;
		queries->keys[i] = population->keys[which];
	}
}

void population_make(struct population *population, enum shape shape, uint64_t live)
{

	population->live = live;
	population->bases = bench_memory(live * sizeof(uint64_t));
	population->sizes = bench_memory(live * sizeof(uint64_t));
	population->keys = bench_memory(live * sizeof(uint64_t));
	regions = bench_memory(live * sizeof(*regions));
	region_limit = (uint32_t)live;
	plan(population, shape);

	standin_reset();
	standin_with_registration = true;
	standin_attributes = get_attributes;
	registration_forced_method = &method;
	registration_pd_opened(&pd, false);
	population->before = resident_bytes();
	for (uint64_t i = 0; i < live; i++)
		memory_allocated(ALLOCATION_DEVICE, population->bases[i], population->sizes[i]);
	population->bytes = (resident_bytes() - population->before) / (double)live;
}

void population_register(struct population *population)
{
	for (uint64_t i = 0; i < population->live; i++)
		request(population, &pd, i);
	population->bytes_registered =
		(resident_bytes() - population->before) / (double)population->live;

	make_queries(&population->random, population, bench_is_quick() ? QUERIES_QUICK : QUERIES,
		     false);
	make_queries(&population->hot, population, QUERIES_HOT, true);
}
