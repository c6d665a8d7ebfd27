/* SPDX-License-Identifier: BSD-3-Clause */
/* entries_aarch64.S -- entries for callers, 2 for each row: the exported one and the one for
 * pointers
 *
 * UCX can patch these entries, as on x86-64: it moves the first 16 bytes and supports few
 * instructions (no bti, no paciasp). x16 is the linker's scratch register, which holds no argument
 * and no value of the caller.
 */
	.macro ENTRY name, target
	.globl	\name
	.type	\name, %function
	.p2align 5
\name:
	.cfi_startproc
	movz	x16, #0
	movz	x16, #0
	movz	x16, #0
	movz	x16, #0
	b	\target
	.cfi_endproc
	.size	\name, . - \name
	.endm

	.text
	/* struct entry_code (entry_points.h): 32 bytes each. */
	.globl	cuda_entry_code
	.hidden	cuda_entry_code
	.p2align 5
cuda_entry_code:
#define ENTRY_CUDA(symbol, ...)                                                                              \
	ENTRY symbol, symbol##_linked;                                                                       \
	ENTRY symbol##_through_pointer, symbol##_pointed;
#include "intercept/entry_points.def"
#undef ENTRY_CUDA

	.section .note.GNU-stack, "", %progbits
