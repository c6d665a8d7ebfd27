/* SPDX-License-Identifier: BSD-3-Clause */
/* standin.h -- what stands below and beside the layers in unit tests: a driver and an adapter of
 * variables
 *
 * The driver knows one allocation for each entry of standin_memory; the adapter counts what is
 * registered, and fails, delays or blocks as told. Everything is reset by standin_reset().
 */
#ifndef PEERPIN_TESTS_STANDIN_H
#define PEERPIN_TESTS_STANDIN_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/driver.h"
#include "memory/memory.h"
#include "registration/registration.h"

/* ---- driver ---- */

/* The driver knows this memory from now on; returns its BUFFER_ID. */
uint64_t standin_allocate(uint64_t base, uint64_t size, CUcontext context, bool rdma_capable);
/* It no longer does. */
void standin_free(uint64_t base);
/* Answers in the driver's place, if it is not NULL: for more memory than the driver of variables
 * holds. */
extern CUresult (*standin_attributes)(unsigned int count, CUpointer_attribute *attributes,
				      void **data, CUdeviceptr address);
/* What the layers call of the driver and of libibverbs: tests add functions of their own. */
extern struct driver_calls standin_driver;
extern struct verbs_calls standin_verbs;
/* How often SYNC_MEMOPS was set. */
unsigned int standin_sync_memops(void);

/* ---- subscriber: counts what it hears, and passes it on to the registration layer if told ---- */

struct standin_events {
	_Atomic unsigned int allocated, freeing;
	struct allocation last_allocated, last_freeing;
};
extern struct standin_events standin_events;
extern bool standin_with_registration;

/* ---- adapter ---- */

extern const struct registration_method standin_method;

unsigned int standin_registered(void);	  /* memory regions at this moment */
unsigned int standin_registrations(void); /* since the reset */
bool standin_covers(uint32_t key,
		    uint64_t address); /* a living region with this key holds the address */
unsigned int standin_attempts(void);   /* the same, with those that failed */
void standin_limit(uint64_t bytes);    /* ENOMEM beyond so many registered at once; 0: no limit */
void standin_fail_with(int error);     /* 0: succeed again */

/* Registrations block until released; standin_await_blocked waits until `count` of them do. */
void standin_block(bool blocked);
void standin_await_blocked(unsigned int count);

/* The same for deregistrations. */
void standin_block_unpin(bool blocked);
void standin_await_blocked_unpin(void);

/* Aborts the test if the caller holds one of the layers' locks: what the stand-ins do at each call.
 * For functions that tests add. */
void standin_called(void);

void standin_reset(void);

#endif
