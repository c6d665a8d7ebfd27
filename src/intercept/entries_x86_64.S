/* SPDX-License-Identifier: BSD-3-Clause */
/* entries_x86_64.S -- entries for callers, 2 for each row: the exported one and the one for
 * pointers; and the exported dlsym, dlopen, dlmopen and dlvsym
 *
 * UCX, configured to hook CUDA by patching code, decodes the first bytes of a function and moves
 * them. It supports few instructions (its ucm/bistro/bistro_x86_64.c); on any other it stops midway and runs
 * without its GPU caches from then on. Compiler output for a wrapper contains unsupported
 * instructions.
 *
 * 3 loads of a register that calls do not preserve are supported, position-independent and without
 * effect. They leave room for the near jump (5 bytes) and the far jump (12 bytes). No endbr64: UCX
 * does not support it.
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
	 * on the return address. So the real function is entered by a jump, with the caller's return
	 * address on the stack. C cannot guarantee that. */
	.macro LOADER name
	.globl	\name
	.type	\name, @function
	.p2align 4
\name:
	.cfi_startproc
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	pushq	%rdx			/* also gives 16-byte alignment for the call */
	.cfi_adjust_cfa_offset 8
	movq	24(%rsp), %rcx		/* caller */
	call	\name\()_decide
	movq	%rdx, %r11
	popq	%rdx
	.cfi_adjust_cfa_offset -8
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	testq	%rax, %rax
	jz	1f
	jmp	*%rax
1:	movq	%r11, %rax		/* the answer */
	ret
	.cfi_endproc
	.size	\name, . - \name
	.endm

	LOADER dlsym
	LOADER dlopen
	LOADER dlmopen
	LOADER dlvsym

	.section .note.GNU-stack, "", @progbits
