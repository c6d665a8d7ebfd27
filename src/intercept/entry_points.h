/* SPDX-License-Identifier: BSD-3-Clause */
/* entry_points.h -- the table of intercepted entry points, with typed pointers to what they stand for
 *
 * A call comes in one of two ways, and is forwarded accordingly:
 * - a linked call binds to the symbol that we export, and is forwarded to the *next* definition in the
 *   program's search order, which may be an MPI library's own;
 * - a call through a pointer that dlsym or cuGetProcAddress handed out is forwarded to the *driver's*
 *   function, which that pointer stood for.
 * So each CUDA row has two addresses of ours (WRAP makes both) and two of theirs.
 *
 * The pointers are filled in when they are first needed, each by one atomic store of a value that does not
 * depend on who stores it: no lock, no once, since look-ups happen inside the driver's own initialisation.
 */
#ifndef PEERPIN_INTERCEPT_ENTRY_POINTS_H
#define PEERPIN_INTERCEPT_ENTRY_POINTS_H

#include <stdbool.h>
#include <stddef.h>

#include "memory/cuda_abi.h"
#include "registration/verbs_abi.h"

enum cuda_entry {
#define ENTRY_CUDA(symbol, ...) ENTRY_##symbol,
#include "intercept/entry_points.def"
#undef ENTRY_CUDA
	CUDA_ENTRIES
};

enum verbs_entry {
#define ENTRY_VERBS(symbol, ...) ENTRY_##symbol,
#include "intercept/entry_points.def"
#undef ENTRY_VERBS
	VERBS_ENTRIES
};

/* The driver's functions and the next definitions. Read them with entry_next() and entry_driver(). */
struct cuda_functions {
#define ENTRY_CUDA(symbol, ...) __typeof__(symbol) *symbol;
#include "intercept/entry_points.def"
#undef ENTRY_CUDA
};

struct verbs_functions {
#define ENTRY_VERBS(symbol, ...) __typeof__(symbol) *symbol;
#include "intercept/entry_points.def"
#undef ENTRY_VERBS
};

extern struct cuda_functions cuda_next, cuda_driver;
extern struct verbs_functions verbs_next;

/* A row has no pointers: the dynamic linker would relocate each in every process of a job. Its functions and its places in
 * the two structures are found by its index instead. */
struct entry_point {
	char symbol[48];
};

extern const struct entry_point cuda_entries[CUDA_ENTRIES];

/* Two entries for each row, in its order (entries_*.S): for linked callers, and for pointers that are handed out. */
struct entry_code {
	char exported[32], through_pointer[32];
};

__attribute__((visibility("hidden"))) extern const struct entry_code cuda_entry_code[CUDA_ENTRIES];

static inline void *entry_exported(const struct entry_point *row)
{
	return (void *)cuda_entry_code[row - cuda_entries].exported;
}

static inline void *entry_through_pointer(const struct entry_point *row)
{
	return (void *)cuda_entry_code[row - cuda_entries].through_pointer;
}

/* Where a row keeps the driver's function, and the next definition. */
static inline void **entry_driver_of(const struct entry_point *row)
{
	return &((void **)&cuda_driver)[row - cuda_entries];
}

static inline void **entry_next_of(const struct entry_point *row)
{
	return &((void **)&cuda_next)[row - cuda_entries];
}

/* The row of that exact name; NULL if there is none. Takes no lock and touches nothing but the table. */
const struct entry_point *entry_find(const char *symbol);

/* The row whose driver function is at `address`; NULL if there is none. */
const struct entry_point *entry_of_driver(const void *address);

/* Whether the name is one that only our export makes visible: without us nobody would find it by RTLD_DEFAULT or
 * RTLD_NEXT, and a program that looks whether CUDA is there must not. If so, the dynamic linker has said so. */
bool entry_is_only_ours(void *handle, const char *symbol);

/* Whether in the scope of `program`, a handle of the program itself, no definition of a row of CUDA's stands before ours. */
bool entry_come_first(void *program);

/* Fills in the missing function, with what stands for it if there is none: CUDA_ERROR_NOT_INITIALIZED, as
 * from a driver that nobody has set up. */
void entry_resolve_next(enum cuda_entry entry);
void entry_resolve_verbs(void);

/* Takes the driver's functions from `handle`, an open libcuda or what depends on it. */
void entry_learn_driver(void *handle, const void *inside_driver);

/* Takes them from the libcuda that is loaded, if any. */
void entry_find_driver(void);

#define entry_next(symbol)                                                                                   \
	({                                                                                                   \
		if (__builtin_expect(!__atomic_load_n(&cuda_next.symbol, __ATOMIC_ACQUIRE), 0))              \
			entry_resolve_next(ENTRY_##symbol);                                                  \
		__atomic_load_n(&cuda_next.symbol, __ATOMIC_ACQUIRE);                                        \
	})

/* Pointers are only handed out once the driver's function is known. */
#define entry_driver(symbol) __atomic_load_n(&cuda_driver.symbol, __ATOMIC_ACQUIRE)

/* NULL if there is none: only of what no provider of libibverbs calls. */
#define next_verbs(symbol)                                                                                   \
	({                                                                                                   \
		if (__builtin_expect(!__atomic_load_n(&verbs_next.symbol, __ATOMIC_ACQUIRE), 0))             \
			entry_resolve_verbs();                                                               \
		__atomic_load_n(&verbs_next.symbol, __ATOMIC_ACQUIRE);                                       \
	})

/* WRAP(symbol, (arguments), parameters...) { body }
 *
 * Defines what stands behind the two entries of a row (entries_*.S): of the exported function, and of the one
 * for pointers. The body gets the parameters and `forward`, the function that this call has to be forwarded to,
 * exactly once, with the arguments that it came with (but for REFUSAL_BY_CAPTURE, wrappers.h). */
#define WRAP(symbol, arguments, ...)                                                                         \
	static inline __attribute__((always_inline))                                                         \
	CUresult symbol##_wrapped(__typeof__(symbol) *forward, __VA_ARGS__);                                 \
	__attribute__((visibility("hidden"))) CUresult symbol##_pointed(__VA_ARGS__);                        \
	CUresult symbol##_pointed(__VA_ARGS__)                                                               \
	{                                                                                                    \
		return symbol##_wrapped(entry_driver(symbol), WRAP_ARGUMENTS arguments);                     \
	}                                                                                                    \
	__attribute__((visibility("hidden"))) CUresult symbol##_linked(__VA_ARGS__);                         \
	CUresult symbol##_linked(__VA_ARGS__)                                                                \
	{                                                                                                    \
		return symbol##_wrapped(entry_next(symbol), WRAP_ARGUMENTS arguments);                       \
	}                                                                                                    \
	_Static_assert(__builtin_types_compatible_p(__typeof__(symbol), __typeof__(symbol##_linked)),        \
		       #symbol " is declared otherwise");                                                    \
	static inline CUresult symbol##_wrapped(__typeof__(symbol) *forward, __VA_ARGS__)

#define WRAP_ARGUMENTS(...) __VA_ARGS__

#endif
