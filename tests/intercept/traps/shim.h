/* SPDX-License-Identifier: BSD-3-Clause */
/* shim.h -- a driver that tells how it is called, and lets a test look on while it is */
#ifndef PEERPIN_TESTS_SHIM_H
#define PEERPIN_TESTS_SHIM_H

#include "memory/cuda_abi.h"

struct shim {
	unsigned int inits, allocations, frees, queries, settings, exports;
	/* Called by the driver inside the call of that name; NULL: nothing. */
	void (*in_allocate)(void);
	void (*in_free)(void);
};

extern struct shim shim;

#endif
