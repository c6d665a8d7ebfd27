/* SPDX-License-Identifier: BSD-3-Clause */
/* entries_x86_64.S -- where callers enter: for each row the exported function and the one for pointers
 *
 * UCX, told to hook CUDA by patching code, decodes the first bytes of a function and moves them elsewhere. It
 * knows few instructions (sheet on interception, 8); meeting another it gives up in the middle, and works
 * without its GPU caches from then on. What a compiler emits for a wrapper is refused. Three loads of a register
 * that calls do not preserve are understood, are moved to anywhere, change nothing, and leave room for the near
 * jump (5 bytes) and for the far one (12). No endbr64: it is not understood.
 */
	.macro ENTRY name, target
	.globl	\name
	.type	\name, @function
	.p2align 5
\name:
	.cfi_startproc
	movl	$0, %eax
	movl	$0, %eax
	movl	$0, %eax
	jmp	\target
	.cfi_endproc
	.size	\name, . - \name
	.endm

	.text
	/* struct entry_code (entry_points.h): 32 bytes for each. */
	.globl	cuda_entry_code
	.hidden	cuda_entry_code
	.p2align 5
cuda_entry_code:
#define ENTRY_CUDA(symbol, ...)                                                                              \
	ENTRY symbol, symbol##_linked;                                                                       \
	ENTRY symbol##_through_pointer, symbol##_pointed;
#include "intercept/entry_points.def"
#undef ENTRY_CUDA

	.section .note.GNU-stack, "", @progbits
