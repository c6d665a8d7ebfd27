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
 * first 64 work requests, for killed processes. The level of MPI_Pcontrol starts a phase, of which
 * the result has counts of its own.
 *
 * VERBS_WITNESS_TIMES: work requests and libfabric are not counted, because it takes time.
 * VERBS_WITNESS_US=N: a registration of GPU memory in the kernel takes N microseconds of a
 * processor longer, for a software adapter whose registrations are quicker than an adapter's.
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

#include <infiniband/verbs.h>

#include "stacks/verbs_witness.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define EXPORT	  __attribute__((visibility("default")))
#define MAX_HOOKS 64
#define GRANULE	  65536 /* peerpin registers whole ones */

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

struct witness_counts counts[PHASES];
struct first_send first_send[2];

static unsigned long posted;
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

static void was_posted(void)
{
	uint64_t now = now_ns();

	count(&NOW->posted, 1);
	for (int gpu = 0; gpu < 2; gpu++) {
		uint64_t start = __atomic_load_n(&first_send[gpu].asked_at, __ATOMIC_RELAXED);

		if (start && start != UINT64_MAX &&
		    __atomic_exchange_n(&first_send[gpu].asked_at, UINT64_MAX, __ATOMIC_RELAXED) !=
			    UINT64_MAX)
			count(&first_send[gpu].ns, now - start);
	}
	if (__atomic_add_fetch(&posted, 1, __ATOMIC_RELAXED) <= 64)
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

static bool only_times(void)
{
	return getenv("VERBS_WITNESS_TIMES") != NULL;
}

static void hook_sends(struct ibv_qp *qp)
{
	struct ibv_qp_ex *extended = NEXT(ibv_qp_to_qp_ex)(qp);
	struct ibv_context_ops *ops = &qp->context->ops;

	if (ops->post_send != post_send && note_original(qp->context, (void *)ops->post_send))
		ops->post_send = post_send;
	if (extended && extended->wr_complete && extended->wr_complete != complete_send &&
	    note_original(extended, (void *)extended->wr_complete))
		extended->wr_complete = complete_send;
}

EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int status = NEXT(ibv_modify_qp)(qp, attr, mask);

	if (!status && (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RTS && !only_times())
		hook_sends(qp);
	return status;
}

/* ---- in front: requests ---- */

static int is_libfabric(struct dl_phdr_info *object, size_t size, void *argument)
{
	(void)size, (void)argument;
	return strstr(object->dlpi_name, "/libfabric.so") != NULL;
}

/* The request in progress on this thread, for GPU memory, in whole granules: a query of the driver
 * inside it would be in its time. */
static __thread struct {
	uintptr_t address;
	size_t length;
} request;

/* Time of the program's request for GPU memory; 0: any other, also of libibverbs or peerpin. */
static uint64_t enter_front(const void *addr, size_t length, bool dma_buf)
{
	uint64_t now, none;
	bool gpu;

	if (inside_front++ || on_worker())
		return 0;
	gpu = dma_buf || is_gpu_memory(addr);
	count(&NOW->asked, 1);
	count(&NOW->asked_gpu, gpu);
	if (gpu && !only_times())
		count(&NOW->asked_gpu_beside_libfabric, dl_iterate_phdr(is_libfabric, NULL));
	if (gpu && !dma_buf) {
		request.address = (uintptr_t)addr / GRANULE * GRANULE;
		request.length = (uintptr_t)addr + length - request.address;
	}
	now = now_ns();
	for (int i = 0; i <= gpu; i++) {
		none = 0;
		__atomic_compare_exchange_n(&first_send[i].asked_at, &none, now, false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	}
	return gpu ? now : 0;
}

static struct ibv_mr *leave_front(uint64_t start, struct ibv_mr *mr)
{
	if (start) {
		count(&NOW->gpu_request_ns, now_ns() - start);
		request.length = 0;
	}
	inside_front--;
	return mr;
}

EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	typeof(&ibv_reg_mr) next = NEXT(ibv_reg_mr);
	uint64_t start = enter_front(addr, length, false);

	return leave_front(start, next(pd, addr, length, access));
}

EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				      int access)
{
	typeof(&ibv_reg_mr_iova) next = NEXT(ibv_reg_mr_iova);
	uint64_t start = enter_front(addr, length, false);

	return leave_front(start, next(pd, addr, length, iova, access));
}

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				       unsigned int access)
{
	typeof(&ibv_reg_mr_iova2) next = NEXT(ibv_reg_mr_iova2);
	uint64_t start = enter_front(addr, length, false);

	return leave_front(start, next(pd, addr, length, iova, access));
}

/* A registered dma-buf is the GPU's. If libibverbs lacks the function (rdma-core before 34), a
 * caller gets the answer of a provider without it. */
EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
					uint64_t iova, int fd, int access)
{
	typeof(&ibv_reg_dmabuf_mr) next = next_if_any("ibv_reg_dmabuf_mr");
	uint64_t start;

	if (!next) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	start = enter_front(NULL, length, true);
	return leave_front(start, next(pd, offset, length, iova, fd, access));
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

static int was_registered(int status, bool gpu, bool worker, uint64_t start, void *vmr)
{
	uint64_t ns;

	if (status) {
		count(&NOW->failed, 1);
		return status;
	}
	if (gpu)
		spend_added_time();
	ns = now_ns() - start;
	if (gpu)
		live_replace(NULL, vmr);
	count(&NOW->registered, 1);
	count(!gpu ? &NOW->host : worker ? &NOW->gpu_by_worker : &NOW->gpu_by_program, 1);
	if (gpu && !worker)
		count(&NOW->gpu_program_ns, ns);
	if (!worker && __atomic_load_n(&posted, __ATOMIC_RELAXED)) {
		count(&NOW->send_path, 1);
		count(&NOW->send_path_gpu, gpu);
		count(&NOW->send_path_ns, ns);
	}
	write_live();
	return 0;
}

EXPORT int ibv_cmd_reg_mr(void *pd, void *addr, size_t length, uint64_t hca_va, int access,
			  void *vmr, void *cmd, size_t cmd_size, void *resp, size_t resp_size)
{
	reg_fn *next = NEXT(ibv_cmd_reg_mr);
	bool gpu = (uintptr_t)addr - request.address < request.length || is_gpu_memory(addr);
	bool worker = on_worker();
	uint64_t start = now_ns();
	int status = next(pd, addr, length, hca_va, access, vmr, cmd, cmd_size, resp, resp_size);

	/* The kernel refuses remote write alone: peerpin's check of the library. */
	if (status && (access & IBV_ACCESS_REMOTE_WRITE) && !(access & IBV_ACCESS_LOCAL_WRITE))
		return status;
	return was_registered(status, gpu, worker, start, vmr);
}

EXPORT int ibv_cmd_reg_dmabuf_mr(void *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
				 int access, void *vmr, void *driver)
{
	reg_dmabuf_fn *next = NEXT(ibv_cmd_reg_dmabuf_mr);
	bool worker = on_worker();
	uint64_t start = now_ns();
	int status = next(pd, offset, length, iova, fd, access, vmr, driver);

	/* UCX and peerpin test by it whether the adapter supports dma-bufs. */
	if (status && fd < 0)
		return status;
	return was_registered(status, true, worker, start, vmr);
}

EXPORT int ibv_cmd_reg_mr_ex(void *pd, void *vmr, const struct extended *wanted)
{
	reg_ex_fn *next = NEXT(ibv_cmd_reg_mr_ex);
	bool dma_buf = wanted->mask & EXTENDED_FD, worker = on_worker();
	bool gpu = dma_buf || is_gpu_memory(wanted->addr);
	uint64_t start = now_ns();
	int status = next(pd, vmr, wanted);

	if (status && dma_buf && wanted->fd < 0)
		return status;
	return was_registered(status, gpu, worker, start, vmr);
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
