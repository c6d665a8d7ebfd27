/* SPDX-License-Identifier: BSD-3-Clause */
/* standin.h -- stand-ins of driver and adapter for unit tests
 *
 * The driver has one allocation for each standin_allocate(). The adapter counts registrations;
 * tests make it fail or block. standin_reset() resets everything.
 */
#ifndef PEERPIN_TESTS_STANDIN_H
#define PEERPIN_TESTS_STANDIN_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/driver.h"
#include "memory/memory.h"
#include "registration/methods.h"

/* ---- driver ---- */

/* Add memory to the driver; returns its BUFFER_ID. */
uint64_t standin_allocate(uint64_t base, uint64_t size, CUcontext context, bool rdma_capable);
/* Make the driver report all attributes of the memory: its range, GPU and type. */
void standin_describe(uint64_t base, int device, bool host);
CUcontext standin_context(uint64_t base);
/* Remove memory from the driver. */
void standin_free(uint64_t base);
/* If not NULL, answers instead of the driver, for more memory than the driver has. */
extern CUresult (*standin_attributes)(unsigned int count, CUpointer_attribute *attributes,
				      void **data, CUdeviceptr address);
/* The driver's and libibverbs' functions for the layers; tests add further ones. */
extern struct driver_calls standin_driver;
extern struct verbs_calls standin_verbs;
/* Calls that set SYNC_MEMOPS. */
unsigned int standin_sync_memops(void);

/* ---- events: counted, and forwarded if standin_with_registration ---- */

struct standin_events {
	_Atomic unsigned int allocated, freeing;
	struct allocation last_allocated, last_freeing;
};
extern struct standin_events standin_events;
extern struct standin_events standin_program_events; /* of the program's events */
extern bool standin_with_registration;
/* Called, unless NULL, between the end of a record and registration_freeing(). */
extern void (*standin_in_freeing)(void);

/* The last allocations are not stored, since threads allocate and free. */
extern bool standin_with_threads;

/* ---- adapter ---- */

extern const struct registration_method standin_method;

unsigned int standin_registered(void);	  /* live regions */
unsigned int standin_registrations(void); /* since the reset */
bool standin_covers(uint32_t key,
		    uint64_t address); /* a live region with this key holds the address */
unsigned int standin_attempts(void);   /* registrations, failed ones included */
void standin_limit(uint64_t bytes);    /* ENOMEM beyond `bytes` registered; 0: no limit */
void standin_fail_with(int error);     /* errno of registrations; 0: success */

/* Registrations block until released, or those of one base alone; 0: none.
 * standin_await_blocked waits until `count` of them do. */
void standin_block(bool blocked);
void standin_block_at(uint64_t base);
void standin_await_blocked(unsigned int count);

/* Deregistrations block until released. */
void standin_block_unpin(bool blocked);
void standin_await_blocked_unpin(void);

/* Abort if the caller holds a lock of the layers, as each mock function does. For functions that
 * tests add. */
void standin_called(void);

/* False at the process's limit of memory; true under Valgrind, which does not enforce one. */
bool standin_more_memory(void);

void standin_reset(void);
void standin_adapter_reset(void); /* called by standin_reset() */

#endif
