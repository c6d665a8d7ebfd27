/* SPDX-License-Identifier: BSD-3-Clause */
/* sim_adapter.h -- test interface of the simulated adapter: settings, statistics, accesses by key
 *
 * A libibverbs.so.1 for machines without an adapter: library, provider and kernel in one. These
 * functions are exported beside the real library's names; programs that may run on the real one use
 * dlsym. The functions act on this process. Any thread may call them.
 *
 * Broken contracts, each reported on standard error before abort():
 * - a registration of device memory (by address or by a dma-buf of the simulated driver) outlives
 *   the last memory in one of its 2 MiB blocks; on hardware, pages that belong to nothing would
 *   stay pinned
 * - a device or a protection domain is closed with registrations left
 * - a key is used after its deregistration
 * - a forked child deregisters or changes a registration of its parent
 */
#ifndef PEERPIN_SIM_ADAPTER_H
#define PEERPIN_SIM_ADAPTER_H

#include <stddef.h>
#include <stdint.h>

struct ibv_context;
struct ibv_pd;

/* SETTING(name, default, meaning): PEERPIN_SIM_ADAPTER_ and the name in capitals is read from the
 * environment at the start. Whole numbers, with suffix K, M or G. 0: no limit, and no fault. */
#define SIM_ADAPTER_SETTINGS(SETTING)                                                              \
	SETTING(devices, 1, "adapters; read when they are listed for the first time")              \
	SETTING(memory, 0, "bytes registered at once on each adapter at most, then ENOMEM")        \
	SETTING(regions, 0, "registrations at once on each adapter at most (max_mr), then ENOMEM") \
	SETTING(fail_at, 0,                                                                        \
		"the registration of this number fails with ENOMEM; counted from 1 when set")      \
	SETTING(fail_rate, 0, "N or 1/N: one of N registrations fails with ENOMEM, at random")     \
	SETTING(seed, 1, "seed of fail_rate")                                                      \
	SETTING(delay, 0, "microseconds added to each registration")                               \
	SETTING(delay_mib, 0, "microseconds added to each registration for each MiB of it")        \
	SETTING(hold, 0, "1: registrations that have begun wait until it is 0")                    \
	SETTING(uncounted, 4096,                                                                   \
		"registrations of host memory of so many bytes or fewer, as for a check of the "   \
		"library, are neither counted nor limited nor delayed, and never fail by setting") \
	SETTING(dmabuf, 1, "0: dma-buf is not supported, as by an old kernel: EOPNOTSUPP")         \
	SETTING(peer, 1, "0: no peer memory: device memory by address is EFAULT")                  \
	SETTING(outlive, 0,                                                                        \
		"1: count a registration that outlives its memory, and end its key; do not abort") \
	SETTING(busy, 0, "1: ibv_dealloc_pd with registrations left returns EBUSY; do not abort")  \
	SETTING(real_driver, 0,                                                                    \
		"1: the simulated driver counts as a real one: the adapter copies device memory "  \
		"by its calls, and compares its identities; frees are not checked")                \
	SETTING(strict, 1,                                                                         \
		"0: count the use of a stale key, and let a forked child deregister its parent's " \
		"registrations; do not abort")

/* STATISTIC(name, meaning). A process that counted any appends them at its end, as a line of JSON,
 * to the file that PEERPIN_SIM_ADAPTER_STATS names; "%p" in the name is the process id. A forked
 * child writes none, and neither does a process that is killed or calls _exit(). */
#define SIM_ADAPTER_STATISTICS(STATISTIC)                                                          \
	STATISTIC(reg_mr, "calls to register by address")                                          \
	STATISTIC(reg_dmabuf_mr, "calls to register a dma-buf")                                    \
	STATISTIC(reg_mr_ex, "calls of the extended form")                                         \
	STATISTIC(rereg_mr, "calls to change a registration")                                      \
	STATISTIC(dereg_mr, "calls to deregister")                                                 \
	STATISTIC(query_mr, "calls to import a registration")                                      \
	STATISTIC(registrations, "successful registrations of all forms")                          \
	STATISTIC(by_dmabuf, "of registrations: by dma-buf")                                       \
	STATISTIC(page_requests,                                                                   \
		  "requests for pages of device memory, by registrations by address: exports of "  \
		  "the driver, closed again")                                                      \
	STATISTIC(main_thread, "of registrations: by the process's main thread")                   \
	STATISTIC(bytes, "bytes of all registrations")                                             \
	STATISTIC(deregistrations, "successful deregistrations")                                   \
	STATISTIC(failed, "registrations that failed, for any reason")                             \
	STATISTIC(live, "registrations now")                                                       \
	STATISTIC(live_bytes, "bytes of the live registrations")                                   \
	STATISTIC(live_peak, "highest number of live registrations")                               \
	STATISTIC(pds, "protection domains now")                                                   \
	STATISTIC(pds_busy, "deallocations of protection domains that returned EBUSY")             \
	STATISTIC(outlived, "registrations that outlived their memory")                            \
	STATISTIC(stale_keys, "uses of keys after their deregistration")                           \
	STATISTIC(stale_memory,                                                                    \
		  "accesses to device memory of a real driver that was freed under its "           \
		  "registration")                                                                  \
	STATISTIC(failed_copies, "copies of device memory that a real driver refused")             \
	STATISTIC(dontfork, "ranges excluded from forked children now")

/* Return 0, or -ENOENT for an unknown name. */
int sim_adapter_set(const char *setting, uint64_t value);
int sim_adapter_statistic(const char *name, uint64_t *value);

/* Read or write memory through the adapter of `context`, like a remote peer. Return 0, or:
 * -EINVAL: no such key on this adapter
 * -ESTALE: the key is stale
 * -EACCES: access flags forbid the access
 * -ERANGE: outside of the region
 * -EOPNOTSUPP: memory of an unknown address (a dma-buf that the simulated driver did not export) */
int sim_adapter_read(struct ibv_context *context, uint32_t key, uint64_t address, void *to,
		     size_t bytes);
int sim_adapter_write(struct ibv_context *context, uint32_t key, uint64_t address, const void *from,
		      size_t bytes);

/* The mapping of a registration's memory. 1: over PCIe (an export with that flag); 0: any other;
 * -EINVAL or -ESTALE as above. */
int sim_adapter_mapping(struct ibv_context *context, uint32_t key);

/* ibv_alloc_parent_domain, which verbs.h calls through a function table: another struct for `pd`.
 * Deallocate it with ibv_dealloc_pd before `pd`. NULL: out of memory. */
struct ibv_pd *sim_adapter_parent_domain(struct ibv_pd *pd);

#endif
