/* SPDX-License-Identifier: BSD-3-Clause */
/* steps.h -- parts of the rows' tests: the path under test, the driver around it, the counters */
#ifndef PEERPIN_TESTS_STEPS_H
#define PEERPIN_TESTS_STEPS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "rows.h"

#define UNIT ((size_t)2 << 20)

struct driver {
#define FUNCTION(symbol, ...) CUresult (*symbol)(__VA_ARGS__);
#include "memory/cuda_abi.def"
#undef FUNCTION
};

extern struct driver driver;
extern CUdevice device;
extern const struct functions *f; /* path under test */

/* At exit, and without PEERPIN_KEEP. */
bool keeps_nothing(void);

uint64_t count(const char *name);

/* The driver's function: a bypassing call. */
void *bypass(const char *symbol);

/* All multiprocessors of the GPU, for a green context. */
CUresult describe_resource(CUdevResourceDesc *description);

/* Memory of another process; false: there is none. */
bool get_handle(CUipcMemHandle *handle);

#define OK(call) ((call) == CUDA_SUCCESS)

/* Precondition of a row. */
#define NEED(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			printf("line %d: %s\n", __LINE__, #condition);                             \
			return false;                                                              \
		}                                                                                  \
	} while (0)

/* Not supported by this driver: neither passed nor failed. */
void skip(const char *why);

#define SKIP(why)                                                                                  \
	do {                                                                                       \
		skip(why);                                                                         \
		return true;                                                                       \
	} while (0)

/* Whether `call` succeeds and raises the counter by one. */
#define RISES(counter, call)                                                                       \
	({                                                                                         \
		uint64_t before_ = count(counter);                                                 \
		bool ok_ = OK(call);                                                               \
		uint64_t after_ = count(counter);                                                  \
		if (!ok_ || after_ != before_ + 1)                                                 \
			printf("line %d: %s: %s, %s rose by %d\n", __LINE__, #call,                \
			       ok_ ? "done" : "failed", counter, (int)(after_ - before_));         \
		ok_ &&after_ == before_ + 1;                                                       \
	})

/* One for each row; a missing one does not link. */
#define ENTRY_CUDA(symbol, ...) bool test_##symbol(void);
#include "intercept/entry_points.def"
#undef ENTRY_CUDA

#endif
