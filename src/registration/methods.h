/* SPDX-License-Identifier: BSD-3-Clause */
/* methods.h -- registration methods */
#ifndef PEERPIN_REGISTRATION_METHODS_H
#define PEERPIN_REGISTRATION_METHODS_H

#include "registration/registration.h"
#include "report/errors.h"

/* One registration to make: whole granules, all of them in live memory until pin() returns. */
struct pin_request {
	struct ibv_pd *pd;
	uint64_t base, length;
	int access;
	int device;	   /* GPU ordinal */
	CUcontext context; /* of an allocation in the range; NULL: VMM and pool memory have none */
	bool dma_buf_only; /* no peer memory: the driver does not report the memory as capable */
	bool pcie;	   /* by a dma-buf that maps the memory over PCIe, and by nothing else */
	bool by_address;   /* a client waits, whose own call is by address */
	/* In blocks of one ordinary allocation alone: no neighbour, no kind of memory and no
	 * mapping is the cause of a failure, but GPU and adapter. */
	bool own_blocks;
	struct dma_buf source; /* may hold the range, mapped likewise; open until pin() returns */
};

struct pin_result {
	struct ibv_mr *mr; /* NULL: failed */
	const struct registration_method *method;
	struct errors_text failure; /* no cause: the returned number, of the method's `call` */
	bool reported;		    /* pinning.c has logged the failure */
	bool from_source;	    /* by the request's dma-buf */
};

/* Error without meaning for GPU and adapter: no context of the device can export now. */
#define PINNING_NO_CONTEXT (-ENXIO)

/* The error has no meaning for the memory either. */
static inline bool pinning_may_succeed_later(int error)
{
	return error == PINNING_NO_CONTEXT || error == -EAGAIN || error == -EINTR;
}

/* Capability probe of a method for the pair of the request's GPU and adapter. */
struct method_support {
	bool possible;	   /* false: never tried */
	bool expected;	   /* should work; false: for reports only, because software adapters may
			      do without */
	bool expected_vmm; /* as `expected`, for VMM memory */
	const char *text;  /* static */
};

/* Registration method. pin() and unpin() return 0 or -errno. They run on the client's thread,
 * inside its registration call, or on the worker, without any lock. */
struct registration_method {
	const char *name;
	int (*pin)(const struct pin_request *request, struct pin_result *result);
	int (*unpin)(struct ibv_mr *mr);
	struct method_support (*probe)(const struct pin_request *request);
	bool (*accepts)(const struct pin_request *request); /* this memory and access flags */
	void (*prepare)(struct pin_request *request);	    /* NULL: registers by address */
	_Atomic uint64_t *registrations;		    /* its counter */
	enum errors_call call; /* of failures without a cause in the result */
};

/* The method of all pairs; NULL: chosen by pinning.c. For tests. */
extern const struct registration_method *registration_forced_method;

/* The preferred method first; a row without a name ends the table. */
#define METHODS_MAX 4
extern const struct registration_method registration_methods[];

/* Exports the range to request->source, to be closed by dma_buf_close(). Nothing changes if it
 * fails. */
void dma_buf_prepare(struct pin_request *request);

/* The library's own descriptors of dma-bufs. From dma_buf_opened(), of a new one, to
 * dma_buf_close(), a forked child closes it at once; not one above DMA_BUF_DESCRIPTORS.
 * dma_buf_expect_forks() comes first, without the lock, and without any region in flight: the call
 * waits for libc's lock of the fork handlers, and one of these may free GPU memory. */
#define DMA_BUF_DESCRIPTORS (1 << 14)
void dma_buf_expect_forks(void);
struct held_file dma_buf_opened(int fd);
void dma_buf_close(struct held_file *file);

#define METHOD(id, text)                                                                           \
	struct method_support id##_probe(const struct pin_request *request);                       \
	bool id##_accepts(const struct pin_request *request);                                      \
	int id##_pin(const struct pin_request *request, struct pin_result *result);
#include "report/methods.def"
#undef METHOD

/* What methods differ in beside their functions. */
#define METHOD_dma_buf	   .prepare = dma_buf_prepare, .call = ERRORS_REG_DMABUF
#define METHOD_peer_memory .call = ERRORS_REG_MR

/* A row of the table, from one of methods.def. */
#define REGISTRATION_METHOD(id, text)                                                              \
	{ .name = (text),                                                                          \
	  .pin = id##_pin,                                                                         \
	  .unpin = own_call_deregister,                                                            \
	  .probe = id##_probe,                                                                     \
	  .accepts = id##_accepts,                                                                 \
	  .registrations = &statistics.counters.registrations_##id,                                \
	  METHOD_##id },

#endif
