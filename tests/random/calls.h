/* SPDX-License-Identifier: BSD-3-Clause */
/* calls.h -- each thing that a client does: the library's calls and the driver's part, in the order
 * in which the intercept layer makes them, and every answer compared with the model
 */
#ifndef PEERPIN_TESTS_RANDOM_CALLS_H
#define PEERPIN_TESTS_RANDOM_CALLS_H

#include "random/model.h"

/* ---- memory (events.c) ---- */

void call_allocate(struct client *client, bool own, uint64_t size, enum allocation_kind kind,
		   CUcontext context, bool rdma_capable);
void call_take_offer(unsigned int thread); /* frees what this thread is allocating, if it is */
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

/* `pd` is one of the client's; PDS_OF_ONE: one that nobody has opened. Whatever the handle stood
 * for is given back first; with `over` it was, without a call. */
void call_request(struct client *client, unsigned int handle, bool over, unsigned int pd,
		  bool by_parent, uint64_t address, uint64_t length, uint64_t iova, int access);
void call_drop(struct client *client, unsigned int handle);

/* By a dma-buf of the memory there; `stale`: of other memory that had that address. */
void call_request_by_dma_buf(struct client *client, unsigned int handle, unsigned int pd,
			     uint64_t address, uint64_t length, int access, bool stale);

/* The handle's registration is changed in what `flags` say (IBV_REREG_MR_CHANGE_...). What is not
 * served the client asks the kernel for; with `refused` that says no as well, and the client keeps
 * what it had. */
void call_change(struct client *client, unsigned int handle, unsigned int flags, bool refused,
		 unsigned int pd, uint64_t address, uint64_t length, int access);

/* A registration of the client's own has found no room on the device. */
void call_make_room(struct client *client, unsigned int device, uint64_t bytes);

/* By the rights model_rights[rights]; `asked` are those of the look-up. */
void call_find(struct client *client, unsigned int pd, unsigned int rights, int asked,
	       uint64_t address, uint64_t length);

/* Memory of another thread, perhaps: what is answered may be wrong by the time it is seen. */
void call_find_anywhere(struct client *client, unsigned int pd, uint64_t address);

/* The same of a request: its owner may free it meanwhile. Nothing must be registered then. */
void call_request_anywhere(struct client *client, unsigned int pd, uint64_t address,
			   uint64_t length);

/* The keys that the client holds reach what they were given for. */
void call_use(struct client *client, unsigned int handle);
void call_use_found(struct client *client, const struct model_memory *memory);

/* Nothing is there any more: neither memory nor keys. */
void call_see_end(struct client *client, uint64_t base, uint64_t size);

/* A child that finds itself inert. */
void call_fork(struct client *client);

#endif
