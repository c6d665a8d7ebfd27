/* SPDX-License-Identifier: BSD-3-Clause */
/* ends.h -- tests of how registrations end, each in a process of its own under the preload
 *
 * The simulated adapter holds registrations until a test releases them, so frees meet regions in
 * flight. `until` waits for a condition; TIME_OUT kills a test that never meets it.
 */
#ifndef PEERPIN_TESTS_ENDS_H
#define PEERPIN_TESTS_ENDS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "memory/cuda_abi.h"
#include "sim/adapter_verbs.h"
#include "sim/sim_adapter.h"

#include "../../worker_thread.h"

#define SIZE   ((size_t)1 << 20)
#define UNIT   ((size_t)2 << 20)
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

/* Delay in µs; a correct library passes also after its end. */
#define WHILE	 ((uint64_t)1000000)
#define TIME_OUT 300 /* seconds */

#define require(condition)                                                                         \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)
#define require_cuda(call) require((call) == CUDA_SUCCESS)
#define until(condition)                                                                           \
	do {                                                                                       \
		while (!(condition))                                                               \
			nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);                  \
	} while (0)

struct test {
	void (*run)(unsigned int variant);
	const char *name;
	unsigned int variant;
	const char *settings; /* NAME=VALUE ... of the environment */
	int ends;	      /* exit status; below 0: signal */
	int cpu;	      /* 1: bound to one CPU */
};

/* A row of a list: the test exits with status 0. */
#define TEST(test, variant, settings)                                                              \
	{                                                                                          \
		test, #test, variant, settings, 0, 0                                               \
	}

/* Tests of each file, the last without a name. The program defines the list. */
extern const struct test *const test_files[];
extern const struct test memory_tests[], domain_tests[], process_tests[], exit_tests[],
	thread_tests[], worker_tests[], setting_tests[], client_tests[], primary_tests[],
	expected_tests[], export_tests[];

extern struct ibv_context *device;
extern struct ibv_pd *pd;
extern CUcontext context;

/* Counters: the adapter's and the library's. */
uint64_t sim(const char *name);
uint64_t own(const char *name);
void set(const char *name, uint64_t value);

/* A GPU with a context, and protection domain `pd` on the first adapter. */
void set_up(void);
struct ibv_context *open_device(int number);
CUdeviceptr allocate(size_t size);
struct ibv_mr *registered_in(struct ibv_pd *where, CUdeviceptr address, size_t length, int access);
struct ibv_mr *registered(CUdeviceptr address);
/* can_read() aborts if the key has ended; cannot_read() does not. */
bool can_read(uint32_t key, CUdeviceptr address);
bool cannot_read(uint32_t key, CUdeviceptr address);

/* Registrations that the adapter began. */
uint64_t begun(void);

/* Register client memory: enables background registration. */
void activate(void);

/* activate(), then wait until the worker is inside the registration of the returned memory. The
 * adapter's setting is "hold" or "delay". */
CUdeviceptr occupy_worker(const char *setting, uint64_t value);

/* Release held registrations once the calling thread waits. */
void let_go_when_waiting(void);

/* From /proc. An idle worker ends. False: the thread has ended. */
bool task_line(pid_t thread, const char *key, char *value, size_t size);
bool is_waiting(pid_t thread);

/* A thread that registers `address` and waits for the region. */
struct waiter {
	pthread_t thread;
	CUdeviceptr address;
	_Atomic pid_t id;
	struct ibv_mr *mr;
	_Atomic bool done;
};
void begin_waiter(struct waiter *waiter, CUdeviceptr address);

int await_child(pid_t child);

/* Execute the test again, as a program of that name: peerpin copies name and settings at the start
 * of a program. */
void run_again(const char *program);

/* Return a new folder, in a program whose statistics are in its file "results" and whose runtime
 * folder is below. The first call executes the test again. */
const char *with_files(void);
/* False also if the folder has no such file. */
bool file_contains(const char *name, const char *text);
void remove_files(void);

#endif
