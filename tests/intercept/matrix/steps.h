/* SPDX-License-Identifier: BSD-3-Clause */
/* steps.h -- what the tests of the rows are made of: the way under test, the driver around it, and
 * the counters */
#ifndef PEERPIN_TESTS_STEPS_H
#define PEERPIN_TESTS_STEPS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "rows.h"

#define UNIT ((size_t)2 << 20)
#define SIZE ((size_t)100000)

/* The driver as a client finds it by dlsym. */
struct driver {
#define FUNCTION(symbol, ...) CUresult (*symbol)(__VA_ARGS__);
#include "memory/cuda_abi.def"
#undef FUNCTION
};

extern struct driver driver;
extern CUdevice device;
extern const struct functions *f; /* the way under test */

/* A counter of the library's. */
uint64_t count(const char *name);

/* The driver's function, past the library: to do something unseen. */
void *past(const char *symbol);

/* Runs it in a context of the interface before CUDA 3.2. */
bool in_old_context(bool (*run)(void));

/* Ends the process that exports memory, if it was begun. */
void end_exporter(void);

#define OK(call) ((call) == CUDA_SUCCESS)

/* A step that has to succeed before anything can be said of the row. */
#define NEED(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			printf("line %d: %s\n", __LINE__, #condition);                             \
			return false;                                                              \
		}                                                                                  \
	} while (0)

/* What cannot be made with this driver is neither right nor wrong. */
void skip(const char *why);

#define SKIP(why)                                                                                  \
	do {                                                                                       \
		skip(why);                                                                         \
		return true;                                                                       \
	} while (0)

/* Whether the counter rises by one when `call` is made, and the call succeeds. */
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

/* One for each row; a row without its test does not link. */
#define ENTRY_CUDA(symbol, ...) bool test_##symbol(void);
#include "intercept/entry_points.def"
#undef ENTRY_CUDA

#endif
