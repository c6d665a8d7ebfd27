/* SPDX-License-Identifier: BSD-3-Clause */
/* forms.h -- forms in which clients of libibverbs register GPU memory
 *
 * A form is a row of forms.def and FORM_RUN(name) { ... }, which makes a client's calls with
 * memory of `size` bytes. requests.c runs each form with sizes of its row, with the preload and
 * without, each time in a process of its own, and judges both (requests.h).
 */
#ifndef PEERPIN_TESTS_FORMS_H
#define PEERPIN_TESTS_FORMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "memory/cuda_abi.h"
#include "sim/adapter_verbs.h"
#include "sim/sim_adapter.h"

#define ACCESS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define RELAXED IBV_ACCESS_RELAXED_ORDERING
#define PAGE	((uint64_t)4096)
#define BLOCK	((uint64_t)2 << 20) /* of the driver */
#define ROUNDS	8		    /* of a request: the first one may miss */

#define require(condition)                                                                         \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			_exit(90);                                                                 \
		}                                                                                  \
	} while (0)
#define require_cuda(call) require((call) == CUDA_SUCCESS)

#define FORM_RUN(name)                                                                             \
	void form_##name(size_t size);                                                             \
	void form_##name(size_t size __attribute__((unused)))
/* A form of one statement. */
#define FORM_IS(name, statement)                                                                   \
	FORM_RUN(name)                                                                             \
	{                                                                                          \
		statement;                                                                         \
	}

extern struct ibv_context *device;
extern struct ibv_pd *pd;
extern CUcontext context;

static inline uint64_t round_down(uint64_t value, uint64_t unit)
{
	return value & ~(unit - 1);
}

static inline uint64_t round_up(uint64_t value, uint64_t unit)
{
	return round_down(value + unit - 1, unit);
}

/* Below `limit`, from the printed seed. */
uint64_t random_below(uint64_t limit);

/* ---- memory, until the end of the form's run with this size ---- */

CUdeviceptr allocate(size_t size);
/* Behind another small allocation: not at the begin of a page. */
CUdeviceptr allocate_small(size_t size);
CUdeviceptr allocate_from_pool(size_t size);

/* Adjacent mappings of `sizes`, multiples of BLOCK; of one handle's memory if `aliased`. */
CUdeviceptr map(const CUmemAllocationProp *properties, const size_t *sizes, unsigned int count);
CUdeviceptr map_equal(size_t size, unsigned int count, bool aliased);
CUdeviceptr map_handle(CUmemGenericAllocationHandle handle, size_t size);
void unmap(CUdeviceptr address, size_t size);

/* ---- the client's calls; each is recorded with its errno ---- */

/* True if the call succeeded. `registers`: it asks for a registration. */
bool record(bool succeeded, bool registers);

struct ibv_mr *by_address(struct ibv_pd *in, CUdeviceptr address, size_t length, int access);
struct ibv_mr *by_iova(CUdeviceptr address, size_t length, uint64_t iova, int access);
struct ibv_mr *by_attributes(const struct ibv_mr_init_attr *attributes);

/* -1: refused. */
int export_range(CUdeviceptr from, CUdeviceptr to, unsigned long long flags);
struct ibv_mr *by_dma_buf(struct ibv_pd *in, int fd, uint64_t offset, size_t length, uint64_t iova,
			  int access);
/* Export the pages of a buffer, register the buffer under its address, close the descriptor. */
struct ibv_mr *by_own_dma_buf(struct ibv_pd *in, CUdeviceptr address, size_t length, int access);

void drop(struct ibv_mr *mr);

/* Move bytes by the key both ways, at both ends of `length` bytes and in between: `label` is the
 * remote side's address of `memory`. The adapter must refuse where the flags of the last request
 * do not permit it. */
void check_bytes(const struct ibv_mr *mr, uint64_t label, CUdeviceptr memory, size_t length);
void report_wrong(const char *what);

/* Check the bytes by a registration under the memory's own address, and drop it. */
void check_and_drop(struct ibv_mr *mr, CUdeviceptr memory, size_t length);

/* A message: register, check the bytes, drop. */
static inline void message(CUdeviceptr address, size_t size, int access)
{
	check_and_drop(by_address(pd, address, size, access), address, size);
}

static inline void buf_message(CUdeviceptr address, size_t size)
{
	check_and_drop(by_own_dma_buf(pd, address, size, ACCESS), address, size);
}

/* ROUNDS messages; rounds(): registrations of [from, to), for the bytes of a buffer. */
void rounds(CUdeviceptr from, CUdeviceptr to, CUdeviceptr buffer, size_t size, int access);
void exact_rounds(CUdeviceptr buffer, size_t size, int access);
void buf_rounds(CUdeviceptr buffer, size_t size);
/* By the descriptor of an export that begins with the buffer. */
void fd_rounds(int fd, CUdeviceptr buffer, size_t size);

/* ---- the preload ---- */

bool is_preloaded(void);
/* 0 without it. */
uint64_t own(const char *name);

/* Wait until the worker has registered as many regions as `wanted`. Without the preload it returns
 * at once. */
void await_registrations(uint64_t wanted);

#endif
