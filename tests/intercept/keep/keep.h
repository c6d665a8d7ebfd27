/* SPDX-License-Identifier: BSD-3-Clause */
/* keep.h -- tests of kept memory, each in a process of its own under the preload
 *
 * The runner is ends.c. `raw` are the driver's own functions, which bypass peerpin: memory is kept
 * if the program has freed it and raw still reports its BUFFER_ID.
 */
#ifndef PEERPIN_TESTS_KEEP_H
#define PEERPIN_TESTS_KEEP_H

#include "../ends/ends.h"

#define KEEP	    "PEERPIN_KEEP=64M PEERPIN_KEEP_HOST=64M"
#define KEEP_VERIFY KEEP " PEERPIN_VERIFY=1"
#define MIB	    ((size_t)1 << 20)

struct functions {
#define FUNCTION(symbol, ...) CUresult (*symbol)(__VA_ARGS__);
#include "memory/cuda_abi.def"
#undef FUNCTION
};

extern struct functions raw; /* the driver's own */

extern const struct test call_tests[], pressure_tests[], context_tests[], event_tests[],
	region_tests[], pool_tests[];

/* The driver and a context, without an adapter. */
void begin(void);

/* BUFFER_ID of the memory at the address, from the driver; 0: none. */
uint64_t tag(CUdeviceptr address);
/* The same, from the client's function: 0 at freed memory. */
uint64_t query_tag(CUdeviceptr address);

static inline CUdeviceptr address_of(const void *host)
{
	return (CUdeviceptr)(uintptr_t)host;
}

static inline void *pointer_to(CUdeviceptr address)
{
	return (void *)(uintptr_t)address;
}

/* cuMemHostAlloc and cuMemFreeHost, or cuMemAlloc and cuMemFree. */
CUdeviceptr obtain(bool host, size_t size);
void give_up(bool host, CUdeviceptr address);

/* Allocate, free, and return the address of kept memory. */
CUdeviceptr keep(size_t size);
CUdeviceptr keep_host(size_t size);

/* Bytes of free memory of the current device, from the driver. */
size_t free_bytes(void);

/* Release all kept memory: for an allocation that the driver refuses. */
void release_all(void);

/* No memory is kept, and peerpin has found nothing wrong. */
void expect_no_kept(void);
void expect_no_errors(void);

#endif
