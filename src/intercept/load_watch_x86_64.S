/* SPDX-License-Identifier: BSD-3-Clause */
/* load_watch_x86_64.S -- the exported dlopen, dlmopen and dlvsym
 *
 * Run path, namespace and next definition depend on the return address. So the real functions are
 * entered by a jump, as dlsym is (dlsym_*.S).
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
	pushq	%rdx			/* also gives 16-byte alignment for the call */
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
