/* SPDX-License-Identifier: BSD-3-Clause */
/* registration.h -- the bench of registrations: its client, on any driver and adapter
 *
 * Driver and libibverbs come by dlopen and dlsym: one program for real and simulated ones, with
 * peerpin preloaded and without. A failure ends the bench.
 */
#ifndef PEERPIN_TESTS_BENCH_REGISTRATION_H
#define PEERPIN_TESTS_BENCH_REGISTRATION_H

#include "bench.h"
#include "memory/cuda_abi.h"
#include "sim/adapter_verbs.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

/* ---- registration_client.c ---- */

#define CUDA_FUNCTIONS(X)                                                                          \
	X(cuInit)                                                                                  \
	X(cuDriverGetVersion)                                                                      \
	X(cuDeviceGet)                                                                             \
	X(cuDeviceGetName)                                                                         \
	X(cuDevicePrimaryCtxRetain)                                                                \
	X(cuCtxSetCurrent)                                                                         \
	X(cuMemAlloc_v2)                                                                           \
	X(cuMemFree_v2)                                                                            \
	X(cuPointerSetAttribute)                                                                   \
	X(cuMemGetHandleForAddressRange)

#define VERBS_FUNCTIONS(X)                                                                         \
	X(ibv_get_device_list)                                                                     \
	X(ibv_free_device_list)                                                                    \
	X(ibv_get_device_name)                                                                     \
	X(ibv_open_device)                                                                         \
	X(ibv_close_device)                                                                        \
	X(ibv_alloc_pd)                                                                            \
	X(ibv_dealloc_pd)                                                                          \
	X(ibv_reg_mr)                                                                              \
	X(ibv_reg_dmabuf_mr)                                                                       \
	X(ibv_dereg_mr)

struct client {
#define X(name) __typeof__(name) *name;
	CUDA_FUNCTIONS(X)
	VERBS_FUNCTIONS(X)
#undef X
	int (*peerpin_statistic)(const char *name, uint64_t *value); /* NULL: not preloaded */
	CUcontext context;
	struct ibv_context *device;
	/* The driver's own; NULL: not preloaded. */
	__typeof__(cuMemAlloc_v2) *driver_alloc;
	__typeof__(cuMemFree_v2) *driver_free;
	bool by_dmabuf;	   /* no registration by address */
	char machine[192]; /* names of GPU and adapter */
};

extern struct client client;

/* False, with a reason on standard error: no driver, no libibverbs, or no device. */
bool client_begin(void);

/* Make the context current on another thread. */
void client_set_context(void *unused, unsigned int thread);

struct buffer {
	CUdeviceptr address;
	size_t size;
	int dmabuf; /* -1: not needed */
	size_t dmabuf_offset;
};

struct buffer client_allocate(size_t size);
void client_free(struct buffer *buffer);

/* Where registrations need a dma-buf: one of the buffer. client_allocate() and client_free() call
 * them. */
void client_export(struct buffer *buffer);
void client_end_export(struct buffer *buffer);

/* Of `length` bytes from `offset` on; NULL: failed. */
struct ibv_mr *client_register(struct ibv_pd *pd, const struct buffer *buffer, size_t offset,
			       size_t length);

/* Register and deregister. */
void client_use(struct ibv_pd *pd, const struct buffer *buffer, size_t offset, size_t length);

struct ibv_pd *client_domain(void);
uint64_t client_statistic(const char *name);

double client_now(void); /* ns */
void client_sort(double *times, unsigned int count);

/* Sort them: the row gets their median, minimum and maximum. */
void client_set_times(struct bench_row *row, double *times, unsigned int count);

/* ---- registration_hits.c ---- */

void run_hits(void);

/* ---- registration_first.c: registrations of new memory ---- */

bool first_is_wanted(const char *mode); /* whether any of its rows is selected */
void run_first_requests(void);

/* ---- registration_allocating.c: times of cuMemAlloc and cuMemFree ---- */

bool allocating_is_wanted(const char *mode); /* whether any of its rows is selected */
void run_allocations(void);

#endif
