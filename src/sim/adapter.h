/* SPDX-License-Identifier: BSD-3-Clause */
/* adapter.h -- the simulated adapter's parts, and the lock that guards them
 *
 * adapter_library.c is libibverbs, adapter_provider.c a provider's library, adapter_commands.c the
 * kernel's commands, adapter_domain.c and adapter_kernel.c the kernel's state. As in rdma-core, the
 * first 3 call each other through the dynamic linker: a preload library intercepts these calls.
 *
 * adapter_lock guards the kernel's state. Lock order: sim_lock, then adapter_lock, because the
 * driver calls the adapter with sim_lock held. Hold no adapter_lock in a call into the driver. A
 * free in the simulated driver waits for uses (adapter_access.h): a use takes no sim_lock.
 */
#ifndef PEERPIN_SIM_ADAPTER_PARTS_H
#define PEERPIN_SIM_ADAPTER_PARTS_H

#include <stdbool.h>
#include <sys/types.h>

#include "sim/adapter_access.h"
#include "sim/adapter_verbs.h"
#include "sim/sim_adapter.h"

extern pthread_mutex_t adapter_lock;

/* ---- adapter_faults.c ---- */

struct adapter_settings {
#define SETTING(name, otherwise, meaning) uint64_t name;
	SIM_ADAPTER_SETTINGS(SETTING)
#undef SETTING
};

struct adapter_statistics {
#define STATISTIC(name, meaning) uint64_t name;
	SIM_ADAPTER_STATISTICS(STATISTIC)
#undef STATISTIC
};

extern struct adapter_settings adapter_settings;     /* read and stored atomically */
extern struct adapter_statistics adapter_statistics; /* counted atomically */

#define adapter_setting(name) __atomic_load_n(&adapter_settings.name, __ATOMIC_RELAXED)
#define adapter_count(name)   __atomic_add_fetch(&adapter_statistics.name, 1, __ATOMIC_RELAXED)
#define adapter_add(name, amount)                                                                  \
	__atomic_add_fetch(&adapter_statistics.name, amount, __ATOMIC_RELAXED)
#define adapter_remove(name, amount)                                                               \
	__atomic_sub_fetch(&adapter_statistics.name, amount, __ATOMIC_RELAXED)

/* True if the settings fail this registration. The caller holds adapter_lock. */
bool adapter_fails_now(void);

/* ---- the data plane; adapter_alone.c where the adapter is built without it ---- */

/* Give a new device context what it has of the data plane. Return 0 or an errno. */
int context_install(struct ibv_context *context);

/* False: objects of the context are left, which refer to its memory. */
bool context_uninstall(struct ibv_context *context);

/* ---- adapter_provider.c ---- */

extern struct ibv_command_buffer *provider_attributes;
struct ibv_mr *provider_reg_mr(struct ibv_pd *pd, void *address, size_t length, uint64_t iova,
			       int access);
struct ibv_mr *provider_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
				      uint64_t iova, int fd, int access);
struct ibv_mr *provider_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attributes);
int provider_rereg_mr(struct verbs_mr *vmr, int flags, struct ibv_pd *pd, void *address,
		      size_t length, int access);
int provider_dereg_mr(struct verbs_mr *vmr);
struct ibv_mr *provider_import_mr(struct ibv_pd *pd, uint32_t handle);
void provider_unimport_mr(struct ibv_mr *mr);
struct ibv_pd *provider_alloc_pd(struct ibv_context *context);
int provider_free_pd(struct ibv_pd *pd);
struct ibv_context *provider_open(struct ibv_device *device);
void provider_close(struct ibv_context *context);

/* ---- adapter_driver.c: a real driver ---- */

/* dlopen's handle of the loaded driver, real or simulated; NULL: none is loaded. */
void *driver_open(void);

#define DRIVER_ATTRIBUTES 8
#define DRIVER_BLOCK	  ((uint64_t)2 << 20) /* unit of the driver's memory */

/* Device memory at an address. */
struct driver_memory {
	/* Of the allocation. VMM and pool memory: until the next block at most. */
	uint64_t start, end;
	uint64_t buffer;     /* BUFFER_ID */
	uint64_t block;	     /* MEMORY_BLOCK_ID; 0: unknown */
	int device;	     /* ordinal */
	bool plain;	     /* of cuMemAlloc: neither VMM nor pool memory */
};

/* True if an initialised driver is loaded. From then on it stays loaded. The functions below
 * require it, and that the caller does not hold adapter_lock. */
bool driver_begin(void);

/* The end of the block of an address. */
uint64_t driver_block_end(uint64_t address);

/* False: no device memory. Managed memory is none: adapters reach it as host memory. */
bool driver_query(uint64_t address, struct driver_memory *memory);

/* Take the time of a request for the pages of device memory, as nvidia-peermem makes it at each
 * registration by address: an export of whole pages under the driver's lock, closed again. False:
 * none could be exported, which ends no registration. */
#define DRIVER_PAGE ((uint64_t)4096)
bool driver_take_pages(uint64_t start, uint64_t length);

/* Copy to device memory (`writes`) or from it, on the device's copy engine, the `last` bytes after
 * the others. False: the driver failed. */
bool driver_copy(int device, bool writes, uint64_t to, uint64_t from, size_t bytes, size_t last);

/* ---- adapter_memory.c: device memory of a real driver in a region ---- */

struct adapter_part;

struct adapter_memory {
	bool device; /* false: host memory, or memory of the simulated driver */
	/* What the range had at the registration, by address. */
	uint32_t count;
	struct adapter_part *parts;
};

/* True if the range has device memory. `dmabuf`: it can hardly be anything else. */
bool memory_is_device(uint64_t start, uint64_t length, bool dmabuf);

/* Read the identities of device memory. Return 0 or ENOMEM. */
int memory_read(uint64_t start, uint64_t length, struct adapter_memory *memory);
void memory_forget(struct adapter_memory *memory);

/* Memory that was freed after the registration is counted. A read of it gives a poison pattern, a
 * write changes nothing. `ends`: the last bytes are stored last. */
void memory_copy_from(const struct adapter_memory *memory, uint64_t address, void *to,
		      size_t bytes);
void memory_copy_to(const struct adapter_memory *memory, uint64_t address, const void *from,
		    size_t bytes, bool ends);

/* ---- adapter_domain.c ---- */

/* Handle of a new protection domain; 0: out of memory. */
uint32_t domain_make(struct ibv_context *context);

/* Return 0, EBUSY or EINVAL. */
int domain_end(const struct ibv_pd *pd);

/* The caller holds adapter_lock in the 3 functions below. domain_count_region() adds 1 or -1 to the
 * registrations of a live domain; domain_end_all() ends a context's domains without any. */
bool domain_is_live(const struct ibv_pd *pd);
void domain_count_region(uint32_t handle, int change);
void domain_end_all(const struct ibv_context *context);

/* ---- adapter_kernel.c ---- */

enum adapter_region_state {
	ADAPTER_REGION_NONE,
	ADAPTER_REGION_IN_FLIGHT, /* in flight: in the table, without a valid key */
	ADAPTER_REGION_LIVE,
	ADAPTER_REGION_OUTLIVED, /* memory freed, not yet deregistered */
};

/* A memory region in the kernel. The slot is the handle and the upper 24 bits of the key. */
struct adapter_region {
	enum adapter_region_state state;
	struct ibv_context *context;
	uint32_t pd, key;
	/* Address of the memory; 0: unknown (a dma-buf that no driver of this process exported). */
	uint64_t start;
	uint64_t length; /* bytes */
	uint64_t iova;
	int access;
	bool uncounted; /* see the setting */
	int dmabuf;	/* descriptor owned by the region; -1: registered by address */
	bool pcie;	/* the dma-buf is mapped over PCIe */
	uint64_t inode; /* of the dma-buf: the program may reuse the number */
	pid_t process;	/* registering process */
	struct adapter_memory memory;
	uint32_t uses; /* accesses under way */
	bool ending;   /* begin no access: a deregistration or a change waits for `uses` */
	uint32_t next_free;
};

/* Add `wanted` to the table as a region in flight. Return 0 or an errno. */
int kernel_enter(const struct ibv_pd *pd, const struct adapter_region *wanted, uint32_t *slot);

/* Finish a region in flight: kernel_complete() makes it live with the address and the memory of
 * `wanted` and fills in the client MR, kernel_give_up() removes it. */
void kernel_complete(uint32_t slot, const struct adapter_region *wanted, const struct ibv_pd *pd,
		     enum ibv_mr_type type, struct verbs_mr *vmr);
void kernel_give_up(uint32_t slot);

/* Return 0 or an errno, after uses of the region. The caller closes the removed region's
 * descriptor, -1 if none, and forgets its memory. `flags` (IBV_REREG_MR_*) selects the fields of
 * `wanted` and `pd` that kernel_change() applies; the caller forgets the memory left in `wanted`. */
int kernel_remove(const struct verbs_mr *vmr, struct adapter_region *removed);
int kernel_change(struct verbs_mr *vmr, uint32_t flags, struct adapter_region *wanted,
		  const struct ibv_pd *pd);
int kernel_query(const struct ibv_pd *pd, uint32_t handle, struct adapter_region *found);

/* End the context's protection domains if no region is left. Return the number of regions, and the
 * key of one. */
uint32_t kernel_end_context(const struct ibv_context *context, uint32_t *key);

/* The slot's region; NULL: never used. The caller holds adapter_lock. */
struct adapter_region *kernel_region(uint32_t slot);

/* Number of slots. The caller holds adapter_lock. */
uint32_t kernel_slots(void);

/* Mark the region as outlived, no longer live. The caller holds adapter_lock. */
void kernel_outlived(struct adapter_region *region);

/* ---- adapter_access.c ---- */

/* Wait until no access to the region is under way. The caller holds adapter_lock, which is released
 * meanwhile, and prevents new accesses. */
void access_wait(uint32_t slot);

/* ---- adapter_checks.c ---- */

/* Subscribe to frees by the driver. True: the driver is the simulated one. */
bool checks_begin(void);

/* True if the driver knows no address of the range. */
bool checks_is_host(uint64_t start, uint64_t length);

/* Take the time of a request for the pages of device memory: driver_take_pages() of whichever
 * driver. Host memory takes none. */
void checks_take_pages(uint64_t start, uint64_t length);

/* Check that an address range can be registered: 0 or an errno. Queries the driver: the caller does
 * not hold adapter_lock. The caller forgets the memory. */
int checks_range(uint64_t start, uint64_t length, struct adapter_memory *memory);

/* Address, size and mapping behind a dma-buf. An address of 0: the simulated driver did not export
 * it. False: no dma-buf. */
bool checks_dmabuf(int fd, uint64_t *address, uint64_t *size, bool *pcie);

#endif
