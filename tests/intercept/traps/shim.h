/* SPDX-License-Identifier: BSD-3-Clause */
/* shim.h -- a driver that tells how it is called, and lets a test look on while it is */
#ifndef PEERPIN_TESTS_SHIM_H
#define PEERPIN_TESTS_SHIM_H

#include <stdbool.h>

#include "memory/cuda_abi.h"

struct shim {
	bool finds_itself; /* its own look-up of its own function gave that function */
	unsigned int inits, allocations, frees, queries, settings, exports;
	/* Called by the driver inside the call of that name; NULL: nothing. */
	void (*in_allocate)(void);
	void (*in_free)(void);
};

extern struct shim shim;

#endif
