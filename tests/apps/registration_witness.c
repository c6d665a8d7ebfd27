/* SPDX-License-Identifier: BSD-3-Clause */
/* registration_witness.c -- counts the registrations that reach the kernel (a preload)
 *
 * It intercepts the calls of libibverbs' providers into libibverbs, behind any other preload: it
 * intercepts forwarded ones only. In front, where clients call libibverbs, it measures the time of
 * their requests for GPU memory. Of peerpin it uses the prefix "peerpin" of worker threads' names.
 *
 * REGISTRATION_WITNESS=FILE names the result, written at exit as FILE.RANK (or FILE.PID) by a
 * process that registered or called MPI_Pcontrol. The latter's level starts a phase; peerpin's own
 * statistics, if loaded, are recorded for the phase that ended.
 *
 * REGISTRATION_WITNESS_US=N: a registration of GPU memory in the kernel takes N microseconds of a
 * processor longer, for a software adapter whose registrations are quicker than an adapter's.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "apps/witness.h"

#define EXPORT	 __attribute__((visibility("default")))
#define PHASES	 2048
#define MAX_LIVE 8192

typedef int reg_fn(void *pd, void *addr, size_t length, uint64_t hca_va, int access, void *vmr,
		   void *cmd, size_t cmd_size, void *resp, size_t resp_size);
typedef int reg_dmabuf_fn(void *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
			  int access, void *vmr, void *driver);
typedef int dereg_fn(void *vmr);
typedef void *front_fn(void *pd, void *addr, size_t length, int access);
typedef void *front_iova_fn(void *pd, void *addr, size_t length, uint64_t iova,
			    unsigned int access);

typedef int statistic_fn(const char *name, uint64_t *value); /* peerpin_statistic */

reg_fn ibv_cmd_reg_mr;
reg_dmabuf_fn ibv_cmd_reg_dmabuf_mr;
dereg_fn ibv_cmd_dereg_mr;
front_fn ibv_reg_mr;
front_iova_fn ibv_reg_mr_iova2;
int MPI_Pcontrol(const int level, ...);

struct counts {
	unsigned long gpu_by_program;
	unsigned long gpu_by_worker;
	unsigned long gpu_program_ns;
	unsigned long gpu_deregistrations;
	unsigned long gpu_requests;
	unsigned long gpu_request_ns;
	unsigned long other;
};

static const char *const noted_names[] = { "requests",		 "hits",	"waited",
					   "synchronous_queued", "synchronous", "bypassed" };
#define NOTED (sizeof(noted_names) / sizeof(noted_names[0]))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct counts counts[PHASES]; /* under lock, as all below */
static int phase, last_phase = 1;
static bool saw_anything;
static void *live_gpu[MAX_LIVE];
static unsigned long live_lost;
static uint64_t noted[PHASES][NOTED];
static bool has_noted[PHASES]; /* peerpin's, at the end of the phase */

static void remember(void *vmr)
{
	for (int i = 0; i < MAX_LIVE; i++) {
		if (!live_gpu[i]) {
			live_gpu[i] = vmr;
			return;
		}
	}
	live_lost++;
}

static bool forget(void *vmr)
{
	for (int i = 0; i < MAX_LIVE; i++) {
		if (live_gpu[i] == vmr) {
			live_gpu[i] = NULL;
			return true;
		}
	}
	return false;
}

/* The next definition, looked up once: a look-up takes longer than a request that hits. */
#define NEXT(type, name)                                                                           \
	({                                                                                         \
		static type *_Atomic known;                                                        \
		if (!known)                                                                        \
			known = (type *)next_definition(#name);                                    \
		known;                                                                             \
	})

/* ---- in front ---- */

#define GRANULE 65536 /* peerpin registers whole ones */

/* The request in progress on this thread, for GPU memory, in whole granules: a query of the driver
 * inside it would be in its time. */
static __thread struct {
	uintptr_t address;
	size_t length;
} request;

static bool is_requested(const void *addr)
{
	return (uintptr_t)addr - request.address < request.length;
}

static uint64_t begin_request(const void *addr, size_t length)
{
	if (!is_gpu_memory(addr))
		return 0;
	request.address = (uintptr_t)addr / GRANULE * GRANULE;
	request.length = (uintptr_t)addr + length - request.address;
	return now_ns();
}

static void end_request(uint64_t start)
{
	uint64_t ns = now_ns() - start;

	if (!start)
		return;
	request.length = 0;
	pthread_mutex_lock(&lock);
	counts[phase].gpu_requests++;
	counts[phase].gpu_request_ns += ns;
	pthread_mutex_unlock(&lock);
}

EXPORT void *ibv_reg_mr(void *pd, void *addr, size_t length, int access)
{
	front_fn *next = NEXT(front_fn, ibv_reg_mr);
	uint64_t start = begin_request(addr, length);
	void *mr = next(pd, addr, length, access);

	end_request(start);
	return mr;
}

EXPORT void *ibv_reg_mr_iova2(void *pd, void *addr, size_t length, uint64_t iova,
			      unsigned int access)
{
	front_iova_fn *next = NEXT(front_iova_fn, ibv_reg_mr_iova2);
	uint64_t start = begin_request(addr, length);
	void *mr = next(pd, addr, length, iova, access);

	end_request(start);
	return mr;
}

/* ---- behind ---- */

/* Time of the thread on a processor. */
static uint64_t thread_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static void spend_added_time(void)
{
	const char *added = getenv("REGISTRATION_WITNESS_US");
	uint64_t until;

	if (!added)
		return;
	until = thread_ns() + strtoull(added, NULL, 10) * 1000;
	while (thread_ns() < until)
		;
}

static int was_registered(int status, bool gpu, bool worker, uint64_t start, void *vmr)
{
	struct counts *now;
	uint64_t ns;

	if (gpu && !status)
		spend_added_time();
	ns = now_ns() - start;

	pthread_mutex_lock(&lock);
	now = &counts[phase];
	saw_anything = true;
	if (!gpu) {
		now->other++;
	} else if (worker) {
		now->gpu_by_worker++;
	} else {
		now->gpu_by_program++;
		now->gpu_program_ns += ns;
	}
	if (gpu && !status)
		remember(vmr);
	pthread_mutex_unlock(&lock);
	return status;
}

EXPORT int ibv_cmd_reg_mr(void *pd, void *addr, size_t length, uint64_t hca_va, int access,
			  void *vmr, void *cmd, size_t cmd_size, void *resp, size_t resp_size)
{
	reg_fn *next = NEXT(reg_fn, ibv_cmd_reg_mr);
	bool gpu = is_requested(addr) || is_gpu_memory(addr), worker = on_worker();
	uint64_t start = now_ns();
	int status;

	status = next(pd, addr, length, hca_va, access, vmr, cmd, cmd_size, resp, resp_size);
	return was_registered(status, gpu, worker, start, vmr);
}

/* Of GPU memory. UCX and peerpin test by a descriptor of -1 whether the adapter supports it. */
EXPORT int ibv_cmd_reg_dmabuf_mr(void *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
				 int access, void *vmr, void *driver)
{
	reg_dmabuf_fn *next = NEXT(reg_dmabuf_fn, ibv_cmd_reg_dmabuf_mr);
	bool worker = on_worker();
	uint64_t start = now_ns();
	int status = next(pd, offset, length, iova, fd, access, vmr, driver);

	return fd < 0 ? status : was_registered(status, true, worker, start, vmr);
}

EXPORT int ibv_cmd_dereg_mr(void *vmr)
{
	dereg_fn *next = NEXT(dereg_fn, ibv_cmd_dereg_mr);
	bool known;
	int status;

	/* Before the call: afterwards another thread may get a registration at this address. */
	pthread_mutex_lock(&lock);
	known = forget(vmr);
	pthread_mutex_unlock(&lock);

	status = next(vmr);

	pthread_mutex_lock(&lock);
	if (known && status)
		remember(vmr);
	else if (known)
		counts[phase].gpu_deregistrations++;
	pthread_mutex_unlock(&lock);
	return status;
}

static void note_statistics(void)
{
	statistic_fn *statistic = (statistic_fn *)dlsym(RTLD_DEFAULT, "peerpin_statistic");

	if (!statistic)
		return;
	has_noted[phase] = true;
	for (size_t i = 0; i < NOTED; i++)
		if (statistic(noted_names[i], &noted[phase][i]))
			fprintf(stderr, "registration_witness: peerpin counts no %s\n",
				noted_names[i]);
}

EXPORT int MPI_Pcontrol(const int level, ...)
{
	pthread_mutex_lock(&lock);
	saw_anything = true;
	if (level >= PHASES) {
		/* Later counts would belong to another phase. */
		fprintf(stderr,
			"registration_witness: there is room for %d phases, and none for phase "
			"%d\n",
			PHASES, level);
		abort();
	}
	if (level > 0) {
		note_statistics();
		phase = level;
		last_phase = level > last_phase ? level : last_phase;
	}
	pthread_mutex_unlock(&lock);
	return 0;
}

static void write_counts(FILE *file)
{
	unsigned long live = live_lost;

	for (int i = 0; i < MAX_LIVE; i++)
		live += live_gpu[i] != NULL;
	fprintf(file, "{\n");
	for (int i = 0; i <= last_phase; i++) {
		fprintf(file, "  \"phase%d_gpu_by_program\": %lu,\n", i, counts[i].gpu_by_program);
		fprintf(file, "  \"phase%d_gpu_by_worker\": %lu,\n", i, counts[i].gpu_by_worker);
		fprintf(file, "  \"phase%d_gpu_program_ns\": %lu,\n", i, counts[i].gpu_program_ns);
		fprintf(file, "  \"phase%d_gpu_deregistrations\": %lu,\n", i,
			counts[i].gpu_deregistrations);
		fprintf(file, "  \"phase%d_gpu_requests\": %lu,\n", i, counts[i].gpu_requests);
		fprintf(file, "  \"phase%d_gpu_request_ns\": %lu,\n", i, counts[i].gpu_request_ns);
		fprintf(file, "  \"phase%d_other\": %lu,\n", i, counts[i].other);
		for (size_t j = 0; has_noted[i] && j < NOTED; j++)
			fprintf(file, "  \"phase%d_peerpin_%s\": %llu,\n", i, noted_names[j],
				(unsigned long long)noted[i][j]);
	}
	fprintf(file, "  \"gpu_registered_at_exit\": %lu\n}\n", live);
}

static __attribute__((destructor)) void write_result(void)
{
	const char *pattern = getenv("REGISTRATION_WITNESS");
	const char *rank = getenv("OMPI_COMM_WORLD_RANK");
	char name[4096], pid[24];
	FILE *file;

	if (!pattern || !saw_anything)
		return;
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	snprintf(name, sizeof(name), "%s.%s", pattern, rank ? rank : pid);
	file = fopen(name, "w");
	if (!file) {
		perror(name);
		return;
	}
	write_counts(file);
	fclose(file);
}
