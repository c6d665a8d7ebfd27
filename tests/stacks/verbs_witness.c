/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_witness.c -- counts a process's verbs calls: domains, registrations, posted work (a
 * preload)
 *
 * In front, where programs and libraries call libibverbs, it measures times. Behind, where
 * providers (rdma-core 35 to 58) call libibverbs back to enter the kernel, and behind any other
 * preload there, it counts actual registrations. Of peerpin it uses the prefix "peerpin" of thread
 * names, and reads 4 statistics at the end, and those of the simulated adapter about broken
 * contracts.
 *
 * VERBS_WITNESS=FILE names the result, written at exit as FILE.PID by a process with a domain or a
 * registration. With VERBS_WITNESS_LIVE it is also written after each registration and each of the
 * first 64 work requests, for killed processes.
 *
 * Beside libfabric: requests of any client for GPU memory while a libfabric is loaded.
 *
 * On the send path: registrations by program threads after the process's first work request. First
 * send: from the first request in front for GPU memory (any memory in a process without it) to the
 * end of the next call that posts work.
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
#include <unistd.h>

#include <infiniband/verbs.h>

#include "apps/witness.h"
#include "stacks/verbs_witness.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define EXPORT	  __attribute__((visibility("default")))
#define MAX_HOOKS 64

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
typedef int post_fn(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
typedef int complete_fn(struct ibv_qp_ex *qp);

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

struct witness_counts counts;

static uint64_t asked_at, asked_gpu_at; /* time of the first request; ~0: its send was timed */
static __thread int inside_front; /* libibverbs' functions call each other by their public names */

static void count(unsigned long *number, unsigned long by)
{
	__atomic_fetch_add(number, by, __ATOMIC_RELAXED);
}

/* ---- work requests: providers' functions, which no symbol names, are hooked when a queue pair may
 * send ---- */

static struct hook {
	void *object; /* the context, or the extended queue pair */
	void *original;
} hooks[MAX_HOOKS]; /* under hooks_lock */
static pthread_mutex_t hooks_lock = PTHREAD_MUTEX_INITIALIZER;

static void *original_of(const void *object)
{
	void *original = NULL;

	pthread_mutex_lock(&hooks_lock);
	for (int i = 0; i < MAX_HOOKS && !original; i++)
		if (hooks[i].object == object)
			original = hooks[i].original;
	pthread_mutex_unlock(&hooks_lock);
	return original;
}

/* An object at the address of an ended one replaces it. */
static bool note_original(void *object, void *original)
{
	struct hook *place = NULL;

	pthread_mutex_lock(&hooks_lock);
	for (int i = MAX_HOOKS - 1; i >= 0; i--)
		if (hooks[i].object == object ||
		    (!hooks[i].object && (!place || place->object != object)))
			place = &hooks[i];
	if (place)
		*place = (struct hook){ object, original };
	pthread_mutex_unlock(&hooks_lock);
	return place != NULL;
}

static void time_first(uint64_t *since, unsigned long *ns, uint64_t now)
{
	uint64_t start = __atomic_load_n(since, __ATOMIC_RELAXED);

	if (!start || start == UINT64_MAX)
		return;
	if (__atomic_exchange_n(since, UINT64_MAX, __ATOMIC_RELAXED) != UINT64_MAX)
		count(ns, now - start);
}

static void was_posted(void)
{
	uint64_t now = now_ns();

	count(&counts.posted, 1);
	time_first(&asked_at, &counts.first_send_ns, now);
	time_first(&asked_gpu_at, &counts.first_send_gpu_ns, now);
	if (counts.posted <= 64)
		write_live();
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	int status = ((post_fn *)original_of(qp->context))(qp, wr, bad);

	was_posted();
	return status;
}

static int complete_send(struct ibv_qp_ex *qp)
{
	int status = ((complete_fn *)original_of(qp))(qp);

	was_posted();
	return status;
}

static void hook_sends(struct ibv_qp *qp)
{
	struct ibv_qp_ex *(*to_extended)(struct ibv_qp *) = next_definition("ibv_qp_to_qp_ex");
	struct ibv_qp_ex *extended = to_extended(qp);
	struct ibv_context_ops *ops = &qp->context->ops;

	if (ops->post_send != post_send && note_original(qp->context, (void *)ops->post_send))
		ops->post_send = post_send;
	if (extended && extended->wr_complete && extended->wr_complete != complete_send &&
	    note_original(extended, (void *)extended->wr_complete))
		extended->wr_complete = complete_send;
}

EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int (*next)(struct ibv_qp *, struct ibv_qp_attr *, int) = next_definition("ibv_modify_qp");
	int status = next(qp, attr, mask);

	if (!status && (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RTS)
		hook_sends(qp);
	return status;
}

/* ---- in front: requests ---- */

static int is_libfabric(struct dl_phdr_info *object, size_t size, void *argument)
{
	(void)size, (void)argument;
	return strstr(object->dlpi_name, "/libfabric.so") != NULL;
}

static void was_asked(bool gpu)
{
	uint64_t now = now_ns(), none = 0;

	count(&counts.asked, 1);
	__atomic_compare_exchange_n(&asked_at, &none, now, false, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
	if (!gpu)
		return;
	none = 0;
	count(&counts.asked_gpu, 1);
	count(&counts.asked_gpu_beside_libfabric, dl_iterate_phdr(is_libfabric, NULL));
	__atomic_compare_exchange_n(&asked_gpu_at, &none, now, false, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
}

/* Whether the program requests, and not libibverbs or peerpin. */
static bool enter_front(void)
{
	return !inside_front++ && !on_worker();
}

static struct ibv_mr *leave_front(struct ibv_mr *mr)
{
	inside_front--;
	return mr;
}

EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct ibv_mr *(*next)(struct ibv_pd *, void *, size_t, int) =
		next_definition("ibv_reg_mr");

	if (enter_front())
		was_asked(is_gpu_memory(addr));
	return leave_front(next(pd, addr, length, access));
}

EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				      int access)
{
	struct ibv_mr *(*next)(struct ibv_pd *, void *, size_t, uint64_t, int) =
		next_definition("ibv_reg_mr_iova");

	if (enter_front())
		was_asked(is_gpu_memory(addr));
	return leave_front(next(pd, addr, length, iova, access));
}

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				       unsigned int access)
{
	struct ibv_mr *(*next)(struct ibv_pd *, void *, size_t, uint64_t, unsigned int) =
		next_definition("ibv_reg_mr_iova2");

	if (enter_front())
		was_asked(is_gpu_memory(addr));
	return leave_front(next(pd, addr, length, iova, access));
}

/* A registered dma-buf is the GPU's. If libibverbs lacks the function (rdma-core before 34), a
 * caller gets the answer of a provider without it. */
EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
					uint64_t iova, int fd, int access)
{
	struct ibv_mr *(*next)(struct ibv_pd *, uint64_t, size_t, uint64_t, int, int) =
		next_if_any("ibv_reg_dmabuf_mr");

	if (!next) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (enter_front())
		was_asked(true);
	return leave_front(next(pd, offset, length, iova, fd, access));
}

/* ---- behind: calls into the kernel ---- */

EXPORT int ibv_cmd_alloc_pd(void *context, void *pd, void *cmd, size_t cmd_size, void *resp,
			    size_t resp_size)
{
	alloc_pd_fn *next = (alloc_pd_fn *)next_definition("ibv_cmd_alloc_pd");

	count(&counts.alloc_pd, 1);
	return next(context, pd, cmd, cmd_size, resp, resp_size);
}

EXPORT int ibv_cmd_dealloc_pd(void *pd)
{
	one_argument_fn *next = (one_argument_fn *)next_definition("ibv_cmd_dealloc_pd");
	int status = next(pd);

	count(status ? &counts.failed : &counts.dealloc_pd, 1);
	return status;
}

static int was_registered(int status, bool gpu, bool worker, uint64_t start)
{
	bool sent = __atomic_load_n(&counts.posted, __ATOMIC_RELAXED);

	if (status) {
		count(&counts.failed, 1);
		return status;
	}
	count(&counts.registered, 1);
	count(!gpu ? &counts.host : worker ? &counts.gpu_by_worker : &counts.gpu_by_program, 1);
	if (!worker && sent) {
		count(&counts.send_path, 1);
		count(&counts.send_path_gpu, gpu);
		count(&counts.send_path_ns, now_ns() - start);
	}
	write_live();
	return 0;
}

EXPORT int ibv_cmd_reg_mr(void *pd, void *addr, size_t length, uint64_t hca_va, int access,
			  void *vmr, void *cmd, size_t cmd_size, void *resp, size_t resp_size)
{
	reg_fn *next = (reg_fn *)next_definition("ibv_cmd_reg_mr");
	bool gpu = is_gpu_memory(addr), worker = on_worker();
	uint64_t start = now_ns();
	int status = next(pd, addr, length, hca_va, access, vmr, cmd, cmd_size, resp, resp_size);

	/* The kernel refuses remote write alone: peerpin's check of the library. */
	if (status && (access & IBV_ACCESS_REMOTE_WRITE) && !(access & IBV_ACCESS_LOCAL_WRITE))
		return status;
	return was_registered(status, gpu, worker, start);
}

EXPORT int ibv_cmd_reg_dmabuf_mr(void *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
				 int access, void *vmr, void *driver)
{
	reg_dmabuf_fn *next = (reg_dmabuf_fn *)next_definition("ibv_cmd_reg_dmabuf_mr");
	bool worker = on_worker();
	uint64_t start = now_ns();
	int status = next(pd, offset, length, iova, fd, access, vmr, driver);

	/* UCX and peerpin test by it whether the adapter supports dma-bufs. */
	if (status && fd < 0)
		return status;
	return was_registered(status, true, worker, start);
}

EXPORT int ibv_cmd_reg_mr_ex(void *pd, void *vmr, const struct extended *wanted)
{
	reg_ex_fn *next = (reg_ex_fn *)next_definition("ibv_cmd_reg_mr_ex");
	bool dma_buf = wanted->mask & EXTENDED_FD, worker = on_worker();
	bool gpu = dma_buf || is_gpu_memory(wanted->addr);
	uint64_t start = now_ns();
	int status = next(pd, vmr, wanted);

	if (status && dma_buf && wanted->fd < 0)
		return status;
	return was_registered(status, gpu, worker, start);
}

EXPORT int ibv_cmd_rereg_mr(void *vmr, uint32_t flags, void *addr, size_t length, uint64_t hca_va,
			    int access, void *pd, void *cmd, size_t cmd_size, void *resp,
			    size_t resp_size)
{
	rereg_fn *next = (rereg_fn *)next_definition("ibv_cmd_rereg_mr");

	count(&counts.reregistered, 1);
	return next(vmr, flags, addr, length, hca_va, access, pd, cmd, cmd_size, resp, resp_size);
}

EXPORT int ibv_cmd_dereg_mr(void *vmr)
{
	one_argument_fn *next = (one_argument_fn *)next_definition("ibv_cmd_dereg_mr");
	int status = next(vmr);

	count(status ? &counts.failed : &counts.deregistered, 1);
	return status;
}
