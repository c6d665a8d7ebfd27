/* SPDX-License-Identifier: BSD-3-Clause */
/* adapter_access.h -- what the data plane has of the other parts: accesses to registered memory by
 * key, as the adapter's DMA engine makes them, protection domains and the device
 *
 * Includes no declaration of verbs: the data plane includes infiniband/verbs.h, the other parts
 * adapter_verbs.h.
 */
#ifndef PEERPIN_SIM_ADAPTER_ACCESS_H
#define PEERPIN_SIM_ADAPTER_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ibv_context;
struct ibv_pd;

#define ADAPTERS_MAX 8

/* Index of the context's device. */
unsigned int adapter_number(const struct ibv_context *context);

/* Number of registrations that an adapter has at most. */
int adapter_regions_max(void);

/* Report a broken contract and abort. */
void adapter_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Count an object of the data plane in its protection domain: 1, or -1 where it ends.
 * ibv_dealloc_pd returns EBUSY while any is left. Return 0, or EINVAL: no such domain. Takes
 * adapter_lock. */
int adapter_count_object(const struct ibv_pd *pd, int change);

/* Accesses by an adapter are of no thread: ThreadSanitizer compares none between these two. Programs
 * order them by completions, or by what other processes say. */
#ifndef __has_feature /* gcc's macro is the next one */
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
static inline void adapter_dma_begin(void)
{
	AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
	AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}
static inline void adapter_dma_end(void)
{
	AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
	AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}
#else
static inline void adapter_dma_begin(void)
{
}
static inline void adapter_dma_end(void)
{
}
#endif

/* From adapter_use_begin() to adapter_use_end() the deregistration of the region waits, and so does
 * the free of its memory. */
struct adapter_use {
	uint32_t slot;
	uint64_t memory; /* address of the first byte */
	/* Memory of a real driver: only the adapter's thread copies, without a lock. */
	bool device;
};

/* Any domain of the context. */
#define ADAPTER_ANY_DOMAIN UINT32_MAX

/* Check an access of `bytes` bytes, at least 1, at `address` (in the region's address space) by
 * `key`, and begin it. `access` is one IBV_ACCESS_* flag that the region requires, 0: none.
 * `domain` is the handle of the protection domain that the region must belong to. Return 0, or:
 * -EINVAL: no such key on this adapter, or in another domain
 * -ESTALE: the key has ended
 * -EACCES: access flags forbid the access
 * -ERANGE: outside of the region
 * -EOPNOTSUPP: memory of an unknown address (a dma-buf that no driver of this process exported)
 * Takes adapter_lock. */
int adapter_use_begin(struct ibv_context *context, uint32_t domain, uint32_t key, uint64_t address,
		      uint64_t bytes, int access, struct adapter_use *use);
void adapter_use_end(const struct adapter_use *use);

/* Copy between host memory and the memory of a use, which begins `offset` bytes after its start.
 * `ends`: the copy completes a message, whose last bytes are stored last, since programs poll them.
 * In device memory that takes a copy more. */
void adapter_copy_from(const struct adapter_use *use, uint64_t offset, void *to, size_t bytes);
void adapter_copy_to(const struct adapter_use *use, uint64_t offset, const void *from, size_t bytes,
		     bool ends);

#endif
