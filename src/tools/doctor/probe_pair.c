/* SPDX-License-Identifier: BSD-3-Clause */
/* probe_pair.c -- registers memory of one GPU with one adapter, by each way: what a child of probe.c does */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/doctor/clock.h"
#include "tools/doctor/cuda_calls.h"
#include "tools/doctor/host.h"
#include "tools/doctor/probe_pair.h"
#include "tools/doctor/transfer.h"
#include "tools/doctor/verbs_calls.h"

/* Of these the time is the median. */
#define TIMES 5

#define RIGHTS                                                                                               \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

#define PCIE_MAPPING 1ULL /* CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE */

static const size_t sizes[] = { (size_t)2 << 20, (size_t)64 << 20 };

/* ---- what the child works with ---- */

struct probe_pair probe_pair;

static struct ibv_context *context;
static struct ibv_pd *pd;

/* Of the last thing that failed: "ibv_reg_mr EFAULT". */
static char failure[120];

static bool failed_cuda(const char *call, CUresult result)
{
	snprintf(failure, sizeof(failure), "%s %s", cuda_name(call), cuda_result(result));
	return false;
}

static bool failed_verbs(const char *call)
{
	snprintf(failure, sizeof(failure), "%s %s", call, host_error_name(errno ? errno : EIO));
	return false;
}

static bool call_cuda(const char *call, CUresult result)
{
	return result == CUDA_SUCCESS || failed_cuda(call, result);
}

#define MADE(call, ...) call_cuda(#call, CUDA(call, __VA_ARGS__))

static bool open_gpu(void)
{
	CUcontext gpu_context;

	if (cuda_load()) {
		snprintf(failure, sizeof(failure), "dlopen ENOENT");
		return false;
	}
	return MADE(cuInit, 0) && MADE(cuDevicePrimaryCtxRetain, &gpu_context, probe_pair.gpu) &&
	       MADE(cuCtxSetCurrent, gpu_context);
}

static bool open_adapter(struct ibv_device **device)
{
	if (verbs_load()) {
		snprintf(failure, sizeof(failure), "dlopen ENOENT");
		return false;
	}
	errno = ENODEV;
	*device = verbs_find(probe_pair.adapter);
	if (!*device)
		return failed_verbs("ibv_get_device_list");
	errno = 0;
	context = VERBS(ibv_open_device, *device);
	if (!context)
		return failed_verbs("ibv_open_device");
	errno = 0;
	pd = VERBS(ibv_alloc_pd, context);
	return pd || failed_verbs("ibv_alloc_pd");
}

/* ---- the ways ---- */

struct memory {
	CUdeviceptr address;
	size_t length;
	int fd; /* -1: none */
};

static bool export_as(struct memory *memory, unsigned long long flags)
{
	return MADE(cuMemGetHandleForAddressRange, &memory->fd, memory->address, memory->length,
		    CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, flags);
}

static bool export_plain(struct memory *memory)
{
	return export_as(memory, 0);
}

static bool export_direct(struct memory *memory)
{
	return export_as(memory, PCIE_MAPPING) || export_as(memory, 0);
}

static struct ibv_mr *register_dma_buf(const struct memory *memory, int access)
{
	errno = ENOSYS;
	if (!verbs.ibv_reg_dmabuf_mr)
		return NULL;
	return VERBS(ibv_reg_dmabuf_mr, pd, 0, memory->length, memory->address, memory->fd, access);
}

static struct ibv_mr *register_direct(const struct memory *memory, int access)
{
	return VERBS(mlx5dv_reg_dmabuf_mr, pd, 0, memory->length, memory->address, memory->fd, access,
		     MLX5DV_ACCESS_DATA_DIRECT);
}

/* As verbs.h does for its callers: the newer function where optional rights are asked for. */
static struct ibv_mr *register_address(const struct memory *memory, int access)
{
	void *address = (void *)(uintptr_t)memory->address;

	if (access & IBV_ACCESS_RELAXED_ORDERING && verbs.ibv_reg_mr_iova2)
		return VERBS(ibv_reg_mr_iova2, pd, address, memory->length, memory->address,
			     (unsigned int)access);
	return VERBS(ibv_reg_mr, pd, address, memory->length, access);
}

static const struct way {
	const char *name;
	const char *call;
	bool (*export)(struct memory *memory); /* NULL: none */
	struct ibv_mr *(*register_it)(const struct memory *memory, int access);
} ways[] = {
	{ "dma-buf", "ibv_reg_dmabuf_mr", export_plain, register_dma_buf },
	{ "peermem", "ibv_reg_mr", NULL, register_address },
	{ "data-direct", "mlx5dv_reg_dmabuf_mr", export_direct, register_direct },
};

/* ---- one way ---- */

static int compare(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

/* The median time of the call that registers, or 0: it failed. */
static uint64_t register_and_back(const struct way *way, const struct memory *memory, int access)
{
	uint64_t times[TIMES], start;
	struct ibv_mr *mr;

	for (int i = 0; i < TIMES; i++) {
		errno = 0;
		start = clock_ns();
		mr = way->register_it(memory, access);
		times[i] = clock_ns() - start;
		if (!mr)
			return failed_verbs(way->call);
		errno = VERBS(ibv_dereg_mr, mr);
		if (errno)
			return failed_verbs("ibv_dereg_mr");
	}
	qsort(times, TIMES, sizeof(*times), compare);
	return times[TIMES / 2] ? times[TIMES / 2] : 1;
}

static void say(struct host *host, const struct way *way, const char *what, uint64_t time)
{
	char name[160];

	snprintf(name, sizeof(name), "probe/%d/%s/%s/%s", probe_pair.gpu, probe_pair.adapter, way->name,
		 what);
	if (time)
		host_say(host, name, "ok %llu", (unsigned long long)time);
	else
		host_say(host, name, "fail %s", failure);
}

/* --deep. */
static void try_transfer(struct host *host, const struct way *way, const struct memory *memory)
{
	const char *error = failure;
	bool tried = true;
	struct ibv_mr *mr;
	char name[160];

	errno = 0;
	mr = way->register_it(memory, RIGHTS);
	if (mr) {
		error = transfer_check(pd, mr, memory->address, memory->length, &tried);
		VERBS(ibv_dereg_mr, mr);
	} else {
		failed_verbs(way->call);
	}
	snprintf(name, sizeof(name), "probe/%d/%s/%s/transfer", probe_pair.gpu, probe_pair.adapter,
		 way->name);
	if (!tried)
		host_fail(host, name, EOPNOTSUPP, "%s", error);
	else if (error)
		host_say(host, name, "fail %s", error);
	else
		host_say(host, name, "ok");
}

/* Of the smaller piece. */
static bool is_deep(struct host *host, const struct memory *memory)
{
	const char *option = host_text(host, "option/deep");

	return option && !strcmp(option, "on") && memory->length == sizes[0];
}

/* The first time of each stays (host_record). */
static void try_memory(struct host *host, const struct way *way, struct memory *memory)
{
	char bytes[40];
	uint64_t time;

	snprintf(bytes, sizeof(bytes), "%zu", memory->length);
	time = clock_ns();
	if (way->export && !way->export(memory)) {
		say(host, way, bytes, 0);
		return;
	}
	if (way->export)
		say(host, way, "export", clock_ns() - time);
	time = register_and_back(way, memory, RIGHTS);
	say(host, way, bytes, time);
	if (time)
		say(host, way, "relaxed",
		    register_and_back(way, memory, RIGHTS | IBV_ACCESS_RELAXED_ORDERING));
	if (time && is_deep(host, memory))
		try_transfer(host, way, memory);
	if (memory->fd >= 0)
		close(memory->fd);
}

static void try_size(struct host *host, const struct way *way, size_t length)
{
	struct memory memory = { .length = length, .fd = -1 };
	char bytes[40];

	if (MADE(cuMemAlloc_v2, &memory.address, length)) {
		try_memory(host, way, &memory);
		CUDA(cuMemFree_v2, memory.address);
	} else {
		snprintf(bytes, sizeof(bytes), "%zu", length);
		say(host, way, bytes, 0);
	}
}

static size_t free_memory(void)
{
	size_t free_bytes = 0, total;

	return CUDA(cuMemGetInfo_v2, &free_bytes, &total) == CUDA_SUCCESS ? free_bytes : 0;
}

/* Others may allocate meanwhile, so it is tried again; in the first round the driver takes memory for itself. */
static void try_way(struct host *host, const struct way *way)
{
	size_t before = 0, after = 0;
	char name[160];

	snprintf(name, sizeof(name), "probe/%d/%s/%s/begun", probe_pair.gpu, probe_pair.adapter, way->name);
	host_say(host, name, "1");
	for (int round = 0; round < 4 && (round < 2 || after < before); round++) {
		before = free_memory();
		for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
			try_size(host, way, sizes[i]);
		after = free_memory();
	}
	snprintf(name, sizeof(name), "probe/%d/%s/%s/returned", probe_pair.gpu, probe_pair.adapter,
		 way->name);
	if (after < before)
		host_say(host, name, "lost %zu", before - after);
	else
		host_say(host, name, "ok");
}

/* Nothing can be tried, by no way, and this is why. */
static void say_none(struct host *host)
{
	char bytes[40];

	for (int way = 0; way < PROBE_DATA_DIRECT; way++) {
		for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
			snprintf(bytes, sizeof(bytes), "%zu", sizes[i]);
			say(host, &ways[way], bytes, 0);
		}
	}
}

static bool has_data_direct(struct ibv_device *device)
{
	char path[1024];

	return verbs.mlx5dv_is_supported && verbs.mlx5dv_reg_dmabuf_mr &&
	       verbs.mlx5dv_get_data_direct_sysfs_path && VERBS(mlx5dv_is_supported, device) &&
	       VERBS(mlx5dv_get_data_direct_sysfs_path, context, path, sizeof(path)) == 0;
}

void probe_pair_ask(struct host *host)
{
	struct ibv_device *device = NULL;

	if (!open_gpu() || !open_adapter(&device)) {
		say_none(host);
		return;
	}
	for (int way = probe_pair.first_way; way < PROBE_DATA_DIRECT; way++)
		try_way(host, &ways[way]);
	if (has_data_direct(device))
		try_way(host, &ways[PROBE_DATA_DIRECT]);
	VERBS(ibv_dealloc_pd, pd);
	VERBS(ibv_close_device, context);
	CUDA(cuDevicePrimaryCtxRelease_v2, probe_pair.gpu);
}

void probe_pair_lost(struct host *host, int way, const char *how)
{
	char bytes[40];

	snprintf(failure, sizeof(failure), "%s", how);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		snprintf(bytes, sizeof(bytes), "%zu", sizes[i]);
		say(host, &ways[way], bytes, 0);
	}
}

const char *probe_way_name(int way)
{
	return ways[way].name;
}
