/* SPDX-License-Identifier: BSD-3-Clause */
/* driver.h -- the driver under test, with functions looked up as by clients: dlopen and dlsym */
#ifndef PEERPIN_TESTS_DRIVER_H
#define PEERPIN_TESTS_DRIVER_H

#include <stdbool.h>

#include "memory/cuda_abi.h"
#include "unit/suite.h"

struct driver {
#define FUNCTION(symbol, ...) CUresult (*symbol)(__VA_ARGS__);
#include "memory/cuda_abi.def"
#undef FUNCTION
};

extern struct driver driver;
extern CUdevice device; /* the first GPU */

/* Open libcuda.so.1 and print its version; false: no driver, or no GPU. */
bool driver_open(void);

/* True if peerpin is preloaded and keeps freed memory. The tests state the differences: kept memory
 * has its BUFFER_ID and its address again, and other memory is elsewhere. */
bool driver_keeps(void);
uint64_t driver_reused_in_tests(void); /* only if it keeps memory */

/* Results before cuInit. */
extern struct before_init {
	CUresult count, allocate, range, no_range, query, list;
} before_init;

/* The driver leaves the process when it is closed before cuInit; after cuInit. */
extern struct leaves {
	bool before_init, after_init;
} leaves;

/* Results of the old interface in its own context, the first of the process. */
extern struct old_interface {
	unsigned int version, type;
	CUresult query_list, range, allocate, query, free, free_nothing, free_unknown,
		allocate_today;
} old_interface;

/* A context for the test, current; destroyed at its end. */
extern CUcontext context;
void context_set_up(void);
void context_tear_down(void);

#define ck_cuda(call) ck_assert_int_eq((call), CUDA_SUCCESS)

CUdeviceptr allocate(size_t size);
uint64_t buffer_id(CUdeviceptr address);
CUresult query_buffer_id(CUdeviceptr address);

/* All pointer attributes of an address. */
struct attributes {
	CUcontext context;
	unsigned int type, managed, ipc_capable, rdma_capable, mapped;
	int device;
	uint64_t id;
	CUdeviceptr range_base;
	size_t range_size;
	CUmemoryPool pool;
};
struct attributes attributes_of(CUdeviceptr address);

/* A process forked before cuInit: it allocates, exports, and exits with this one. */
struct exporter {
	CUipcMemHandle handle;
	CUipcEventHandle event;
	CUdeviceptr address;
	bool works;
};
void exporter_begin(void);
const struct exporter *exporter_ask(void);

TCase *captures_tests(void);
TCase *modules_tests(void);

#endif
