/* SPDX-License-Identifier: BSD-3-Clause */
/* entry_points.h -- the table of intercepted entry points, and typed pointers to their targets
 *
 * Calls are of 2 kinds:
 * - A linked call binds to the exported symbol. It is forwarded to the *next* definition in the
 *   program's search order, which may be an MPI library's own.
 * - A call through a pointer from dlsym or cuGetProcAddress is forwarded to the *driver's*
 *   function, which the pointer represents.
 * Each CUDA row therefore has 2 entries in this library (WRAP makes both) and 2 targets.
 *
 * Pointers are filled at use, each by one atomic store of a value that is equal in every thread. No
 * lock and no once: look-ups happen inside the driver's own initialisation. A pointer is kept only
 * as long as its library cannot have left the process: to the driver until it is initialised, at
 * each look-up anew (memory/driver.h); to libibverbs and its providers until a device is closed.
 */
#ifndef PEERPIN_INTERCEPT_ENTRY_POINTS_H
#define PEERPIN_INTERCEPT_ENTRY_POINTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/process.h"
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

/* The driver's functions and the next definitions. Read them with entry_next() and
 * entry_driver(). */
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

/* Rows hold no pointers: the dynamic linker would relocate each in every process of a job. The
 * row's index finds its entries and its members of both structures. */
struct entry_point {
	char symbol[48];
};

extern const struct entry_point cuda_entries[CUDA_ENTRIES];

/* 2 entries for each row, in row order (entries_*.S): for linked callers, and for pointers from
 * dlsym or cuGetProcAddress. */
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

/* Member of cuda_driver, or of cuda_next, for the row. */
static inline void **entry_driver_of(const struct entry_point *row)
{
	return &((void **)&cuda_driver)[row - cuda_entries];
}

static inline void **entry_next_of(const struct entry_point *row)
{
	return &((void **)&cuda_next)[row - cuda_entries];
}

/* Row with exactly this name, or NULL. Takes no lock and reads only the table. */
const struct entry_point *entry_find(const char *symbol);

/* Row of the driver function at `address`, or NULL. */
const struct entry_point *entry_of_driver(const void *address);

/* True if peerpin would be wrong without the row's calls. Not those that are repeated where the
 * driver refuses them: they have no effect on memory. */
bool entry_must_be_seen(const struct entry_point *row);

/* True if this library exports the symbol and no other definition is visible. RTLD_DEFAULT and
 * RTLD_NEXT must then find nothing, so that a program that probes for CUDA sees none. */
bool entry_is_only_ours(void *handle, const char *symbol);

/* True if for each CUDA row that must be seen this library's export is first in the program's
 * scope. */
bool entry_come_first(void);

/* True if UCX tried to hook CUDA, and a driver function begins with an instruction that this UCX
 * cannot patch: UCX then has no cache of GPU registrations (resolve.c). */
bool resolve_ucx_is_unhooked(void);

/* Return the next definition. A CUDA row without one gets a function that returns
 * CUDA_ERROR_NOT_INITIALIZED, as an uninitialised driver does. */
void *entry_resolve_next(enum cuda_entry entry);
void *entry_find_verbs(enum verbs_entry entry);

/* Find the definition, and keep it while a device is open; forget all after a device was closed. */
void *entry_resolve_verbs(enum verbs_entry entry);
void entry_forget_verbs(void);

/* Fill cuda_driver from the served driver (memory/driver.h): `seen` is an address that may lie in a
 * driver, or NULL. */
void entry_find_driver(const void *seen);

#define entry_next(symbol)                                                                         \
	({                                                                                         \
		__typeof__(symbol) *next_ = __atomic_load_n(&cuda_next.symbol, __ATOMIC_ACQUIRE);  \
                                                                                                   \
		__builtin_expect(!!next_, 1)                                                       \
			? next_                                                                    \
			: (__typeof__(next_))entry_resolve_next(ENTRY_##symbol);                   \
	})

/* Not NULL in a pointed call: an entry is returned to the caller only after its driver function is
 * found. */
#define entry_driver(symbol) __atomic_load_n(&cuda_driver.symbol, __ATOMIC_ACQUIRE)

/* NULL if no definition exists, which is possible only for functions that libibverbs' providers do
 * not call. For calls with an open device. */
#define next_verbs(symbol)                                                                         \
	({                                                                                         \
		__typeof__(symbol) *next_ = __atomic_load_n(&verbs_next.symbol, __ATOMIC_ACQUIRE); \
                                                                                                   \
		__builtin_expect(!!next_, 1)                                                       \
			? next_                                                                    \
			: (__typeof__(next_))entry_resolve_verbs(ENTRY_##symbol);                  \
	})

/* WRAP(symbol, (arguments), parameters...) { body }
 *
 * Defines the targets of both entries of a row (entries_*.S): the exported one, and the one for
 * pointers. The body receives the parameters and `forward`, the call's target. It calls `forward`
 * exactly once, with the call's own arguments (exceptions: CONTRIBUTING.md, Behaviour).
 */
#define WRAP(symbol, arguments, ...)                                                               \
	static inline __attribute__((always_inline))                                               \
	CUresult symbol##_wrapped(__typeof__(symbol) *forward, __VA_ARGS__);                       \
	__attribute__((visibility("hidden"))) CUresult symbol##_pointed(__VA_ARGS__);              \
	__attribute__((weak, visibility("hidden")))                                                \
	CUresult symbol##_observed(__typeof__(symbol) *forward, const void *caller, __VA_ARGS__);  \
	CUresult symbol##_pointed(__VA_ARGS__)                                                     \
	{                                                                                          \
		if (symbol##_observed && process_observes())                                       \
			return symbol##_observed(entry_driver(symbol),                             \
						 __builtin_return_address(0),                      \
						 WRAP_ARGUMENTS arguments);                        \
		return symbol##_wrapped(entry_driver(symbol), WRAP_ARGUMENTS arguments);           \
	}                                                                                          \
	__attribute__((visibility("hidden"))) CUresult symbol##_linked(__VA_ARGS__);               \
	CUresult symbol##_linked(__VA_ARGS__)                                                      \
	{                                                                                          \
		if (symbol##_observed && process_observes())                                       \
			return symbol##_observed(entry_next(symbol), __builtin_return_address(0),  \
						 WRAP_ARGUMENTS arguments);                        \
		return symbol##_wrapped(entry_next(symbol), WRAP_ARGUMENTS arguments);             \
	}                                                                                          \
	_Static_assert(                                                                            \
		__builtin_types_compatible_p(__typeof__(symbol), __typeof__(symbol##_linked)),     \
		#symbol " is declared otherwise");                                                 \
	static inline CUresult symbol##_wrapped(__typeof__(symbol) *forward, __VA_ARGS__)

#define WRAP_ARGUMENTS(...) __VA_ARGS__

/* OBSERVED(symbol, parameters...) { body }
 *
 * The body of both targets while calls are only observed (PEERPIN_OBSERVE). A row without one is
 * forwarded by its wrapper, as in any passive process.
 */
#define OBSERVED(symbol, ...)                                                                      \
	__attribute__((visibility("hidden")))                                                      \
	CUresult symbol##_observed(__typeof__(symbol) *forward, const void *caller, __VA_ARGS__);  \
	CUresult symbol##_observed(__typeof__(symbol) *forward, const void *caller, __VA_ARGS__)

/* Another form of the same call, with the body of the row `original`. */
#define WRAP_LIKE(symbol, original, arguments, ...)                                                \
	WRAP(symbol, arguments, __VA_ARGS__)                                                       \
	{                                                                                          \
		return original##_wrapped(forward, WRAP_ARGUMENTS arguments);                      \
	}

#endif
