/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_witness.h -- counts of verbs_witness.c, and their file */
#ifndef PEERPIN_TESTS_STACKS_VERBS_WITNESS_H
#define PEERPIN_TESTS_STACKS_VERBS_WITNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* struct ibv_mr_init_attr of rdma-core 59 and later. */
struct extended {
	size_t length;
	int access;
	uint64_t mask, iova; /* IBV_REG_MR_MASK_* */
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah;
};

/* The first 3 are also in the file by phase. */
#define PHASE_COUNTS 3
#define WITNESS_COUNTS(X)                                                                          \
	X(gpu_by_program)                                                                          \
	X(gpu_by_worker)                                                                           \
	X(gpu_deregistrations)                                                                     \
	X(host)                                                                                    \
	X(alloc_pd)                                                                                \
	X(dealloc_pd)                                                                              \
	X(registered)                                                                              \
	X(deregistered)                                                                            \
	X(reregistered)                                                                            \
	X(failed)                                                                                  \
	X(asked)                                                                                   \
	X(asked_gpu)                                                                               \
	X(asked_gpu_beside_libfabric)

struct witness_counts {
#define X(name) unsigned long name;
	WITNESS_COUNTS(X)
#undef X
};

#define PHASES 2048

extern struct witness_counts counts[PHASES]; /* changed atomically, in verbs_witness.c alone */
extern int phase;			     /* changed atomically, in verbs_witness_result.c */

/* Write the counts, for a process that may be killed; only with VERBS_WITNESS_LIVE. */
void write_live(void);

/* Its level starts a phase. */
int MPI_Pcontrol(const int level, ...);

/* ---- witness.c ---- */

/* The next definition of a function of libibverbs behind the caller's own; aborts without one. A
 * macro, since dlsym depends on its caller. */
#define next_definition(name) witness_found(name, dlsym(RTLD_NEXT, name))
void *witness_found(const char *name, void *next);
/* The same, or NULL without one. */
#define next_if_any(name) witness_sought(name, dlsym(RTLD_NEXT, name))
void *witness_sought(const char *name, void *next);

/* According to the loaded driver; false without one. */
bool is_gpu_memory(const void *addr);

/* Whether this is a thread of peerpin's, by its name. */
bool on_worker(void);

/* The live registrations of GPU memory: replace one; `from` NULL: add `to`. False: `from` is none,
 * or there is no room. */
bool live_replace(void *from, void *to);

#endif
