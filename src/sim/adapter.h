/* SPDX-License-Identifier: BSD-3-Clause */
/* adapter.h -- the simulated adapter's parts, and the lock that guards them
 *
 * adapter_library.c is what libibverbs itself does, adapter_provider.c what a provider's library does,
 * adapter_commands.c what the kernel does, adapter_kernel.c what it has. As in rdma-core the three call each
 * other by way of the dynamic linker, so that a preload is in between. adapter_lock guards what the kernel
 * holds. It is not held in calls into the driver, which calls with its own one held.
 */
#ifndef PEERPIN_SIM_ADAPTER_PARTS_H
#define PEERPIN_SIM_ADAPTER_PARTS_H

#include <stdbool.h>
#include <sys/types.h>

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

#define adapter_setting(name)	     __atomic_load_n(&adapter_settings.name, __ATOMIC_RELAXED)
#define adapter_count(name)	     __atomic_add_fetch(&adapter_statistics.name, 1, __ATOMIC_RELAXED)
#define adapter_add(name, amount)    __atomic_add_fetch(&adapter_statistics.name, amount, __ATOMIC_RELAXED)
#define adapter_remove(name, amount) __atomic_sub_fetch(&adapter_statistics.name, amount, __ATOMIC_RELAXED)

/* Whether this registration is one that shall fail. adapter_lock. */
bool adapter_fails_now(void);

/* A broken promise. Does not return. */
void adapter_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* ---- adapter_library.c ---- */

#define ADAPTERS_MAX 8

/* Its place among the devices. */
unsigned int adapter_number(const struct ibv_context *context);

/* ---- adapter_provider.c ---- */

struct ibv_mr *provider_reg_mr(struct ibv_pd *pd, void *address, size_t length, uint64_t iova, int access);
struct ibv_mr *provider_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				      int fd, int access);
struct ibv_mr *provider_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attributes);
int provider_rereg_mr(struct verbs_mr *vmr, int flags, struct ibv_pd *pd, void *address, size_t length,
		      int access);
int provider_dereg_mr(struct verbs_mr *vmr);
struct ibv_mr *provider_import_mr(struct ibv_pd *pd, uint32_t handle);
void provider_unimport_mr(struct ibv_mr *mr);
struct ibv_pd *provider_alloc_pd(struct ibv_context *context);
int provider_free_pd(struct ibv_pd *pd);
struct ibv_context *provider_open(struct ibv_device *device);
void provider_close(struct ibv_context *context);

/* ---- adapter_kernel.c ---- */

enum region_state {
	REGION_NONE,
	REGION_MAKING, /* in the tables, without a key */
	REGION_ALIVE,
	REGION_OUTLIVED, /* its memory is gone; waits to be deregistered */
};

/* A memory region as the kernel has it. Its place in the table is its key's upper 24 bits, and its handle. */
struct region {
	enum region_state state;
	struct ibv_context *context;
	uint32_t pd, key;
	uint64_t
		start; /* its memory's address; 0: unknown, as of a dma-buf that is not the simulated driver's */
	uint64_t length; /* in bytes */
	uint64_t iova;
	int access;
	int dmabuf;    /* a descriptor of our own; -1: by address */
	pid_t process; /* who made it */
	uint32_t next_free;
};

/* The handle of a new protection domain; 0: out of memory. */
uint32_t kernel_make_domain(struct ibv_context *context);

/* Returns 0, EBUSY or EINVAL. */
int kernel_end_domain(const struct ibv_pd *pd);

/* Puts `wanted` into the table, as a region in the making. Returns 0 or an errno. */
int kernel_enter(const struct ibv_pd *pd, const struct region *wanted, uint32_t *place);

/* It has come to be: fills in the client's struct. Or it has not. */
void kernel_complete(uint32_t place, const struct ibv_pd *pd, enum ibv_mr_type type, struct verbs_mr *vmr);
void kernel_give_up(uint32_t place);

/* These return 0 or an errno. The descriptor that the region had, if any, is the caller's to close; of what
 * is changed it is told by `flags` what of `wanted` and `pd` counts. */
int kernel_remove(const struct verbs_mr *vmr, int *dmabuf);
int kernel_change(struct verbs_mr *vmr, uint32_t flags, const struct region *wanted, const struct ibv_pd *pd);
int kernel_query(const struct ibv_pd *pd, uint32_t handle, struct region *found);

/* Ends the context's protection domains, unless there are regions: returns how many, and the key of one. */
uint32_t kernel_end_context(const struct ibv_context *context, uint32_t *key);

/* The region of the place; NULL: there has never been one. adapter_lock. */
struct region *kernel_region(uint32_t place);

/* How many places there are. adapter_lock. */
uint32_t kernel_places(void);

/* Takes it away from those that live. adapter_lock. */
void kernel_outlived(struct region *region);

/* ---- adapter_checks.c ---- */

/* Hears of the driver's ends from now on; true: the driver is the simulated one. */
bool checks_begin(void);

/* Whether the range can be registered by its address: 0 or an errno. Asks the driver. */
int checks_range(uint64_t start, uint64_t length);

/* What a dma-buf of the simulated driver stands for. */
bool checks_dmabuf(int fd, uint64_t *address, uint64_t *size);

#endif
