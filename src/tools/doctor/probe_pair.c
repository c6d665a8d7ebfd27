/* SPDX-License-Identifier: BSD-3-Clause */
/* probe_pair.c -- registers memory of one GPU with one adapter by each method (child) */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/kernel.h"
#include "tools/doctor/cuda_calls.h"
#include "tools/doctor/host.h"
#include "tools/doctor/probe_pair.h"
#include "tools/doctor/verbs_calls.h"
#include "tools/units.h"

#define PCIE_MAPPING 1ULL /* CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE */

static const struct {
	const char *name;
	size_t length;
} sizes[] = { { PROBE_SMALL, (size_t)2 << 20 }, { PROBE_LARGE, (size_t)64 << 20 } };

/* ---- state of the child ---- */

struct probe_pair probe_pair;

static struct ibv_context *context;

bool probe_pair_failed_verbs(const char *call)
{
	probe_pair.failure = text_of("%s %s", call, host_error_name(errno ? errno : EIO));
	return false;
}

#define MADE(call, ...) cuda_made(#call, CUDA(call, __VA_ARGS__), &probe_pair.failure)

static bool probe_pair_open_gpu(void)
{
	CUcontext gpu_context;

	if (cuda_load()) {
		probe_pair.failure = "dlopen ENOENT";
		return false;
	}
	return MADE(cuInit, 0) && MADE(cuDevicePrimaryCtxRetain, &gpu_context, probe_pair.gpu) &&
	       MADE(cuCtxSetCurrent, gpu_context);
}

static bool probe_pair_open_adapter(struct ibv_device **device)
{
	if (verbs_load()) {
		probe_pair.failure = "dlopen ENOENT";
		return false;
	}
	errno = ENODEV;
	*device = verbs_find(probe_pair.adapter);
	if (!*device)
		return probe_pair_failed_verbs("ibv_get_device_list");
	errno = 0;
	context = VERBS(ibv_open_device, *device);
	if (!context)
		return probe_pair_failed_verbs("ibv_open_device");
	errno = 0;
	probe_pair.pd = VERBS(ibv_alloc_pd, context);
	return probe_pair.pd || probe_pair_failed_verbs("ibv_alloc_pd");
}

/* ---- methods ---- */

static bool probe_pair_export_as(struct probe_memory *memory, unsigned long long flags)
{
	return MADE(cuMemGetHandleForAddressRange, &memory->fd, memory->address, memory->length,
		    CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, flags);
}

static bool probe_pair_export_plain(struct probe_memory *memory)
{
	return probe_pair_export_as(memory, 0);
}

static bool probe_pair_export_direct(struct probe_memory *memory)
{
	return probe_pair_export_as(memory, PCIE_MAPPING) || probe_pair_export_as(memory, 0);
}

static struct ibv_mr *probe_pair_register_dma_buf(const struct probe_memory *memory, int access)
{
	errno = ENOSYS;
	if (!verbs.ibv_reg_dmabuf_mr)
		return NULL;
	return VERBS(ibv_reg_dmabuf_mr, probe_pair.pd, 0, memory->length, memory->address,
		     memory->fd, access);
}

static struct ibv_mr *probe_pair_register_direct(const struct probe_memory *memory, int access)
{
	return VERBS(mlx5dv_reg_dmabuf_mr, probe_pair.pd, 0, memory->length, memory->address,
		     memory->fd, access, MLX5DV_ACCESS_DATA_DIRECT);
}

/* Calls ibv_reg_mr_iova2 for optional access flags, as verbs.h does. */
static struct ibv_mr *probe_pair_register_address(const struct probe_memory *memory, int access)
{
	void *address = (void *)(uintptr_t)memory->address;

	if (access & IBV_ACCESS_RELAXED_ORDERING && verbs.ibv_reg_mr_iova2)
		return VERBS(ibv_reg_mr_iova2, probe_pair.pd, address, memory->length,
			     memory->address, (unsigned int)access);
	return VERBS(ibv_reg_mr, probe_pair.pd, address, memory->length, access);
}

const struct pinning probe_pair_pinnings[METHODS] = {
	[METHOD_DMA_BUF] = { "ibv_reg_dmabuf_mr", probe_pair_export_plain,
			     probe_pair_register_dma_buf },
	[METHOD_PEER_MEMORY] = { "ibv_reg_mr", NULL, probe_pair_register_address },
	[METHOD_DATA_DIRECT] = { "mlx5dv_reg_dmabuf_mr", probe_pair_export_direct,
				 probe_pair_register_direct },
};

/* ---- one method ---- */

static int probe_pair_compare(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

uint64_t probe_pair_median(uint64_t times[PROBE_TIMES])
{
	qsort(times, PROBE_TIMES, sizeof(*times), probe_pair_compare);
	return times[PROBE_TIMES / 2] ? times[PROBE_TIMES / 2] : 1;
}

/* Median duration of the registering call in ns. 0: a call failed, see probe_pair.failure. */
static uint64_t probe_pair_time_registration(enum method method, const struct probe_memory *memory,
					     int access)
{
	const struct pinning *pinning = &probe_pair_pinnings[method];
	uint64_t times[PROBE_TIMES], start;
	struct ibv_mr *mr;

	for (int i = 0; i < PROBE_TIMES; i++) {
		errno = 0;
		start = kernel_time(CLOCK_MONOTONIC);
		mr = pinning->register_it(memory, access);
		times[i] = kernel_time(CLOCK_MONOTONIC) - start;
		if (!mr)
			return probe_pair_failed_verbs(pinning->call);
		errno = VERBS(ibv_dereg_mr, mr);
		if (errno)
			return probe_pair_failed_verbs("ibv_dereg_mr");
	}
	return probe_pair_median(times);
}

const char *probe_pair_name(enum method method, const char *what)
{
	return reading_name("probe/%d/%s/%s/%s", probe_pair.gpu, probe_pair.adapter,
			    method_name(method), what);
}

static void probe_pair_record(struct host *host, enum method method, const char *what,
			      uint64_t time)
{
	if (time)
		host_record(host, probe_pair_name(method, what), "ok %llu",
			    (unsigned long long)time);
	else
		host_record(host, probe_pair_name(method, what), "fail %s", probe_pair.failure);
}

/* Records probe_pair.failure for all sizes. */
static void probe_pair_record_failure(struct host *host, enum method method)
{
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		probe_pair_record(host, method, sizes[i].name, 0);
}

static void probe_pair_try_memory(struct host *host, enum method method, const char *bytes,
				  struct probe_memory *memory)
{
	const struct pinning *pinning = &probe_pair_pinnings[method];
	uint64_t time;

	if (pinning->export && !pinning->export(memory)) {
		probe_pair_record(host, method, bytes, 0);
		return;
	}
	time = probe_pair_time_registration(method, memory, PROBE_ACCESS);
	probe_pair_record(host, method, bytes, time);
	if (time)
		probe_pair_record(
			host, method, "relaxed",
			probe_pair_time_registration(method, memory,
						     PROBE_ACCESS | IBV_ACCESS_RELAXED_ORDERING));
	if (memory->fd >= 0)
		close(memory->fd);
}

/* Adapters access host memory of integrated GPUs (GPUDirect RDMA guide 12.6, 4.4). */
bool probe_pair_allocate(struct host *host, struct probe_memory *memory)
{
	int64_t integrated = 0;
	void *address;

	host_number(host, &integrated, "cuda/%d/attribute/18", probe_pair.gpu);
	memory->is_host = integrated > 0;
	if (!memory->is_host)
		return MADE(cuMemAlloc_v2, &memory->address, memory->length);
	if (!MADE(cuMemHostAlloc, &address, memory->length, 0))
		return false;
	memory->address = (CUdeviceptr)(uintptr_t)address;
	return true;
}

void probe_pair_free(const struct probe_memory *memory)
{
	if (memory->is_host)
		CUDA(cuMemFreeHost, (void *)(uintptr_t)memory->address);
	else
		CUDA(cuMemFree_v2, memory->address);
}

/* The record of a reading's first round stays (host_record). */
static void probe_pair_try_sizes(struct host *host, enum method method)
{
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		struct probe_memory memory = { .length = sizes[i].length, .fd = -1 };

		if (probe_pair_allocate(host, &memory)) {
			probe_pair_try_memory(host, method, sizes[i].name, &memory);
			probe_pair_free(&memory);
		} else {
			probe_pair_record(host, method, sizes[i].name, 0);
		}
	}
}

static size_t probe_pair_free_bytes(void)
{
	size_t free_bytes = 0, total;

	return CUDA(cuMemGetInfo_v2, &free_bytes, &total) == CUDA_SUCCESS ? free_bytes : 0;
}

/* Tries up to 4 times, because other processes may allocate meanwhile. The first round is no
 * measurement of the GPU's free memory: the driver allocates memory of its own then. */
static void probe_pair_try_method(struct host *host, enum method method)
{
	size_t before = 0, after = 0;

	host_record(host, probe_pair_name(method, "begun"), "1");
	for (int i = 0; i < 4 && (i < 2 || after < before); i++) {
		before = probe_pair_free_bytes();
		probe_pair_try_sizes(host, method);
		after = probe_pair_free_bytes();
	}
	host_record(host, probe_pair_name(method, "returned"), after < before ? "lost %zu" : "ok",
		    before - after);
	probe_deep(host, method);
}

static bool probe_pair_has_data_direct(struct ibv_device *device)
{
	char path[1024];

	return verbs.mlx5dv_is_supported && verbs.mlx5dv_reg_dmabuf_mr &&
	       verbs.mlx5dv_get_data_direct_sysfs_path && VERBS(mlx5dv_is_supported, device) &&
	       VERBS(mlx5dv_get_data_direct_sysfs_path, context, path, sizeof(path)) == 0;
}

void probe_pair_query(struct host *host)
{
	struct ibv_device *device = NULL;

	if (!probe_pair_open_gpu() || !probe_pair_open_adapter(&device)) {
		probe_pair_record_failure(host, METHOD_DMA_BUF);
		probe_pair_record_failure(host, METHOD_PEER_MEMORY);
		return;
	}
	for (enum method method = probe_pair.first; method < METHOD_DATA_DIRECT; method++)
		probe_pair_try_method(host, method);
	if (probe_pair_has_data_direct(device))
		probe_pair_try_method(host, METHOD_DATA_DIRECT);
	VERBS(ibv_dealloc_pd, probe_pair.pd);
	VERBS(ibv_close_device, context);
	CUDA(cuDevicePrimaryCtxRelease_v2, probe_pair.gpu);
}

void probe_pair_lost(struct host *host, enum method method, const char *how)
{
	probe_pair.failure = how;
	probe_pair_record_failure(host, method);
}
