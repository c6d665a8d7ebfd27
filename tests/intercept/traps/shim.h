/* SPDX-License-Identifier: BSD-3-Clause */
/* shim.h -- a driver that records its calls */
#ifndef PEERPIN_TESTS_SHIM_H
#define PEERPIN_TESTS_SHIM_H

#include <stdbool.h>

#include "memory/cuda_abi.h"

struct shim {
	bool finds_itself; /* its look-up of its own function returned that function */
	unsigned int inits, allocations, frees, queries, settings, exports;
};

extern struct shim shim;

#endif
