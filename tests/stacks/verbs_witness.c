/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_witness.c -- counts a process's verbs calls: domains, registrations (a preload)
 *
 * In front, where programs and libraries call libibverbs, it counts requests. Behind, where
 * providers (rdma-core 35 to 58) call libibverbs back to enter the kernel, and behind any other
 * preload there, it counts actual registrations. Of peerpin it uses the prefix "peerpin" of thread
 * names, and reads 4 statistics at the end, and those of the simulated adapter about broken
 * contracts.
 *
 * VERBS_WITNESS=FILE names the result, written at exit as FILE.PID by a process with a domain or a
 * registration. With VERBS_WITNESS_LIVE it is also written after each registration, for killed
 * processes. The level of MPI_Pcontrol starts a phase, of which the result has counts of its own.
 *
 * Beside libfabric: requests of any client for GPU memory while a libfabric is loaded; not with
 * VERBS_WITNESS_TIMES, because it takes time.
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "stacks/verbs_witness.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define EXPORT __attribute__((visibility("default")))

#define EXTENDED_FD 4 /* IBV_REG_MR_MASK_FD */

typedef int reg_fn(void *pd, void *addr, size_t length, uint64_t hca_va, int access, void *vmr,
		   void *cmd, size_t cmd_size, void *resp, size_t resp_size);
typedef int reg_dmabuf_fn(void *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
			  int access, void *vmr, void *driver);
typedef int reg_ex_fn(void *pd, void *vmr, const struct extended *wanted);
typedef int one_argument_fn(void *object);
typedef int alloc_pd_fn(void *context, void *pd, void *cmd, size_t cmd_size, void *resp,
			size_t resp_size);
typedef int rereg_fn(void *vmr, uint32_t flags, void *addr, size_t length, uint64_t hca_va,
		     int access, void *pd, void *cmd, size_t cmd_size, void *resp,
		     size_t resp_size);

/* In front: headers of rdma-core before 34 do not declare it. */
struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access);

/* Behind: providers' private functions, which no public header declares. */
alloc_pd_fn ibv_cmd_alloc_pd;
one_argument_fn ibv_cmd_dealloc_pd, ibv_cmd_dereg_mr;
reg_fn ibv_cmd_reg_mr;
reg_dmabuf_fn ibv_cmd_reg_dmabuf_mr;
reg_ex_fn ibv_cmd_reg_mr_ex;
rereg_fn ibv_cmd_rereg_mr;

struct witness_counts counts[PHASES];
static __thread int inside_front; /* libibverbs' functions call each other by their public names */

#define NOW (&counts[__atomic_load_n(&phase, __ATOMIC_RELAXED)])

/* The next definition, looked up once: a look-up takes longer than a request that hits. */
#define NEXT(name)                                                                                 \
	({                                                                                         \
		static _Atomic(typeof(&name)) known;                                               \
		if (!known)                                                                        \
			known = (typeof(&name))next_definition(#name);                             \
		known;                                                                             \
	})

static void count(unsigned long *number, unsigned long by)
{
	__atomic_fetch_add(number, by, __ATOMIC_RELAXED);
}

static bool only_times(void)
{
	return getenv("VERBS_WITNESS_TIMES") != NULL;
}

/* ---- in front: requests ---- */

static int is_libfabric(struct dl_phdr_info *object, size_t size, void *argument)
{
	(void)size, (void)argument;
	return strstr(object->dlpi_name, "/libfabric.so") != NULL;
}

/* Count a request of the program, not one of libibverbs or of peerpin's worker. */
static void enter_front(const void *addr, bool dma_buf)
{
	bool gpu;

	if (inside_front++ || on_worker())
		return;
	gpu = dma_buf || is_gpu_memory(addr);
	count(&NOW->asked, 1);
	count(&NOW->asked_gpu, gpu);
	if (gpu && !only_times())
		count(&NOW->asked_gpu_beside_libfabric, dl_iterate_phdr(is_libfabric, NULL));
}

static struct ibv_mr *leave_front(struct ibv_mr *mr)
{
	inside_front--;
	return mr;
}

EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	typeof(&ibv_reg_mr) next = NEXT(ibv_reg_mr);

	enter_front(addr, false);
	return leave_front(next(pd, addr, length, access));
}

EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				      int access)
{
	typeof(&ibv_reg_mr_iova) next = NEXT(ibv_reg_mr_iova);

	enter_front(addr, false);
	return leave_front(next(pd, addr, length, iova, access));
}

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				       unsigned int access)
{
	typeof(&ibv_reg_mr_iova2) next = NEXT(ibv_reg_mr_iova2);

	enter_front(addr, false);
	return leave_front(next(pd, addr, length, iova, access));
}

/* A registered dma-buf is the GPU's. If libibverbs lacks the function (rdma-core before 34), a
 * caller gets the answer of a provider without it. */
EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
					uint64_t iova, int fd, int access)
{
	typeof(&ibv_reg_dmabuf_mr) next = next_if_any("ibv_reg_dmabuf_mr");

	if (!next) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	enter_front(NULL, true);
	return leave_front(next(pd, offset, length, iova, fd, access));
}

/* ---- behind: calls into the kernel ---- */

EXPORT int ibv_cmd_alloc_pd(void *context, void *pd, void *cmd, size_t cmd_size, void *resp,
			    size_t resp_size)
{
	count(&NOW->alloc_pd, 1);
	return NEXT(ibv_cmd_alloc_pd)(context, pd, cmd, cmd_size, resp, resp_size);
}

EXPORT int ibv_cmd_dealloc_pd(void *pd)
{
	int status = NEXT(ibv_cmd_dealloc_pd)(pd);

	count(status ? &NOW->failed : &NOW->dealloc_pd, 1);
	return status;
}

static int was_registered(int status, bool gpu, void *vmr)
{
	if (status) {
		count(&NOW->failed, 1);
		return status;
	}
	if (gpu)
		live_replace(NULL, vmr);
	count(&NOW->registered, 1);
	count(!gpu ? &NOW->host : on_worker() ? &NOW->gpu_by_worker : &NOW->gpu_by_program, 1);
	write_live();
	return 0;
}

EXPORT int ibv_cmd_reg_mr(void *pd, void *addr, size_t length, uint64_t hca_va, int access,
			  void *vmr, void *cmd, size_t cmd_size, void *resp, size_t resp_size)
{
	reg_fn *next = NEXT(ibv_cmd_reg_mr);
	bool gpu = is_gpu_memory(addr);
	int status = next(pd, addr, length, hca_va, access, vmr, cmd, cmd_size, resp, resp_size);

	/* The kernel refuses remote write alone: peerpin's check of the library. */
	if (status && (access & IBV_ACCESS_REMOTE_WRITE) && !(access & IBV_ACCESS_LOCAL_WRITE))
		return status;
	return was_registered(status, gpu, vmr);
}

EXPORT int ibv_cmd_reg_dmabuf_mr(void *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
				 int access, void *vmr, void *driver)
{
	reg_dmabuf_fn *next = NEXT(ibv_cmd_reg_dmabuf_mr);
	int status = next(pd, offset, length, iova, fd, access, vmr, driver);

	/* UCX and peerpin test by it whether the adapter supports dma-bufs. */
	if (status && fd < 0)
		return status;
	return was_registered(status, true, vmr);
}

EXPORT int ibv_cmd_reg_mr_ex(void *pd, void *vmr, const struct extended *wanted)
{
	reg_ex_fn *next = NEXT(ibv_cmd_reg_mr_ex);
	bool dma_buf = wanted->mask & EXTENDED_FD;
	bool gpu = dma_buf || is_gpu_memory(wanted->addr);
	int status = next(pd, vmr, wanted);

	if (status && dma_buf && wanted->fd < 0)
		return status;
	return was_registered(status, gpu, vmr);
}

EXPORT int ibv_cmd_rereg_mr(void *vmr, uint32_t flags, void *addr, size_t length, uint64_t hca_va,
			    int access, void *pd, void *cmd, size_t cmd_size, void *resp,
			    size_t resp_size)
{
	count(&NOW->reregistered, 1);
	return NEXT(ibv_cmd_rereg_mr)(vmr, flags, addr, length, hca_va, access, pd, cmd, cmd_size,
				      resp, resp_size);
}

EXPORT int ibv_cmd_dereg_mr(void *vmr)
{
	/* Before the call: afterwards another thread may get a registration at this address. */
	bool gpu = live_replace(vmr, NULL);
	int status = NEXT(ibv_cmd_dereg_mr)(vmr);

	count(status ? &NOW->failed : &NOW->deregistered, 1);
	if (gpu && status)
		live_replace(NULL, vmr);
	else if (gpu)
		count(&NOW->gpu_deregistrations, 1);
	return status;
}
