/* SPDX-License-Identifier: BSD-3-Clause */
/* atomics.h -- atomic operations of <stdatomic.h>, with the memory order in each name
 *
 * The operand is a pointer to an _Atomic object. add, subtract, or and exchange return the former
 * value. Objects that assembly or the dynamic linker also accesses are plain; their accesses are
 * __atomic builtins, which name the order as well.
 */
#ifndef PEERPIN_BASE_ATOMICS_H
#define PEERPIN_BASE_ATOMICS_H

#include <stdatomic.h>

#define load_relaxed(object) atomic_load_explicit(object, memory_order_relaxed)
#define load_acquire(object) atomic_load_explicit(object, memory_order_acquire)
#define load_seq_cst(object) atomic_load(object)

#define store_relaxed(object, value) atomic_store_explicit(object, value, memory_order_relaxed)
#define store_release(object, value) atomic_store_explicit(object, value, memory_order_release)
#define store_seq_cst(object, value) atomic_store(object, value)

#define add_relaxed(object, value) atomic_fetch_add_explicit(object, value, memory_order_relaxed)
#define add_seq_cst(object, value) atomic_fetch_add(object, value)
#define subtract_relaxed(object, value)                                                            \
	atomic_fetch_sub_explicit(object, value, memory_order_relaxed)
#define subtract_seq_cst(object, value) atomic_fetch_sub(object, value)
#define or_seq_cst(object, bits)	atomic_fetch_or(object, bits)
#define exchange_relaxed(object, value)                                                            \
	atomic_exchange_explicit(object, value, memory_order_relaxed)
#define exchange_seq_cst(object, value) atomic_exchange(object, value)

/* Store `value` if the object equals *expected and return true; else load it into *expected. */
#define replace_seq_cst(object, expected, value)                                                   \
	atomic_compare_exchange_strong(object, expected, value)

#endif
