/* SPDX-License-Identifier: BSD-3-Clause */
/* registration.h -- contract of the registration layer: which memory is registered in which domain
 *
 * A region is one range of granules, or of pages, registered in one domain: a protection domain
 * with one set of access flags and one mapping of the memory. A client MR is the provider's own
 * struct with the region's keys, identified by its address. Contract:
 *
 * - A client MR covers only live memory, with exactly the requested access flags.
 * - A free deregisters the regions of the allocation that no other live allocation shares, and
 *   revokes their client MRs. Both are complete when registration_freeing() returns, so before
 *   the driver frees. A shared region is one granule, or page: none of its pages is replaced before
 *   its last allocation is freed.
 * - An unsupported request is forwarded: the client's own call registers.
 *
 * Any thread may call. One lock guards the whole layer (objects.h). The layer calls neither the
 * driver nor verbs with the lock held.
 */
#ifndef PEERPIN_REGISTRATION_REGISTRATION_H
#define PEERPIN_REGISTRATION_REGISTRATION_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/held_file.h"
#include "memory/memory.h"
#include "registration/verbs_abi.h"

/* A dma-buf of [base, base + length). length 0: none. The client's own has no inode here: the
 * client keeps it open during its call. */
struct dma_buf {
	struct held_file file;
	uint64_t base, length;
};

#define VERBS_CALLS(CALL)                                                                          \
	CALL(ibv_reg_mr)                                                                           \
	CALL(ibv_reg_mr_iova2)                                                                     \
	CALL(ibv_reg_mr_ex)                                                                        \
	CALL(ibv_rereg_mr)                                                                         \
	CALL(ibv_dereg_mr)                                                                         \
	CALL(ibv_reg_dmabuf_mr)                                                                    \
	CALL(ibv_get_device_name)                                                                  \
	CALL(ibv_query_device)

struct verbs_calls {
#define CALL(symbol) __typeof__(symbol) *symbol;
	VERBS_CALLS(CALL)
#undef CALL
};

/* libibverbs' own functions, without any wrapper, for callers with an open device. NULL: missing in
 * this libibverbs, or called by the worker once exit has begun. Call verbs_calls_device_closed()
 * after each close of a device. */
const struct verbs_calls *verbs_calls(void);
void verbs_calls_device_closed(void);

/* The library's own verbs calls. The provider calls back into libibverbs, and so into the library's
 * wrappers, on the calling thread. Between own_call_begin() and own_call_end(), which nest,
 * registration_is_own_call() is true: the call is not a client's, and the wrappers forward every
 * one but deregistrations. */
void own_call_begin(void);
void own_call_end(void);
bool registration_is_own_call(void);

/* Deregister by ibv_dereg_mr(), in a call marked as the library's own. Return 0 or -errno. */
int own_call_deregister(struct ibv_mr *mr);

/* True while this thread deregisters `mr` as one of the library's own. */
bool registration_is_own_end(const struct ibv_mr *mr);

/* ---- protection domains ---- */

/* At exit: waits, for 100 ms at most, until the worker has left the driver and verbs. Once this is
 * called the worker begins no call there. Takes no lock. */
void registration_await_worker(void);

/* At exit: logs when PEERPIN_DEVICES selected no adapter. Takes no lock, calls neither CUDA nor
 * verbs. */
void registration_log_selection(void);

/* At exit: counts client MRs that were not deregistered as leaked. Does nothing in a signal
 * handler that interrupted the thread with the lock held. Calls neither CUDA nor verbs. */
void registration_count_leaked(void);

/* The kernel created a protection domain. `pd` stays usable until registration_pd_closed().
 * `by_key`: its client indexes registrations by key, so each key has at most 1 client MR. */
void registration_pd_opened(struct ibv_pd *pd, bool by_key);

/* Its client is that caller (report/callers.h): for findings. */
void registration_pd_called_by(const struct ibv_pd *pd, uint32_t caller);

/* PEERPIN_PREREGISTER=eager: the client of the protection domain will request GPU memory with these
 * access flags, and with relaxed ordering besides if it requests host memory so. Memory near the
 * adapter is registered with them from now on. Keeps errno. */
void registration_expect(const struct ibv_pd *pd, int access);

/* The client deallocates the protection domain. False: it has client MRs there, with a region or
 * revoked, which the kernel would count as memory regions: return EBUSY, nothing has changed. True:
 * the regions are deregistered, and the kernel decides. */
bool registration_pd_closing(struct ibv_pd *pd);

/* Result of the kernel's attempt. If the kernel refused, the protection domain serves as before.
 * Background registration then restores the regions without client MRs, with other keys. */
void registration_pd_closed(const struct ibv_pd *pd, bool ended);

/* The open device whose struct is in these bytes; NULL: none with a protection domain so far. */
struct ibv_context *registration_device_in(const void *start, size_t bytes);

/* The device is being closed. Ends all regions on it, with or without client MRs. */
void registration_context_closing(struct ibv_context *context);

/* ---- clients ---- */

struct registration_request {
	struct ibv_pd *pd;
	uint64_t address, length;
	uint64_t iova; /* address that remote sides will use */
	int access;
	bool dma_buf;	       /* from the client's own dma-buf; `address` is the exported one */
	bool pcie;	       /* ... which maps the memory over PCIe (struct found_export) */
	uint64_t youngest;     /* greatest allocation id in the dma-buf; 0: by address */
	struct dma_buf source; /* with `dma_buf` */
	const void *client_mr; /* address of the provider's struct */
};

struct registration_keys {
	uint32_t kernel_handle, lkey, rkey;
};

/* True if the first or last byte of [address, address + length) is GPU memory: only then is
 * registration_request() of use. */
bool registration_concerns(const struct registration_request *request);

/* Serves the request from a region that has served this allocation before. False: call
 * registration_request(); nothing is counted then. The caller has checked that this libibverbs can
 * be served. */
bool registration_hit(const struct registration_request *request, struct registration_keys *keys);

/* Serves the request: true, and the keys, if served. Registers, or waits for the worker, where
 * needed. */
bool registration_request(const struct registration_request *request,
			  struct registration_keys *keys);

/* Evicts idle regions on that device, least recently used first: at least `bytes` if available.
 * True if any region was evicted. For a client's own registration that failed with ENOMEM. */
bool registration_evict(struct ibv_context *context, uint64_t bytes);

/* The client deregisters a client MR. True if peerpin made it: the kernel has no such object. A
 * forked child shares no region with its parent: there peerpin only removes the client MR.
 *
 * registration_drop_once(): from then on *kernel_handle, the handle in the client's struct, is that
 * of no object. A second deregistration, later or on another thread at once, is forwarded, and
 * would otherwise end the region that others share: it gets the kernel's error instead. */
bool registration_drop(const void *client_mr);
bool registration_drop_once(const void *client_mr, uint32_t *kernel_handle);

/* True if peerpin made the client MR. */
bool registration_holds(const void *client_mr);

/* The protection domain of a client MR that peerpin made; NULL: it has ended. The provider's struct
 * names the one that the client passed, which may have been a parent domain, deallocated since. */
struct ibv_pd *registration_pd_of(const void *client_mr);

/* The client imported the kernel's object `kernel_handle` as `client_mr`. If that is a region,
 * peerpin records one more client MR; its deregistration must not reach the kernel. */
void registration_imported(const void *client_mr, const struct ibv_context *context,
			   uint32_t kernel_handle);

/* For a client's export of a range as a dma-buf: another descriptor of the dma-buf by which exactly
 * this range is registered, mapped likewise, for the caller to return; it is recorded. Negative:
 * the driver has to export the range. The caller has checked that the program has memory in it. */
int registration_export(const struct found_export *wanted);

/* An allocation begins, or ends: events of memory.h, kept memory at its release. */
void registration_allocated(const struct allocation *allocation);
void registration_freeing(const struct allocation *allocation);

/* True if registration_freeing() would revoke a client MR. */
bool registration_is_in_use(const struct allocation *allocation);

/* In a child that starts anew: no protection domain, and the lock is free. The parent has
 * registered nothing. */
void registration_renew(void);

#endif
