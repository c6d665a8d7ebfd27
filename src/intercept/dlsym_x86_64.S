/* SPDX-License-Identifier: BSD-3-Clause */
/* dlsym_x86_64.S -- the exported dlsym
 *
 * A look-up with RTLD_NEXT depends on dlsym's return address. So the real dlsym is entered by a
 * jump, with the caller's return address on the stack. C cannot guarantee that.
 */
	.text
	.globl	dlsym
	.type	dlsym, @function
dlsym:
	.cfi_startproc
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	subq	$8, %rsp		/* 16-byte alignment for the call below */
	.cfi_adjust_cfa_offset 8
	movq	24(%rsp), %rdx		/* caller */
	call	dlsym_decide
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	testq	%rax, %rax
	jz	1f
	jmp	*%rax
1:	movq	%rdx, %rax
	ret
	.cfi_endproc
	.size	dlsym, . - dlsym

	.section .note.GNU-stack, "", @progbits
