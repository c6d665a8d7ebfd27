/* SPDX-License-Identifier: BSD-3-Clause */
/* entries_aarch64.S -- entries for callers, 2 for each row: the exported one and the one for
 * pointers; and the exported dlsym, dlopen, dlmopen and dlvsym
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

	/* dlsym, dlopen, dlmopen and dlvsym. The scope of RTLD_NEXT, run paths and namespaces depend
	 * on the return address. So the real function is entered by a branch, with the caller's return
	 * address in the link register. C cannot guarantee that. */
	.macro LOADER name
	.globl	\name
	.type	\name, %function
	.p2align 4
\name:
	.cfi_startproc
	stp	x29, x30, [sp, #-48]!
	.cfi_def_cfa_offset 48
	.cfi_offset x29, -48
	.cfi_offset x30, -40
	stp	x0, x1, [sp, #16]
	str	x2, [sp, #32]
	mov	x3, x30			/* caller */
	bl	\name\()_decide
	mov	x16, x0
	mov	x17, x1			/* the answer */
	ldr	x2, [sp, #32]
	ldp	x0, x1, [sp, #16]
	ldp	x29, x30, [sp], #48
	.cfi_restore x30
	.cfi_restore x29
	.cfi_def_cfa_offset 0
	cbz	x16, 1f
	br	x16
1:	mov	x0, x17
	ret
	.cfi_endproc
	.size	\name, . - \name
	.endm

	LOADER dlsym
	LOADER dlopen
	LOADER dlmopen
	LOADER dlvsym

	.section .note.GNU-stack, "", %progbits
