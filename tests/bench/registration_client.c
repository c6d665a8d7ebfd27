/* SPDX-License-Identifier: BSD-3-Clause */
/* registration_client.c -- allocates and registers as a client, on the present driver and adapter
 */
#include "registration.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/loaded.h"

/* Access flags of UCX. */
#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define PAGE ((uint64_t)4096)

struct client client;

static bool skip(const char *reason)
{
	fprintf(stderr, "registration: skipped: %s\n", reason);
	return false;
}

/* The preload intercepts dlsym: read the driver's symbol table. */
static int find_past(struct dl_phdr_info *object, size_t size, void *unused)
{
	const char *name = strrchr(object->dlpi_name ? object->dlpi_name : "", '/');
	struct object_tables tables;

	(void)size;
	(void)unused;
	if (!name || strncmp(name, "/libcuda.so", 11) || !object_read(object, &tables))
		return 0;
	client.driver_alloc =
		(__typeof__(client.driver_alloc))object_find(&tables, "cuMemAlloc_v2");
	client.driver_free = (__typeof__(client.driver_free))object_find(&tables, "cuMemFree_v2");
	return 1;
}

static bool find_functions(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW), *verbs;

	if (!driver)
		return skip(dlerror());
	verbs = dlopen("libibverbs.so.1", RTLD_NOW);
	if (!verbs)
		return skip(dlerror());
#define X(name)                                                                                    \
	client.name = (__typeof__(name) *)dlsym(driver, #name);                                    \
	bench_require(client.name, "the driver lacks " #name);
	CUDA_FUNCTIONS(X)
#undef X
#define X(name) client.name = (__typeof__(name) *)dlsym(verbs, #name);
	VERBS_FUNCTIONS(X)
#undef X
	/* The newest one; the others are as old as libibverbs.so.1. */
	bench_require(client.ibv_reg_dmabuf_mr, "libibverbs lacks ibv_reg_dmabuf_mr");
	client.peerpin_statistic =
		(__typeof__(client.peerpin_statistic))dlsym(RTLD_DEFAULT, "peerpin_statistic");
	if (!client.peerpin_statistic)
		return true;
	dl_iterate_phdr(find_past, NULL);
	bench_require(client.driver_alloc && client.driver_free &&
			      client.driver_alloc != client.cuMemAlloc_v2 &&
			      client.driver_free != client.cuMemFree_v2,
		      "the driver's own functions are not to be found");
	return true;
}

/* RDMA_TEST_DEVICE, or the first. */
static struct ibv_context *open_adapter(void)
{
	const char *wanted = getenv("RDMA_TEST_DEVICE");
	int count = 0;
	struct ibv_device **list = client.ibv_get_device_list(&count);
	struct ibv_context *opened = NULL;

	for (int i = 0; list && i < count && !opened; i++) {
		if (!wanted || !strcmp(client.ibv_get_device_name(list[i]), wanted))
			opened = client.ibv_open_device(list[i]);
	}
	if (list)
		client.ibv_free_device_list(list);
	return opened;
}

/* By address if possible, else by dma-buf. */
static void find_way(void)
{
	struct ibv_pd *pd = client_domain();
	struct buffer buffer = client_allocate(2 * MIB);
	struct ibv_mr *mr = client_register(pd, &buffer, 0, buffer.size);

	if (!mr) {
		client_free(&buffer);
		client.by_dmabuf = true;
		buffer = client_allocate(2 * MIB);
		mr = client_register(pd, &buffer, 0, buffer.size);
	}
	bench_require(mr, "GPU memory can be registered neither by its address nor as dma-buf");
	bench_require(!client.ibv_dereg_mr(mr), "a deregistration failed");
	client_free(&buffer);
	bench_require(!client.ibv_dealloc_pd(pd), "a protection domain could not be ended");
}

bool client_begin(void)
{
	CUdevice device;
	char name[64];
	int version = 0;

	if (!find_functions())
		return false;
	if (client.cuInit(0) != CUDA_SUCCESS || client.cuDeviceGet(&device, 0) != CUDA_SUCCESS)
		return skip("the driver has no device");
	client.device = open_adapter();
	if (!client.device)
		return skip("there is no adapter");
	bench_require(client.cuDevicePrimaryCtxRetain(&client.context, device) == CUDA_SUCCESS,
		      "no context");
	client_set_context(NULL, 0);
	bench_require(client.cuDeviceGetName(name, sizeof(name), device) == CUDA_SUCCESS &&
			      client.cuDriverGetVersion(&version) == CUDA_SUCCESS,
		      "the device has no name");
	find_way();
	snprintf(client.machine, sizeof(client.machine), "%s, CUDA %d.%d, adapter %s", name,
		 version / 1000, version % 1000 / 10,
		 client.ibv_get_device_name(client.device->device));
	return true;
}

void client_set_context(void *unused, unsigned int thread)
{
	(void)unused;
	(void)thread;
	bench_require(client.cuCtxSetCurrent(client.context) == CUDA_SUCCESS,
		      "no context for a thread");
}

void client_export(struct buffer *buffer)
{
	uint64_t from = buffer->address & ~(PAGE - 1);
	uint64_t to = (buffer->address + buffer->size + PAGE - 1) & ~(PAGE - 1);

	buffer->dmabuf = -1;
	if (!client.by_dmabuf)
		return;
	buffer->dmabuf_offset = buffer->address - from;
	bench_require(client.cuMemGetHandleForAddressRange(&buffer->dmabuf, from, to - from,
							   CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
							   0) == CUDA_SUCCESS,
		      "no dma-buf of GPU memory");
}

void client_end_export(struct buffer *buffer)
{
	if (buffer->dmabuf >= 0)
		close(buffer->dmabuf);
}

struct buffer client_allocate(size_t size)
{
	struct buffer buffer = { .size = size };

	bench_require(client.cuMemAlloc_v2(&buffer.address, size) == CUDA_SUCCESS, "no GPU memory");
	client_export(&buffer);
	return buffer;
}

void client_free(struct buffer *buffer)
{
	client_end_export(buffer);
	bench_require(client.cuMemFree_v2(buffer->address) == CUDA_SUCCESS,
		      "GPU memory could not be freed");
}

struct ibv_mr *client_register(struct ibv_pd *pd, const struct buffer *buffer, size_t offset,
			       size_t length)
{
	uint64_t address = buffer->address + offset;

	if (buffer->dmabuf < 0)
		return client.ibv_reg_mr(pd, (void *)address, length, ACCESS);
	return client.ibv_reg_dmabuf_mr(pd, buffer->dmabuf_offset + offset, length, address,
					buffer->dmabuf, ACCESS);
}

void client_use(struct ibv_pd *pd, const struct buffer *buffer, size_t offset, size_t length)
{
	struct ibv_mr *mr = client_register(pd, buffer, offset, length);

	bench_require(mr && mr->length == length, "a registration failed");
	bench_require(!client.ibv_dereg_mr(mr), "a deregistration failed");
}

struct ibv_pd *client_domain(void)
{
	struct ibv_pd *pd = client.ibv_alloc_pd(client.device);

	bench_require(pd, "no protection domain");
	return pd;
}

uint64_t client_statistic(const char *name)
{
	uint64_t value = 0;

	bench_require(client.peerpin_statistic && !client.peerpin_statistic(name, &value),
		      "peerpin lacks a statistic");
	return value;
}

double client_now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int by_time(const void *one, const void *other)
{
	double first = *(const double *)one, second = *(const double *)other;

	return first < second ? -1 : first > second;
}

void client_sort(double *times, unsigned int count)
{
	qsort(times, count, sizeof(*times), by_time);
}

void client_set_times(struct bench_row *row, double *times, unsigned int count)
{
	client_sort(times, count);
	row->ns = times[count / 2];
	row->min_ns = times[0];
	row->max_ns = times[count - 1];
}
