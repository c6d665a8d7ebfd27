/* SPDX-License-Identifier: BSD-3-Clause */
/* registration.h -- which memory is registered where: the contract of the registration layer
 *
 * A region is one range registered in one domain; a client MR is what a client got for one of its registration
 * calls: the provider's own struct, known here by its address, with the region's keys in it. Promises:
 * - A handle is only given for memory that is alive, with exactly the rights that were asked for.
 * - When memory dies, its client MRs are revoked and the regions that nothing living shares are deregistered
 *   before memory_subscriber.freeing returns, so before the driver frees.
 * - What cannot be served is left to the client's own call.
 * Any thread. One lock guards all of the layer (internal.h); neither the driver nor verbs is called with it.
 */
#ifndef PEERPIN_REGISTRATION_REGISTRATION_H
#define PEERPIN_REGISTRATION_REGISTRATION_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/memory.h"
#include "registration/verbs_abi.h"

/* What is to be registered: whole granules, all of them of living memory until pin() has returned. */
struct pin_request {
	struct ibv_pd *pd;
	uint64_t base, length;
	int access;
	int device;	   /* the GPU's ordinal */
	CUcontext context; /* of an allocation in the range; NULL: it has none, as mapped and pool memory */
	bool dma_buf_only; /* no peer memory: the driver does not call the memory capable of it */
};

/* How a range is registered; the tests put another one in place. Both return 0 or -errno, and are called on
 * the client's thread, inside its registration call, or on the worker; without any lock. */
struct registration_backend {
	const char *name;
	int (*pin)(const struct pin_request *request, struct ibv_mr **mr);
	int (*unpin)(struct ibv_mr *mr);
};

extern const struct registration_backend *registration_backend;

/* Peer memory: an ordinary registration of the GPU address, which nvidia-peermem resolves in the kernel. */
extern const struct registration_backend peer_memory_backend;

/* libibverbs' own functions, past every wrapper; filled by the intercept layer, NULL where there is none. */
struct verbs_calls {
	__typeof__(ibv_reg_mr) *ibv_reg_mr;
	__typeof__(ibv_reg_mr_iova2) *ibv_reg_mr_iova2;
	__typeof__(ibv_dereg_mr) *ibv_dereg_mr;
	__typeof__(ibv_reg_dmabuf_mr) *ibv_reg_dmabuf_mr;
	__typeof__(ibv_get_device_name) *ibv_get_device_name;
	__typeof__(ibv_query_device) *ibv_query_device;
};

const struct verbs_calls *verbs_calls(void);

/* True while this thread is inside one of the library's own registrations: the call is not a client's. */
bool registration_is_own_call(void);

/* True while it is deregistering that one of the library's own. */
bool registration_is_own_end(const struct ibv_mr *mr);

/* ---- protection domains ---- */

/* At exit: says so if PEERPIN_DOMAINS has led nowhere. Takes no lock, calls neither CUDA nor verbs. */
void registration_tell_choice(void);

/* The kernel made a protection domain. `pd` stays usable until registration_pd_closed(). */
void registration_pd_opened(struct ibv_pd *pd);

/* The kernel is about to be asked to end it: what is ours in it, and in no client's hands, goes first. */
void registration_pd_closing(struct ibv_pd *pd);

/* What came of it; if the kernel refused, the protection domain serves as before. What was not in clients' hands is
 * registered ahead once more, with other keys. */
void registration_pd_closed(const struct ibv_pd *pd, bool ended);

/* The device is being closed: all that is ours on it goes, in clients' hands or not. */
void registration_context_closing(struct ibv_context *context);

/* ---- clients ---- */

struct registration_request {
	struct ibv_pd *pd;
	uint64_t address, length;
	uint64_t iova; /* the address that remote sides will use */
	int access;
	bool dma_buf; /* by a dma-buf of the client's own, known by the address that it was exported from */
	uint64_t youngest;     /* no allocation of a greater id is in the dma-buf; 0: by address */
	const void *client_mr; /* where the provider keeps this registration */
};

struct registration_keys {
	uint32_t kernel_handle, lkey, rkey;
};

/* Whether [address, address + length) has anything to do with GPU memory: only then is it worth asking. */
bool registration_concerns(const struct registration_request *request);

/* Serves the request at once, from a region that has served one for this allocation before; false: ask
 * registration_request(). Nothing is counted then. Whoever calls it knows already that this libibverbs can be served. */
bool registration_hit(const struct registration_request *request, struct registration_keys *keys);

/* Serves the request: true, and the keys, if it did. Registers or waits where it must. */
bool registration_request(const struct registration_request *request, struct registration_keys *keys);

/* Deregisters what no client holds on that device, the least recently used first, at least `bytes` if there is that much; true
 * if anything went. For a client's own registration that failed for want of room. */
bool registration_make_room(struct ibv_context *context, uint64_t bytes);

/* The client gives a client MR back. True if it is one of ours, and so none of the kernel's. In a forked child,
 * which has no part in the parent's regions, only the client MR is forgotten. */
bool registration_drop(const void *client_mr);

/* Whether the client MR is one of ours. */
bool registration_holds(const void *client_mr);

/* The client has made `handle` of what the kernel knows by that number. If it is a region, that is one client MR more, and its
 * end none of the kernel's. */
void registration_imported(const void *client_mr, const struct ibv_context *context, uint32_t kernel_handle);

/* ---- look-ups by who keeps no client MR ---- */

struct domain;

/* The rights `access` in `pd`, active from now on, so that memory is registered ahead in them. Valid until the
 * protection domain is closed; NULL if it is unknown, or these rights cannot be shared. */
struct domain *registration_domain(const struct ibv_pd *pd, int access);

/* The keys of [address, address + length) in `domain`, for one use: if all of it lies in one allocation that lives and is
 * registered there, with exactly these rights. Wait-free, any thread: nothing is locked, allocated, or written but a
 * counter of the thread's own. False: register it (registration_request). The keys are good until the memory is
 * freed or the protection domain is about to be closed, whether the kernel then refuses or not; a use beside that is
 * the caller's own error, as it is with every key. */
bool registration_find(const struct domain *domain, uint64_t address, uint64_t length, int access,
		       uint32_t *lkey, uint32_t *rkey);

/* Hears of allocations and frees. */
extern const struct memory_subscriber registration_subscriber;

#endif
