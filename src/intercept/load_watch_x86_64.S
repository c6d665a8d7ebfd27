/* SPDX-License-Identifier: BSD-3-Clause */
/* load_watch_x86_64.S -- the exported dlopen, dlmopen and dlvsym
 *
 * Whose run path counts, in which namespace, and what is next, depends on the address that they return to. So the
 * real ones are entered by a jump, as that of dlsym is.
 */
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
	pushq	%rdx			/* and the call below wants 16-byte alignment */
	.cfi_adjust_cfa_offset 8
	call	\name\()_decide
	popq	%rdx
	.cfi_adjust_cfa_offset -8
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	testq	%rax, %rax
	jz	1f
	jmp	*%rax
1:	ret				/* NULL */
	.cfi_endproc
	.size	\name, . - \name
	.endm

	.text
	LOADER dlopen
	LOADER dlmopen
	LOADER dlvsym

	.section .note.GNU-stack, "", @progbits
