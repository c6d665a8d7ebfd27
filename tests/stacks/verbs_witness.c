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
#include <sys/prctl.h>
#include <unistd.h>

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

/* The first 3 are also in the file by phase. */
#define PHASE_COUNTS 3
#define WITNESS_COUNTS(X)                                                                          \
	X(gpu_by_program)                                                                          \
	X(gpu_by_worker)                                                                           \
	X(gpu_deregistrations)                                                                     \
	X(host)                                                                                    \
	X(alloc_pd)                                                                                \
	X(dealloc_pd)                                                                              \
	X(registered)                                                                              \
	X(deregistered)                                                                            \
	X(reregistered)                                                                            \
	X(failed)                                                                                  \
	X(asked)                                                                                   \
	X(asked_gpu)                                                                               \
	X(asked_gpu_beside_libfabric)

struct witness_counts {
#define X(name) unsigned long name;
	WITNESS_COUNTS(X)
#undef X
};

static struct witness_counts counts[PHASES]; /* changed atomically */
static int phase;			     /* changed atomically */
static __thread int inside_front; /* libibverbs' functions call each other by their public names */

/* ---- memory, threads and functions ---- */

#define MAX_LIVE	   8192
#define MEMORY_TYPE	   2 /* CU_POINTER_ATTRIBUTE_MEMORY_TYPE */
#define MEMORY_TYPE_DEVICE 2 /* CU_MEMORYTYPE_DEVICE */

typedef int attribute_fn(void *data, int attribute, unsigned long long ptr);

/* The next definition of a function of libibverbs behind the caller's own; aborts without one. A
 * macro, since dlsym depends on its caller. */
#define next_definition(name) witness_found(name, dlsym(RTLD_NEXT, name))
/* The same, or NULL without one. */
#define next_if_any(name) witness_sought(name, dlsym(RTLD_NEXT, name))

/* Open MPI loads libibverbs outside of RTLD_NEXT's scope. */
static void *witness_sought(const char *name, void *next)
{
	void *library;

	if (next)
		return next;
	library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
	return library ? dlsym(library, name) : NULL;
}

static void *witness_found(const char *name, void *next)
{
	next = witness_sought(name, next);
	if (!next) {
		fprintf(stderr, "witness: no %s behind this one\n", name);
		abort();
	}
	return next;
}

/* According to the loaded driver; false without one. */
static bool is_gpu_memory(const void *addr)
{
	void *cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
	attribute_fn *attribute;
	unsigned int type = 0;
	bool gpu;

	if (!cuda)
		return false;
	attribute = (attribute_fn *)dlsym(cuda, "cuPointerGetAttribute");
	gpu = attribute && !attribute(&type, MEMORY_TYPE, (uintptr_t)addr) &&
	      type == MEMORY_TYPE_DEVICE;
	dlclose(cuda);
	return gpu;
}

/* Whether this is a thread of peerpin's, by its name. */
static bool on_worker(void)
{
	char name[16] = "";

	prctl(PR_GET_NAME, name);
	return !strncmp(name, "peerpin", strlen("peerpin"));
}

static void *live_gpu[MAX_LIVE]; /* under live_lock */
static pthread_mutex_t live_lock = PTHREAD_MUTEX_INITIALIZER;

/* Replace one; `from` NULL: add `to`. False: `from` is none, or there is no room. */
static bool live_replace(void *from, void *to)
{
	bool found = false;

	pthread_mutex_lock(&live_lock);
	for (int i = 0; i < MAX_LIVE && !found; i++) {
		found = live_gpu[i] == from;
		if (found)
			live_gpu[i] = to;
	}
	pthread_mutex_unlock(&live_lock);
	return found;
}

/* ---- the file ---- */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* peerpin_statistic, sim_adapter_statistic */
typedef int statistic_fn(const char *name, uint64_t *value);

static const char *const names[] = {
#define X(name) #name,
	WITNESS_COUNTS(X)
#undef X
};

/* A process without GPU memory leaves no file of peerpin's. */
static const char *const peerpin_names[] = { "requests",      "hits",	"registrations",
					     "host_requests", "waited", "synchronous_queued" };
static const char *const sim_names[] = { "stale_keys", "stale_memory", "outlived" };

static int last_phase;
/* peerpin's, at the end of the phase */
static uint64_t noted[PHASES][COUNT(peerpin_names)];
static bool has_noted[PHASES];

static void write_number(FILE *file, const char *of, const char *name, uint64_t value)
{
	fprintf(file, ",\n  \"%s%s\": %llu", of, name, (unsigned long long)value);
}

EXPORT int MPI_Pcontrol(const int level, ...)
{
	statistic_fn *statistic = (statistic_fn *)dlsym(RTLD_DEFAULT, "peerpin_statistic");

	if (level >= PHASES) {
		/* Later counts would belong to another phase. */
		fprintf(stderr,
			"verbs_witness: there is room for %d phases, and none for phase %d\n",
			PHASES, level);
		abort();
	}
	if (level <= 0)
		return 0;
	has_noted[phase] = statistic != NULL;
	for (size_t i = 0; statistic && i < COUNT(peerpin_names); i++)
		if (statistic(peerpin_names[i], &noted[phase][i]))
			fprintf(stderr, "verbs_witness: peerpin counts no %s\n", peerpin_names[i]);
	__atomic_store_n(&phase, level, __ATOMIC_RELAXED);
	last_phase = level > last_phase ? level : last_phase;
	return 0;
}

static unsigned long count_of(int number, size_t i)
{
	return ((const unsigned long *)&counts[number])[i];
}

static unsigned long total_of(size_t i)
{
	unsigned long total = 0;

	for (int number = 0; number <= last_phase; number++)
		total += count_of(number, i);
	return total;
}

static void write_phase(FILE *file, int number)
{
	char of[24];

	snprintf(of, sizeof(of), "phase%d_", number);
	for (size_t i = 0; i < PHASE_COUNTS; i++)
		write_number(file, of, names[i], count_of(number, i));
	snprintf(of, sizeof(of), "phase%d_peerpin_", number);
	for (size_t i = 0; has_noted[number] && i < COUNT(peerpin_names); i++)
		write_number(file, of, peerpin_names[i], noted[number][i]);
}

static void write_statistics(FILE *file, statistic_fn *statistic, const char *of,
			     const char *const *wanted, size_t count)
{
	uint64_t value;

	for (size_t i = 0; statistic && i < count; i++)
		if (!statistic(wanted[i], &value))
			write_number(file, of, wanted[i], value);
}

static void write_counts(FILE *file)
{
	fprintf(file, "{\n  \"pid\": %d", (int)getpid());
	for (size_t i = 0; i < COUNT(names); i++)
		write_number(file, "", names[i], total_of(i));
	write_statistics(file, (statistic_fn *)dlsym(RTLD_DEFAULT, "peerpin_statistic"), "peerpin_",
			 peerpin_names, COUNT(peerpin_names));
	write_statistics(file, (statistic_fn *)next_if_any("sim_adapter_statistic"), "sim_",
			 sim_names, COUNT(sim_names));
	for (int number = 0; last_phase && number <= last_phase; number++)
		write_phase(file, number);
	fprintf(file, "\n}\n");
}

static bool has_counts(void)
{
	for (int number = 0; number <= last_phase; number++)
		if (counts[number].alloc_pd + counts[number].registered + counts[number].asked)
			return true;
	return false;
}

/* Atomic, even if the process is killed. */
static void write_result(void)
{
	const char *pattern = getenv("VERBS_WITNESS");
	char name[4096], partial[4200];
	FILE *file;

	if (!pattern || !has_counts())
		return;
	snprintf(name, sizeof(name), "%s.%d", pattern, (int)getpid());
	snprintf(partial, sizeof(partial), "%s-partial", name);
	file = fopen(partial, "w");
	if (!file) {
		perror(partial);
		return;
	}
	write_counts(file);
	fclose(file);
	if (rename(partial, name))
		perror(name);
}

/* For a process that may be killed; only with VERBS_WITNESS_LIVE. */
static void write_live(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	if (!getenv("VERBS_WITNESS_LIVE"))
		return;
	pthread_mutex_lock(&lock);
	write_result();
	pthread_mutex_unlock(&lock);
}

static __attribute__((destructor)) void write_at_exit(void)
{
	write_result();
}

/* ---- counting ---- */

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
	if (gpu && !getenv("VERBS_WITNESS_TIMES"))
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
