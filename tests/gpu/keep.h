/* SPDX-License-Identifier: BSD-3-Clause */
/* keep.h -- for the programs of tests/gpu/keep: work that writes to memory for some time */
#ifndef PEERPIN_TESTS_GPU_KEEP_H
#define PEERPIN_TESTS_GPU_KEEP_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "memory/cuda_abi.h"

#define SKIPPED	     77
#define NON_BLOCKING 1 /* CU_STREAM_NON_BLOCKING */

#define must_cuda(call)                                                                            \
	do {                                                                                       \
		int result_ = (int)(call);                                                         \
		if (result_) {                                                                     \
			printf("not ok %s, line %d: %s: error %d\n", __FILE__, __LINE__, #call,    \
			       result_);                                                           \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* Load the kernel into the current context. False: this driver has no kernels. On the simulated
 * driver a thread stands in for the kernel. */
bool work_load(void);

/* Launch work that writes `value` to all `words` at `to`, again and again until `ns` have passed.
 * It leaves most of the GPU to others. */
void work_launch(CUstream stream, uint64_t to, uint64_t words, unsigned int value, uint64_t ns);

#endif
