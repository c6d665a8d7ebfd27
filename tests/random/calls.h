/* SPDX-License-Identifier: BSD-3-Clause */
/* calls.h -- the actions of a client: the library's calls and the driver's part, in the intercept
 * layer's order, each answer compared with the model */
#ifndef PEERPIN_TESTS_RANDOM_CALLS_H
#define PEERPIN_TESTS_RANDOM_CALLS_H

#include "random/model.h"

/* Between the library's part and the driver's or the kernel's: let other threads run, sometimes for
 * long. */
void let_others_go_first(struct client *client, uint32_t one_time_in);

/* ---- memory (events.c) ---- */

void call_allocate(struct client *client, bool own, const struct keep_request *request,
		   CUcontext context, bool rdma_capable);
void call_take_offer(unsigned int thread); /* frees this thread's allocation in progress, if any */
void call_map(struct client *client, unsigned int first, unsigned int blocks, bool rdma_capable);
void call_unmap(struct client *client, uint64_t base, uint64_t size, bool refused);
void call_set_access(struct client *client, struct model_memory *memory, bool accessible);

/* ---- frees (frees.c) ---- */

void call_free(struct client *client, struct model_memory *memory, bool refused);

/* Of an address that holds no memory of the program, or by the wrong call. */
void call_free_in_vain(struct client *client, enum memory_free call, uint64_t address);

/* `by_query`: by a call after which peerpin queries the driver. */
void call_end_context(struct client *client, CUcontext context, bool refused, bool by_query);

/* Let the memory be freed, and its request allocated, while a stream is captured. */
void call_capture(struct client *client, struct model_memory *memory);

/* ---- reuse (reuse.c) ---- */

/* True: the library keeps the freed memory. */
bool call_keep(struct client *client, struct model_memory *memory);

/* True: *memory is kept memory, allocated for the request. */
bool call_reuse(struct client *client, struct model_memory *memory,
		const struct keep_request *request, CUcontext context);

/* The driver refused a call for want of memory: true if it is to repeat, until call_settled(). */
bool call_release(struct keep_refusal *refusal, int device, uint64_t bytes);

/* An adapter lacks room. */
void call_release_idle(void);
void call_settled(const struct keep_refusal *refusal);

/* Nothing more is kept from now on. */
void call_end_keeping(void);

/* Count the end of a registration whose memory was kept. `before`: the state of the memory before
 * the call. */
void call_settle_kept(struct client *client, const struct model_handle *held,
		      enum world_life before, bool dropped);
enum world_life call_life(const struct model_handle *held);

/* Check that no memory and no keys exist. */
void call_see_end(struct client *client, uint64_t base, uint64_t size);

/* Queries at an address of freed memory of the thread. */
void call_query_freed(struct client *client, uint64_t address);

/* ---- protection domains and devices (events.c) ---- */

void call_open_pd(struct client *client, unsigned int which, bool own_device);
void call_close_pd(struct client *client, unsigned int which, bool used);
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

/* Change the handle's registration; `flags` (IBV_REREG_MR_CHANGE_...) select. A forwarded change
 * goes to the kernel; with `refused` the kernel fails it, and the client keeps its registration. */
void call_change(struct client *client, unsigned int handle, unsigned int flags, bool refused,
		 unsigned int pd, uint64_t address, uint64_t length, int access);

/* A forwarded registration failed: the device has no room. */
void call_make_room(struct client *client, unsigned int device, uint64_t bytes);

/* ---- look-ups (lookups.c) ---- */

/* Possibly another thread's memory: the answer may be stale at once. */
void call_find_anywhere(uint64_t address);

/* The same for a request: the owner may free meanwhile. Nothing may be registered afterwards. */
void call_request_anywhere(struct client *client, unsigned int pd, uint64_t address,
			   uint64_t length);

/* Check that the client's keys reach their ranges. */
void call_use(struct client *client, unsigned int handle);

/* A forked child, which must be inert. */
void call_fork(struct client *client);

#endif
