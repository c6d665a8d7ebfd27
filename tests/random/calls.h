/* SPDX-License-Identifier: BSD-3-Clause */
/* calls.h -- the actions of a client: the library's calls and the driver's part, in the intercept
 * layer's order, each answer compared with the model */
#ifndef PEERPIN_TESTS_RANDOM_CALLS_H
#define PEERPIN_TESTS_RANDOM_CALLS_H

#include "random/model.h"

/* ---- memory (events.c) ---- */

void call_allocate(struct client *client, bool own, uint64_t size, enum allocation_kind kind,
		   CUcontext context, bool rdma_capable);
void call_take_offer(unsigned int thread); /* frees this thread's allocation in progress, if any */
void call_free(struct client *client, struct model_memory *memory, bool refused);
void call_end_context(struct client *client, CUcontext context, bool refused);
void call_map(struct client *client, unsigned int first, unsigned int blocks, bool rdma_capable);
void call_unmap(struct client *client, uint64_t base, uint64_t size, bool refused);
void call_set_access(struct client *client, struct model_memory *memory, bool accessible);

/* ---- protection domains and devices (events.c) ---- */

void call_open_pd(struct client *client, unsigned int which, bool own_device);
void call_close_pd(struct client *client, unsigned int which);
void call_close_device(struct client *client);

/* ---- registrations (calls.c) ---- */

/* Register for `handle`. `pd`: one of the client's; PDS_OF_ONE: one that is not open. An earlier
 * registration of the handle is deregistered first; with `over` it was dropped without a call. */
void call_request(struct client *client, unsigned int handle, bool over, unsigned int pd,
		  bool by_parent, uint64_t address, uint64_t length, uint64_t iova, int access);
void call_drop(struct client *client, unsigned int handle);

/* By a dma-buf of the memory; `stale`: of freed memory at that address. */
void call_request_by_dma_buf(struct client *client, unsigned int handle, unsigned int pd,
			     uint64_t address, uint64_t length, int access, bool stale);

/* Change the handle's registration; `flags` (IBV_REREG_MR_CHANGE_...) select. A bypassed change
 * goes to the kernel; with `refused` the kernel fails it, and the client keeps its registration. */
void call_change(struct client *client, unsigned int handle, unsigned int flags, bool refused,
		 unsigned int pd, uint64_t address, uint64_t length, int access);

/* A forwarded registration failed: the device has no room. */
void call_make_room(struct client *client, unsigned int device, uint64_t bytes);

/* Access flags: model_access[access_index]; `requested`: the look-up's. */
void call_find(struct client *client, unsigned int pd, unsigned int access_index, int requested,
	       uint64_t address, uint64_t length);

/* Possibly another thread's memory: the answer may be stale at once. */
void call_find_anywhere(struct client *client, unsigned int pd, uint64_t address);

/* The same for a request: the owner may free meanwhile. Nothing may be registered afterwards. */
void call_request_anywhere(struct client *client, unsigned int pd, uint64_t address,
			   uint64_t length);

/* Check that the client's keys reach their ranges. */
void call_use(struct client *client, unsigned int handle);
void call_use_found(struct client *client, const struct model_memory *memory);

/* Check that no memory and no keys exist. */
void call_see_end(struct client *client, uint64_t base, uint64_t size);

/* A forked child, which must be inert. */
void call_fork(struct client *client);

#endif
